package storage_test

import (
	"bytes"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// TestRangeEndsByBytes checks that a range holds at least one batch and at most its limit, wherever
// the batches are stored, and that consecutive ranges return every batch once.
func TestRangeEndsByBytes(t *testing.T) {
	b := memory(t)
	logs := storage.NewLogs(b, &storage.LogOptions{RangeBytes: 100, Prefetch: 3})
	conv := conversation.Address{Agent: "a", ID: "i"}.Key()
	lines := append(bytes.Repeat([]byte("x"), 59), '\n')
	at := storage.Start()
	for n, nonce := range []storage.Nonce{"n1", "n2"} {
		w := logs.Writer(conv, nonce, at, int64(n))
		for range 10 {
			var err error
			if at, err = w.Append(t.Context(), lines, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(where string) {
		t.Helper()
		for next, reads := int64(0), 0; next < 20; reads++ {
			got, err := logs.Range(t.Context(), conv, next, 19)
			if err != nil || len(got) != 2 || got[0].Seq != next {
				t.Fatalf("%s: range from %d: %d batches, %v; want 2", where, next, len(got), err)
			}
			next += int64(len(got))
		}
	}
	check("in the log")
	keys, err := logs.Compactor(conv).Compact(t.Context(), 19, nil, 1)
	if err == nil {
		err = logs.Remove(t.Context(), conv, keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	check("in a segment")
}
