package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
)

// class is one row of the error table.
type class struct {
	status  int
	message string
	details string // default details
}

// unclear is the default details of a class whose errors have specific ones.
const unclear = "Check the request and send it again."

// classOf maps a code to its status and texts. Codes outside of this table never answer a request.
func classOf(c conversation.Code) (class, bool) {
	switch c {
	case conversation.CodeInvalidRequest:
		return class{http.StatusBadRequest, "The request is malformed.", unclear}, true
	case conversation.CodeInvalidJSON:
		return class{http.StatusBadRequest, "The request body is not valid JSON.", unclear}, true
	case conversation.CodeUnsupportedMediaType:
		return class{http.StatusUnsupportedMediaType, "The request body must be application/json.", unclear}, true
	case conversation.CodeMethodNotAllowed:
		return class{http.StatusMethodNotAllowed, "The route does not accept this method.", "See the Allow header."}, true
	case conversation.CodeRouteNotFound:
		return class{http.StatusNotFound, "There is no such route.", "Check the path."}, true
	case conversation.CodeAgentNotFound:
		return class{http.StatusNotFound, "There is no such agent.", "Check the name in the path."}, true
	case conversation.CodeRunNotFound:
		return class{http.StatusNotFound, "There is no such run.", "Check the id in the path."}, true
	case conversation.CodeWorkflowNotFound:
		return class{http.StatusNotFound, "There is no such workflow.", "Check the name in the path."}, true
	case conversation.CodeInstanceNotFound:
		return class{http.StatusNotFound, "There is no such agent instance.",
			"The conversation does not exist or has another uid."}, true
	case conversation.CodeStreamNotFound:
		return class{http.StatusNotFound, "There is no such conversation.",
			"A conversation exists from its first admitted message on."}, true
	case conversation.CodeAttachmentNotFound:
		return class{http.StatusNotFound, "There is no such attachment.",
			"The attachment id is wrong or belongs to another conversation."}, true
	case conversation.CodeAttachmentConflict:
		return class{http.StatusInternalServerError, "An attachment could not be stored.",
			"Different bytes are stored under its digest. The failure was logged. Give its ref when you report it."}, true
	case conversation.CodeAttachmentIntegrity:
		return class{http.StatusInternalServerError, "The attachment could not be read.",
			"Its stored bytes differ from those that were sent. The failure was logged. Give its ref when you report it."}, true
	case conversation.CodeInstanceExists:
		return class{http.StatusConflict, "The agent instance exists already.",
			"Omit uid to continue the conversation."}, true
	case conversation.CodeSubmissionConflict:
		return class{http.StatusConflict, "The message conflicts with an earlier one.",
			"Its idempotency key was used with another payload. Repeat the first payload or use a new key."}, true
	case conversation.CodeAlreadyDecided:
		return class{http.StatusConflict, "The wait is already resolved.",
			"A signal or a timeout has ended it, or an earlier signal will."}, true
	case conversation.CodeTooManySignals:
		return class{http.StatusTooManyRequests, "Too many signals are pending.",
			"No call waits for them yet. Signal again once one does."}, true
	case conversation.CodeStreamStoreFailure:
		return class{http.StatusInternalServerError, "The conversation's record stream could not be read there.",
			"The offset is beyond the end of the conversation. Read the snapshot and continue from its offset."}, true
	case conversation.CodeSchemaVersion:
		return class{http.StatusInternalServerError, "The stored data has a version this server does not support.",
			"Run a server of the version that wrote it."}, true
	case conversation.CodeUnavailable:
		return class{http.StatusServiceUnavailable, "The request could not be completed.",
			"The runtime is not available right now. Retry after the time given."}, true
	case conversation.CodeQuarantined:
		return class{http.StatusLocked, "The conversation is quarantined.",
			"Opening it failed several times, or an operator quarantined it. No data is lost. The server retries by itself; repair the cause to release it."}, true
	case conversation.CodeAdmissionUnknown:
		return class{http.StatusServiceUnavailable, "Whether the message was admitted is unknown.",
			"Retry after the time given with meta.idempotencyKey as idempotencyKey: the message is admitted once."}, true
	case conversation.CodeAbortUnknown:
		return class{http.StatusServiceUnavailable, "Whether the conversation was aborted is unknown.",
			"Retry after the time given: a repeated abort is safe."}, true
	}
	return class{http.StatusInternalServerError, "The server failed to answer the request.",
		"The failure was logged. Give its ref when you report it."}, false
}

type envelope struct {
	Error envelopeError `json:"error"`
}

type envelopeError struct {
	Type    conversation.Code `json:"type"`
	Message string            `json:"message"`
	Details string            `json:"details"`
	Dev     string            `json:"dev,omitempty"`
	Meta    map[string]any    `json:"meta,omitempty"`
	Ref     string            `json:"ref,omitempty"`
}

// fail responds with an error. The caller has written only headers that belong to the error. A client
// that left gets no response.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		h.opts.Logger.DebugContext(r.Context(), "client left", "method", r.Method, "path", r.URL.Path)
		// A return would send an empty 200 to a proxy that still listens.
		panic(http.ErrAbortHandler)
	}
	known := &conversation.Error{}
	cl, listed := class{}, false
	if err = exhausted(err); errors.As(err, &known) {
		cl, listed = classOf(known.Code)
	}
	if !listed {
		// The text of an unlisted error was not written for clients.
		cl, _ = classOf(conversation.CodeInternal)
		known = &conversation.Error{Code: conversation.CodeInternal, Err: err}
	}
	e := envelopeError{Type: known.Code, Message: cl.message, Details: known.Details, Meta: known.Meta}
	if e.Details == "" {
		e.Details = cl.details
	} else if cl.details == unclear {
		// Some clients show only the message, so it has the specific sentence.
		e.Message = firstSentence(e.Details)
	}
	if h.opts.Dev && known.Err != nil {
		e.Dev = known.Err.Error()
	}
	switch {
	case known.Code == conversation.CodeAdmissionUnknown, known.Code == conversation.CodeAbortUnknown:
		h.opts.Logger.WarnContext(r.Context(), "request outcome unknown", logRequest(r, err)...)
	case cl.status == http.StatusServiceUnavailable:
		h.opts.Logger.WarnContext(r.Context(), "request rejected as unavailable", logRequest(r, err)...)
	case cl.status >= http.StatusInternalServerError:
		e.Ref = h.opts.NewRef()
		w.Header().Set(headerErrorRef, e.Ref)
		level := slog.LevelError
		if known.Code == conversation.CodeStreamStoreFailure {
			level = slog.LevelWarn // the caller's offset is wrong, not the server
		}
		h.opts.Logger.Log(r.Context(), level, "request failed", append(logRequest(r, err), "ref", e.Ref)...)
	}
	if after := retryAfter(known, cl.status); after != "" {
		w.Header().Set("Retry-After", after)
	}
	h.writeEnvelope(w, r, cl.status, e)
}

// firstSentence returns the first sentence of a text. A full stop within a number or a name does not
// end it.
func firstSentence(text string) string {
	for i := range text {
		if (text[i] == '.' || text[i] == '!' || text[i] == '?') && i+2 < len(text) && text[i+1] == ' ' && 'A' <= text[i+2] && text[i+2] <= 'Z' {
			return text[:i+1]
		}
	}
	return text
}

// exhausted maps errors of exhausted memory or disk to CodeUnavailable with a retry delay.
func exhausted(err error) error {
	var full *memory.FullError
	var known *conversation.Error
	switch {
	case errors.As(err, &known):
	case errors.As(err, &full):
		e := conversation.Unavailable(fullRetryAfter, err)
		e.Details = fmt.Sprintf("Not enough memory right now: %v. Retry after the time given.", full)
		return e
	case errors.Is(err, syscall.ENOSPC):
		return conversation.Unavailable(spoolRetryAfter, err)
	}
	return err
}

// fullRetryAfter is the retry delay when memory is exhausted.
const fullRetryAfter = 2 * time.Second

func (h *Handler) writeEnvelope(w http.ResponseWriter, r *http.Request, status int, e envelopeError) {
	body, err := conversation.EncodeJSON(envelope{e})
	if err != nil {
		h.opts.Logger.ErrorContext(r.Context(), "encode error meta failed", logRequest(r, err)...)
		e.Meta = nil
		body, _ = conversation.EncodeJSON(envelope{e}) // encoding strings cannot fail
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// clientGone ends a held long-poll whose client left. The status is for middleware that counts
// responses.
func (h *Handler) clientGone(w http.ResponseWriter, r *http.Request) {
	h.opts.Logger.DebugContext(r.Context(), "client left", "method", r.Method, "path", r.URL.Path, "status", statusClientGone)
	secure(w.Header())
	w.WriteHeader(statusClientGone)
}

func logRequest(r *http.Request, err error) []any {
	args := []any{"method", r.Method, "path", r.URL.Path, "err", err}
	var p *panicError
	if errors.As(err, &p) {
		args = append(args, "stack", string(p.stack))
	}
	return args
}

// panicError is a panic that ended a request.
type panicError struct {
	value any
	stack []byte
}

// Error implements error.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// retryAfter returns the header's value in whole seconds, "" for none. A 503 always has one.
func retryAfter(e *conversation.Error, status int) string {
	if e.RetryAfter <= 0 && status != http.StatusServiceUnavailable {
		return ""
	}
	return strconv.Itoa(max(1, int(math.Ceil(float64(e.RetryAfter)/float64(time.Second)))))
}

// invalid returns an invalid_request error with details for the caller.
func invalid(format string, args ...any) error {
	return conversation.Errorf(conversation.CodeInvalidRequest, format, args...)
}
