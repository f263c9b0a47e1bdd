package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// RunLog checks what the log promises on a bucket without faults. newBucket
// returns an empty bucket for one subtest and cleans up by t.Cleanup.
func RunLog(t *testing.T, newBucket func(t *testing.T) storage.Bucket) {
	for _, r := range []struct {
		name  string
		check func(logTest)
	}{
		{"what was appended is read back in order", logReadBack},
		{"a batch may have no records", logClaim},
		{"ranges and tail", logRanges},
		{"conversations are apart", logApart},
		{"a later writer fences the one before", logFences},
		{"of concurrent claims one wins", logRace},
		{"a claim on a stale view is fenced", logStaleClaim},
		{"a missing batch is a gap", logGap},
		{"a foreign object is corrupt", logCorrupt},
		{"a batch that does not fit the chain is corrupt", logChain},
		{"a compacted log reads the same", logCompact},
		{"small segments are merged", logMerge},
		{"compactors do not hurt each other", logTwoCompactors},
		{"a reader is not hurt by deletes", logReadWhileDeleted},
		{"a stale claim of a compacted number is never shown", logOrphan},
		{"damage of a segment or of its batches is made good", logSpoiled},
		{"opening from a checkpoint costs the tail", logOpen},
	} {
		t.Run(r.name, func(t *testing.T) {
			b := newBucket(t)
			// Small pages and little prefetch, so that few batches need several.
			logs := storage.NewLogs(b, &storage.LogOptions{PageKeys: 3, Prefetch: 2})
			r.check(logTest{t, b, logs, conversation.Address{Agent: "a", ID: t.Name()}.Key()})
		})
	}
}

// logTest is the test of a rule with the log of a conversation, which is empty.
type logTest struct {
	*testing.T
	bucket storage.Bucket
	logs   *storage.Logs
	conv   conversation.Key
}

func (t logTest) writer(nonce string, at storage.Position, epoch int64) *storage.Writer {
	return t.logs.Writer(t.conv, storage.Nonce(nonce), at, epoch)
}

func (t logTest) append(w *storage.Writer, lines string) storage.Position {
	t.Helper()
	pos, err := w.Append(t.Context(), []byte(lines), conversation.Time(1))
	t.ok(err)
	return pos
}

// lines are those of n batches, batch i holding the record {"i":i}.
func lines(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("{\"i\":%d}\n", i))
	}
	return all
}

// fill appends batches of n lines by the first writer.
func (t logTest) fill(n int) (end storage.Position) {
	t.Helper()
	w := t.writer("n1", storage.Start(), 1)
	for _, line := range lines(n) {
		end = t.append(w, line)
	}
	return end
}

func (t logTest) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t logTest) key(seq int64) string { return storage.LogKey(t.conv, seq) }

func (t logTest) put(key string, data []byte) {
	t.Helper()
	t.ok(t.bucket.Put(t.Context(), key, storage.Bytes(data)))
}

// read returns all batches after a position, and the error at the end.
func (t logTest) read(after storage.Position) ([]storage.Batch, error) {
	return all(t.logs.Batches(t.Context(), t.conv, after))
}

func all(seq iter.Seq2[storage.Batch, error]) (batches []storage.Batch, err error) {
	for b, err := range seq {
		if err != nil {
			return batches, err
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// holds checks that the log holds batches with these lines and nothing else, or is broken
// behind them, as says reports.
func (t logTest) holds(broken string, want ...string) {
	t.Helper()
	batches, err := t.read(storage.Start())
	var lines []string
	for _, b := range batches {
		lines = append(lines, string(b.Lines))
	}
	if diff := cmp.Diff(want, lines); t.says(err) != broken || diff != "" {
		t.Errorf("log: %v, want %q (-want +got):\n%s", err, broken, diff)
	}
}

// says is what an error says of the log.
func (t logTest) says(err error) string {
	switch e, gap, fenced := (*storage.CorruptError)(nil), (*storage.GapError)(nil), (*storage.FencedError)(nil); {
	case errors.As(err, &e) && e.Conv == t.conv:
		return fmt.Sprintf("corrupt at %d", e.Seq)
	case errors.As(err, &gap) && gap.Conv == t.conv:
		return fmt.Sprintf("%d is missing, then %d", gap.Seq, gap.Next)
	case errors.As(err, &fenced) && errors.Is(err, storage.ErrFenced):
		return fmt.Sprintf("fenced at %d by %s", fenced.Seq, fenced.Winner)
	case err != nil:
		return err.Error()
	}
	return ""
}

func logReadBack(t logTest) {
	end := t.fill(8)
	t.holds("", lines(8)...)
	for b, err := range t.logs.Batches(t.Context(), t.conv, storage.Start()) {
		if err != nil || b.Nonce != "n1" || b.First != (b.Seq == 0) || b.Epoch != 1 || b.At != 1 || b.Version != 8 {
			t.Errorf("header %+v, %v", b.Header, err)
		}
		if b.Seq == 4 { // A consumer may stop anywhere.
			break
		}
	}
	if batches, err := t.read(end); err != nil || batches != nil || end.Seq != 7 {
		t.Errorf("read after the end at %v: %v, %v", end, batches, err)
	}
}

func logClaim(t logTest) {
	if at := t.append(t.writer("n1", storage.Start(), 1), ""); at.Seq != 0 {
		t.Errorf("appended up to %v", at)
	}
	t.holds("", "")
}

func logRanges(t logTest) {
	if tail, err := t.logs.Tail(t.Context(), t.conv, -1); err != nil || tail != -1 {
		t.Errorf("tail of nothing is %d, %v", tail, err)
	}
	t.fill(8)
	for after := int64(-1); after < 10; after++ {
		if tail, err := t.logs.Tail(t.Context(), t.conv, after); err != nil || tail != max(7, after) {
			t.Errorf("tail after %d is %d, %v", after, tail, err)
		}
	}
	batches, err := t.logs.Range(t.Context(), t.conv, 2, 6)
	if err != nil || len(batches) != 5 || batches[0].Seq != 2 || string(batches[4].Lines) != "{\"i\":6}\n" {
		t.Errorf("range 2 to 6: %d batches, %v", len(batches), err)
	}
	if batches, err = t.logs.Range(t.Context(), t.conv, 3, 2); err != nil || batches != nil {
		t.Errorf("empty range: %v, %v", batches, err)
	}
	if _, err = t.logs.Range(t.Context(), t.conv, 6, 8); t.says(err) != "8 is missing, then -1" {
		t.Errorf("range over the end: %v, want a gap at 8", err)
	}
}

func logApart(t logTest) {
	t.fill(2)
	t.conv = conversation.Address{Agent: "b", ID: t.Name()}.Key()
	t.holds("")
}

func logFences(t logTest) {
	old := t.writer("old", storage.Start(), 1)
	var end storage.Position
	for range 3 {
		end = t.append(old, "{}\n")
	}
	t.append(t.writer("new", end, 2), "{\"new\":1}\n")
	_, err := old.Append(t.Context(), []byte("{\"late\":1}\n"), 1)
	if t.says(err) != "fenced at 3 by new" {
		t.Fatalf("append by the old writer: %v, want fenced at 3 by new", err)
	}
	if _, again := old.Append(t.Context(), nil, 1); again != err {
		t.Errorf("second append: %v, want the same error", again)
	}
	t.holds("", "{}\n", "{}\n", "{}\n", "{\"new\":1}\n")
}

func logRace(t logTest) {
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		w := t.writer(fmt.Sprintf("n%d", i), storage.Start(), 1)
		wg.Go(func() { _, errs[i] = w.Append(t.Context(), fmt.Appendf(nil, "{\"by\":%d}\n", i), 1) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case !errors.Is(err, storage.ErrFenced):
			t.Errorf("writer %d: %v, winner is %d", i, err, winner)
		}
	}
	t.holds("", fmt.Sprintf("{\"by\":%d}\n", winner))
}

func logStaleClaim(t logTest) {
	end := t.fill(2)
	later := t.append(t.writer("n2", end, 2), "{}\n")
	t.append(t.writer("n3", later, 3), "{}\n")
	// The key of the claim comes free again, as a later version would free it by
	// moving old batches into a segment.
	t.ok(t.bucket.Delete(t.Context(), t.key(2)))
	if _, err := t.writer("stale", end, 2).Append(t.Context(), nil, 1); t.says(err) != "fenced at 3 by " {
		t.Errorf("stale claim: %v, want fenced at 3", err)
	}
}

func logGap(t logTest) {
	t.fill(6)
	t.ok(t.bucket.Delete(t.Context(), t.key(4)))
	t.holds("4 is missing, then 5", lines(4)...)
	t.ok(t.bucket.Delete(t.Context(), t.key(0)))
	t.holds("0 is missing, then 1")
}

func logCorrupt(t logTest) {
	t.fill(2)
	moved, err := t.bucket.Get(t.Context(), t.key(1))
	t.ok(err)
	flipped := bytes.Clone(moved)
	flipped[len(flipped)-1] ^= 1
	for _, data := range [][]byte{[]byte("no frame"), moved, flipped, bytes.Repeat(moved, 2)} {
		t.put(t.key(2), data)
		t.holds("corrupt at 2", lines(2)...)
	}
	t.put(t.key(2)+"x", []byte("x"))
	_, err = t.logs.Tail(t.Context(), t.conv, 1)
	if _, ok := errors.AsType[*storage.CorruptError](err); !ok {
		t.Errorf("tail over a key that is no number: %v, want corrupt", err)
	}
}

func logChain(t logTest) {
	end := t.fill(2)
	end.Hash[0] ^= 1
	t.append(t.writer("n2", end, 2), "{}\n")
	t.holds("corrupt at 2", lines(2)...)
	if _, err := t.logs.Range(t.Context(), t.conv, 1, 2); t.says(err) != "corrupt at 2" {
		t.Errorf("range: %v, want corrupt", err)
	}
	if _, err := t.logs.Range(t.Context(), t.conv, 0, 1); err != nil {
		t.Errorf("range below: %v", err)
	}
}
