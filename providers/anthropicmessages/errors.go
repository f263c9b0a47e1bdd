package anthropicmessages

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
)

// vendorError reads the error object, or the whole event in its place.
func vendorError(object, raw []byte) error {
	if !given(object) {
		object = raw
	}
	status, code, message := providers.ParseVendorError(object)
	if status == 0 {
		status = statusOf(code)
	}
	e := eventError(providers.Classify(status, code, message), raw, nil)
	e.Err = &providers.VendorError{Code: code, Message: message}
	return e
}

// statusOf returns the HTTP status an error of this type has outside a stream,
// 0 for a type it does not know.
func statusOf(code string) int {
	switch code {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "billing_error":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "api_error":
		return http.StatusInternalServerError
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error":
		return http.StatusServiceUnavailable
	}
	return 0
}

func truncated(err error) error {
	return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: err}
}

// eventError copies raw, which belongs to the reader of events.
func eventError(kind providers.ErrorKind, raw []byte, err error) *providers.Error {
	kept := append([]byte(nil), raw[:min(len(raw), providers.MaxErrorBody)]...)
	return &providers.Error{Kind: kind, Status: http.StatusOK, Body: kept, Err: err}
}
