package conversation_test

import (
	"context"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

func TestTailing(t *testing.T) {
	if conversation.IsTailing(t.Context()) {
		t.Error("IsTailing is true for a plain context")
	}
	tail, cancel := context.WithCancel(conversation.Tailing(t.Context()))
	defer cancel()
	if !conversation.IsTailing(tail) {
		t.Error("IsTailing is false for a Tailing context")
	}
}
