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

// Error is an unsuccessful response of the server.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type is the error's code. It is empty if the response has no envelope, such as that of a HEAD
	// request or of a proxy.
	Type conversation.Code
	// Message and Details are for people. Without an envelope, Message is the beginning of the body.
	Message, Details string
	// Ref identifies the line of the server's log, if there is one.
	Ref string
	// Dev is the cause; only development servers send it.
	Dev string
	// Meta has facts for programs, depending on Type.
	Meta map[string]any
	// RetryAfter is the server's Retry-After; 0 if there is none.
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

// temporary reports whether a retry of the same request may succeed.
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

// missing reports whether the conversation has no message yet.
func missing(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Type == conversation.CodeStreamNotFound
}

// UncertainError is returned for a message or a run that may have been admitted, because no conclusive
// response arrived. Sent again under its key it is admitted once.
type UncertainError struct {
	// Key is the idempotency key it was sent under.
	Key string
	// Err is the error of the last attempt, or of the context.
	Err error
}

// Error implements error.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("it is not known whether it was admitted (key %s): %v", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *UncertainError) Unwrap() error { return e.Err }

// UnsentError is returned if no connection to the server was established, so that nothing of the
// request was sent.
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

// dialed wraps an error before the connection, including TLS, was established into an [*UnsentError].
func dialed(err error) error {
	var op *net.OpError
	var unverified *tls.CertificateVerificationError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &unverified) {
		return &UnsentError{err}
	}
	return err
}

// answerError is an invalid response, such as one of a proxy. Another attempt may reach the server.
type answerError struct{ err error }

func (e *answerError) Error() string { return "answer is not of the protocol: " + e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

func badAnswer(format string, args ...any) error {
	return &answerError{fmt.Errorf(format, args...)}
}

// callerError is a failure of the caller's input, such as an attachment that cannot be read.
type callerError struct{ err error }

func (e *callerError) Error() string { return e.err.Error() }
func (e *callerError) Unwrap() error { return e.err }

// tooLargeError is a response beyond Options.MaxAnswerBytes.
type tooLargeError struct{ limit int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("answer is larger than %d bytes", e.limit)
}

// silenceError is the idle timeout of a connection.
type silenceError struct{ after time.Duration }

func (e *silenceError) Error() string { return fmt.Sprintf("nothing was heard for %v", e.after) }

// temporary reports whether a retry may succeed.
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

// odd reports whether the server or a proxy responds, but incorrectly. Unlike an unreachable server it
// need not recover.
func odd(err error) bool {
	var answered *Error
	var bad *answerError
	return errors.As(err, &answered) && answered.Status == http.StatusInternalServerError || errors.As(err, &bad)
}

// refusal returns the error of an unsuccessful response and the read part of its body.
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
