package contain

import (
	"errors"
	"net/http"
)

// Handle calls a handler of an author, which errors name as what, and reports whether a part of a response was sent.
// After an error the caller breaks the connection of such a response, by a panic with [http.ErrAbortHandler], and
// otherwise sends an answer. A handler that panics with [http.ErrAbortHandler] counts as one that has sent a part; that
// value is then the error, which is not logged.
func Handle(desc string, w http.ResponseWriter, serve func(http.ResponseWriter) error) (sent bool, err error) {
	res := &response{ResponseWriter: w}
	err = Run(desc, func() error { return serve(res) })
	if crash := new(PanicError); errors.As(err, &crash) && errors.Is(crash, http.ErrAbortHandler) {
		return true, http.ErrAbortHandler
	}
	return res.sent, err
}

// response records whether a part of a response was sent.
type response struct {
	http.ResponseWriter
	sent bool
}

// WriteHeader implements [http.ResponseWriter]. Informational responses precede the response.
func (w *response) WriteHeader(status int) {
	w.sent = w.sent || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *response) Write(b []byte) (int, error) {
	w.sent = true
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (w *response) Flush() {
	w.sent = true
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a Flusher has no error
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
