package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
)

// history appends batches of three writers and returns all of them. The claims are 0, n
// and 2n.
func (t logTest) history(n int) (log []storage.Batch) {
	t.Helper()
	at := storage.Start()
	for writer := range int64(3) {
		w := t.writer(fmt.Sprintf("n%d", writer), at, writer)
		for i := range n {
			at = t.append(w, fmt.Sprintf("{\"by\":%d,\"i\":%d}\n", writer, i))
			log = append(log, w.Stored())
		}
	}
	return log
}

// compact puts a log into segments and returns what they replace.
func (t logTest) compact(upTo int64) (garbage []string) {
	t.Helper()
	garbage, err := t.logs.Compactor(t.conv).Compact(t.Context(), upTo, nil, 1)
	t.ok(err)
	return garbage
}

func (t logTest) remove(garbage []string) {
	t.Helper()
	t.ok(t.logs.Remove(t.Context(), t.conv, garbage))
}

// same checks that all ways to read give this log.
func (t logTest) same(want []storage.Batch) {
	t.Helper()
	for i := range len(want) + 1 {
		at := storage.Start()
		if i > 0 {
			at = want[i-1].Position()
		}
		got, err := t.read(at)
		t.equal(fmt.Sprintf("read after %d", at.Seq), want[i:], got, err)
		for _, j := range []int{i + 1, len(want)} {
			if i < j && j <= len(want) {
				got, err := t.logs.Range(t.Context(), t.conv, int64(i), int64(j-1))
				t.equal(fmt.Sprintf("range %d to %d", i, j-1), want[i:j], got, err)
			}
		}
	}
}

func (t logTest) equal(what string, want, got []storage.Batch, err error) {
	t.Helper()
	same := len(want) == 0 && len(got) == 0 || reflect.DeepEqual(want, got) // Which costs a tenth.
	if err != nil || !same {
		t.Fatalf("%s: %v (-want +got):\n%s", what, err, cmp.Diff(want, got))
	}
}

// leaves checks which numbers lie in the log of a history of five each as objects of their
// own, once it is compacted: the claims and the highest.
func (t logTest) leaves(log []storage.Batch) {
	t.Helper()
	var left []int64
	for _, b := range log {
		_, err := t.bucket.Get(t.Context(), t.key(b.Seq))
		if err == nil {
			left = append(left, b.Seq)
		} else if !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if want := []int64{0, 5, 10, 14}; !slices.Equal(want, left) {
		t.Errorf("what is left is %d, want %d", left, want)
	}
	t.same(log)
}

func (t logTest) segments() []storage.SegmentRef {
	t.Helper()
	refs, err := t.logs.Segments(t.Context(), t.conv, 0)
	t.ok(err)
	return refs
}

func logCompact(t logTest) {
	log := t.history(5)
	garbage := t.compact(14)
	t.same(log) // Both stand.
	t.remove(garbage)
	t.leaves(log)
	if refs := t.segments(); len(refs) != 1 || refs[0].First != 0 || refs[0].Last != 13 {
		t.Errorf("segments %v, want one of batches 0 to 13", refs)
	}
	w := t.logs.Continue(t.conv, "n2", log[14].Position(), 2)
	t.append(w, "{}\n")
	t.same(append(log, w.Stored()))
}

// logMerge stores so many small segments that they are merged, by a compactor that has
// the batches at hand, and lists segments in large pages, of which there are enough.
func logMerge(t logTest) {
	c := storage.NewLogs(t.bucket, nil).Compactor(t.conv)
	w := t.writer("n1", storage.Start(), 1)
	var log []storage.Batch
	most := 0
	for i := range 60 {
		t.append(w, fmt.Sprintf("{\"i\":%d}\n", i))
		log = append(log, w.Stored())
		garbage, err := c.Compact(t.Context(), int64(i), log[max(0, i-3):], 1)
		t.ok(err)
		t.remove(garbage)
		if i == 40 {
			most = len(t.segments())
		}
	}
	if left := len(t.segments()); most < 20 || left >= most || c.Covered() != 58 {
		t.Errorf("%d segments, %d before; covered %d", left, most, c.Covered())
	}
	t.same(log)
}

// logTwoCompactors lets two compact at once, each again and again.
func logTwoCompactors(t logTest) {
	log := t.history(5)
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			c := t.logs.Compactor(t.conv)
			for upTo := int64(2 + n); upTo < 15; upTo += 3 {
				garbage, err := c.Compact(t.Context(), upTo, nil, 1)
				if err = errors.Join(err, t.logs.Remove(t.Context(), t.conv, garbage)); err != nil {
					t.Errorf("compact up to %d: %v", upTo, err)
				}
			}
		})
	}
	wg.Wait()
	t.same(log)
	t.remove(t.compact(14))
	t.leaves(log)
}

// logReadWhileDeleted compacts a log and deletes its batches once a reader has its first
// page, and merged segments while it reads them.
func logReadWhileDeleted(t logTest) {
	log := t.history(5)
	var got []storage.Batch
	for b, err := range t.logs.Batches(t.Context(), t.conv, storage.Start()) {
		t.ok(err)
		if got = append(got, b); len(got) == 1 || len(got) == 7 {
			t.remove(t.compact(6 + int64(len(got))))
		}
	}
	t.equal("log", log, got, nil)
}

// logOrphan lets a writer with an old view claim a number that was compacted and deleted.
func logOrphan(t logTest) {
	log := t.history(5)
	t.remove(t.compact(14))
	stale := t.writer("stale", log[6].Position(), 2)
	if _, err := stale.Append(t.Context(), []byte("{\"stale\":1}\n"), 1); !errors.Is(err, storage.ErrFenced) {
		t.Fatalf("append on an old view: %v, want fenced", err)
	}
	if data, err := t.bucket.Get(t.Context(), t.key(7)); err != nil || len(data) == 0 {
		t.Fatalf("the claim is not there: %v", err)
	}
	t.same(log)
	garbage := t.compact(14)
	if !slices.Contains(garbage, t.key(7)) {
		t.Errorf("garbage %v, want the claim in it", garbage)
	}
	t.remove(garbage)
	t.same(log)
}

// logSpoiled damages a segment, and then a batch that it holds, while both stand.
func logSpoiled(t logTest) {
	log := t.history(5)
	t.compact(14)
	spoil := func(key string) (whole []byte) {
		whole, err := t.bucket.Get(t.Context(), key)
		t.ok(err)
		bad := bytes.Clone(whole)
		bad[len(bad)/2] ^= 1
		t.put(key, bad)
		return whole
	}
	segment := storage.SegmentKey(t.conv, 0, 13)
	whole := spoil(segment)
	got, err := t.logs.Range(t.Context(), t.conv, 1, 8)
	t.equal("range over a damaged segment", log[1:9], got, err)
	// A claim might be one that nothing continues, which only the segment can tell.
	if _, err := t.logs.Range(t.Context(), t.conv, 5, 5); !storage.Damaged(err) {
		t.Errorf("claim of a damaged segment: %v, want corrupt", err)
	}
	t.put(segment, whole)
	for _, seq := range []int64{0, 3, 5, 13} {
		spoil(t.key(seq))
	}
	t.same(log)
}

// logOpen opens a compacted log from its checkpoint: two requests, one for each batch of
// the tail and one LIST, whatever the length.
func logOpen(t logTest) {
	log := t.history(6)
	const at = 14
	claims := []storage.Claim{{Seq: 0, Nonce: "n0"}, {Seq: 6, Nonce: "n1"}, {Seq: 12, Nonce: "n2"}}
	c := &storage.Checkpoint{At: log[at].Position(), Claims: claims, Writers: 3, State: []byte("{}")}
	t.ok(t.logs.PutCheckpoint(t.Context(), t.conv, c, nil))
	t.remove(t.compact(at))
	counter := NewCounter()
	logs := storage.NewLogs(counter.Bucket(t.bucket), nil)
	newest, err := logs.Checkpoint(t.Context(), t.conv)
	if err != nil || newest == nil || newest.At != c.At {
		t.Fatalf("checkpoint %+v, %v", newest, err)
	}
	tail, err := all(logs.Resume(t.Context(), t.conv, newest.At))
	t.equal("tail", log[at+1:], tail, err)
	want := map[Request]int{{"GET", Ckpt}: 2, {"GET", Log}: len(tail), {"LIST", Log}: 1}
	if diff := cmp.Diff(want, counter.Counts()); diff != "" {
		t.Errorf("requests for a tail of %d (-want +got):\n%s", len(tail), diff)
	}
	// A checkpoint of what is in segments by now leads there.
	rest, err := all(logs.Resume(t.Context(), t.conv, log[3].Position()))
	t.equal("after an old checkpoint", log[4:], rest, err)
}
