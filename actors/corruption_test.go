package actors_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// corrupt corrupts the newest batch of a log and returns a function that repairs it.
func (w *world) corrupt(at conversation.Address) (repair func()) {
	w.tb.Helper()
	var logs []string
	for key := range w.listing() {
		if strings.HasPrefix(key, storage.FolderOf(at.Key())+"log/") {
			logs = append(logs, key)
		}
	}
	key := slices.Max(logs)
	was, err := w.bucket.Get(context.Background(), key)
	if err != nil {
		w.tb.Fatal(err)
	}
	put := func(b []byte) {
		if err := w.bucket.Put(context.Background(), key, storage.Bytes(b)); err != nil {
			w.tb.Fatal(err)
		}
	}
	put([]byte("damage"))
	return func() { put(was) }
}

func (n *node) reads(at conversation.Address) error {
	_, err := n.rt.Reader().Snapshot(context.Background(), at)
	return err
}

func (n *node) writes(at conversation.Address, key string) error {
	_, err := n.rt.Admit(context.Background(), message(at, key, "hello"))
	return err
}

// TestCorruptionStopsReadersAndWriters: once a reader or a writer finds the newest batch corrupt,
// neither continues from memory.
func TestCorruptionStopsReadersAndWriters(t *testing.T) {
	refused := func(err error) bool { return err != nil && conversation.CodeOf(err) == conversation.CodeInternal }
	check := func(t *testing.T, n *node, at conversation.Address) {
		t.Helper()
		eventually(t, "a refused read", func() bool { return refused(n.reads(at)) })
		if err := n.writes(at, "late"); !refused(err) {
			t.Errorf("message to an unreadable log: got %v", err)
		}
		for line := range strings.Lines(n.log.String()) {
			if strings.Contains(line, " conversation=") && !strings.Contains(line, " agent=chat id=c") {
				t.Errorf("got log line %q, want agent and id in it", line)
			}
		}
	}
	t.Run("reader detects, writer in memory", func(t *testing.T) {
		w := newWorld(t)
		opts := agents(chatAgent())
		opts.UnloadAfter, opts.EvictAfter = time.Hour, time.Hour
		n := w.start(setup{opts: opts, model: emits(3)})
		n.admit(chat("c"), "1", "hello")
		w.untilSettled(chat("c"), 1)
		w.corrupt(chat("c"))
		if err := n.reads(chat("c")); !refused(err) {
			t.Errorf("read: %v", err)
		}
		eventually(t, "the end of the activation", func() bool { return n.rt.Activations() == 0 })
		check(t, n, chat("c"))
	})
	t.Run("writer detects, readers in memory", func(t *testing.T) {
		w := newWorld(t)
		n := shedding(w)
		n.shed(chat("c"), 1)
		if err := n.reads(chat("c")); err != nil {
			t.Fatal(err)
		}
		w.corrupt(chat("c"))
		if err := n.writes(chat("c"), "2"); !refused(err) {
			t.Errorf("message: %v", err)
		}
		check(t, n, chat("c"))
	})
	t.Run("reader detects, no activation", func(t *testing.T) {
		w := newWorld(t)
		n := shedding(w)
		n.shed(chat("c"), 1)
		w.corrupt(chat("c"))
		if err := n.reads(chat("c")); !refused(err) {
			t.Errorf("read: %v", err)
		}
		eventually(t, "an opening that counts", func() bool { return strings.Contains(n.log.String(), "conversation cannot be opened") })
		check(t, n, chat("c"))
	})
	t.Run("with a checkpoint", func(t *testing.T) {
		w := newWorld(t)
		opts := agents(chatAgent())
		opts.CheckpointBatches, opts.UnloadAfter, opts.EvictAfter = 1, time.Millisecond, 2*time.Millisecond
		n := w.start(setup{opts: opts, model: emits(3)})
		n.shed(chat("c"), 1)
		w.corrupt(chat("c"))
		if err := n.writes(chat("c"), "2"); !refused(err) {
			t.Errorf("message: %v", err)
		}
		check(t, n, chat("c"))
	})
}

// TestCorruptionOfManyLogsIsNotQuarantined: while several logs are unreadable at once, callers get 503 and no
// conversation is quarantined.
func TestCorruptionOfManyLogsIsNotQuarantined(t *testing.T) {
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.Pace, opts.UnloadAfter, opts.SweepEvery, opts.QuarantineAfter = longPace, time.Millisecond, time.Millisecond, 4
	n := w.start(setup{opts: opts, model: emits(16)})
	ids := []string{"a", "b", "c", "d", "e"}
	var repairs []func()
	for _, id := range ids {
		n.shed(chat(id), 1)
	}
	for _, id := range ids {
		repairs = append(repairs, w.corrupt(chat(id)))
	}
	for range 10 {
		for _, id := range ids {
			err := n.writes(chat(id), "2")
			if code := conversation.CodeOf(err); err == nil || code == conversation.CodeQuarantined {
				t.Fatalf("message to %s: got %v, want a rejection without quarantine", id, err)
			}
		}
	}
	for _, id := range ids {
		if err := n.writes(chat(id), "2"); conversation.CodeOf(err) != conversation.CodeUnavailable {
			t.Errorf("message to %s: got %v, want %s", id, err, conversation.CodeUnavailable)
		}
	}
	for i, id := range ids {
		repairs[i]()
		eventually(t, "a message", func() bool { return n.writes(chat(id), "2") == nil })
		w.untilSettled(chat(id), 2)
	}
	if quarantined, err := storage.ListQuarantine(t.Context(), w.bucket); err != nil || len(quarantined) > 0 {
		t.Errorf("got %v quarantined, %v, want none", quarantined, err)
	}
}
