package http

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Headers of the protocol.
const (
	headerNextOffset = "Stream-Next-Offset"
	headerUpToDate   = "Stream-Up-To-Date"
	headerErrorRef   = "Parley-Error-Ref"
	// headerAccelBuffering makes nginx and compatible proxies forward each write of an event stream
	// immediately.
	headerAccelBuffering = "X-Accel-Buffering"
)

// statusClientGone is the status of a long-poll whose client has disconnected, for middleware only.
const statusClientGone = 499

// pieceBytes is the minimum progress of a client within one time limit. It distinguishes slow from
// stalled clients.
const pieceBytes = 64 << 10

// response is the response to one request. It records whether it has begun, sets a deadline for every
// piece, and disposes of an unread body.
type response struct {
	http.ResponseWriter
	limit  limit
	body   *requestBody // nil for none
	status int
	// moved is the time of the last completed write, in nanoseconds. evicted is set when the memory is
	// needed by others.
	moved   atomic.Int64
	evicted atomic.Bool
}

// answer returns the response to a request, and the request with a rate-limited body.
func (o *Options) answer(w http.ResponseWriter, r *http.Request) (*response, *http.Request) {
	rc := http.NewResponseController(w)
	res := &response{ResponseWriter: w, limit: limit{rc: rc, slow: o.SlowReader, stays: r.ProtoMajor == 1}}
	if r.Body != nil && r.Body != http.NoBody {
		res.body = &requestBody{ReadCloser: r.Body, request: r, rc: rc, within: o.SlowSender}
		r = r.WithContext(r.Context())
		r.Body = res.body
	}
	return res, r
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.body.leave(w.Header())
		w.limit.set()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. It fails if the client does not read a piece in time. A writer
// without deadlines cannot block on a client.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	written := 0
	for {
		piece := b[written:min(len(b), written+pieceBytes)]
		w.limit.set()
		if w.evicted.Load() {
			return written, errEvicted
		}
		n, err := w.ResponseWriter.Write(piece)
		if written += n; err != nil || written == len(b) {
			return written, err
		}
		w.moved.Store(time.Now().UnixNano())
	}
}

// evict ends the response. It may be called concurrently with a write.
func (w *response) evict() {
	w.evicted.Store(true)
	_ = w.limit.rc.SetWriteDeadline(time.Now())
}

// flush flushes within the deadline of the last piece.
func (w *response) flush() error {
	if err := w.limit.rc.Flush(); err != nil {
		return err
	}
	if !w.limit.stays {
		w.limit.lift()
	}
	return nil
}

// end sets the deadline for the data that the server still buffers.
func (w *response) end() { w.limit.set() }

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// limit is the time limit of one piece of a response.
type limit struct {
	rc   *http.ResponseController
	slow time.Duration
	// stays is set if a deadline may remain after a write, which saves a call per frame. HTTP/2 would
	// end an idle response at the deadline.
	stays bool
}

// set sets the deadline of the next write.
func (l *limit) set() { _ = l.rc.SetWriteDeadline(time.Now().Add(l.slow)) }

// lift removes the deadline.
func (l *limit) lift() { _ = l.rc.SetWriteDeadline(noDeadline()) }

func noDeadline() time.Time { return time.Time{} }

// secure sets the headers of every read and error response.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
}

// coordinate sets the headers with the end of a read.
func coordinate(h http.Header, next conversation.Offset, upToDate bool) {
	h.Set(headerNextOffset, next.String())
	if upToDate {
		h.Set(headerUpToDate, "true")
	}
}

// writePage sends a page unchanged. It ignores write errors: the server closes the connection of a
// partial response.
func (h *Handler) writePage(w *response, r *http.Request, p conversation.Page) error {
	if p.Long != nil {
		return h.writeLong(w, r, p)
	}
	leave, err := h.pages.enter(w, p.JSON)
	if err != nil {
		return err
	}
	defer leave()
	pageHeaders(w.Header(), p)
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(p.JSON); isSlow(err) {
		h.opts.Logger.InfoContext(r.Context(), "response to slow reader aborted", logRequest(r, err)...)
	}
	return nil
}

// writeLong sends a page while it is read. The caller renders errors before the first piece; later
// errors break the connection.
func (h *Handler) writeLong(w *response, r *http.Request, p conversation.Page) error {
	out := piecewise{w: w, pages: &h.pages, begin: func() error {
		readHeaders(w.Header(), p.Next, p.UpToDate)
		return nil
	}}
	err := out.write(r.Context(), p)
	var unbegun *unbegunError
	if err != nil && !errors.As(err, &unbegun) {
		h.breakOff(r, err)
	}
	return err
}

// piecewise writes a long page in pieces. Each is accounted for while it is written.
type piecewise struct {
	w     *response
	pages *pages
	begin func() error // runs before the first piece; nil once done
}

// unbegunError reports that no part of a long page was written.
type unbegunError struct{ err error }

// Error implements error.
func (e *unbegunError) Error() string { return "begin a long page: " + e.err.Error() }

// Unwrap returns the cause.
func (e *unbegunError) Unwrap() error { return e.err }

// write writes the page.
func (p *piecewise) write(ctx context.Context, page conversation.Page) error {
	err := page.Long(ctx, p)
	if err != nil && p.begin != nil {
		err = &unbegunError{err}
	}
	return err
}

// Write implements io.Writer.
func (p *piecewise) Write(b []byte) (int, error) {
	leave, err := p.pages.enter(p.w, b)
	if err != nil {
		return 0, err
	}
	defer leave()
	if begin := p.begin; begin != nil {
		p.begin = nil
		if err := begin(); err != nil {
			return 0, err
		}
	}
	n, err := p.w.Write(b)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

// isSlow reports whether a write ended because the client did not read in time.
func isSlow(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errEvicted)
}

func pageHeaders(h http.Header, p conversation.Page) {
	readHeaders(h, p.Next, p.UpToDate)
	h.Set("Content-Length", strconv.Itoa(len(p.JSON)))
}

func readHeaders(h http.Header, next conversation.Offset, upToDate bool) {
	secure(h)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	coordinate(h, next, upToDate)
}
