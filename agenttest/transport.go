package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// origin is the host of URLs that lead into the process.
const origin = "agenttest.invalid"

var errCrashed = errors.New("the process has crashed")

// RoundTrip brings a request to the process that serves now, without a connection, so that a Host is
// the Transport of clients: the conversations of an agent are at http://agenttest.invalid/agents/ and
// its name. A crash breaks the answers that are under way.
func (h *Host) RoundTrip(r *http.Request) (*http.Response, error) {
	p := h.current()
	ctx, cancel := context.WithCancelCause(r.Context())
	broken := context.AfterFunc(p.life, func() { cancel(errCrashed) })
	asked := r.Clone(ctx)
	asked.RequestURI, asked.Host, asked.RemoteAddr = r.URL.RequestURI(), r.URL.Host, "192.0.2.1:1"
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	body, w := io.Pipe()
	a := &answer{header: http.Header{}, began: make(chan struct{}), body: w}
	h.lives.Go(func() {
		err := a.of(p.handler, asked)
		broken()
		if crashed := context.Cause(ctx); crashed != nil {
			err = crashed
		}
		a.start(http.StatusOK)
		w.CloseWithError(err) // nil is the end of the body
		asked.Body.Close()
		cancel(nil)
	})
	select {
	case <-a.began:
	case <-ctx.Done():
		body.CloseWithError(context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, ContentLength: -1, Request: r, Body: &answered{body, func() { cancel(context.Canceled) }},
	}, nil
}

// answer is the [http.ResponseWriter] of one request.
type answer struct {
	header http.Header
	body   *io.PipeWriter

	once   sync.Once
	began  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

// of lets a handler answer. A panic of it breaks the answer.
func (a *answer) of(handler http.Handler, r *http.Request) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the handler panicked: %v", reason)
		}
	}()
	handler.ServeHTTP(a, r)
	return nil
}

func (a *answer) start(status int) {
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.began)
	})
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.start(status) }

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.start(http.StatusOK)
	return a.body.Write(b)
}

// Flush implements http.Flusher. Nothing is held back.
func (a *answer) Flush() { a.start(http.StatusOK) }

// answered is the body of an answer. To close it ends the request.
type answered struct {
	*io.PipeReader
	end func()
}

// Close implements io.Closer.
func (b *answered) Close() error {
	b.end()
	return b.PipeReader.Close()
}
