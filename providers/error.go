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

// ErrorKind classes what went wrong with a model call. The list is closed.
type ErrorKind string

// The kinds.
const (
	// KindUnresolved: the specifier names no model that can be called; Err is a *ModelError.
	KindUnresolved ErrorKind = "unresolved"
	// KindAuth: the vendor refused the key.
	KindAuth ErrorKind = "auth"
	// KindQuota: the account has no credit left; waiting does not help.
	KindQuota ErrorKind = "quota"
	// KindRateLimit: too many requests or tokens just now. Retryable.
	KindRateLimit ErrorKind = "rate_limit"
	// KindOverloaded: the vendor cannot answer now (408, 409, 5xx). Retryable.
	KindOverloaded ErrorKind = "overloaded"
	// KindInvalidRequest: the vendor will not take this request, ever.
	KindInvalidRequest ErrorKind = "invalid_request"
	// KindContextOverflow: the request is larger than the model's window;
	// compaction helps, repeating does not.
	KindContextOverflow ErrorKind = "context_overflow"
	// KindNetwork: no connection, or it broke. Retryable.
	KindNetwork ErrorKind = "network"
	// KindTruncated: the stream ended before its terminal marker. Retryable.
	KindTruncated ErrorKind = "truncated"
	// KindProtocol: the vendor sent what this wire format does not allow.
	KindProtocol ErrorKind = "protocol"
	// KindTooLong: the response has more than Options.Limits let it have; Err is a
	// *LimitError.
	KindTooLong ErrorKind = "too_long"
	// KindImageUnavailable: an image of the request could not be read just now.
	// The vendor is not to blame. Retryable.
	KindImageUnavailable ErrorKind = "image_unavailable"
	// KindImageUnreadable: an image of the request is missing, or not what it was.
	// The vendor is not to blame.
	KindImageUnreadable ErrorKind = "image_unreadable"
	// KindAborted: ctx ended; Err is its cause.
	KindAborted ErrorKind = "aborted"
	// KindSilent: who made the call gave it up, since nothing came for too long. Retryable.
	KindSilent ErrorKind = "silent"
	// KindTimeout: who made the call gave it up, since it took too long as a whole. Retryable.
	KindTimeout ErrorKind = "timeout"
)

// maxCause bounds a cause within the text of an Error, in bytes: a decoder may repeat what
// it could not decode.
const maxCause = 1 << 10

// MaxErrorBody is how much of a vendor's error text an Error keeps, in bytes.
const MaxErrorBody = 64 << 10

// ErrUnavailable marks an error of a Content that may pass: the call can be
// repeated.
var ErrUnavailable = errors.New("content is unavailable")

var errNoTerminal = errors.New("response ended without its terminal marker")

// Error is the error of a model call. Body and a [*VendorError] in Err hold the
// vendor's own words, which may repeat the request: they are not for clients, and for
// logs only where those show what people and models say. A [Registry] has taken the
// secrets of the call out of them. The text of the error is for every log.
type Error struct {
	Kind ErrorKind
	// Provider is the provider id; empty only where none was resolved.
	Provider string
	// Status is the HTTP status, 0 if there was no response. Of an error inside a
	// stream it is the one that the error has outside, or 200 if that is not known.
	Status int
	// Body is the raw body, or the raw event of an error inside a stream, at
	// most MaxErrorBody bytes.
	Body []byte
	// RequestID is what the vendor calls the request, "" if it does not say.
	RequestID string
	// RetryAfter is how long the vendor asks to wait; 0 if it does not say. It
	// is not capped.
	RetryAfter time.Duration
	// RetryHint is the vendor's own word on retrying, nil if it has none, or true by
	// HTTPOptions.Refused.
	RetryHint *bool
	// Key is where the key of a call was found that failed as KindAuth, as of
	// Registry.Credentials, and Wants, if none was, the variables that may hold one.
	Key   string
	Wants []string
	// Err is the cause; it may be nil.
	Err error
}

// Error names provider, kind, status, the vendor's id of the request and the cause,
// not the body.
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

// Retryable reports whether the same call may succeed later. The vendor's own
// word counts most, except that an abort is never retried.
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

// TooMuch reports whether the vendor says that the request has more bytes, or more images,
// than it takes: it would take one with less.
func (e *Error) TooMuch() bool {
	if e.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	var vendor *VendorError
	return e.Kind == KindInvalidRequest && errors.As(e.Err, &vendor) && containsAny(strings.ToLower(vendor.Message), manyWords)
}

// asError makes err an *Error of the provider. The error itself is not changed,
// since a Protocol may hand out the same one twice.
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
