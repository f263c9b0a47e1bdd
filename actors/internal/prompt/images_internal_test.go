package prompt

import (
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// TestAttachmentFactsAreBounded checks that the oldest entry is evicted and that a duplicate counts
// once.
func TestAttachmentFactsAreBounded(t *testing.T) {
	var f facts
	digest := func(i int) storage.Digest { return storage.Digest{byte(i), byte(i >> 8)} }
	for i := range maxFacts + 1 {
		for range 2 {
			f.keep(digest(i), &providers.ImageFacts{Width: i})
		}
	}
	if len(f.known) != maxFacts || f.known[digest(0)] != nil || f.known[digest(1)] == nil || f.known[digest(maxFacts)] == nil {
		t.Errorf("got %d entries, the first %v, the second %v", len(f.known), f.known[digest(0)], f.known[digest(1)])
	}
}
