package converse

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

// A response that rules out an admission leaves no doubt.
func TestUnsure(t *testing.T) {
	for _, test := range []struct {
		code      conversation.Code
		want, not string
	}{
		{conversation.CodeUnavailable, "send: the server cannot accept the message now: the server answered 503 runtime_unavailable", "not known"},
		{conversation.CodeAdmissionUnknown, "send: it is not known whether it was admitted", "cannot take"},
	} {
		err := fmt.Errorf("send message to x: %w", &client.UncertainError{Key: "k", Err: &client.Error{Status: 503, Type: test.code, Message: "Later."}})
		got := Unsure(context.Background(), "send", "message", "k", err).Error()
		if !strings.Contains(got, test.want) || strings.Contains(got, test.not) || !strings.Contains(got, "--key k") {
			t.Errorf("send that ends with %v: got %q, want %q and the key", err, got, test.want)
		}
	}
}
