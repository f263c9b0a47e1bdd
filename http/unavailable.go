package http

import (
	"net/http"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Unavailable returns a handler that rejects every request with runtime_unavailable: 503, the error
// envelope, and a Retry-After rounded up to whole seconds, at least one. It replaces a [Handler]
// temporarily, for example while its runtime is exchanged. It reads no body.
func Unavailable(retryAfter time.Duration) http.Handler {
	h := &Handler{opts: (*Options)(nil).withDefaults()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, r := h.opts.answer(w, r)
		defer res.end()
		h.fail(res, r, conversation.Unavailable(retryAfter, nil))
	})
}
