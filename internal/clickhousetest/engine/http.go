package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// ServeHTTP serves the HTTP protocol. Every request has its own session.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := e.answer(r)
	if x, ok := errors.AsType[*exception](err); ok {
		w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(int(x.code)))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(data) // The client may have left.
}

// answer runs the statement, which is in the query, in the body, or begins in the query and continues
// in the body. Other query parameters are settings and parameters.
func (e *engine) answer(r *http.Request) ([]byte, error) {
	values := r.URL.Query()
	take := func(name string) string {
		defer values.Del(name)
		return values.Get(name)
	}
	read := io.ReadAll
	if take("decompress") == "1" {
		read = decompress
	}
	body, err := read(r.Body)
	if err != nil {
		return nil, err
	}
	statement, database, format := take("query"), take("database"), cmp.Or(take("default_format"), "TabSeparated")
	compressed := take("compress") == "1"
	for _, name := range []string{"client_protocol_version", "query_id", "quota_key", "session_id", "user", "password", "wait_end_of_query"} {
		values.Del(name)
	}
	var set []string
	for name := range values {
		set = append(set, name+" = "+quote(values.Get(name)))
	}
	user, _, _ := r.BasicAuth()
	s, err := e.session(user, database, set)
	if err != nil {
		return nil, err
	}
	defer s.close()
	stop := context.AfterFunc(r.Context(), func() { e.kill(s.tag) })
	defer stop()
	if i, ok := parseInsert(statement); ok {
		return nil, s.insert(i.text, i.format, func() (data []byte, err error) {
			data, body = body, nil
			return data, nil
		})
	}
	data, err := s.query(statement+"\n"+string(body), format)
	if err != nil || format != "Native" {
		return data, err
	}
	blocks, err := blocksOf(data, compressed)
	return bytes.Join(blocks, nil), err
}
