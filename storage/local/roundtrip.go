package local

import (
	"context"
	"io"
	"net/http"
	"strconv"
)

// RoundTrip serves r in process, as ServeHTTP would over a connection. When the
// context of r ends it returns that error at once; what the request does may
// still happen, and the request body is closed when it has. The response body
// must be closed. The bytes of a small object were copied once, out of the
// engine; those of a large one are read from its file.
func (s *Store) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		closeBody(r)
		return nil, err
	}
	if !s.enter() {
		defer closeBody(r)
		return s.errorResponse(r, errClosed()).toClient(r), nil
	}
	answer := make(chan *response)
	// The goroutine belongs to the Store: Close waits until it has left.
	go func() {
		defer s.leave()
		defer closeBody(r)
		resp := s.serve(asServed(r))
		select {
		case answer <- resp:
		case <-ctx.Done():
			resp.close()
		}
	}()
	select {
	case resp := <-answer:
		return resp.toClient(r), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// asServed returns r as a server would see it: the body is never nil and an
// unknown length is -1.
func asServed(r *http.Request) *http.Request {
	in := *r
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		in.Body, in.ContentLength = http.NoBody, 0
	case r.ContentLength == 0:
		// For a client, unlike for a server, zero means unknown.
		in.ContentLength = -1
		fallthrough
	default:
		in.Body = &clientBody{ctx: r.Context(), ReadCloser: r.Body}
	}
	return &in
}

// clientBody stops reading what belongs to the caller once RoundTrip left.
type clientBody struct {
	ctx context.Context
	io.ReadCloser
}

// Read fails with the error of the context once that has ended.
func (b *clientBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// toClient makes the response what a transport returns for r.
func (r *response) toClient(req *http.Request) *http.Response {
	body := r.body
	if body == nil {
		body = http.NoBody
	}
	return &http.Response{
		Status:        strconv.Itoa(r.status) + " " + http.StatusText(r.status),
		StatusCode:    r.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        r.header,
		Body:          body,
		ContentLength: r.length,
		Request:       req,
	}
}
