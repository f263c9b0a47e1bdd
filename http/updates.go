package http

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/parleyrun/parley/conversation"
)

// pageBatches is the number of batches in one response or read cycle.
const pageBatches = 100

// updates reads the records after an offset.
func (h *Handler) updates(w *response, r *http.Request, at conversation.Address, q url.Values) error {
	if q.Has("tail") {
		return invalid("The query parameter tail is not supported.")
	}
	if n := len(q["offset"]); n != 1 {
		return invalid("The query parameter offset must occur exactly once, not %d times.", n)
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

// longPoll answers when there is a batch after the offset, visible or not, and with an empty page at
// the end of the window.
func (h *Handler) longPoll(w *response, r *http.Request, at conversation.Address, after conversation.Offset) error {
	page, answered, err := h.held(w, r, updatesLine{h.reader, at}, after)
	if answered || err != nil {
		return err
	}
	return h.writePage(w, r, page)
}

// held reads a line after an offset, waiting until a batch arrives or the line or window ends. It
// answers a client that has disconnected with statusClientGone.
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
		// The window does not interrupt the read: its result is a valid response.
		page, err = l.read(ctx, after)
		if err == nil && page.Next == after && !l.ended(&page) && window.Err() == nil {
			held = true
			if err = l.wait(wait, after); err == nil {
				ctx = tail
				continue
			}
			if window.Err() != nil {
				err = nil // the end of the window is not a failure
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

// unlimited removes the server's deadlines from a live response. Writers without deadlines, such as
// recorders, need no change.
func (w *response) unlimited() {
	_ = w.limit.rc.SetReadDeadline(noDeadline())
	w.limit.lift()
}
