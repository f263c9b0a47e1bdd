package conversation

import (
	"errors"
	"fmt"
	"time"
)

// Code is the stable, machine-readable category of an error. The list is closed: codes are part of the
// protocol and never change their meaning.
type Code string

// Codes of request errors.
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeInvalidJSON          Code = "invalid_json"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeRouteNotFound        Code = "route_not_found"
	CodeInstanceNotFound     Code = "agent_instance_not_found"
	CodeInstanceExists       Code = "agent_instance_exists"
	CodeSubmissionConflict   Code = "submission_conflict"
	CodeAlreadyDecided       Code = "already_decided"
	CodeTooManySignals       Code = "too_many_signals"
	CodeStreamNotFound       Code = "stream_not_found"
	CodeAttachmentNotFound   Code = "attachment_not_found"
	CodeAttachmentConflict   Code = "attachment_conflict"
	CodeAttachmentIntegrity  Code = "attachment_integrity"
	CodeStreamStoreFailure   Code = "conversation_stream_store_failure"
	CodeSchemaVersion        Code = "persisted_schema_version_unsupported"
	CodeUnavailable          Code = "runtime_unavailable"
	CodeAdmissionUnknown     Code = "admission_unknown"
	CodeAbortUnknown         Code = "abort_unknown"
	CodeQuarantined          Code = "conversation_quarantined"
	CodeInternal             Code = "internal_error"
)

// Codes sent only to clients of the beta protocol.
const (
	CodeAgentNotFound    Code = "agent_not_found"
	CodeRunNotFound      Code = "run_not_found"
	CodeWorkflowNotFound Code = "workflow_not_found"
)

// Codes that appear only in the error of a settlement.
const (
	CodeModelFailed    Code = "model_failed"
	CodeOutputTooLong  Code = "model_output_too_long"
	CodeRetryExhausted Code = "submission_retry_exhausted"
	CodeTimeout        Code = "submission_timeout"
	CodeLimitReached   Code = "submission_limit_reached"
	CodeOutputMissing  Code = "submission_output_missing"
	CodeAborted        Code = "submission_aborted"
	CodeRunFailed      Code = "run_failed" // from the error of its function
)

// Error is an error that is safe to return to a caller. Details is one sentence for a person, never
// sent for CodeInternal. Meta has machine-readable facts that must encode as JSON. Err is the cause
// and never leaves the process.
type Error struct {
	Code    Code
	Details string
	Meta    map[string]any
	// RetryAfter suggests a retry delay; 0 if a retry would not help.
	RetryAfter time.Duration
	Err        error
}

// Errorf returns an error with formatted details.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Details: fmt.Sprintf(format, args...)}
}

// Unavailable returns an error of a request that had no effect and can be retried after a delay.
func Unavailable(after time.Duration, cause error) *Error {
	return &Error{
		Code:       CodeUnavailable,
		Details:    "The conversation cannot be served right now. Retry after the time given.",
		RetryAfter: after,
		Err:        cause,
	}
}

// InDoubt returns an error of a forwarded request whose outcome is unknown: it may have been executed,
// or may still be. The caller retries it to learn the outcome.
func InDoubt(code Code, after time.Duration, cause error) *Error {
	return &Error{Code: code, RetryAfter: after, Err: cause}
}

// Error implements error.
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Details != "" {
		s += ": " + e.Details
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first [*Error] in err's chain, otherwise CodeInternal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
