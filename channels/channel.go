package channels

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// DefaultBodyLimit is how many bytes a body has at most where a channel says nothing else.
const DefaultBodyLimit = 1 << 20

// Channel is one platform's way in. Implementations are safe for concurrent use.
type Channel interface {
	// Routes lists its endpoints, in order of declaration; at least one, and always the
	// same. The slice is the caller's.
	Routes() []Route
}

// Route declares one endpoint, by its path relative to where the channel is mounted. It is an
// http.Handler that serves deliveries whatever path and method a router gave it.
type Route struct {
	Method string // such as POST
	Path   string // such as /webhook
	// Handler serves a delivery.
	Handler Handler
	// Fail answers what Handler returns as an error. Nil logs it to slog.Default() and
	// answers with a status alone.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// Handler serves deliveries. Of an error it returns nothing is written: a [*Refusal] says
// with which status to answer, any other is of the application's callback.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Pattern is the route below a prefix, for http.ServeMux.
func (rt Route) Pattern(prefix string) string { return rt.Method + " " + prefix + rt.Path }

// ServeHTTP implements http.Handler. A panic of the handler is an error, unless the answer has begun: then it ends the
// connection.
func (rt Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, err := contain.Handle("handler of a webhook", w, func(w http.ResponseWriter) error { return rt.Handler(w, r) })
	err = contain.Logged(err)
	if err != nil && sent {
		if !errors.Is(err, http.ErrAbortHandler) {
			slog.ErrorContext(r.Context(), "webhook broke off", "path", r.URL.Path, "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	var refusal *Refusal
	switch {
	case err == nil:
	case rt.Fail != nil && !errors.As(err, &refusal):
		rt.Fail(w, r, err)
	default:
		if status := StatusOf(err); status >= http.StatusInternalServerError {
			slog.ErrorContext(r.Context(), "webhook failed", "path", r.URL.Path, "status", status, "err", err)
		}
		WriteStatus(w, err)
	}
}

// Handle mounts the routes of a channel explicitly, below a prefix such as /channels/notes.
func Handle(mux *http.ServeMux, prefix string, c Channel) {
	for _, rt := range c.Routes() {
		mux.Handle(rt.Pattern(prefix), rt)
	}
}

// Refusal answers a delivery with a status and no body. Reason says why in a word or two, for
// logs and counters; it has nothing of the delivery.
type Refusal struct {
	Status int
	Reason string
	Err    error // nil if nothing but the delivery is to blame
}

// Refuse returns a refusal.
func Refuse(status int, reason string) error { return &Refusal{Status: status, Reason: reason} }

// Error implements error.
func (e *Refusal) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

// Unwrap implements the convention of package errors.
func (e *Refusal) Unwrap() error { return e.Err }

// StatusOf is the status that an error of a [Handler] is answered with where nothing but a
// status is: that of a refusal; 503 for what can be sent again, so that platforms do; 500.
func StatusOf(err error) int {
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal.Status
	case retryable(err):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// retryable reports whether a delivery that ended so is to be sent again: nothing of it was
// admitted, or it is not known.
func retryable(err error) bool {
	code := conversation.CodeOf(err)
	return code == conversation.CodeUnavailable || code == conversation.CodeAdmissionUnknown
}

// WriteStatus answers with the status of an error alone. A connection with a body that nobody
// has read ends.
func WriteStatus(w http.ResponseWriter, err error) {
	status := StatusOf(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}
