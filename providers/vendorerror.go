package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers/sse"
)

var errNoStream = errors.New("response is JSON where a stream was asked for")

func responseError(resp *http.Response) *Error {
	// What could be read of the body is worth more than why the rest could not.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	return ResponseError(resp.StatusCode, resp.Header, body)
}

// ResponseError returns the error of a response that is not a stream. It keeps
// body, up to MaxErrorBody.
func ResponseError(status int, h http.Header, body []byte) *Error {
	code, message := vendorError(body)
	// Some services say it in a header, with an address behind it.
	named, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":")
	code = nonEmpty(code, named)
	e := &Error{
		Status:     status,
		Body:       body[:min(len(body), MaxErrorBody)],
		RetryAfter: retryAfter(h, body),
		RetryHint:  retryHint(h),
		RequestID:  requestID(h),
	}
	if message == "" {
		e.Kind = Classify(status, code, string(e.Body))
		if status/100 == 2 {
			e.Err = errNoStream
		}
	} else {
		e.Kind = returning(Classify(originalStatus(status, body), code, message), body)
		e.Err = &VendorError{Code: code, Message: message}
	}
	return e
}

// originalStatus is the status of the model behind a service that says with 424 that the
// model has failed, if it says which; else status.
func originalStatus(status int, body []byte) int {
	var of struct {
		Status int `json:"originalStatusCode"`
	}
	if status == http.StatusFailedDependency && json.Unmarshal(body, &of) == nil && of.Status >= 500 {
		return of.Status
	}
	return status
}

// VendorError is what a vendor says about an error, in its own words. They may repeat
// the request.
type VendorError struct{ Code, Message string }

// Error returns the code, if it is one, how long the words are, and what helps against them
// if that is not in them.
func (e *VendorError) Error() string {
	s := "vendor says " + bytesOfText(e.Message)
	if e.Code != "" {
		s = VendorWord(e.Code) + ": " + s
	}
	if strings.Contains(e.Message, "on-demand throughput isn") {
		s += "; name an inference profile in place of the model, such as its id with us. or eu. before it"
	}
	return s
}

func bytesOfText(s string) string { return fmt.Sprintf("%d bytes of text", len(s)) }

// vendorError finds code and message in the usual shapes: an object or a text
// under "error", or the same at the top, possibly in an array.
func vendorError(body []byte) (code, message string) {
	var top struct {
		Error json.RawMessage `json:"error"`
		Code  any             `json:"code"`
	}
	body = firstElement(body)
	if json.Unmarshal(body, &top) != nil {
		return "", ""
	}
	if len(top.Error) > 0 && string(top.Error) != "null" {
		body = top.Error
	}
	_, code, message = ParseVendorError(body)
	if beside, ok := top.Code.(string); ok {
		code = nonEmpty(code, beside)
	}
	return code, message
}

// StreamError returns the error that a vendor reports inside a stream. object is its
// error object, or a text in its place; raw is the whole event, of which a part is kept
// as a copy. status is that of the error if the codec knows it, else 0.
func StreamError(status int, object, raw []byte) *Error {
	named, code, message := ParseVendorError(object)
	status = cmp.Or(status, named, StatusOf(code))
	e := EventError(returning(Classify(status, code, message), object), raw, &VendorError{Code: code, Message: message})
	e.Status = cmp.Or(status, http.StatusOK)
	e.RetryAfter = bodyWait(object, time.Now())
	return e
}

// EventError returns an error over an event of a stream, of which a part is kept as a
// copy.
func EventError(kind ErrorKind, raw []byte, err error) *Error {
	return &Error{Kind: kind, Status: http.StatusOK, Body: bytes.Clone(raw[:min(len(raw), MaxErrorBody)]), Err: err}
}

// UndecodedEvent returns the error over an event that does not decode: what was cut off by
// the end of the stream is no fault of the format.
func UndecodedEvent(e sse.Event, err error) *Error {
	kind := KindProtocol
	if e.Unterminated {
		kind = KindTruncated
	}
	return EventError(kind, e.Data, err)
}

// ParseVendorError reads an error object, or a text in its place: message, the
// code or failing that the type or the status' name, and the HTTP status if the code is
// one. What is missing is empty. A gateway's message has that of the vendor behind it.
func ParseVendorError(raw []byte) (status int, code, message string) {
	if json.Unmarshal(raw, &message) == nil {
		return 0, "", message
	}
	var o struct {
		Code     any `json:"code"`
		Type     any `json:"type"`
		Status   any `json:"status"`
		Message  any `json:"message"`
		Detail   any `json:"detail"`
		Metadata any `json:"metadata"`
		AWSType  any `json:"__type"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return 0, "", ""
	}
	code, _ = o.AWSType.(string)
	code = code[strings.LastIndexByte(code, '#')+1:] // without a namespace
	if name, ok := o.Type.(string); ok {
		code = nonEmpty(name, code)
	}
	if name, ok := o.Status.(string); ok {
		code = nonEmpty(code, name)
	}
	switch c := o.Code.(type) {
	case string:
		code = nonEmpty(c, code)
	case float64:
		if c >= 100 && c < 600 {
			status = int(c)
		} else {
			code = strconv.FormatFloat(c, 'f', -1, 64)
		}
	}
	message, _ = o.Message.(string)
	if detail, ok := o.Detail.(string); ok && message == "" {
		message = detail
	}
	if of, ok := o.Metadata.(map[string]any); ok {
		if cause, ok := of["raw"].(string); ok {
			message += "\n" + cause
		}
	}
	return status, code, message
}
