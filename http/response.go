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
	// headerAccelBuffering makes nginx, and proxies that follow its convention, send each
	// write of an event stream to the client at once.
	headerAccelBuffering = "X-Accel-Buffering"
)

// statusClientGone answers a held long-poll whose client left; nobody receives it.
const statusClientGone = 499

// pieceBytes is how much a client takes at least within one limit, so that a slow one
// that does read is told from one that does not.
const pieceBytes = 64 << 10

// response is the answer to one request. It remembers whether it has begun, gives every
// piece of it its time, and makes an end of a body that was not read.
type response struct {
	http.ResponseWriter
	limit  limit
	body   *requestBody // nil for none
	status int
	// moved is when the client took the last piece, in nanoseconds, and evicted is set
	// when somebody else needs the memory of what it does not take.
	moved   atomic.Int64
	evicted atomic.Bool
}

// answer returns the response to a request, and the request with a body that has to
// make progress.
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

// Write implements http.ResponseWriter. A client that takes a piece not in time fails
// it; a writer without deadlines cannot block on a client either.
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

// evict ends the answer. It may be called while it is written.
func (w *response) evict() {
	w.evicted.Store(true)
	_ = w.limit.rc.SetWriteDeadline(time.Now())
}

// flush sends what was written, within the time of its last piece.
func (w *response) flush() error {
	if err := w.limit.rc.Flush(); err != nil {
		return err
	}
	if !w.limit.stays {
		w.limit.lift()
	}
	return nil
}

// end gives what the server still has to send its time.
func (w *response) end() { w.limit.set() }

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// limit is the time that one piece of an answer may take.
type limit struct {
	rc   *http.ResponseController
	slow time.Duration
	// stays is set when a deadline may stay after a write, which spares a call per
	// frame. HTTP/2 would end a response for one that only has nothing to say.
	stays bool
}

// set gives the next write its time.
func (l *limit) set() { _ = l.rc.SetWriteDeadline(time.Now().Add(l.slow)) }

// lift leaves no deadline.
func (l *limit) lift() { _ = l.rc.SetWriteDeadline(noDeadline()) }

// noDeadline is the deadline that never comes.
func noDeadline() time.Time { return time.Time{} }

// secure sets the headers of every read and error response.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
}

// coordinate sets the headers that say where a read ended.
func coordinate(h http.Header, next conversation.Offset, upToDate bool) {
	h.Set(headerNextOffset, next.String())
	if upToDate {
		h.Set(headerUpToDate, "true")
	}
}

// writePage answers a read with the page's bytes as they are. That the client may be gone
// is no news to anybody: the server ends the connection of one that has only a part.
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
		h.opts.Logger.InfoContext(r.Context(), "answer dropped a slow reader", logRequest(r, err)...)
	}
	return nil
}

// writeLong answers a read with a page that is read while it is written. What fails before
// the first piece is the caller's to render; after it only a broken connection tells the
// client.
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

// piecewise writes a long page in pieces. Each counts while it is written.
type piecewise struct {
	w     *response
	pages *pages
	begin func() error // what comes before the first piece; nil once it is done
}

// unbegunError says that nothing of a long page was written.
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

// isSlow reports whether a write ended because the client did not take it in time.
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
