package client_test

import (
	"testing"

	"github.com/parleyrun/parley/client"
)

// TestErrorText checks that each sentence of the server occurs once in the text of an error.
func TestErrorText(t *testing.T) {
	for want, e := range map[string]client.Error{
		"the server answered 400 invalid_request: One. Two.": {Status: 400, Type: "invalid_request", Message: "One.", Details: "One. Two."},
		"the server answered 400 invalid_request: One.":      {Status: 400, Type: "invalid_request", Message: "One.", Details: "One."},
		"the server answered 404 route_not_found: One. Two.": {Status: 404, Type: "route_not_found", Message: "One.", Details: "Two."},
		"the server answered 502: Bad Gateway":               {Status: 502, Message: "Bad Gateway"},
		"the server answered 500 internal_error (ref err_1)": {Status: 500, Type: "internal_error", Ref: "err_1"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%+v: got %q, want %q", e, got, want)
		}
	}
}
