package http

import (
	"net/http"
	"strconv"

	"github.com/parleyrun/parley/conversation"
)

// HeaderAbort is the header that sets the extent of an abort: [AbortTree], or absent for the
// conversation only.
const HeaderAbort = "Parley-Abort"

// AbortTree is the value of [HeaderAbort] that extends an abort to the trees of dispatches that began in the conversation.
const AbortTree = "tree"

// abort ends all unsettled work of a conversation. It ignores query, media type and body, and does not
// read the body, because an abort must not wait for a slow sender. The server then closes the
// connection.
func (h *Handler) abort(w *response, r *http.Request, at conversation.Address) error {
	var body []byte
	switch extent := r.Header.Get(HeaderAbort); extent {
	case "":
		aborted, err := h.dispatcher.Abort(r.Context(), at)
		if err != nil {
			return err
		}
		body = []byte(`{"aborted":` + strconv.FormatBool(aborted) + `}`)
	case AbortTree:
		done, err := h.dispatcher.AbortTree(r.Context(), at)
		if err == nil {
			body, err = conversation.EncodeJSON(done)
		}
		if err != nil {
			return err
		}
	default:
		return conversation.Errorf(conversation.CodeInvalidRequest, "The header %s is %.40q; send %q, or omit it.", HeaderAbort, extent, AbortTree)
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the intent is durable; a lost response does not matter
	return nil
}
