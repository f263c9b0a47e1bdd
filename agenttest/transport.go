package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// origin is the host of URLs of the in-process server.
const origin = "agenttest.invalid"

var errCrashed = errors.New("process crashed")

// RoundTrip passes a request to the current process without a connection, so a Host is an
// http.RoundTripper for clients. The conversations of an agent are at http://agenttest.invalid/agents/
// and its name. A crash aborts responses in progress.
func (h *Host) RoundTrip(r *http.Request) (*http.Response, error) {
	p := h.current()
	ctx, cancel := context.WithCancelCause(r.Context())
	broken := context.AfterFunc(p.connCtx, func() { cancel(errCrashed) })
	asked := r.Clone(ctx)
	asked.RequestURI, asked.Host, asked.RemoteAddr = r.URL.RequestURI(), r.URL.Host, "192.0.2.1:1"
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	body, w := io.Pipe()
	a := &answer{header: http.Header{}, began: make(chan struct{}), body: w}
	h.processes.Go(func() {
		err := a.of(p.handler, asked)
		broken()
		if crashed := context.Cause(ctx); crashed != nil {
			err = crashed
		}
		a.start(http.StatusOK)
		w.CloseWithError(err) // nil ends the body
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

// of runs a handler. A panic aborts the response.
func (a *answer) of(handler http.Handler, r *http.Request) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("handler panicked: %v", reason)
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

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) { a.start(status) }

func (a *answer) Write(b []byte) (int, error) {
	a.start(http.StatusOK)
	return a.body.Write(b)
}

// Flush implements http.Flusher. Writes are not buffered.
func (a *answer) Flush() { a.start(http.StatusOK) }

// answered is the body of a response. Close ends the request.
type answered struct {
	*io.PipeReader
	end func()
}

func (b *answered) Close() error {
	b.end()
	return b.PipeReader.Close()
}
