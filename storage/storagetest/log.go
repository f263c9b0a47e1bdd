package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// RunLog checks what the log promises on a bucket without faults. newBucket
// returns an empty bucket for one subtest and cleans up by t.Cleanup.
func RunLog(t *testing.T, newBucket func(t *testing.T) storage.Bucket) {
	rules := []struct {
		name  string
		check func(*testing.T, logTest)
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
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			b := newBucket(t)
			// Small pages and little prefetch, so that few batches need several.
			logs := storage.NewLogs(b, &storage.LogOptions{PageKeys: 3, Prefetch: 2})
			r.check(t, logTest{b, logs, conversation.Address{Agent: "a", ID: t.Name()}.Key()})
		})
	}
}

type logTest struct {
	bucket storage.Bucket
	logs   *storage.Logs
	conv   conversation.Key
}

// fill appends n batches, batch i holding the record {"i":i}.
func (l logTest) fill(t *testing.T, w *storage.Writer, n int) storage.Position {
	t.Helper()
	var pos storage.Position
	for i := range n {
		pos = appendLines(t, w, fmt.Sprintf("{\"i\":%d}\n", i))
	}
	return pos
}

func appendLines(t *testing.T, w *storage.Writer, lines string) storage.Position {
	t.Helper()
	pos, err := w.Append(t.Context(), []byte(lines), conversation.Time(1))
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// read returns the lines of all batches after a position, and the error at the end.
func (l logTest) read(ctx context.Context, after storage.Position) (lines []string, last storage.Position, err error) {
	last = after
	for b, err := range l.logs.Batches(ctx, l.conv, after) {
		if err != nil {
			return lines, last, err
		}
		lines = append(lines, string(b.Lines))
		last = b.Position()
	}
	return lines, last, nil
}

func logReadBack(t *testing.T, l logTest) {
	w := l.logs.Writer(l.conv, "n1", storage.Start(), 1)
	end := l.fill(t, w, 8)
	lines, last, err := l.read(t.Context(), storage.Start())
	if err != nil || len(lines) != 8 || last != end || end.Seq != 7 {
		t.Fatalf("read %d batches up to %v, %v; want 8 up to %v", len(lines), last, err, end)
	}
	for i, line := range lines {
		if want := fmt.Sprintf("{\"i\":%d}\n", i); line != want {
			t.Errorf("batch %d is %q, want %q", i, line, want)
		}
	}
	for b, err := range l.logs.Batches(t.Context(), l.conv, storage.Start()) {
		if err != nil || b.Nonce != "n1" || b.First != (b.Seq == 0) || b.Epoch != 1 || b.At != 1 || b.Version != 8 {
			t.Errorf("header %+v, %v", b.Header, err)
		}
		if b.Seq == 4 { // A consumer may stop anywhere.
			break
		}
	}
	if lines, _, err = l.read(t.Context(), end); err != nil || lines != nil {
		t.Errorf("read after the end: %q, %v", lines, err)
	}
}

func logClaim(t *testing.T, l logTest) {
	appendLines(t, l.logs.Writer(l.conv, "n1", storage.Start(), 1), "")
	if lines, last, err := l.read(t.Context(), storage.Start()); err != nil || last.Seq != 0 || lines[0] != "" {
		t.Errorf("read %q up to %v, %v", lines, last, err)
	}
}

func logRanges(t *testing.T, l logTest) {
	if tail, err := l.logs.Tail(t.Context(), l.conv, -1); err != nil || tail != -1 {
		t.Errorf("tail of nothing is %d, %v", tail, err)
	}
	l.fill(t, l.logs.Writer(l.conv, "n1", storage.Start(), 1), 8)
	for after := int64(-1); after < 10; after++ {
		if tail, err := l.logs.Tail(t.Context(), l.conv, after); err != nil || tail != max(7, after) {
			t.Errorf("tail after %d is %d, %v", after, tail, err)
		}
	}
	batches, err := l.logs.Range(t.Context(), l.conv, 2, 6)
	if err != nil || len(batches) != 5 || batches[0].Seq != 2 || string(batches[4].Lines) != "{\"i\":6}\n" {
		t.Errorf("range 2 to 6: %d batches, %v", len(batches), err)
	}
	if batches, err = l.logs.Range(t.Context(), l.conv, 3, 2); err != nil || batches != nil {
		t.Errorf("empty range: %v, %v", batches, err)
	}
	_, err = l.logs.Range(t.Context(), l.conv, 6, 8)
	var gap *storage.GapError
	if !errors.As(err, &gap) || gap.Seq != 8 || gap.Conv != l.conv {
		t.Errorf("range over the end: %v, want a gap at 8", err)
	}
}

func logApart(t *testing.T, l logTest) {
	l.fill(t, l.logs.Writer(l.conv, "n1", storage.Start(), 1), 2)
	l.conv = conversation.Address{Agent: "b", ID: t.Name()}.Key()
	if lines, _, err := l.read(t.Context(), storage.Start()); err != nil || lines != nil {
		t.Errorf("another conversation reads %q, %v", lines, err)
	}
}

func logFences(t *testing.T, l logTest) {
	old := l.logs.Writer(l.conv, "old", storage.Start(), 1)
	end := l.fill(t, old, 3)
	appendLines(t, l.logs.Writer(l.conv, "new", end, 2), "{\"new\":1}\n")
	_, err := old.Append(t.Context(), []byte("{\"late\":1}\n"), 1)
	var fenced *storage.FencedError
	if !errors.Is(err, storage.ErrFenced) || !errors.As(err, &fenced) || fenced.Seq != 3 || fenced.Winner != "new" {
		t.Fatalf("append by the old writer: %v, want fenced at 3 by new", err)
	}
	if _, again := old.Append(t.Context(), nil, 1); again != err {
		t.Errorf("second append: %v, want the same error", again)
	}
	lines, _, err := l.read(t.Context(), storage.Start())
	if diff := cmp.Diff([]string{"{\"i\":0}\n", "{\"i\":1}\n", "{\"i\":2}\n", "{\"new\":1}\n"}, lines); err != nil || diff != "" {
		t.Errorf("log: %v (-want +got):\n%s", err, diff)
	}
}

func logRace(t *testing.T, l logTest) {
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		w := l.logs.Writer(l.conv, storage.Nonce(fmt.Sprintf("n%d", i)), storage.Start(), 1)
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
	lines, _, err := l.read(t.Context(), storage.Start())
	if want := fmt.Sprintf("{\"by\":%d}\n", winner); err != nil || strings.Join(lines, "") != want {
		t.Errorf("log is %q, %v; want %q", lines, err, want)
	}
}

func logStaleClaim(t *testing.T, l logTest) {
	end := l.fill(t, l.logs.Writer(l.conv, "n1", storage.Start(), 1), 2)
	later := appendLines(t, l.logs.Writer(l.conv, "n2", end, 2), "{}\n")
	appendLines(t, l.logs.Writer(l.conv, "n3", later, 3), "{}\n")
	// The key of the claim comes free again, as a later version would free it by
	// moving old batches into a segment.
	if err := l.bucket.Delete(t.Context(), storage.LogKey(l.conv, 2)); err != nil {
		t.Fatal(err)
	}
	stale := l.logs.Writer(l.conv, "stale", end, 2)
	_, err := stale.Append(t.Context(), nil, 1)
	var fenced *storage.FencedError
	if !errors.As(err, &fenced) || fenced.Seq != 3 {
		t.Errorf("stale claim: %v, want fenced at 3", err)
	}
}

func logGap(t *testing.T, l logTest) {
	l.fill(t, l.logs.Writer(l.conv, "n1", storage.Start(), 1), 6)
	for _, seq := range []int64{4, 0} {
		if err := l.bucket.Delete(t.Context(), storage.LogKey(l.conv, seq)); err != nil {
			t.Fatal(err)
		}
		lines, _, err := l.read(t.Context(), storage.Start())
		var gap *storage.GapError
		if !errors.As(err, &gap) || gap.Conv != l.conv || gap.Seq != seq || gap.Next != seq+1 || len(lines) != int(seq) {
			t.Errorf("read %d batches, then %v; want %d, then a gap", len(lines), err, seq)
		}
	}
}

func logCorrupt(t *testing.T, l logTest) {
	l.fill(t, l.logs.Writer(l.conv, "n1", storage.Start(), 1), 2)
	moved, err := l.bucket.Get(t.Context(), storage.LogKey(l.conv, 1))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), moved...)
	flipped[len(flipped)-1] ^= 1
	for name, data := range map[string][]byte{
		"garbage": []byte("no frame"), "moved": moved, "flipped": flipped, "twice": append(moved[:len(moved):len(moved)], moved...),
	} {
		if err := l.bucket.Put(t.Context(), storage.LogKey(l.conv, 2), storage.Bytes(data)); err != nil {
			t.Fatal(err)
		}
		lines, _, err := l.read(t.Context(), storage.Start())
		var corrupt *storage.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Conv != l.conv || corrupt.Seq != 2 || len(lines) != 2 {
			t.Errorf("%s: read %d batches, then %v; want 2, then corrupt at 2", name, len(lines), err)
		}
	}
	if err := l.bucket.Put(t.Context(), storage.LogKey(l.conv, 2)+"x", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	var corrupt *storage.CorruptError
	if _, err := l.logs.Tail(t.Context(), l.conv, 1); !errors.As(err, &corrupt) {
		t.Errorf("tail over a key that is no number: %v, want corrupt", err)
	}
}

func logChain(t *testing.T, l logTest) {
	end := l.fill(t, l.logs.Writer(l.conv, "n1", storage.Start(), 1), 2)
	end.Hash[0] ^= 1
	appendLines(t, l.logs.Writer(l.conv, "n2", end, 2), "{}\n")
	lines, _, err := l.read(t.Context(), storage.Start())
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Seq != 2 || len(lines) != 2 {
		t.Errorf("read %d batches, then %v; want 2, then corrupt at 2", len(lines), err)
	}
	if _, err := l.logs.Range(t.Context(), l.conv, 1, 2); !errors.As(err, &corrupt) {
		t.Errorf("range: %v, want corrupt", err)
	}
	if _, err := l.logs.Range(t.Context(), l.conv, 0, 1); err != nil {
		t.Errorf("range below: %v", err)
	}
}
