package conversation_test

import (
	"context"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

func TestTailing(t *testing.T) {
	if conversation.IsTailing(t.Context()) {
		t.Error("a plain context tails")
	}
	tail, cancel := context.WithCancel(conversation.Tailing(t.Context()))
	defer cancel()
	if !conversation.IsTailing(tail) {
		t.Error("what comes from Tailing does not tail")
	}
}
