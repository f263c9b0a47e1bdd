package events

import "testing"

// TestCursorsAreCarried checks that a node without sinks keeps the cursors of others.
func TestCursorsAreCarried(t *testing.T) {
	tap := New(Options{Addresses: NewAddresses()}).Tap("c")
	tap.Opened(nil, -1, -1, new(int64(7)))
	if got := tap.Exported(); got == nil || *got != 7 {
		t.Errorf("node without sinks: got cursor %v, want 7", got)
	}
	tap.Opened(nil, -1, -1, nil)
	if got := tap.Exported(); got != nil {
		t.Errorf("node without sinks and cursor: got %d, want nil", *got)
	}
}
