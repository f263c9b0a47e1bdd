package http

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/parleyrun/parley/conversation"
)

// pageBatches is how many batches one response or read cycle covers.
const pageBatches = 100

// updates reads what was recorded after an offset.
func (h *Handler) updates(w *response, r *http.Request, at conversation.Address, q url.Values) error {
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
		if err != nil {
			return err
		}
		return h.writePage(w, r, page)
	}
	switch live := q.Get("live"); live {
	case "long-poll":
		return h.longPoll(w, r, at, after)
	case "sse":
		return h.stream(w, r, at, updatesLine{h.reader, at}, after)
	default:
		return invalid("The query parameter live is %.40q; it must be long-poll or sse.", live)
	}
}

// longPoll answers as soon as there is a batch after the offset, whether it shows
// anything or not, and with nothing when the window ends.
func (h *Handler) longPoll(w *response, r *http.Request, at conversation.Address, after conversation.Offset) error {
	page, answered, err := h.held(w, r, updatesLine{h.reader, at}, after)
	if answered || err != nil {
		return err
	}
	return h.writePage(w, r, page)
}

// held reads what a line has after an offset, and waits for it until the line or the window
// ends. A client that left meanwhile is answered.
func (h *Handler) held(w *response, r *http.Request, l line, after conversation.Offset) (page conversation.Page, answered bool, err error) {
	live, leave, err := h.enterLive(r.Context())
	if err != nil {
		return page, false, err
	}
	defer leave()
	w.unlimited()
	window, cancel := context.WithTimeout(live, h.opts.LongPoll)
	defer cancel()
	ctx, tail := r.Context(), conversation.Tailing(r.Context())
	wait := conversation.Tailing(window)
	for held := false; ; {
		// The read itself is not cut by the window: what it finds is an answer.
		page, err = l.read(ctx, after)
		if err == nil && page.Next == after && !l.ended(&page) && window.Err() == nil {
			held = true
			if err = l.wait(wait, after); err == nil {
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
			return page, true, nil
		case err != nil:
			return page, false, err
		}
		return page, false, left
	}
}

// unlimited takes the server's time limits off a live response. Writers that
// cannot have limits, such as recorders, need none taken off.
func (w *response) unlimited() {
	_ = w.limit.rc.SetReadDeadline(noDeadline())
	w.limit.lift()
}
