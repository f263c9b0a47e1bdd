package storage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// TestLinesEqualEncodingJSON compares the hand-written encoders with encoding/json, on which readers
// of the format rely.
func TestLinesEqualEncodingJSON(t *testing.T) {
	hash := Hash{0x01, 0xfe, 15: 0xab}
	for _, h := range []storedHeader{
		{Header: Header{Version: SchemaVersion, Nonce: "n"}},
		{Header: Header{Version: SchemaVersion, Nonce: "n", First: true}, Hash: hash},
		{Header: Header{Version: 1, Seq: 12, Nonce: "A-b_9", Prev: hash, Epoch: -3, At: 1_732_100_000_123}, Hash: Hash{7}},
		{Header: Header{Version: SchemaVersion, Seq: maxSeq, Nonce: Nonce(strings.Repeat("x", 64)), Prev: hash, Epoch: 1 << 40, At: -1}, Hash: hash},
	} {
		want, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(h.appendTo(nil))); diff != "" {
			t.Errorf("header line (-want +got):\n%s", diff)
		}
	}
	key := conversation.Address{Agent: "a", ID: "1"}.Key()
	for _, j := range []Journal{
		{Member: "m"},
		{Member: "A-b_9", N: maxSeq, Entries: []JournalEntry{{key, "n", -1, true}, {key, "A-b_9", maxSeq, false}}},
	} {
		var want strings.Builder
		enc := json.NewEncoder(&want)
		if err := enc.Encode(listingHeader{SchemaVersion, j.Member, 0, 1, j.N, len(j.Entries)}); err != nil {
			t.Fatal(err)
		}
		for _, e := range j.Entries {
			if err := enc.Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		got, err := j.listing().lines([]byte("before\n"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("before\n"+want.String(), string(got)); diff != "" {
			t.Errorf("journal lines (-want +got):\n%s", diff)
		}
	}
	entry := ExportEntry{key, maxSeq}
	want, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(entry.appendTo(nil))); diff != "" {
		t.Errorf("export entry (-want +got):\n%s", diff)
	}
}

func TestNumber(t *testing.T) {
	for _, n := range []int64{0, 9, 10, 123_456, maxSeq} {
		if got, want := number(n), fmt.Sprintf("%016d", n); got != want {
			t.Errorf("number %d: %q, want %q", n, got, want)
		}
	}
}
