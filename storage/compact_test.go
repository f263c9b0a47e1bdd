package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// compacted is a log of one writer with some of its batches in segments.
type compacted struct {
	t      *testing.T
	store  storage.Bucket
	counts *storagetest.Counter
	logs   *storage.Logs
	conv   conversation.Key
	writer *storage.Writer
	all    []storage.Batch
}

func newCompacted(t *testing.T) *compacted {
	c := &compacted{t: t, store: memory(t), counts: storagetest.NewCounter(), conv: keyOf("x")}
	c.logs = storage.NewLogs(c.counts.Bucket(c.store), nil)
	c.writer = c.logs.Writer(c.conv, "n1", storage.Start(), 1)
	return c
}

// grow appends batches.
func (c *compacted) grow(n int) {
	for range n {
		mustAppend(c.t, c.writer, fmt.Sprintf("{\"i\":%d}\n", len(c.all)))
		c.all = append(c.all, c.writer.Stored())
	}
}

// compact stores as many segments as possible and deletes the objects that they replace.
func (c *compacted) compact() {
	c.t.Helper()
	garbage, err := c.logs.Compactor(c.conv).Compact(c.t.Context(), int64(len(c.all)-1), c.all, 1)
	if err == nil {
		err = c.logs.Remove(c.t.Context(), c.conv, garbage)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// last returns the key of the segment with the highest batch.
func (c *compacted) last() string {
	refs, err := c.logs.Segments(c.t.Context(), c.conv, 0)
	if err != nil || len(refs) == 0 {
		c.t.Fatalf("%d segments, %v", len(refs), err)
	}
	ref := refs[len(refs)-1]
	return storage.SegmentKey(c.conv, ref.First, ref.Last)
}

// same checks that a reader gets the whole log.
func (c *compacted) same() {
	c.t.Helper()
	equal := func(a, b storage.Batch) bool { return a.Hash == b.Hash && string(a.Lines) == string(b.Lines) }
	if got := readAll(c.t, c.logs, c.conv); !slices.EqualFunc(got, c.all, equal) {
		c.t.Errorf("got %d batches, want %d", len(got), len(c.all))
	}
}

// TestLookupIsOneList reads the beginning of a log with many segments.
func TestLookupIsOneList(t *testing.T) {
	c := newCompacted(t)
	c.logs = c.logs.WithSmallSegments(1000) // no merges
	for range 60 {
		c.grow(3)
		c.compact()
	}
	c.counts.Reset()
	if _, err := c.logs.Range(t.Context(), c.conv, 1, 1); err != nil {
		t.Fatal(err)
	}
	if n := c.counts.Counts()[storagetest.Request{Method: "LIST", Class: storagetest.Seg}]; n != 1 {
		t.Errorf("%d lists for one batch, want 1", n)
	}
}

// TestCorruptSegmentWithItsBatches corrupts a segment whose batch objects still exist: readers use
// those, and they are compacted again.
func TestCorruptSegmentWithItsBatches(t *testing.T) {
	c := newCompacted(t)
	c.grow(10)
	c.compact()
	c.grow(10)
	if _, err := c.logs.Compactor(c.conv).Compact(t.Context(), 19, nil, 1); err != nil {
		t.Fatal(err)
	}
	corrupt := c.last()
	if err := c.store.Put(t.Context(), corrupt, storage.Bytes(make([]byte, 500))); err != nil {
		t.Fatal(err)
	}
	c.same()
	c.grow(2)
	c.compact()
	if key := c.last(); key == corrupt {
		t.Errorf("log still ends with %s", key)
	}
	c.same()
}

// TestCorruptSegmentInTheMiddle corrupts a segment that others follow, while its batch objects exist:
// compaction continues and does not delete them.
func TestCorruptSegmentInTheMiddle(t *testing.T) {
	c := newCompacted(t)
	c.grow(6)
	if _, err := c.logs.Compactor(c.conv).Compact(t.Context(), 5, c.all, 1); err != nil {
		t.Fatal(err)
	}
	corrupt := c.last()
	c.grow(6)
	if _, err := c.logs.Compactor(c.conv).Compact(t.Context(), 11, c.all, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Put(t.Context(), corrupt, storage.Bytes(make([]byte, 500))); err != nil {
		t.Fatal(err)
	}
	c.grow(6)
	c.compact()
	c.same()
}

// TestCorruptMergeKeepsItsParts corrupts a merged segment while its parts exist: they are not garbage,
// and readers use them.
func TestCorruptMergeKeepsItsParts(t *testing.T) {
	c := newCompacted(t)
	c.grow(6)
	c.compact()
	c.grow(6)
	c.compact()
	parts, err := c.logs.Segments(t.Context(), c.conv, 0)
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	whole := storage.SegmentKey(c.conv, 0, parts[1].Last)
	if err := c.store.Create(t.Context(), whole, storage.Bytes(make([]byte, 700))); err != nil {
		t.Fatal(err)
	}
	c.same()
	c.grow(6)
	garbage, err := c.logs.Compactor(c.conv).Compact(t.Context(), 17, nil, 1)
	for _, part := range parts {
		if slices.Contains(garbage, storage.SegmentKey(c.conv, part.First, part.Last)) {
			t.Errorf("got %v as garbage", part)
		}
	}
	if err := errors.Join(err, c.logs.Remove(t.Context(), c.conv, garbage)); err != nil {
		t.Fatal(err)
	}
	c.same()
}

// TestInterruptedCompactionKeepsItsProgress compacts a long log in time slices that are too short for
// all of it.
func TestInterruptedCompactionKeepsItsProgress(t *testing.T) {
	c := newCompacted(t)
	c.grow(2200)
	covered := int64(-1)
	for range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		var left atomic.Int64
		left.Store(1300)
		cut := storagetest.Through(c.store, func(ctx context.Context, call *storagetest.Call) error {
			if left.Add(-1) == 0 {
				cancel()
			}
			return call.Do(ctx)
		})
		logs := storage.NewLogs(cut, &storage.LogOptions{Prefetch: 1})
		compactor := logs.Compactor(c.conv)
		_, err := compactor.Compact(ctx, 2199, nil, 32)
		cancel()
		if now := compactor.Covered(); err == nil {
			covered = now
			break
		} else if now <= covered {
			t.Fatalf("progress went from %d to %d: %v", covered, now, err)
		} else {
			covered = now
		}
	}
	if covered != 2198 {
		t.Errorf("got coverage %d at the end", covered)
	}
	c.same()
}
