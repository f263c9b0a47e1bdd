package actors

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
