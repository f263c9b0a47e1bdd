package main

import (
	"bytes"
	"testing"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
)

// TestHeaderIsRead checks that the driver reads a block without rows to its end, for any columns.
func TestHeaderIsRead(t *testing.T) {
	types := []string{"LowCardinality(String)", "Map(LowCardinality(String), String)", "Nullable(Int8)", "UInt8"}
	rest := bytes.NewReader(headerOf([]string{"a", "b", "c", "d"}, types))
	got, err := decodeBlock(proto.NewReader(rest), revision)
	if err != nil || len(got.Columns) != len(types) || rest.Len() != 0 {
		t.Errorf("%v, %d columns, %d bytes left", err, len(got.Columns), rest.Len())
	}
}

func TestDecompress(t *testing.T) {
	var frames []byte
	for _, method := range []compress.Method{compress.LZ4, compress.ZSTD} {
		w := compress.NewWriter(compress.LevelZero, method)
		if err := w.Compress([]byte(method.String() + "x")); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, w.Data...)
	}
	if got, err := decompress(bytes.NewReader(frames)); err != nil || string(got) != "LZ4xZSTDx" {
		t.Errorf("%q, %v", got, err)
	}
	for _, cut := range []int{1, 20, 29, len(frames) - 1} {
		if _, err := decompress(bytes.NewReader(frames[:cut])); err == nil {
			t.Errorf("%d bytes of %d are taken", cut, len(frames))
		}
	}
}
