package events

import "testing"

// TestCursorsAreCarried: a node without sinks keeps what others have shipped.
func TestCursorsAreCarried(t *testing.T) {
	tap := New(Options{Addresses: NewAddresses()}).Tap("c")
	tap.Opened(nil, -1, -1, new(int64(7)))
	if got := tap.Exported(); got == nil || *got != 7 {
		t.Errorf("a node without sinks stores the cursor %v, want 7", got)
	}
	tap.Opened(nil, -1, -1, nil)
	if got := tap.Exported(); got != nil {
		t.Errorf("a node without sinks stores the cursor %d of nobody", *got)
	}
}
