package machine_test

import (
	"testing"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

func TestAllRead(t *testing.T) {
	for name, tt := range map[string]struct {
		unread []conversation.RecordType
		want   bool
	}{
		"one version":  {nil, true},
		"another type": {[]conversation.RecordType{conversation.TypeDelta}, true},
		"the type":     {[]conversation.RecordType{conversation.TypeDelta, conversation.TypeRunStarted}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (machine.Env{Unread: tt.unread}).AllRead(conversation.TypeRunStarted); got != tt.want {
				t.Errorf("AllRead with unread types %q is %t, want %t", tt.unread, got, tt.want)
			}
		})
	}
}
