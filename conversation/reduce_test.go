package conversation_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/reduce"
	"github.com/parleyrun/parley/internal/sample"
)

type object = reduce.Object

func decodeJSON[T any](t *testing.T, b []byte) T {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v T
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", b, err)
	}
	return v
}

// history is the client-visible form of a list of batches.
type history struct {
	snapshots [][]byte // by batch; nil while no conversation exists
	chunks    [][]byte // JSON arrays by batch
	docs      []object // the snapshots decoded, never changed
}

// play folds the batches and encodes their snapshots and chunks. A boundary gets the snapshot of its
// own batch.
func play(t *testing.T, batches []conversation.Batch) history {
	t.Helper()
	var h history
	s := conversation.NewState()
	var id conversation.ConversationID
	for _, b := range batches {
		if err := s.Apply(b); err != nil {
			t.Fatal(err)
		}
		if s.Exists() {
			id = s.Created().ConversationID
		}
		chunks, err := conversation.Project(id, b, func() (*conversation.Snapshot, error) { return s.Snapshot(), nil })
		if err != nil {
			t.Fatal(err)
		}
		line, err := conversation.AppendChunks([]byte{'['}, chunks)
		if err != nil {
			t.Fatal(err)
		}
		h.chunks = append(h.chunks, append(line, ']'))
		var snap []byte
		var doc object
		if s.Exists() {
			if snap, err = conversation.EncodeJSON(s.Snapshot()); err != nil {
				t.Fatal(err)
			}
			doc = decodeJSON[object](t, snap)
		}
		h.docs = append(h.docs, doc)
		h.snapshots = append(h.snapshots, snap)
	}
	return h
}

// reread encodes and decodes the batches, as a reader of the log does.
func reread(t *testing.T, batches []conversation.Batch) []conversation.Batch {
	t.Helper()
	var out []conversation.Batch
	for _, b := range batches {
		lines, err := conversation.EncodeRecords(nil, b.Records)
		if err != nil {
			t.Fatal(err)
		}
		records, err := conversation.DecodeRecords(lines)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, conversation.Batch{Offset: b.Offset, Records: records})
	}
	return out
}

// checkFrom reduces the chunks after batch k and compares with the snapshot at every later batch, up
// to the limit.
func checkFrom(t *testing.T, h history, seed uint64, k, limit int) {
	t.Helper()
	c := reduce.New(nil)
	if k >= 0 && h.snapshots[k] != nil {
		c = reduce.New(decodeJSON[object](t, h.snapshots[k]))
	}
	for n := k + 1; n < len(h.chunks) && limit > 0; n++ {
		if err := c.Page(decodeJSON[[]any](t, h.chunks[n]), conversation.Offset(n).String()); err != nil {
			t.Fatalf("seed %d, from %d: %v", seed, k, err)
		}
		if h.snapshots[n] == nil {
			continue
		}
		limit--
		// The diff costs much more than the comparison.
		if !reflect.DeepEqual(h.docs[n], c.Root) {
			t.Fatalf("seed %d: snapshot at %d and chunks through %d differ from the snapshot (-) at %d:\n%s",
				seed, k, n, n, cmp.Diff(h.docs[n], c.Root))
		}
	}
}

// A client's state is the document alone. So if a reduction from every k meets the next snapshot, it
// meets every later one. A few histories are reduced to their end from every k anyway.
// covers: protocol/58, protocol/60, protocol/93, protocol/113, protocol/155, protocol/156, protocol/157, protocol/159
func TestSnapshotPlusChunksIsLaterSnapshot(t *testing.T) {
	histories := sample.Of(300, 8)
	records, chunkTypes := map[conversation.RecordType]int{}, map[string]int{}
	for seed := range uint64(histories) {
		batches := generate(seed)
		h, again := play(t, batches), play(t, reread(t, batches))
		if !reflect.DeepEqual(h.chunks, again.chunks) {
			t.Fatalf("seed %d: chunks before and after the log differ:\n%s", seed, cmp.Diff(toStrings(h.chunks), toStrings(again.chunks)))
		}
		if !reflect.DeepEqual(h.snapshots, again.snapshots) {
			t.Fatalf("seed %d: snapshots before and after the log differ:\n%s", seed, cmp.Diff(toStrings(h.snapshots), toStrings(again.snapshots)))
		}
		checkFrom(t, h, seed, -1, len(batches))
		limit := 1
		if seed < 3 {
			limit = len(batches)
		}
		for k := range batches {
			checkFrom(t, h, seed, k, limit)
		}
		for n, b := range batches {
			for _, r := range b.Records {
				records[r.Type()]++
			}
			for _, c := range decodeJSON[[]any](t, h.chunks[n]) {
				chunkTypes[c.(object)["type"].(string)]++
			}
		}
	}
	for _, want := range conversation.Types() {
		if records[want] < histories/20 {
			t.Errorf("got record %s only %d times", want, records[want])
		}
	}
	for want := range reduce.Members {
		if chunkTypes[want] < histories/20 {
			t.Errorf("got chunk %s only %d times", want, chunkTypes[want])
		}
	}
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// TestMissedChunksAreSeen checks that the property above can fail: a client that misses a batch of
// deltas or calls differs from the next snapshot.
func TestMissedChunksAreSeen(t *testing.T) {
	missed := 0
	for seed := range uint64(20) {
		h := play(t, generate(seed))
		for n := 1; n < len(h.chunks); n++ {
			if !bytes.Contains(h.chunks[n], []byte(`"message-delta"`)) && !bytes.Contains(h.chunks[n], []byte(`"tool-`)) {
				continue
			}
			missed++
			c := reduce.New(decodeJSON[object](t, h.snapshots[n-1]))
			if err := c.Page(nil, conversation.Offset(n).String()); err != nil {
				t.Fatal(err)
			}
			if reflect.DeepEqual(h.docs[n], c.Root) {
				t.Errorf("seed %d: chunks of batch %d make no difference: %s", seed, n, h.chunks[n])
			}
		}
	}
	if missed < 50 {
		t.Errorf("got only %d missed batches", missed)
	}
}
