package main

import (
	"bytes"
	"testing"

	"github.com/ClickHouse/ch-go/proto"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
	"github.com/google/go-cmp/cmp"
)

func TestParseHeader(t *testing.T) {
	names, types, err := parseHeader([]byte("[\"a\", \"b\\tc\"]\n[\"UInt8\", \"Array(String)\"]\n"))
	if err != nil || !cmp.Equal(names, []string{"a", "b\tc"}) || !cmp.Equal(types, []string{"UInt8", "Array(String)"}) {
		t.Errorf("%q, %q, %v", names, types, err)
	}
	for _, data := range []string{"", "[\"a\"]", "[\"a\"]\n[]", "[1]\n[2]", "{}"} {
		if _, _, err := parseHeader([]byte(data)); err == nil {
			t.Errorf("%q is taken", data)
		}
	}
}

// TestHeaderIsRead checks that the driver reads a block without rows to its end,
// whatever its columns.
func TestHeaderIsRead(t *testing.T) {
	types := []string{"LowCardinality(String)", "Map(LowCardinality(String), String)", "Nullable(Int8)", "UInt8"}
	for _, rev := range []int{engineRevision, 54453, revision} {
		b, err := headerOf([]string{"a", "b", "c", "d"}, types)
		if err != nil {
			t.Fatal(err)
		}
		var buf proto.Buffer
		if err := encodeBlock(&buf, b, rev); err != nil {
			t.Fatal(err)
		}
		rest := bytes.NewReader(buf.Buf)
		got := chproto.NewBlock()
		if err := got.Decode(proto.NewReader(rest), uint64(rev)); err != nil || len(got.Columns) != len(types) || rest.Len() != 0 {
			t.Errorf("revision %d: %v, %d columns, %d bytes left", rev, err, len(got.Columns), rest.Len())
		}
	}
	if _, err := headerOf([]string{"a"}, []string{"NoSuchType"}); err == nil {
		t.Error("a type that is none is taken")
	}
}

func TestDecompress(t *testing.T) {
	var frames []byte
	for _, method := range []string{"LZ4", "ZSTD", ""} {
		w := compressor(method)
		if err := w.Compress([]byte(method + "x")); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, w.Data...)
	}
	if got, err := decompress(bytes.NewReader(frames)); err != nil || string(got) != "LZ4xZSTDxx" {
		t.Errorf("%q, %v", got, err)
	}
	for _, cut := range []int{1, 20, 29, len(frames) - 1} {
		if _, err := decompress(bytes.NewReader(frames[:cut])); err == nil {
			t.Errorf("%d bytes of %d are taken", cut, len(frames))
		}
	}
}
