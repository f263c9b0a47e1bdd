package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// eight appends eight batches of one writer.
	eight = "claim n1 -1 1; append n1 0 1 2 3 4 5 6 7 -> 7;"
	// three appends the batches of three writers, five each, with the claims 0, 5 and 10. The claims
	// and the highest batch remain as objects after compaction.
	three = `claim n0 -1 0; append n0 0 1 2 3 4 -> 4; claim n1 4 1; append n1 5 6 7 8 9 -> 9;
		claim n2 9 2; append n2 10 11 12 13 14 -> 14;`
	compacted = "same; compact 14; same; remove; left -> 0 5 10 14; same"
)

// RunLog checks the guarantees of a log on a bucket without faults. newBucket returns an empty bucket
// for one subtest and registers its cleanup with t.Cleanup.
func RunLog(t *testing.T, newBucket func(t *testing.T) storage.Bucket) {
	for _, r := range []struct {
		name  string
		steps string // See answer.
		check func(*logTest)
	}{
		{"what was appended is read back in order", eight + `read -> 0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7;
			read 4 -> 5=5 6=6 7=7; read 7; same`, logHeaders},
		{"a batch may have no records", "claim n1 -1 1; append n1 -> 0; read -> 0=; same", nil},
		{"ranges and tail", "tail -1 -> -1;" + eight + `tail -1 -> 7; tail 0 -> 7; tail 1 -> 7; tail 2 -> 7; tail 3 -> 7;
			tail 4 -> 7; tail 5 -> 7; tail 6 -> 7; tail 7 -> 7; tail 8 -> 8; tail 9 -> 9;
			range 2 6 -> 2=2 3=3 4=4 5=5 6=6; range 3 2; range 6 8 -> 8 is missing, then -1`, nil},
		{"conversations are apart", eight + "conversation b; read", nil},
		{"a later writer fences the one before", `claim old -1 1; append old 0 1 2 -> 2; claim new 2 2; append new 3 -> 3;
			append old late -> fenced at 3 by new; append old -> fenced at 3 by new; read -> 0=0 1=1 2=2 3=3`, nil},
		{"of concurrent claims one wins", "", logRace},
		// The key of the claim becomes free again, as if old batches had been compacted.
		{"a claim on a stale view is fenced", `claim n1 -1 1; append n1 0 1 -> 1; claim n2 1 2; append n2 2 -> 2;
			claim n3 2 3; append n3 3 -> 3; delete 2; claim stale 1 2; append stale -> fenced at 3 by`, nil},
		{"a missing batch is a gap", eight + `delete 4; read -> 0=0 1=1 2=2 3=3 4 is missing, then 5;
			delete 0; read -> 0 is missing, then 1`, nil},
		{"a foreign object is corrupt", "claim n1 -1 1; append n1 0 1 -> 1", logCorrupt},
		{"a batch that does not fit the chain is corrupt", `claim n1 -1 1; append n1 0 1 -> 1; unchained n2 1 2; append n2 2 -> 2;
			read -> 0=0 1=1 corrupt at 2; range 1 2 -> corrupt at 2; range 0 1 -> 0=0 1=1`, nil},
		{"a compacted log reads the same", three + compacted + "; segments -> 0-13; continue n2 14 2; append n2 15 -> 15; same", nil},
		{"small segments are merged", "", logMerge},
		{"concurrent compactors are safe", three, logTwoCompactors},
		{"a reader survives deletes", three, logReadWhileDeleted},
		// A writer with a stale view claims a number that was compacted and deleted.
		{"a stale claim of a compacted number is never shown", three + compacted + `; claim stale 6 2; append stale 99 -> fenced at 14 by;
			left -> 0 5 7 10 14; ` + compacted, nil},
		// Without its segment, a claim that nothing continues cannot be recognized.
		{"damage of a segment or of its batches is compensated", three + `compact 14; damage 0-13; range 1 4 -> 1=1 2=2 3=3 4=4;
			range 1 8 -> 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8; range 5 5 -> corrupt at 0; damage 0-13; same;
			damage 0; damage 3; damage 5; damage 13; same`, nil},
		{"opening from a checkpoint costs the tail", three, logOpen},
	} {
		t.Run(r.name, func(t *testing.T) {
			b := newBucket(t)
			l := &logTest{
				T: t, bucket: b, conv: conversation.Address{Agent: "a", ID: t.Name()}.Key(), writers: make(map[string]*storage.Writer),
				// Small pages and little prefetch, so that few batches need several.
				logs: storage.NewLogs(b, &storage.LogOptions{PageKeys: 3, Prefetch: 2}),
			}
			l.follow(r.steps)
			if r.check != nil {
				r.check(l)
			}
		})
	}
}

func logHeaders(t *logTest) {
	for b, err := range t.logs.Batches(t.Context(), t.conv, storage.Start()) {
		if err != nil || b.Nonce != "n1" || b.First != (b.Seq == 0) || b.Epoch != 1 || b.At != 1 || b.Version != 8 {
			t.Errorf("header %+v, %v", b.Header, err)
		}
		if b.Seq == 4 { // A consumer may stop anywhere.
			break
		}
	}
}

func logRace(t *logTest) {
	won := race(t.T, func(i int) error {
		w := t.logs.Writer(t.conv, storage.Nonce(fmt.Sprint("n", i)), storage.Start(), 1)
		_, err := w.Append(t.Context(), fmt.Appendf(nil, "%d\n", i), 1)
		return err
	}, storage.ErrFenced)
	batches, err := all(t.logs.Batches(t.Context(), t.conv, storage.Start()))
	if err != nil || len(batches) != 1 || string(batches[0].Lines) != fmt.Sprintf("%d\n", won) {
		t.Errorf("log %v, %v, winner is %d", batches, err, won)
	}
}

func logCorrupt(t *logTest) {
	moved := t.get("1")
	flipped := bytes.Clone(moved)
	flipped[len(flipped)-1] ^= 1
	for _, data := range [][]byte{[]byte("no frame"), moved, flipped, bytes.Repeat(moved, 2)} {
		t.put("2", data)
		t.follow("read -> 0=0 1=1 corrupt at 2")
	}
	t.ok(t.bucket.Put(t.Context(), t.key("2")+"x", storage.Bytes([]byte("x"))))
	_, err := t.logs.Tail(t.Context(), t.conv, 1)
	if _, ok := errors.AsType[*storage.CorruptError](err); !ok {
		t.Errorf("tail over an invalid key: %v, want corrupt", err)
	}
}

// logMerge stores many small segments, which are merged by a compactor that holds the batches in
// memory and lists segments in large pages.
func logMerge(t *logTest) {
	c := storage.NewLogs(t.bucket, nil).Compactor(t.conv)
	t.follow("claim n1 -1 1")
	most := 0
	for i := range 60 {
		t.follow(fmt.Sprintf("append n1 %d -> %d", i, i))
		garbage, err := c.Compact(t.Context(), int64(i), t.log[max(0, i-3):], 1)
		t.ok(errors.Join(err, t.logs.Remove(t.Context(), t.conv, garbage)))
		if i == 40 {
			most = len(t.segments())
		}
	}
	if left := len(t.segments()); most < 20 || left >= most || c.Covered() != 58 {
		t.Errorf("%d segments, %d before; covered %d", left, most, c.Covered())
	}
	t.same()
}

// logTwoCompactors lets two compact at once, each again and again.
func logTwoCompactors(t *logTest) {
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
	t.follow(compacted)
}

// logReadWhileDeleted compacts a log and deletes its batches while a reader is between pages, and
// merged segments while it reads them.
func logReadWhileDeleted(t *logTest) {
	var got []storage.Batch
	for b, err := range t.logs.Batches(t.Context(), t.conv, storage.Start()) {
		t.ok(err)
		if got = append(got, b); len(got) == 1 || len(got) == 7 {
			t.follow(fmt.Sprintf("compact %d; remove", 6+len(got)))
		}
	}
	t.equal("log", t.log, got, nil)
}

// logOpen opens a compacted log from its checkpoint. That takes two requests, one per batch of the
// tail and one LIST, independently of the length.
func logOpen(t *logTest) {
	claims := []storage.Claim{{Seq: 0, Nonce: "n0"}, {Seq: 5, Nonce: "n1"}, {Seq: 10, Nonce: "n2"}}
	c := &storage.Checkpoint{At: t.at(11), Claims: claims, Writers: 3, State: []byte("{}")}
	t.ok(t.logs.PutCheckpoint(t.Context(), t.conv, c, nil))
	t.follow("compact 11; remove")
	counter := NewCounter()
	logs := storage.NewLogs(counter.Bucket(t.bucket), nil)
	newest, err := logs.Checkpoint(t.Context(), t.conv)
	if err != nil || newest == nil || newest.At != c.At {
		t.Fatalf("checkpoint %+v, %v", newest, err)
	}
	tail, err := all(logs.Resume(t.Context(), t.conv, newest.At))
	t.equal("tail", t.log[12:], tail, err)
	want := map[Request]int{{"GET", Ckpt}: 2, {"GET", Log}: len(tail), {"LIST", Log}: 1}
	if diff := cmp.Diff(want, counter.Counts()); diff != "" {
		t.Errorf("requests for a tail of %d (-want +got):\n%s", len(tail), diff)
	}
	// A checkpoint at a compacted batch works too.
	rest, err := all(logs.Resume(t.Context(), t.conv, t.at(3)))
	t.equal("after an old checkpoint", t.log[4:], rest, err)
}
