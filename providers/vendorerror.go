package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	e := &Error{
		Status:     status,
		Body:       body[:min(len(body), MaxErrorBody)],
		RetryAfter: retryAfter(h),
		RetryHint:  retryHint(h),
		RequestID:  requestID(h),
	}
	if message == "" {
		e.Kind = Classify(status, code, string(e.Body))
		if status/100 == 2 {
			e.Err = errNoStream
		}
	} else {
		e.Kind = Classify(status, code, message)
		e.Err = &VendorError{Code: code, Message: message}
	}
	return e
}

// VendorError is what a vendor says about an error, in its own words. They may repeat
// the request.
type VendorError struct{ Code, Message string }

// Error returns the code, if it is one, and how long the words are.
func (e *VendorError) Error() string {
	if e.Code == "" {
		return "vendor says " + bytesOfText(e.Message)
	}
	return VendorWord(e.Code) + ": vendor says " + bytesOfText(e.Message)
}

func bytesOfText(s string) string { return fmt.Sprintf("%d bytes of text", len(s)) }

// vendorError finds code and message in the usual shapes: an object or a text
// under "error", or the same at the top.
func vendorError(body []byte) (code, message string) {
	var top struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &top) != nil {
		return "", ""
	}
	if len(top.Error) > 0 && string(top.Error) != "null" {
		body = top.Error
	}
	_, code, message = ParseVendorError(body)
	return code, message
}

// ParseVendorError reads an error object, or a text in its place: message, the
// code or failing that the type, and the HTTP status if the code is one. What
// is missing is empty.
func ParseVendorError(raw []byte) (status int, code, message string) {
	if json.Unmarshal(raw, &message) == nil {
		return 0, "", message
	}
	var o struct {
		Code    any `json:"code"`
		Type    any `json:"type"`
		Message any `json:"message"`
		Detail  any `json:"detail"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return 0, "", ""
	}
	code, _ = o.Type.(string)
	switch c := o.Code.(type) {
	case string:
		code = nonEmpty(c, code)
	case float64:
		if c >= 100 && c < 600 {
			status = int(c)
		}
	}
	message, _ = o.Message.(string)
	if detail, ok := o.Detail.(string); ok && message == "" {
		message = detail
	}
	return status, code, message
}
