package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
)

// history appends batches of three writers and returns all of them. The claims are 0, n
// and 2n.
func (l logTest) history(t *testing.T, n int) []storage.Batch {
	t.Helper()
	var log []storage.Batch
	at := storage.Start()
	for writer := range 3 {
		w := l.logs.Writer(l.conv, storage.Nonce(fmt.Sprintf("n%d", writer)), at, int64(writer))
		for i := range n {
			at = appendLines(t, w, fmt.Sprintf("{\"by\":%d,\"i\":%d}\n", writer, i))
			log = append(log, w.Stored())
		}
	}
	return log
}

// compact puts a log into segments and removes what they replace.
func (l logTest) compact(t *testing.T, upTo int64) {
	t.Helper()
	garbage, err := l.logs.Compactor(l.conv).Compact(t.Context(), upTo, nil, 1)
	if err == nil {
		err = l.logs.Remove(t.Context(), l.conv, garbage)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// same checks that all ways to read give this log.
func (l logTest) same(t *testing.T, want []storage.Batch) {
	t.Helper()
	for i := range len(want) + 1 {
		at := storage.Start()
		if i > 0 {
			at = want[i-1].Position()
		}
		var got []storage.Batch
		for b, err := range l.logs.Batches(t.Context(), l.conv, at) {
			if err != nil {
				t.Fatalf("read after %d: %v", at.Seq, err)
			}
			got = append(got, b)
		}
		if diff := diffBatches(want[i:], got); diff != "" {
			t.Fatalf("read after %d (-want +got):\n%s", at.Seq, diff)
		}
		for _, j := range []int{i + 1, len(want)} {
			if j > len(want) || i == j {
				continue
			}
			got, err := l.logs.Range(t.Context(), l.conv, int64(i), int64(j-1))
			if diff := diffBatches(want[i:j], got); err != nil || diff != "" {
				t.Fatalf("range %d to %d: %v (-want +got):\n%s", i, j-1, err, diff)
			}
		}
	}
}

func diffBatches(want, got []storage.Batch) string {
	if len(want) == 0 && len(got) == 0 || reflect.DeepEqual(want, got) { // Which costs a tenth.
		return ""
	}
	return cmp.Diff(want, got)
}

// left returns the numbers of the batches that lie in the log as objects of their own.
func (l logTest) left(t *testing.T, log []storage.Batch) (seqs []int64) {
	t.Helper()
	for _, b := range log {
		_, err := l.bucket.Get(t.Context(), storage.LogKey(l.conv, b.Seq))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		if err == nil {
			seqs = append(seqs, b.Seq)
		}
	}
	return seqs
}

func logCompact(t *testing.T, l logTest) {
	log := l.history(t, 5)
	garbage, err := l.logs.Compactor(l.conv).Compact(t.Context(), 14, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.same(t, log) // Both stand.
	if err := l.logs.Remove(t.Context(), l.conv, garbage); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{0, 5, 10, 14}, l.left(t, log)); diff != "" {
		t.Errorf("what is left, the claims and the highest (-want +got):\n%s", diff)
	}
	l.same(t, log)
	refs, err := l.logs.Segments(t.Context(), l.conv, 0)
	if err != nil || len(refs) != 1 || refs[0].First != 0 || refs[0].Last != 13 {
		t.Errorf("segments %v, %v; want one of batches 0 to 13", refs, err)
	}
	w := l.logs.Continue(l.conv, "n2", log[14].Position(), 2)
	appendLines(t, w, "{}\n")
	l.same(t, append(log, w.Stored()))
}

// logMerge stores so many small segments that they are merged, by a compactor that has
// the batches at hand, and lists segments in large pages, of which there are enough.
func logMerge(t *testing.T, l logTest) {
	c := storage.NewLogs(l.bucket, nil).Compactor(l.conv)
	w := l.logs.Writer(l.conv, "n1", storage.Start(), 1)
	segments := func() int {
		refs, err := l.logs.Segments(t.Context(), l.conv, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(refs)
	}
	var log []storage.Batch
	most := 0
	for i := range 60 {
		appendLines(t, w, fmt.Sprintf("{\"i\":%d}\n", i))
		log = append(log, w.Stored())
		garbage, err := c.Compact(t.Context(), int64(i), log[max(0, i-3):], 1)
		if err == nil {
			err = l.logs.Remove(t.Context(), l.conv, garbage)
		}
		if err != nil {
			t.Fatal(err)
		}
		if i == 40 {
			most = segments()
		}
	}
	if left := segments(); most < 20 || left >= most || c.Covered() != 58 {
		t.Errorf("%d segments, %d before; covered %d", left, most, c.Covered())
	}
	l.same(t, log)
}

// logTwoCompactors lets two compact at once, each again and again.
func logTwoCompactors(t *testing.T, l logTest) {
	log := l.history(t, 5)
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			c := l.logs.Compactor(l.conv)
			for upTo := int64(2 + n); upTo < 15; upTo += 3 {
				garbage, err := c.Compact(t.Context(), upTo, nil, 1)
				if err = errors.Join(err, l.logs.Remove(t.Context(), l.conv, garbage)); err != nil {
					t.Errorf("compact up to %d: %v", upTo, err)
				}
			}
		})
	}
	wg.Wait()
	l.same(t, log)
	l.compact(t, 14)
	if diff := cmp.Diff([]int64{0, 5, 10, 14}, l.left(t, log)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	l.same(t, log)
}

// logReadWhileDeleted compacts a log and deletes its batches once a reader has its first
// page, and merged segments while it reads them.
func logReadWhileDeleted(t *testing.T, l logTest) {
	log := l.history(t, 5)
	var got []storage.Batch
	for b, err := range l.logs.Batches(t.Context(), l.conv, storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, b); len(got) == 1 || len(got) == 7 {
			l.compact(t, 6+int64(len(got)))
		}
	}
	if diff := diffBatches(log, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// logOrphan lets a writer with an old view claim a number that was compacted and deleted.
func logOrphan(t *testing.T, l logTest) {
	log := l.history(t, 5)
	l.compact(t, 14)
	stale := l.logs.Writer(l.conv, "stale", log[6].Position(), 2)
	if _, err := stale.Append(t.Context(), []byte("{\"stale\":1}\n"), 1); !errors.Is(err, storage.ErrFenced) {
		t.Fatalf("append on an old view: %v, want fenced", err)
	}
	key := storage.LogKey(l.conv, 7)
	if data, err := l.bucket.Get(t.Context(), key); err != nil || len(data) == 0 {
		t.Fatalf("the claim is not there: %v", err)
	}
	l.same(t, log)
	if batches, err := l.logs.Range(t.Context(), l.conv, 7, 7); err != nil || bytes.Contains(batches[0].Lines, []byte("stale")) {
		t.Errorf("batch 7: %v", err)
	}
	garbage, err := l.logs.Compactor(l.conv).Compact(t.Context(), 14, nil, 1)
	if err != nil || !slices.Contains(garbage, key) {
		t.Errorf("garbage %v, %v; want the claim in it", garbage, err)
	}
	if err := l.logs.Remove(t.Context(), l.conv, garbage); err != nil {
		t.Fatal(err)
	}
	l.same(t, log)
}

// logSpoiled damages a segment, and then a batch that it holds, while both stand.
func logSpoiled(t *testing.T, l logTest) {
	log := l.history(t, 5)
	if _, err := l.logs.Compactor(l.conv).Compact(t.Context(), 14, nil, 1); err != nil {
		t.Fatal(err)
	}
	spoil := func(key string) (undo func()) {
		data, err := l.bucket.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(data)
		bad[len(bad)/2] ^= 1
		put := func(data []byte) {
			if err := l.bucket.Put(t.Context(), key, storage.Bytes(data)); err != nil {
				t.Fatal(err)
			}
		}
		put(bad)
		return func() { put(data) }
	}
	undo := spoil(storage.SegmentKey(l.conv, 0, 13))
	if got, err := l.logs.Range(t.Context(), l.conv, 1, 8); err != nil || diffBatches(log[1:9], got) != "" {
		t.Errorf("range over a damaged segment: %d batches, %v", len(got), err)
	}
	// A claim might be one that nothing continues, which only the segment can tell.
	if _, err := l.logs.Range(t.Context(), l.conv, 5, 5); !storage.Damaged(err) {
		t.Errorf("claim of a damaged segment: %v, want corrupt", err)
	}
	undo()
	for _, seq := range []int64{0, 3, 5, 13} {
		spoil(storage.LogKey(l.conv, seq))
	}
	l.same(t, log)
}

// requests counts what a bucket is asked for.
type requests struct {
	storage.Bucket
	mu         sync.Mutex
	gets, list int
}

// Unwrap returns the bucket whose requests are counted.
func (r *requests) Unwrap() storage.Bucket { return r.Bucket }

// Get implements storage.Bucket.
func (r *requests) Get(ctx context.Context, key string) ([]byte, error) {
	r.mu.Lock()
	r.gets++
	r.mu.Unlock()
	return r.Bucket.Get(ctx, key)
}

// List implements storage.Bucket.
func (r *requests) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	r.mu.Lock()
	r.list++
	r.mu.Unlock()
	return r.Bucket.List(ctx, q)
}

// logOpen opens a compacted log from its checkpoint: two requests, one for each batch of
// the tail and one LIST, whatever the length.
func logOpen(t *testing.T, l logTest) {
	log := l.history(t, 6)
	const at = 14
	claims := []storage.Claim{{Seq: 0, Nonce: "n0"}, {Seq: 6, Nonce: "n1"}, {Seq: 12, Nonce: "n2"}}
	c := &storage.Checkpoint{At: log[at].Position(), Claims: claims, Writers: 3, State: []byte("{}")}
	if err := l.logs.PutCheckpoint(t.Context(), l.conv, c, nil); err != nil {
		t.Fatal(err)
	}
	l.compact(t, at)
	counted := &requests{Bucket: l.bucket}
	logs := storage.NewLogs(counted, nil)
	newest, err := logs.Checkpoint(t.Context(), l.conv)
	if err != nil || newest == nil || newest.At != c.At {
		t.Fatalf("checkpoint %+v, %v", newest, err)
	}
	var tail []storage.Batch
	for b, err := range logs.Resume(t.Context(), l.conv, newest.At) {
		if err != nil {
			t.Fatal(err)
		}
		tail = append(tail, b)
	}
	if diff := diffBatches(log[at+1:], tail); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
	if counted.gets != 2+len(tail) || counted.list != 1 {
		t.Errorf("%d objects read and %d lists for a tail of %d", counted.gets, counted.list, len(tail))
	}
	// A checkpoint of what is in segments by now leads there.
	old := log[3].Position()
	var rest []storage.Batch
	for b, err := range logs.Resume(t.Context(), l.conv, old) {
		if err != nil {
			t.Fatal(err)
		}
		rest = append(rest, b)
	}
	if diff := diffBatches(log[4:], rest); diff != "" {
		t.Errorf("after an old checkpoint (-want +got):\n%s", diff)
	}
}
