package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// TestFailuresToOpen: a corrupt log is quarantined after three failures; frequent callers add none.
// Repaired and released, it is served again.
func TestFailuresToOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		every time.Duration
		want  conversation.Code
	}{
		"one failure counts":  {24 * time.Hour, conversation.CodeInternal},
		"each failure counts": {time.Millisecond, conversation.CodeQuarantined},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			opts := agents(chatAgent())
			opts.Pace, opts.UnloadAfter, opts.SweepEvery = longPace, time.Millisecond, tt.every
			n := w.start(setup{opts: opts, model: emits(3)})
			n.shed(chat("c"), 1)
			repair := w.corrupt(chat("c"))
			for range 4 {
				if err := n.writes(chat("c"), "2"); err == nil {
					t.Fatal("got a message admitted to a corrupt log")
				}
			}
			eventually(t, "the answer", func() bool { return conversation.CodeOf(n.writes(chat("c"), "2")) == tt.want })
			a, err := storage.ReadQuarantine(context.Background(), w.bucket, chat("c").Key())
			if tt.want == conversation.CodeInternal {
				if err == nil || n.rt.Status().Quarantined != 0 {
					t.Errorf("got quarantine %+v, count %d", a, n.rt.Status().Quarantined)
				}
				return
			}
			if err != nil || a.Agent != "chat" || a.ID != "c" || a.Failures < 3 || n.rt.Status().Quarantined != 1 {
				t.Errorf("got quarantine %+v, count %d, error %v", a, n.rt.Status().Quarantined, err)
			}
			if err := n.reads(chat("c")); conversation.CodeOf(err) != conversation.CodeQuarantined {
				t.Errorf("read: %v", err)
			}
			if _, err := n.rt.Abort(t.Context(), chat("c")); conversation.CodeOf(err) != conversation.CodeQuarantined {
				t.Errorf("abort: %v", err)
			}
			repair()
			if err := storage.PutBack(context.Background(), w.bucket, chat("c").Key()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a message", func() bool { return n.writes(chat("c"), "3") == nil })
			w.untilSettled(chat("c"), 2)
		})
	}
}
