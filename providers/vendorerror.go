package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers/sse"
)

var errNoStream = errors.New("response is JSON instead of an event stream")

func responseError(resp *http.Response) *Error {
	// The readable part of the body is more useful than the read error.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	return ResponseError(resp.StatusCode, resp.Header, body)
}

// ResponseError returns the error of a response that is not a stream. It retains body, up to
// MaxErrorBody.
func ResponseError(status int, h http.Header, body []byte) *Error {
	rep := reportOf(body)
	// Some services send the code in a header, followed by an address.
	named, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":")
	rep.codes = appendCode(rep.codes, named)
	e := &Error{
		Status:     status,
		Body:       body[:min(len(body), MaxErrorBody)],
		RetryAfter: retryAfter(h, body),
		RetryHint:  retryHint(h),
		RequestID:  requestID(h),
	}
	if status/100 != 2 {
		rep.status = originalStatus(status, body)
	}
	e.Kind = returning(rep.kind(), body)
	switch {
	case rep.message != "":
		e.Err = &VendorError{Code: rep.code(), Message: rep.message}
	case status/100 == 2:
		e.Err = errNoStream
	}
	return e
}

// originalStatus returns the status of the model behind a service that reports model failures as 424,
// if it is known; else status.
func originalStatus(status int, body []byte) int {
	var of struct {
		Status int `json:"originalStatusCode"`
	}
	if status == http.StatusFailedDependency && json.Unmarshal(body, &of) == nil && of.Status >= 500 {
		return of.Status
	}
	return status
}

// VendorError contains the vendor's code and message, which may repeat the request.
type VendorError struct{ Code, Message string }

// Error returns the code, if it is one, the length of the message, and a remedy if the message has
// none.
func (e *VendorError) Error() string {
	s := "vendor message of " + bytesOfText(e.Message)
	if e.Code != "" {
		s = VendorWord(e.Code) + ": " + s
	}
	if strings.Contains(e.Message, "on-demand throughput isn") {
		s += "; name an inference profile in place of the model, such as its id with us. or eu. before it"
	}
	return s
}

func bytesOfText(s string) string { return fmt.Sprintf("%d bytes", len(s)) }

// StreamError returns the error that a vendor reports inside a stream. object is its error object or
// text. raw is the whole event, of which a bounded copy is kept. status is that of the error if the
// codec knows it, else 0.
func StreamError(status int, object, raw []byte) *Error {
	rep := reportOf(object)
	rep.status = cmp.Or(status, rep.status)
	e := EventError(returning(rep.kind(), object), raw, &VendorError{Code: rep.code(), Message: rep.message})
	e.Status = cmp.Or(rep.status, StatusOf(rep.code()), http.StatusOK)
	e.RetryAfter = bodyWait(object, time.Now())
	return e
}

// EventError returns an error about an event of a stream, of which a bounded copy is kept.
func EventError(kind ErrorKind, raw []byte, err error) *Error {
	return &Error{Kind: kind, Status: http.StatusOK, Body: bytes.Clone(raw[:min(len(raw), MaxErrorBody)]), Err: err}
}

// UndecodedEvent returns the error of an event that does not decode. An event truncated by the end of
// the stream is not a protocol violation.
func UndecodedEvent(e sse.Event, err error) *Error {
	kind := KindProtocol
	if e.Unterminated {
		kind = KindTruncated
	}
	return EventError(kind, e.Data, err)
}

// ParseVendorError reads an error object or text. It returns the message, the code, type or name of
// the status, and the HTTP status if the code is one. Missing values are zero. A gateway's message
// includes that of the vendor behind it.
func ParseVendorError(raw []byte) (status int, code, message string) {
	r := parseReport(raw)
	return r.status, r.code(), r.message
}
