package client

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Outcomes of a settlement that are not a reply; see [SettledError].
var (
	ErrFailed  = conversation.ErrFailed
	ErrAborted = conversation.ErrAborted
)

// SettledError is [conversation.SettledError]: a submission was settled otherwise than completed.
type SettledError = conversation.SettledError

// Error is an answer that is not a success.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type is what to branch on. It is empty if the answer has no envelope: that of
	// a HEAD, or of something that stands before the server.
	Type conversation.Code
	// Message and Details are for people. Without an envelope, Message is the
	// beginning of the body.
	Message, Details string
	// Ref is on a line of the server's log, if it logged one.
	Ref string
	// Dev is the cause, from servers of developers alone.
	Dev string
	// Meta has facts for programs; which depends on Type.
	Meta map[string]any
	// RetryAfter is how long the server asks to wait; 0 if it does not.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	s := "the server answered " + strconv.Itoa(e.Status)
	if e.Type != "" {
		s += " " + string(e.Type)
	}
	text := strings.TrimSpace(e.Message + " " + e.Details)
	if strings.HasPrefix(e.Details, e.Message) { // The message is its first sentence.
		text = e.Details
	}
	if text != "" {
		s += ": " + text
	}
	if e.Ref != "" {
		s += " (ref " + e.Ref + ")"
	}
	return s
}

// temporary reports whether the same request may be answered otherwise later.
func (e *Error) temporary() bool {
	switch e.Type {
	case conversation.CodeStreamStoreFailure, conversation.CodeSchemaVersion,
		conversation.CodeAttachmentIntegrity, conversation.CodeAttachmentConflict:
		return false
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return e.Status >= http.StatusInternalServerError
}

// missing reports whether nobody has sent a message to the conversation yet.
func missing(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Type == conversation.CodeStreamNotFound
}

// UncertainError says that a message, or a run, may have been admitted or not: no
// answer came that tells. Sent again under its key it is admitted once.
type UncertainError struct {
	// Key is the idempotency key it was sent under.
	Key string
	// Err is what the last attempt, or the context, ended with.
	Err error
}

// Error implements error.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("it is not known whether it was admitted (key %s): %v", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *UncertainError) Unwrap() error { return e.Err }

// UnsentError says that no connection to the server came about, so that nothing of the
// request has left.
type UnsentError struct{ Err error }

// Error implements error.
func (e *UnsentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnsentError) Unwrap() error { return e.Err }

// unsent reports whether the server cannot know of a request.
func unsent(err error) bool {
	var e *UnsentError
	return errors.As(err, &e)
}

// dialed makes an [*UnsentError] of what failed before there was a connection, with TLS if the
// URL says so.
func dialed(err error) error {
	var op *net.OpError
	var stranger *tls.CertificateVerificationError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &stranger) {
		return &UnsentError{err}
	}
	return err
}

// answerError is an answer no working server gives: not what was asked for, or
// not of the protocol. Another attempt may reach the server itself.
type answerError struct{ err error }

func (e *answerError) Error() string { return "answer is not of the protocol: " + e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

func badAnswer(format string, args ...any) error {
	return &answerError{fmt.Errorf(format, args...)}
}

// callerError is a failure of what the caller gave, such as an attachment that
// cannot be read.
type callerError struct{ err error }

func (e *callerError) Error() string { return e.err.Error() }
func (e *callerError) Unwrap() error { return e.err }

// tooLargeError is an answer beyond Options.MaxAnswerBytes.
type tooLargeError struct{ limit int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("answer is larger than %d bytes", e.limit)
}

// silenceError ends a connection that stood still.
type silenceError struct{ after time.Duration }

func (e *silenceError) Error() string { return fmt.Sprintf("nothing was heard for %v", e.after) }

// temporary reports whether what failed may succeed when it is repeated.
func temporary(err error) bool {
	var (
		answered *Error
		caller   *callerError
		large    *tooLargeError
		cert     *tls.CertificateVerificationError
		noTLS    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &answered):
		return answered.temporary()
	case errors.As(err, &caller), errors.As(err, &large), errors.As(err, &cert), errors.As(err, &noTLS):
		return false
	}
	return true
}

// odd reports whether a server or what stands before it is there, but not well.
// Unlike one that is away, it need not get better.
func odd(err error) bool {
	var answered *Error
	var bad *answerError
	return errors.As(err, &answered) && answered.Status == http.StatusInternalServerError || errors.As(err, &bad)
}

// refusal makes an error of an answer that is no success and of what was read of it.
func refusal(resp *http.Response, body []byte) *Error {
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	var env struct {
		Error struct {
			Type                       conversation.Code
			Message, Details, Ref, Dev string
			Meta                       map[string]any
		}
	}
	if json.Unmarshal(body, &env) == nil && env.Error.Type != "" {
		e.Type, e.Message, e.Details = env.Error.Type, env.Error.Message, env.Error.Details
		e.Ref, e.Dev, e.Meta = env.Error.Ref, env.Error.Dev, env.Error.Meta
	} else {
		e.Message = strings.ToValidUTF8(strings.TrimSpace(string(body[:min(len(body), 200)])), "")
	}
	if e.Ref == "" {
		e.Ref = resp.Header.Get("Parley-Error-Ref")
	}
	return e
}

// retryAfter reads the header's seconds or date.
func retryAfter(v string) time.Duration {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
