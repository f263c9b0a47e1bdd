package providers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers/sse"
)

// ErrorKind classifies the failure of a model call. The list is closed.
type ErrorKind string

// The kinds.
const (
	// KindUnresolved: the specifier names no model that can be called; Err is a *ModelError.
	KindUnresolved ErrorKind = "unresolved"
	// KindAuth: the vendor rejected the key.
	KindAuth ErrorKind = "auth"
	// KindQuota: the account has no credit left; waiting does not help.
	KindQuota ErrorKind = "quota"
	// KindRateLimit: too many requests or tokens. Retryable.
	KindRateLimit ErrorKind = "rate_limit"
	// KindOverloaded: the vendor is temporarily unavailable (408, 409, 5xx). Retryable.
	KindOverloaded ErrorKind = "overloaded"
	// KindInvalidRequest: the vendor permanently rejects this request.
	KindInvalidRequest ErrorKind = "invalid_request"
	// KindContextOverflow: the request is larger than the model's window. Compaction helps, a retry
	// does not.
	KindContextOverflow ErrorKind = "context_overflow"
	// KindNetwork: the connection failed or broke. Retryable.
	KindNetwork ErrorKind = "network"
	// KindTruncated: the stream ended before its terminal marker. Retryable.
	KindTruncated ErrorKind = "truncated"
	// KindProtocol: the response violates the wire format.
	KindProtocol ErrorKind = "protocol"
	// KindTooLong: the response exceeds Options.Limits; Err is a *LimitError.
	KindTooLong ErrorKind = "too_long"
	// KindImageUnavailable: an image of the request could not be read temporarily. The vendor is not
	// the cause. Retryable.
	KindImageUnavailable ErrorKind = "image_unavailable"
	// KindImageUnreadable: an image of the request is missing or has changed. The vendor is not the
	// cause.
	KindImageUnreadable ErrorKind = "image_unreadable"
	// KindAborted: ctx ended; Err is its cause.
	KindAborted ErrorKind = "aborted"
	// KindSilent: the caller ended the call because no event arrived in time. Retryable.
	KindSilent ErrorKind = "silent"
	// KindTimeout: the caller ended the call because it took too long as a whole. Retryable.
	KindTimeout ErrorKind = "timeout"
)

// maxCause bounds a cause in the text of an Error, in bytes, because a decoder may include its input.
const maxCause = 1 << 10

// MaxErrorBody is the maximum size of a vendor's error text in an Error, in bytes.
const MaxErrorBody = 64 << 10

// ErrUnavailable marks a temporary error of a Content: the call can be repeated.
var ErrUnavailable = errors.New("content is unavailable")

var errNoTerminal = errors.New("response ended without its terminal marker")

// Error is the error of a model call. Body and a [*VendorError] in Err contain vendor text that may
// repeat the request. Do not send them to clients; log them only where conversation content may be
// logged. A [Registry] has removed the secrets of the call from them. The text of Error is safe for
// every log.
type Error struct {
	Kind ErrorKind
	// Provider is the provider id; empty only where none was resolved.
	Provider string
	// Status is the HTTP status, 0 without a response. For an error inside a stream it is the status
	// of the error code, or 200 if that is unknown.
	Status int
	// Body is the raw body, or the raw event of an error inside a stream, at most MaxErrorBody bytes.
	Body []byte
	// RequestID is the vendor's id of the request, "" if it sends none.
	RequestID string
	// RetryAfter is the delay requested by the vendor, 0 if there is none. It is not capped.
	RetryAfter time.Duration
	// RetryHint is the vendor's explicit retry decision, nil if it has none. HTTPOptions.Refused may
	// set it to true.
	RetryHint *bool
	// Key is the source of the key of a call that failed as KindAuth, see Registry.Credentials. Wants
	// lists the variables that may hold a key if there was none.
	Key   string
	Wants []string
	// Err is the cause; it may be nil.
	Err error
}

// Error returns provider, kind, status, the vendor's request id and the cause, without the body.
func (e *Error) Error() string {
	s := "call model"
	if e.Provider != "" {
		s += " of " + e.Provider
	}
	s += ": " + string(e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(" (status %d)", e.Status)
	}
	if e.RequestID != "" {
		s += " (request " + e.RequestID + ")"
	}
	if e.Err != nil {
		cause := e.Err.Error()
		s += ": " + cause[:min(len(cause), maxCause)]
	}
	if e.Kind == KindAuth && (e.Key != "" || len(e.Wants) > 0) {
		s += ": " + e.explainKey()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same call may succeed later. The vendor's explicit decision takes
// precedence, except that an abort is never retried.
func (e *Error) Retryable() bool {
	if e.Kind == KindAborted {
		return false
	}
	if e.RetryHint != nil {
		return *e.RetryHint
	}
	switch e.Kind {
	case KindRateLimit, KindOverloaded, KindNetwork, KindTruncated, KindImageUnavailable, KindSilent, KindTimeout:
		return true
	}
	return false
}

// TooMuch reports whether the vendor rejected the request because it has too many bytes or images. A
// smaller request may succeed.
func (e *Error) TooMuch() bool {
	if e.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	var vendor *VendorError
	return e.Kind == KindInvalidRequest && errors.As(e.Err, &vendor) && containsAny(strings.ToLower(vendor.Message), manyWords)
}

// asError returns err as an *Error of the provider. It copies err, since a Protocol may return the
// same error twice.
func asError(provider string, err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		if e.Provider == "" {
			c := *e
			c.Provider = provider
			return &c
		}
		return e
	}
	kind := KindNetwork
	var tooLarge *sse.TooLargeError
	switch {
	case errors.As(err, &tooLarge):
		kind = KindProtocol
	case errors.Is(err, io.ErrUnexpectedEOF):
		kind = KindTruncated
	}
	return &Error{Kind: kind, Provider: provider, Err: err}
}
