package providers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"

	"github.com/parleyrun/parley/providers/sse"
)

// Events returns the server-sent events of a response that have data, until a is Stopped. The last
// pair contains the final error of the response, which may be io.EOF. maxBytes limits an event; 0
// means sse.DefaultMaxEventBytes.
//
// If the response is JSON, the events are its values: one document, the elements of a list, or
// concatenated documents.
func Events(body io.Reader, maxBytes int, a *Assembler) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		src := bufio.NewReaderSize(body, peekSize)
		next := sse.NewReader(src, &sse.Options{MaxEventBytes: maxBytes}).Next
		if IsDocument(src) {
			next = documents(src, maxBytes)
		}
		for !a.Stopped() {
			e, err := next()
			if err == nil && len(e.Data) == 0 {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// EndMarker reports whether the data of an event is the end marker that several formats share.
func EndMarker(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

// peekSize is the minimum buffer size of bufio; larger reads bypass the buffer.
const peekSize = 16

// firstByte returns the first non-space byte of a body, or 0 if there is none. The next read returns
// the error of the body again.
func firstByte(body *bufio.Reader) byte {
	for n := 1; n <= peekSize; n++ {
		head, err := body.Peek(n)
		if text := bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n"); len(text) > 0 && (text[0] < 0x80 || n > len(byteOrderMark)) {
			return text[0]
		}
		if err != nil {
			return 0
		}
	}
	return 0
}

var byteOrderMark = []byte("\ufeff")

// IsDocument reports whether a body is JSON. Event streams begin with a field name.
func IsDocument(body *bufio.Reader) bool {
	first := firstByte(body)
	return first == '{' || first == '['
}

// isPage reports whether a response is an HTML page. The body decides. The media type decides if it is
// that of a page and the body is neither JSON nor server-sent events.
func isPage(h http.Header, body *bufio.Reader) (mediaType string, page bool) {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	first := firstByte(body)
	if err != nil || mediaType != "text/html" && mediaType != "application/xhtml+xml" {
		return "text/html", first == '<'
	}
	if first == '{' || first == '[' || first == ':' {
		return mediaType, false
	}
	head, _ := body.Peek(len("event:")) // a shorter body is no stream
	return mediaType, !bytes.HasPrefix(head, []byte("data:")) && !bytes.HasPrefix(head, []byte("event:"))
}

// documents returns a reader that yields each JSON value of a body as an event.
func documents(body *bufio.Reader, maxBytes int) func() (sse.Event, error) {
	if maxBytes <= 0 {
		maxBytes = sse.DefaultMaxEventBytes
	}
	limited := &limitedBody{src: body, left: maxBytes, limit: maxBytes}
	if head, _ := body.Peek(len(byteOrderMark)); bytes.Equal(head, byteOrderMark) {
		_, _ = body.Discard(len(head)) // the peeked bytes are in the buffer
	}
	d := json.NewDecoder(limited)
	list, open := firstByte(body) == '[', false
	return func() (sse.Event, error) {
		limited.left = limited.limit
		var raw json.RawMessage
		var err error
		if list && !open {
			_, err = d.Token()
			open = true
		}
		if open && err == nil && !d.More() {
			_, err = d.Token()
			list, open = false, err != nil
		}
		if err == nil {
			err = d.Decode(&raw)
		}
		if open && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return sse.Event{Data: raw}, documentError(err)
	}
}

func documentError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return &Error{Kind: KindProtocol, Status: http.StatusOK, Err: err}
	}
	return err
}

// limitedBody returns an error after a number of bytes.
type limitedBody struct {
	src         io.Reader
	left, limit int
}

// Read implements io.Reader.
func (l *limitedBody) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, &sse.TooLargeError{Limit: l.limit}
	}
	n, err := l.src.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
