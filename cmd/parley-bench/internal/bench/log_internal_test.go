package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// TestPayloads: they are real records of the size that was asked for, the same in
// every run, and compress as text does.
func TestPayloads(t *testing.T) {
	for _, size := range []int{1 << 10, 8 << 10} {
		pool, err := payloads(size)
		again, _ := payloads(size)
		if err != nil || len(pool) == 0 {
			t.Fatal(err)
		}
		for i, p := range pool {
			b, err := storage.DecodeBatch(p.object, 0)
			if err != nil || !bytes.Equal(b.Lines, p.lines) {
				t.Fatalf("payload %d is another batch: %v", i, err)
			}
			records, err := conversation.DecodeRecords(p.lines)
			if err != nil || len(records) != 1 || len(p.lines) != size {
				t.Fatalf("payload %d: %d records, %d bytes, %v", i, len(records), len(p.lines), err)
			}
			if !bytes.Equal(p.object, again[i].object) {
				t.Errorf("payload %d differs from run to run", i)
			}
			if i > 0 && bytes.Equal(p.lines, pool[0].lines) {
				t.Errorf("payload %d is the first one", i)
			}
			text := records[0].(*conversation.Delta).Text
			if words := len(strings.Fields(text)); words < size/12 {
				t.Errorf("payload %d has %d words", i, words)
			}
		}
	}
}

// TestWaiting: every record leaves once, in order, and no more wait than may.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newWaiting()
		line := make([]byte, streamWaiting/4)
		added := make(chan int, 10)
		go func() {
			defer q.end()
			for i := range 6 {
				line[0] = byte(i)
				if !q.add(line) {
					return
				}
				added <- i
			}
		}()
		synctest.Wait()
		if len(added) != 4 {
			t.Fatalf("%d records wait, want 4", len(added))
		}
		lines, since := q.take(nil, nil)
		if len(since) != 4 || len(lines) != streamWaiting || lines[3*len(line)] != 3 {
			t.Fatalf("took %d records, %d bytes", len(since), len(lines))
		}
		synctest.Wait()
		if lines, since = q.take(lines, since); len(since) != 2 || lines[len(line)] != 5 {
			t.Fatalf("took %d records, want the last 2", len(since))
		}
		if _, since = q.take(lines, since); len(since) != 0 {
			t.Errorf("took %d records after the end", len(since))
		}
		if q.add(line) {
			t.Error("a record was added after the end")
		}
	})
}

// failing is a bucket whose creates fail after some.
type failing struct {
	storage.Bucket
	left atomic.Int64
}

func (f *failing) Create(ctx context.Context, key string, body storage.Body) error {
	if f.left.Add(-1) < 0 {
		return &storage.Error{Op: "create", Key: key, Kind: storage.ErrRefused, Err: errors.New("enough")}
	}
	return f.Bucket.Create(ctx, key, body)
}

// TestLogFailures: a refused write fails the rows it belongs to and the others go on;
// what was written is removed.
func TestLogFailures(t *testing.T) {
	store := local.NewMemory()
	defer store.Close()
	ctx, stop := context.WithCancelCause(t.Context())
	some := &failing{Bucket: store}
	some.left.Store(100)
	r, err := RunLog(ctx, LogOptions{Bucket: some, Place: "here", Percent: 1})
	if err != nil || r.Failed() == 0 || r.Failed() == len(r.Scenarios) || r.Bucket != "here" {
		t.Errorf("%d of %d failed: %v", r.Failed(), len(r.Scenarios), err)
	}
	for _, s := range r.Scenarios {
		if s.Error != "" && (s.Samples != 0 || len(s.Figures) != 0 || !strings.Contains(s.Error, "enough")) {
			t.Errorf("failed row %+v", s)
		}
	}
	if page, err := store.List(t.Context(), storage.ListQuery{}); err != nil || len(page.Keys) != 0 {
		t.Errorf("left behind: %v, %v", page.Keys, err)
	}
	gone := errors.New("gone")
	stop(gone)
	if r, err = RunLog(ctx, LogOptions{Bucket: store}); err != nil || r.Failed() != len(LogNames()) || r.Scenarios[0].Error != "gone" {
		t.Errorf("after the end: %+v, %v", r, err)
	}
}
