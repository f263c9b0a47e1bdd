package segment_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/parleyrun/parley/storage/segment"
)

// TestStore checks that Decode and other decoders read an uncompressed frame.
func TestStore(t *testing.T) {
	f := segment.NewFramer(1<<20, 1)
	other, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	source := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 255, 256, 65_791, 65_792, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, 300_000} {
		lines := make([]byte, n)
		for i := range lines {
			lines[i] = byte(source.Uint32())
		}
		data := f.Store(lines)
		got, err := f.Decode(data)
		if err != nil || !bytes.Equal(got, lines) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if got, err = other.DecodeAll(data, nil); err != nil || !bytes.Equal(got, lines) {
			t.Errorf("%d bytes for others: %v", n, err)
		}
		data[len(data)-1] ^= 1
		if _, err := f.Decode(data); err == nil {
			t.Errorf("%d bytes: wrong checksum was accepted", n)
		}
	}
}
