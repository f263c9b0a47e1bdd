package http

import (
	"net/http"
	"strconv"

	"github.com/parleyrun/parley/conversation"
)

// abort ends what a conversation still owes a settlement. Its query, media type
// and body mean nothing, and the body is not read: an abort must not wait for a
// slow sender. The server takes a little of it and then closes the connection.
func (h *Handler) abort(w *response, r *http.Request, at conversation.Address) error {
	aborted, err := h.dispatcher.Abort(r.Context(), at)
	if err != nil {
		return err
	}
	body := []byte(`{"aborted":` + strconv.FormatBool(aborted) + `}`)
	secure(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the intent is recorded, whether the client hears it or not
	return nil
}
