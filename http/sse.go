package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// waitingRoom is an optional interface of a [conversation.Reader] that bounds the number of
// conversations that readers wait for.
type waitingRoom interface {
	// Room returns an error if no reader can wait for the conversation now.
	Room(at conversation.Address) error
}

// line reads one conversation for one event stream, in the format of one protocol line: the current
// one or the beta line.
type line interface {
	// read returns the page after an offset.
	read(ctx context.Context, after conversation.Offset) (conversation.Page, error)
	// wait returns nil once read would return more than an empty page for the offset.
	wait(ctx context.Context, after conversation.Offset) error
	// control appends the JSON of the control frame that follows a page.
	control(dst []byte, p *conversation.Page) []byte
	// ended reports whether no page can follow this one.
	ended(p *conversation.Page) bool
}

// updatesLine is the current protocol line.
type updatesLine struct {
	reader conversation.Reader
	at     conversation.Address
}

func (l updatesLine) read(ctx context.Context, after conversation.Offset) (conversation.Page, error) {
	return l.reader.Updates(ctx, l.at, after, pageBatches)
}

func (l updatesLine) wait(ctx context.Context, after conversation.Offset) error {
	return l.reader.Wait(ctx, l.at, after)
}

func (l updatesLine) control(dst []byte, p *conversation.Page) []byte {
	dst = append(dst, `{"streamNextOffset":"`...)
	dst, _ = p.Next.AppendText(dst) // The error is always nil.
	dst = append(dst, '"')
	if p.UpToDate {
		dst = append(dst, `,"upToDate":true`...)
	}
	return append(dst, '}')
}

func (l updatesLine) ended(*conversation.Page) bool { return false }

// stream sends a conversation as server-sent events. It returns when the client disconnects, a read or
// write fails, the line ends or the handler drains. It returns an error only if nothing has been
// written, so that the caller can send an error response; it logs later errors.
func (h *Handler) stream(w *response, r *http.Request, at conversation.Address, l line, after conversation.Offset) error {
	ctx, leave, err := h.enterLive(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	if place, ok := h.reader.(waitingRoom); ok {
		if err := place.Room(at); err != nil {
			return err
		}
	}
	page, err := l.read(r.Context(), after)
	if err != nil {
		return err
	}
	// Reserve memory for the first page while an error response is still possible. The first cycle
	// reserves again.
	leavePage, err := h.pages.enter(w, page.JSON)
	if err != nil {
		return err
	}
	w.unlimited()
	secure(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set(headerAccelBuffering, "no")
	if r.ProtoMajor == 1 {
		// HTTP/1 cannot reuse the connection after a stream.
		w.Header().Set("Connection", "close")
	}

	ctx, cancel := context.WithCancelCause(conversation.Tailing(ctx))
	defer cancel(nil)
	ev := &events{w: w, pages: &h.pages, line: l, every: h.opts.Heartbeat, fail: cancel}
	err = ev.cycle(ctx, page)
	leavePage()
	var unbegun *unbegunError
	if errors.As(err, &unbegun) { // an error response is still possible
		w.Header().Del("Connection")
		w.Header().Del(headerAccelBuffering)
		return err
	}
	ev.start()
	defer ev.stop()
	page.JSON = nil
	if err == nil {
		err = h.follow(ctx, ev, page)
	}
	if err == nil {
		return nil // end of the line
	}
	var unwritten *writeError
	if cause := context.Cause(ctx); cause != nil && !errors.As(err, &unwritten) {
		err = cause // The context was canceled for a reason, such as a failed heartbeat: report it.
	}
	h.logEnd(r, at, err)
	return nil
}

// follow writes all pages after the first, and a control frame at least every ControlEvery. It returns
// nil when the line ends.
func (h *Handler) follow(ctx context.Context, ev *events, page conversation.Page) error {
	every := h.opts.ControlEvery
	idle := window{parent: ctx, length: every}
	defer idle.close()
	wait, framed := idle.open(), time.Now()
	for !ev.line.ended(&page) {
		quiet := false
		if page.UpToDate {
			err := ev.line.wait(wait, page.Next)
			quiet = wait.Err() != nil
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && !quiet {
				return err
			}
			// Send the control frame before the read: a slow store would delay it beyond ControlEvery.
			if quiet || time.Since(framed) >= every-every/30 {
				if err := ev.cycle(ctx, conversation.Page{Next: page.Next, UpToDate: quiet}); err != nil {
					return err
				}
				wait, framed = idle.open(), time.Now()
			}
		}
		next, err := ev.line.read(ctx, page.Next)
		if err == nil && !(quiet && sameEnd(ev.line, &page, &next)) {
			err = ev.cycle(ctx, next)
			wait, framed = idle.open(), time.Now()
		}
		switch pause := untilRoom(err); {
		case err == nil:
			page = next
		case pause == 0:
			return err
		default:
			page.UpToDate = false // The page was not sent: read it again.
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// sameEnd reports whether the read of next, after page, found nothing to send.
func sameEnd(l line, page, next *conversation.Page) bool {
	return next.UpToDate && next.Next == page.Next && !l.ended(next)
}

// untilRoom returns the pause before reading again if err rejects a long page for lack of memory. It
// returns 0 for any other error.
func untilRoom(err error) time.Duration {
	var unbegun *unbegunError
	var known *conversation.Error
	if !errors.As(err, &unbegun) || !errors.As(exhausted(unbegun.err), &known) || known.Code != conversation.CodeUnavailable {
		return 0
	}
	return max(known.RetryAfter, time.Second)
}

// window creates successive contexts with the same timeout. A context that has not expired is reused
// and its timer reset, because most waits end early and a new context costs more.
type window struct {
	parent context.Context
	length time.Duration

	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
}

// open returns a context that is canceled after the timeout, or with the parent. It is valid until the
// next call.
func (w *window) open() context.Context {
	if w.timer != nil && w.timer.Reset(w.length) {
		return w.ctx
	}
	w.close() // expired, or the first call
	w.ctx, w.cancel = context.WithCancel(w.parent)
	w.timer = time.AfterFunc(w.length, w.cancel)
	return w.ctx
}

// close cancels the last context.
func (w *window) close() {
	if w.timer != nil {
		w.timer.Stop()
		w.cancel()
	}
}

// logEnd logs the end of a stream: at Warn for an unexpected error, Info for a slow reader, Debug for
// a regular end.
func (h *Handler) logEnd(r *http.Request, at conversation.Address, err error) {
	log, ctx := h.opts.Logger.With("agent", at.Agent, "conversation", at.ID, "err", err), r.Context()
	var unwritten *writeError
	switch {
	case errors.As(err, &unwritten) && isSlow(err):
		log.InfoContext(ctx, "event stream of slow reader aborted")
	case errors.Is(err, errDraining), ctx.Err() != nil:
		log.DebugContext(ctx, "event stream ended")
	default:
		log.WarnContext(ctx, "event stream aborted")
	}
}

// writeError reports that a write to the client failed: the connection is closed, or the client did
// not read in time.
type writeError struct{ err error }

// Error implements error.
func (e *writeError) Error() string { return "write response: " + e.err.Error() }

// Unwrap returns the cause.
func (e *writeError) Unwrap() error { return e.err }

// events writes one event stream. mu serializes the goroutine of the request with the heartbeat timer.
// Each call of cycle and beat does one write and one flush. A large page, which is not copied, takes
// further writes.
type events struct {
	w     *response
	pages *pages
	line  line
	every time.Duration // interval of heartbeats
	fail  context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	ended bool   // Invariant: no writes once it is set.
	buf   []byte // the frame being written, without a large page
}

// start starts the heartbeat.
func (e *events) start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(e.every, e.beat)
}

// stop stops the heartbeat and waits for a heartbeat that is being written.
func (e *events) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.timer.Stop()
}

func (e *events) beat() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	e.timer.Reset(e.every)
	e.buf = append(e.buf[:0], ": heartbeat\n\n"...)
	if err := e.send(nil); err != nil {
		e.fail(err)
	}
}

// cycle writes one page, unless it is empty, and its control frame.
func (e *events) cycle(ctx context.Context, p conversation.Page) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.buf[:0]
	large := []byte(nil)
	switch {
	case p.Long != nil:
		if err := e.long(ctx, p); err != nil {
			var unbegun *unbegunError
			e.ended = !errors.As(err, &unbegun)
			return err
		}
		b = append(b, "\n\n"...)
	case len(p.JSON) > smallPage:
		large = p.JSON
		b = append(b, "\n\n"...)
	case len(p.JSON) > len("[]"):
		b = append(b, dataField...)
		b = append(b, p.JSON...)
		b = append(b, "\n\n"...)
	}
	b = e.line.control(append(b, "event: control\ndata:"...), &p)
	e.buf = append(b, "\n\n"...)
	return e.send(large)
}

// long writes a page piece by piece while it is read, without the blank line after it. The caller
// holds mu.
func (e *events) long(ctx context.Context, p conversation.Page) error {
	out := piecewise{w: e.w, pages: e.pages, begin: func() error {
		if _, err := io.WriteString(e.w, dataField); err != nil {
			return &writeError{err}
		}
		return nil
	}}
	return out.write(ctx, p)
}

// dataField begins the frame of a page.
const dataField = "event: data\ndata:"

// send writes a large page, if any, and then the buffer. After an error nothing more is written. The
// caller holds mu.
func (e *events) send(large []byte) error {
	leave, err := e.pages.enter(e.w, large)
	if err == nil {
		defer leave()
		err = e.write(large)
	}
	if err != nil {
		e.ended = true
		return &writeError{err}
	}
	return nil
}

func (e *events) write(large []byte) error {
	if large != nil {
		if _, err := io.WriteString(e.w, dataField); err != nil {
			return err
		}
		if _, err := e.w.Write(large); err != nil {
			return err
		}
	}
	if _, err := e.w.Write(e.buf); err != nil {
		return err
	}
	return e.w.flush()
}
