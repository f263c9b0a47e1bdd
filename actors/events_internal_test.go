package actors

import (
	"testing"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/storage"
)

// TestShippedByTheCheckpoint: where shipping goes on after a log is read. A checkpoint that
// only another version can read still says it; one that says nothing was stored when
// nobody wanted events.
func TestShippedByTheCheckpoint(t *testing.T) {
	at := func(exported *int64) *storage.Checkpoint {
		return &storage.Checkpoint{At: storage.Position{Seq: 70}, Exported: exported}
	}
	for name, test := range map[string]struct {
		log  openedLog
		want int64
	}{
		"no checkpoint":       {openedLog{}, -1},
		"of this version":     {openedLog{restored: &follower.Restored{Checkpoint: at(new(int64(64)))}}, 64},
		"nothing is shipped":  {openedLog{restored: &follower.Restored{Checkpoint: at(new(int64(-1)))}}, -1},
		"nobody wanted any":   {openedLog{restored: &follower.Restored{Checkpoint: at(nil)}}, 70},
		"of another version":  {openedLog{older: at(new(int64(64)))}, 64},
		"of another, no sink": {openedLog{older: at(nil)}, 70},
	} {
		if got := test.log.shipped(); got != test.want {
			t.Errorf("%s: shipped up to %d, want %d", name, got, test.want)
		}
	}
}

// TestCursorsAreCarried: a node without sinks keeps what others have shipped.
func TestCursorsAreCarried(t *testing.T) {
	w := witness{events: &events{}, carried: new(int64(7))}
	if got := w.exported(); got == nil || *got != 7 {
		t.Errorf("a node without sinks stores the cursor %v, want 7", got)
	}
	w.carried = nil
	if got := w.exported(); got != nil {
		t.Errorf("a node without sinks stores the cursor %d of nobody", *got)
	}
}
