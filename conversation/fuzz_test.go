package conversation_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// covers: protocol/15
func FuzzParseOffset(f *testing.F) {
	for _, s := range []string{
		"-1", "0000000000000000_0000000000000042", "0000000000000000_9999999999999999", "0000000000000001_0000000000000000",
		"", "-2", "0000000000000000_000000000000004a", "0000000000000000_00000000000000٣",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := conversation.ParseOffset(s)
		if err != nil {
			if len(err.Error()) > 500 {
				t.Errorf("input of %d bytes: got an error of %d", len(s), len(err.Error()))
			}
			return
		}
		if o.String() != s {
			t.Errorf("parsed %q as %d, which encodes as %q", s, int64(o), o)
		}
		if o < conversation.Start {
			t.Errorf("%q is %d", s, int64(o))
		}
	})
}

// FuzzDecodeRecords checks that decoding and encoding round-trip, and that folding and projecting
// single-record batches does not panic.
func FuzzDecodeRecords(f *testing.F) {
	for _, name := range []string{"testdata/records.jsonl", "testdata/records_empty.jsonl"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		for line := range bytes.Lines(b) {
			f.Add(bytes.Clone(line))
		}
	}
	for seed := range uint64(8) {
		var all []byte
		for _, b := range generate(seed) {
			var err error
			if all, err = conversation.EncodeRecords(all, b.Records); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(all)
	}
	f.Add([]byte("{\"type\":\"later\",\"must\":true}\n"))
	f.Add([]byte(" {\"x\":1,\"type\":\"later\"}\r\n\n{\"TYPE\":\"delta\",\"text\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		first, err := conversation.DecodeRecords(lines)
		if err != nil {
			return
		}
		once := mustEncode(t, first)
		second, err := conversation.DecodeRecords(once)
		if err != nil {
			t.Fatalf("decode encoded records: %v\n%s", err, once)
		}
		if twice := mustEncode(t, second); !bytes.Equal(once, twice) {
			t.Fatalf("second encoding differs:\n%s", cmp.Diff(string(once), string(twice)))
		}
		fold(t, first)
	})
}

func mustEncode(t *testing.T, list []conversation.Record) []byte {
	t.Helper()
	b, err := conversation.EncodeRecords(nil, list)
	if err != nil {
		t.Fatalf("encode decoded records: %v", err)
	}
	return b
}

// fold applies the records until one is invalid. Records after a creation are also tried without one.
func fold(t *testing.T, list []conversation.Record) {
	t.Helper()
	for _, list := range [][]conversation.Record{list, append([]conversation.Record{created(), admitted(1), attempt("sub_1", 1)}, list...)} {
		s := conversation.NewState()
		for i, r := range list {
			b := conversation.Batch{Offset: conversation.Offset(i), Records: []conversation.Record{r}}
			if err := s.Apply(b); err != nil {
				var bad *conversation.InvariantError
				if !errors.As(err, &bad) {
					t.Fatalf("got error %T: %v", err, err)
				}
				break
			}
			chunks, err := conversation.Project("conv_1", b, func() (*conversation.Snapshot, error) { return s.Snapshot(), nil })
			if err != nil {
				t.Fatalf("project folded records: %v", err)
			}
			if _, err := conversation.AppendChunks(nil, chunks); err != nil {
				t.Fatalf("encode projected chunks: %v", err)
			}
		}
		for _, sub := range s.Unsettled() {
			sub.Turns()
			sub.OpenCalls()
			s.Exchanges(sub.ID)
		}
		if _, err := conversation.EncodeJSON(s.Snapshot()); err != nil {
			t.Fatalf("encode snapshot: %v", err)
		}
	}
}
