package inspect_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
)

// unserved are the options for a bucket without running members.
var unserved = &inspect.RepairOptions{Write: true, Watch: 1}

// covers: providers/164
func TestTruncate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		do      func(w *world)
		last    int64
		lost    []int64
		subs    []inspect.LostSubmission
		pending bool // a settlement is pending afterwards
	}{
		{"highest batch", func(w *world) { w.flip(w.log(35)) }, 34, []int64{35}, nil, true},
		{"highest batch in front of others", func(w *world) { w.cut(w.log(33)) }, 32, []int64{33, 34, 35},
			[]inspect.LostSubmission{{ID: "sub_11", Admitted: true, Settled: conversation.OutcomeCompleted}}, false},
		{"end of a turn", func(w *world) { w.flip(w.log(35)); w.flip(w.log(34)) }, 33, []int64{34, 35}, nil, true},
		{"missing batch", func(w *world) { w.delete(w.log(31)) }, 30, []int64{32, 33, 34, 35},
			[]inspect.LostSubmission{{ID: "sub_10", Settled: conversation.OutcomeCompleted},
				{ID: "sub_11", Admitted: true, Settled: conversation.OutcomeCompleted}}, true},
		{"last segment, its pin in front of the damage", func(w *world) { w.cut(w.seg(23, 29)) }, 22,
			[]int64{23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35}, nil, true},
		{"begin of the last segment", func(w *world) { w.change(w.seg(23, 29), func(b []byte) []byte { b[9] ^= 0xff; return b }) }, 22,
			[]int64{23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.do(w)
			before := w.objects("")
			plan, err := inspect.Truncate(t.Context(), w.bucket, w.conv, nil)
			check(t, err)
			if diff := cmp.Diff(before, w.objects("")); diff != "" {
				t.Errorf("planned truncation changed the bucket:\n%s", diff)
			}
			got, err := inspect.Truncate(t.Context(), w.bucket, w.conv, unserved)
			check(t, err)
			if got.Last != tt.last || got.Next != 37 || got.Reason == "" {
				t.Errorf("got truncation after %d, next %d, reason %q; want %d, 37", got.Last, got.Next, got.Reason, tt.last)
			}
			if diff := cmp.Diff(plan.Batches, got.Batches); diff != "" {
				t.Errorf("plan differs (-planned +done):\n%s", diff)
			}
			if tt.lost != nil {
				var lost []int64
				for _, b := range got.Batches {
					lost = append(lost, b.Seq)
				}
				if diff := cmp.Diff(tt.lost, lost); diff != "" {
					t.Errorf("lost batches (-want +got):\n%s", diff)
				}
			}
			if tt.subs != nil {
				if diff := cmp.Diff(tt.subs, got.Submissions); diff != "" {
					t.Errorf("lost submissions (-want +got):\n%s", diff)
				}
			}
			w.wantTruncation(before, got)
			if listed := len(w.objects("pending/cut-")) > 0; listed != tt.pending {
				t.Errorf("got pending-work journal entry %t, want %t", listed, tt.pending)
			}
		})
	}
}

// TestTruncateInsideASegment corrupts one of many frames of a segment. The batches before it are kept, even
// if the truncation is interrupted, and all later ones are listed.
func TestTruncateInsideASegment(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		w.conv = w.big(10)
		keys, err := w.logs.Compactor(w.conv).Compact(t.Context(), 8, nil, 1)
		check(t, err)
		w.remove(keys)
		kept := w.batches(0, 3)
		w.flip(w.seg(0, 8))
		before := w.objects("")
		got, err := inspect.Truncate(t.Context(), &failingBucket{Bucket: w.bucket, left: n}, w.conv, unserved)
		if got == nil || got.Last < 1 || got.Last > 6 || int64(len(got.Batches)) != 9-got.Last {
			t.Fatalf("after %d writes: %+v, %v", n, got, err)
		}
		for i, b := range got.Batches {
			// The corrupt frame has one or two batches.
			if b.Seq != got.Last+1+int64(i) || (b.Error == "") != (b.Records["x"] == 1) || i == 0 && b.Error == "" || i > 1 && b.Error != "" {
				t.Errorf("lost batch %d is %+v", i, b)
			}
		}
		if err == nil {
			w.wantTruncation(before, got)
			if diff := cmp.Diff(kept[:2], w.batches(0, 1)); diff != "" {
				t.Errorf("kept objects (-want +got):\n%s", diff)
			}
			return
		}
		last := got.Last
		switch got, err = inspect.Truncate(t.Context(), w.bucket, w.conv, unserved); {
		case errors.Is(err, inspect.ErrReadable): // only the final check was interrupted
		case err != nil || got.Last != last:
			t.Fatalf("after %d writes, and again: %+v, %v", n, got, err)
		default:
			w.wantTruncation(before, got)
		}
	}
}

// TestTruncateServedBucket checks that nothing changes if a heartbeat does.
func TestTruncateServedBucket(t *testing.T) {
	w := newWorld(t)
	w.flip(w.log(35))
	live := &beatingBucket{Bucket: w.bucket, t: t}
	before := w.objects(storage.FolderOf(w.conv))
	var served *inspect.ServedError
	if _, err := inspect.Truncate(t.Context(), live, w.conv, unserved); !errors.As(err, &served) {
		t.Errorf("truncation of a served bucket: got %v", err)
	}
	if diff := cmp.Diff(before, w.objects(storage.FolderOf(w.conv))); diff != "" {
		t.Errorf("bucket was changed:\n%s", diff)
	}
}

// beatingBucket is a bucket whose member m1 is alive: its heartbeat changes at every read.
type beatingBucket struct {
	storage.Bucket
	t     *testing.T
	count int64
}

func (b *beatingBucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if key == storage.HeartbeatKey("m1") {
		b.count++
		check(b.t, storage.PutHeartbeat(ctx, b.Bucket, storage.Heartbeat{Member: "m1", Count: 100 + b.count}))
	}
	return b.Bucket.Open(ctx, key)
}

// wantTruncation checks the result of a truncation: the log is valid, no object is destroyed, and no earlier
// writer can continue.
func (w *world) wantTruncation(before map[string]string, got *inspect.TruncateReport) {
	w.t.Helper()
	for _, line := range w.verify(inspect.Scope{Conv: w.conv}) {
		if strings.HasPrefix(line, "damage") {
			w.t.Errorf("after the truncation: verify found %s", line)
		}
	}
	if again, err := inspect.Truncate(w.t.Context(), w.bucket, w.conv, unserved); !errors.Is(err, inspect.ErrReadable) {
		w.t.Errorf("second truncation: got %+v, %v", again, err)
	}
	after := w.objects("")
	kept := slices.Collect(maps.Values(after))
	for _, key := range w.under("truncated/") {
		if name, err := storage.ParseKey(key); err != nil || !name.Truncated || name.Conv != w.conv {
			w.t.Errorf("parsed %s as %+v, %v", key, name, err)
		}
	}
	for key, digest := range before {
		if after[key] != digest && !strings.HasSuffix(key, "/head") && !slices.Contains(kept, digest) {
			w.t.Errorf("%s was destroyed", key)
		}
	}
	for seq := got.Last; seq < got.Next-1; seq++ {
		late := w.logs.Continue(w.conv, "paused", storage.Position{Seq: seq}, 9)
		if _, err := late.Append(context.Background(), []byte("{\"type\":\"x\"}\n"), at); !errors.Is(err, storage.ErrFenced) {
			w.t.Errorf("paused writer with stored batch %d continued: %v", seq, err)
		}
	}
	// The numbers stay taken after compaction.
	keys, err := w.logs.Compactor(w.conv).Compact(context.Background(), got.Next-1, nil, 1)
	check(w.t, err)
	w.remove(keys)
	for seq := got.Last + 1; seq < got.Next; seq++ {
		if !slices.Contains(w.under("log/"), w.log(seq)) {
			w.t.Errorf("batch %d can be written again", seq)
		}
	}
}

// TestTruncateIsInterrupted interrupts a truncation after every request. The log is as corrupt as before or
// valid, the truncation can be repeated, and no object is lost.
func TestTruncateIsInterrupted(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		w.cut(w.log(33))
		before := w.objects("")
		failing := &failingBucket{Bucket: w.bucket, left: n}
		first, err := inspect.Truncate(t.Context(), failing, w.conv, unserved)
		if err == nil {
			return
		}
		if !errors.Is(err, errFailed) {
			t.Fatalf("after %d writes: %v", n, err)
		}
		// A repeated truncation finds claims in place of some batches.
		if first == nil || len(first.Batches) != 3 || len(first.Submissions) != 1 {
			t.Errorf("after %d writes: got %+v, want the lost batches", n, first)
		}
		got, err := inspect.Truncate(t.Context(), w.bucket, w.conv, unserved)
		if errors.Is(err, inspect.ErrReadable) {
			continue // only the journal of pending work was missing
		}
		check(t, err)
		if got.Last != 32 {
			t.Errorf("after %d writes: got truncation after %d, want 32", n, got.Last)
		}
		w.wantTruncation(before, got)
	}
}

var errFailed = errors.New("write failed")

// failingBucket fails after a number of writes.
type failingBucket struct {
	storage.Bucket
	left int
}

func (b *failingBucket) crash() error {
	if b.left--; b.left < 0 {
		return errFailed
	}
	return nil
}

func (b *failingBucket) Create(ctx context.Context, key string, body storage.Body) error {
	if err := b.crash(); err != nil {
		return err
	}
	return b.Bucket.Create(ctx, key, body)
}

func (b *failingBucket) Put(ctx context.Context, key string, body storage.Body) error {
	if err := b.crash(); err != nil {
		return err
	}
	return b.Bucket.Put(ctx, key, body)
}

func (b *failingBucket) Delete(ctx context.Context, key string) error {
	if err := b.crash(); err != nil {
		return err
	}
	return b.Bucket.Delete(ctx, key)
}
