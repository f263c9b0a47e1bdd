package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// pageBatches is how many batches one response or read cycle covers.
const pageBatches = 100

// updates reads what was recorded after an offset.
func (h *Handler) updates(w http.ResponseWriter, r *http.Request, at conversation.Address, q url.Values) error {
	if q.Has("tail") {
		return invalid("The query parameter tail is not supported.")
	}
	if n := len(q["offset"]); n != 1 {
		return invalid("The query parameter offset must be there exactly once, not %d times.", n)
	}
	after, err := conversation.ParseOffset(q.Get("offset"))
	if err != nil {
		return invalid("The query parameter offset must be -1 or an offset that a response returned.")
	}
	if !q.Has("live") {
		page, err := h.reader.Updates(r.Context(), at, after, pageBatches)
		if err == nil {
			writePage(w, page)
		}
		return err
	}
	switch live := q.Get("live"); live {
	case "long-poll":
		return h.longPoll(w, r, at, after)
	case "sse":
		return h.stream(w, r, at, after)
	default:
		return invalid("The query parameter live is %.40q; it must be long-poll or sse.", live)
	}
}

// longPoll answers as soon as there is a batch after the offset, whether it shows
// anything or not, and with nothing when the window ends.
func (h *Handler) longPoll(w http.ResponseWriter, r *http.Request, at conversation.Address, after conversation.Offset) error {
	live, leave, err := h.live.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	unlimited(w)
	window, cancel := context.WithTimeout(live, h.opts.LongPoll)
	defer cancel()
	ctx, tail := r.Context(), conversation.Tailing(r.Context())
	wait := conversation.Tailing(window)
	for held := false; ; {
		// The read itself is not cut by the window: what it finds is an answer.
		page, err := h.reader.Updates(ctx, at, after, pageBatches)
		if err == nil && page.Next == after && window.Err() == nil {
			held = true
			if err = h.reader.Wait(wait, at, after); err == nil {
				ctx = tail
				continue
			}
			if window.Err() != nil {
				err = nil // the window's end is not a failure
			}
		}
		left := r.Context().Err()
		switch {
		case held && errors.Is(left, context.Canceled):
			h.clientGone(w, r)
			return nil
		case err != nil:
			return err
		case left != nil:
			return left
		}
		h.writeLive(w, page)
		return nil
	}
}

// writeLive is writePage under the limit of live responses, since the server's
// was taken off. The next request on the connection finds none.
func (h *Handler) writeLive(w http.ResponseWriter, p conversation.Page) {
	pageHeaders(w.Header(), p)
	w.WriteHeader(http.StatusOK)
	_ = send(w, &limit{rc: http.NewResponseController(w), slow: h.opts.SlowReader}, p.JSON)
}

// unlimited takes the server's time limits off a live response. Writers that
// cannot have limits, such as recorders, need none taken off.
func unlimited(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(noDeadline())
	_ = rc.SetWriteDeadline(noDeadline())
}

// noDeadline is the deadline that never comes.
func noDeadline() time.Time { return time.Time{} }

// sliceBytes is how much a client takes at least within one limit, so that a
// slow one that does read is told from one that does not.
const sliceBytes = 256 << 10

// send writes b and flushes. A client that takes a slice of it not in time fails
// the write; a writer without deadlines cannot block on a client either.
func send(w io.Writer, l *limit, b []byte) error {
	for len(b) > 0 {
		part := b[:min(len(b), sliceBytes)]
		b = b[len(part):]
		l.set()
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	if err := l.rc.Flush(); err != nil {
		return err
	}
	if !l.stays {
		l.lift()
	}
	return nil
}

// limit is the time that one write to a live response may take.
type limit struct {
	rc   *http.ResponseController
	slow time.Duration
	// stays is set when a deadline may stay after a write, which spares a call per
	// frame. HTTP/2 would end a response for one that only has nothing to say, and
	// HTTP/1 the connection's next request.
	stays bool
}

// set gives the next write its time.
func (l *limit) set() { _ = l.rc.SetWriteDeadline(time.Now().Add(l.slow)) }

// lift leaves no deadline.
func (l *limit) lift() { _ = l.rc.SetWriteDeadline(noDeadline()) }
