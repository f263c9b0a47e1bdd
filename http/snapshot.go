package http

import (
	"net/http"

	"github.com/parleyrun/parley/conversation"
)

// get reads a conversation: its snapshot, or updates after an offset.
func (h *Handler) get(w *response, r *http.Request, at conversation.Address) error {
	q := parseQuery(r.URL.RawQuery)
	view := "history"
	if q.Has("view") {
		view = q.Get("view")
	}
	switch view {
	case "history":
		for _, name := range []string{"offset", "tail", "live"} {
			if q.Has(name) {
				return invalid("The query parameter %s is not supported with view=history.", name)
			}
		}
		return h.snapshot(w, r, at)
	case "updates":
		return h.updates(w, r, at, q)
	}
	return invalid("The query parameter view is %.40q; it must be history or updates.", view)
}

func (h *Handler) snapshot(w *response, r *http.Request, at conversation.Address) error {
	page, err := h.reader.Snapshot(r.Context(), at)
	if err != nil {
		return err
	}
	page.UpToDate = true // a snapshot is the conversation at its head
	return h.writePage(w, r, page)
}

// head answers with the durable head. It ignores the query.
func (h *Handler) head(w *response, r *http.Request, at conversation.Address) error {
	next, err := h.reader.Head(r.Context(), at)
	if err != nil {
		return err
	}
	readHeaders(w.Header(), next, true)
	w.WriteHeader(http.StatusOK)
	return nil
}
