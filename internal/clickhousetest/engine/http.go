package main

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
)

// notSettings are the parameters of a request that mean something else.
func notSettings() map[string]bool {
	return map[string]bool{
		"query": true, "database": true, "default_format": true, "client_protocol_version": true,
		"user": true, "password": true, "query_id": true, "quota_key": true, "session_id": true,
		"compress": true, "decompress": true, "wait_end_of_query": true, "buffer_size": true,
	}
}

// ServeHTTP serves the HTTP protocol. Every request is a session of its own.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ping" {
		_, _ = io.WriteString(w, "Ok.\n") // The other side may be gone.
		return
	}
	response, err := e.handle(r)
	header := w.Header()
	header.Set("X-ClickHouse-Server-Display-Name", "clickhousetest")
	header.Set("X-ClickHouse-Timezone", e.timezone)
	if err != nil {
		x := asException(err)
		header.Set("Content-Type", "text/plain; charset=UTF-8")
		header.Set("X-ClickHouse-Exception-Code", strconv.Itoa(int(x.code)))
		w.WriteHeader(statusOf(x.code))
		fmt.Fprintln(w, x.Error())
		return
	}
	a := response.answer
	header.Set("X-ClickHouse-Format", response.format)
	header.Set("X-ClickHouse-Summary", fmt.Sprintf(`{"read_rows":"%d","read_bytes":"%d","written_rows":"%d"}`, a.rowsRead, a.bytesRead, a.rowsWritten))
	header.Set("Content-Length", strconv.Itoa(len(a.data)))
	_, _ = w.Write(a.data) // The other side may be gone.
}

// statusOf is the HTTP status of an exception.
func statusOf(code int32) int {
	switch code {
	case codeUnknownTable, codeUnknownDatabase, codeUnknownSetting:
		return http.StatusNotFound
	case codeSyntaxError, codeCannotReadAllData:
		return http.StatusBadRequest
	case codeNotImplemented:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

// response is what a request came to.
type response struct {
	answer *answer
	format string
}

func (e *engine) handle(r *http.Request) (*response, error) {
	values := r.URL.Query()
	body, err := readBody(r, values)
	if err != nil {
		return nil, &exception{code: codeCannotReadAllData, text: err.Error() + " (CANNOT_READ_ALL_DATA)"}
	}
	c, err := e.client(userOf(r, values), values.Get("database"))
	if err != nil {
		return nil, err
	}
	defer c.close()
	stop := context.AfterFunc(r.Context(), c.kill)
	defer stop()
	settings, params := map[string]string{}, map[string]string{}
	skip := notSettings()
	for name := range values {
		if param, ok := strings.CutPrefix(name, "param_"); ok {
			params[param] = values.Get(name)
		} else if !skip[name] {
			settings[name] = values.Get(name)
		}
	}
	if r.Method != http.MethodPost {
		settings["readonly"] = "2"
	}
	var answered *response
	err = c.with(settings, func() error {
		answered, err = c.respond(values, params, body)
		return err
	})
	if err != nil {
		return nil, err
	}
	if values.Get("compress") == "1" && len(answered.answer.data) > 0 && answered.format != "Native" {
		answered.answer.data, err = frame(values, answered.answer.data)
	}
	return answered, err
}

// respond runs the statement, which stands in the address, in the body, or begins
// in the one and goes on in the other.
func (c *client) respond(values url.Values, params map[string]string, body []byte) (*response, error) {
	statement := values.Get("query")
	if i, ok := parseInsert(statement); ok {
		a, err := c.insertAll(i, body)
		return &response{answer: a, format: i.format}, err
	}
	if statement != "" && len(body) > 0 {
		statement += "\n"
	}
	statement += string(body)
	format := values.Get("default_format")
	if format == "" {
		format = "TabSeparated"
	}
	a, err := c.query(statement, format, params)
	if err != nil {
		return nil, err
	}
	if _, named := splitFormat(statement); named != "" {
		format = named
	}
	if format == "Native" {
		a.data, err = nativeBody(values, a.data)
	}
	return &response{answer: a, format: format}, err
}

func (c *client) insertAll(i *insertStatement, data []byte) (*answer, error) {
	feed, err := c.insert(i.text, i.format)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		feed.cancel()
		return &answer{}, nil
	}
	if err := feed.append(data); err != nil {
		feed.cancel()
		return nil, err
	}
	return feed.done()
}

// nativeBody encodes blocks for the revision the other side asks for, each in a
// frame of its own if they are to be compressed.
func nativeBody(values url.Values, data []byte) ([]byte, error) {
	wanted, err := strconv.Atoi(values.Get("client_protocol_version"))
	if err != nil {
		wanted = engineRevision
	}
	blocks, err := blocksOf(data)
	if err != nil {
		return nil, err
	}
	var body []byte
	for _, b := range blocks {
		var block proto.Buffer
		if err := encodeBlock(&block, b, min(wanted, revision)); err != nil {
			return nil, err
		}
		framed := block.Buf
		if values.Get("compress") == "1" {
			if framed, err = frame(values, block.Buf); err != nil {
				return nil, err
			}
		}
		body = append(body, framed...)
	}
	return body, nil
}

func frame(values url.Values, data []byte) ([]byte, error) {
	w := compressor(values.Get("network_compression_method"))
	err := w.Compress(data)
	return w.Data, err
}

func readBody(r *http.Request, values url.Values) ([]byte, error) {
	switch {
	case values.Get("decompress") == "1":
		return decompress(r.Body)
	case r.Header.Get("Content-Encoding") == "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, fmt.Errorf("read gzip body: %w", err)
		}
		return io.ReadAll(z)
	case r.Header.Get("Content-Encoding") == "deflate":
		z, err := zlib.NewReader(r.Body)
		if err != nil {
			return nil, fmt.Errorf("read deflate body: %w", err)
		}
		return io.ReadAll(z)
	case r.Header.Get("Content-Encoding") != "":
		return nil, fmt.Errorf("read body: encoding %s", r.Header.Get("Content-Encoding"))
	}
	return io.ReadAll(r.Body)
}

func userOf(r *http.Request, values url.Values) string {
	if user, _, ok := r.BasicAuth(); ok {
		return user
	}
	if user := r.Header.Get("X-ClickHouse-User"); user != "" {
		return user
	}
	return values.Get("user")
}
