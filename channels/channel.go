package channels

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// DefaultBodyLimit is the default limit of a body in bytes.
const DefaultBodyLimit = 1 << 20

// Channel receives the webhooks of one platform. Implementations are safe for concurrent use.
type Channel interface {
	// Routes returns at least one endpoint, in order of declaration. The result is the same for each
	// call, and the caller owns the slice.
	Routes() []Route
}

// Route declares one endpoint. Its path is relative to the mount point of the channel. As an
// http.Handler it serves requests of any path and method.
type Route struct {
	Method  string // such as POST
	Path    string // such as /webhook
	Handler Handler
	// Fail responds to an error of Handler. If nil, the error is logged to slog.Default() and the
	// response has a status and no body.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// Handler serves deliveries. It writes no response if it returns an error: a [*Refusal] carries the
// status; any other error comes from the application's callback.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Pattern returns the http.ServeMux pattern of the route below a prefix.
func (rt Route) Pattern(prefix string) string { return rt.Method + " " + prefix + rt.Path }

// ServeHTTP implements http.Handler. A panic of the handler is an error; if the response has begun, it
// closes the connection.
func (rt Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, err := contain.Handle("handler of a webhook", w, func(w http.ResponseWriter) error { return rt.Handler(w, r) })
	err = contain.Logged(err)
	if err != nil && sent {
		if !errors.Is(err, http.ErrAbortHandler) {
			slog.ErrorContext(r.Context(), "webhook response aborted", "path", r.URL.Path, "err", err)
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

// Handle mounts the routes of a channel below a prefix such as /channels/notes.
func Handle(mux *http.ServeMux, prefix string, c Channel) {
	for _, rt := range c.Routes() {
		mux.Handle(rt.Pattern(prefix), rt)
	}
}

// Refusal is a response of a status without a body. Reason is one or two words for logs and counters,
// without content of the delivery.
type Refusal struct {
	Status int
	Reason string
	Err    error // nil if only the delivery is invalid
}

// Refuse returns a [*Refusal] with a status and a reason.
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

// StatusOf returns the status for an error of a [Handler]: that of a refusal, 503 for retryable errors
// so that the platform sends again, or 500.
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

// retryable reports whether the platform should send the delivery again, because it was not admitted
// or its outcome is unknown.
func retryable(err error) bool {
	code := conversation.CodeOf(err)
	return code == conversation.CodeUnavailable || code == conversation.CodeAdmissionUnknown
}

// WriteStatus responds with the status of an error and no body. It closes the connection if the
// request body was not read.
func WriteStatus(w http.ResponseWriter, err error) {
	status := StatusOf(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}
