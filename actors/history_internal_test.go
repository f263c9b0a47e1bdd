package actors

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// TestEncodedHistoryIsBounded: the oldest encodings are kept.
func TestEncodedHistoryIsBounded(t *testing.T) {
	var blocks []*providers.Block
	for _, size := range []int64{maxEncodedBytes - 10, 10, 1, 0, 5} {
		b := providers.NewBlock(nil)
		if _, err := providers.EncodeBlock(b, providers.Model{}, func(string) bool { return true }, func([]providers.Message) (string, int64, error) {
			return "x", size, nil
		}); err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, b)
	}
	limit(blocks)
	var kept []int64
	for _, b := range blocks {
		kept = append(kept, b.EncodedBytes())
	}
	if diff := cmp.Diff([]int64{maxEncodedBytes - 10, 10, 0, 0, 0}, kept); diff != "" {
		t.Errorf("bytes kept of each block (-want +got):\n%s", diff)
	}
}

// TestRefoldedKeepsTheNewest: of what is beyond its room only names are kept, and nothing
// of what a view does not begin with.
func TestRefoldedKeepsTheNewest(t *testing.T) {
	of := func(id conversation.SubmissionID) exchange {
		return exchange{submission: id, delivery: conversation.Delivery{Kind: conversation.KindUser, Body: strings.Repeat("x", 100)}}
	}
	f := refolded{after: &conversation.Compacted{FirstKept: "b"}, room: 250}
	f.add(of("a"), of("b"), of("c"))
	if f.bare != 0 || f.bytes != 200 {
		t.Errorf("%d names of %d bytes, want none of 200", f.bare, f.bytes)
	}
	f.add(of("d"), of("e"))
	want := []exchange{{submission: "b"}, {submission: "c"}, of("d"), of("e")}
	if diff := cmp.Diff(want, f.list, cmp.AllowUnexported(exchange{})); diff != "" || f.bare != 2 || f.bytes != 200 {
		t.Errorf("%d names of %d bytes (-want +got):\n%s", f.bare, f.bytes, diff)
	}
}
