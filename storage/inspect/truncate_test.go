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

// unserved is what a cut of a bucket is told whose members are gone.
var unserved = &inspect.RepairOptions{Write: true, Watch: 1}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(w *world)
		last int64
		lost []int64
		subs []inspect.LostSubmission
		owed bool // a settlement, after it
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
			plan, err := inspect.Cut(t.Context(), w.bucket, w.conv, nil)
			check(t, err)
			if diff := cmp.Diff(before, w.objects("")); diff != "" {
				t.Errorf("a cut that is planned changes something:\n%s", diff)
			}
			got, err := inspect.Cut(t.Context(), w.bucket, w.conv, unserved)
			check(t, err)
			if got.Last != tt.last || got.Next != 37 || got.Reason == "" {
				t.Errorf("cut behind %d, goes on with %d, because of %q; want %d, 37", got.Last, got.Next, got.Reason, tt.last)
			}
			if diff := cmp.Diff(plan.Batches, got.Batches); diff != "" {
				t.Errorf("the plan was another (-planned +done):\n%s", diff)
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
			w.wantCut(before, got)
			if listed := len(w.objects("pending/cut-")) > 0; listed != tt.owed {
				t.Errorf("a pending-work journal lists it: %t, want %t", listed, tt.owed)
			}
		})
	}
}

// TestCutInsideASegment damages one frame of a segment that has many. What stands in front
// of it is kept, also if the cut is interrupted, and all that stands behind it is listed.
func TestCutInsideASegment(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		w.conv = w.big(10)
		keys, err := w.logs.Compactor(w.conv).Compact(t.Context(), 8, nil, 1)
		check(t, err)
		w.remove(keys)
		kept := w.batches(0, 3)
		w.flip(w.seg(0, 8))
		before := w.objects("")
		got, err := inspect.Cut(t.Context(), &dyingBucket{Bucket: w.bucket, left: n}, w.conv, unserved)
		if got == nil || got.Last < 1 || got.Last > 6 || int64(len(got.Batches)) != 9-got.Last {
			t.Fatalf("after %d writes: %+v, %v", n, got, err)
		}
		for i, b := range got.Batches {
			// The frame that is damaged has a batch or two.
			if b.Seq != got.Last+1+int64(i) || (b.Error == "") != (b.Records["x"] == 1) || i == 0 && b.Error == "" || i > 1 && b.Error != "" {
				t.Errorf("lost batch %d is %+v", i, b)
			}
		}
		if err == nil {
			w.wantCut(before, got)
			if diff := cmp.Diff(kept[:2], w.batches(0, 1)); diff != "" {
				t.Errorf("what is kept (-want +got):\n%s", diff)
			}
			return
		}
		last := got.Last
		switch got, err = inspect.Cut(t.Context(), w.bucket, w.conv, unserved); {
		case errors.Is(err, inspect.ErrReadable): // it was over but for a look at it
		case err != nil || got.Last != last:
			t.Fatalf("after %d writes, and again: %+v, %v", n, got, err)
		default:
			w.wantCut(before, got)
		}
	}
}

// TestCutOfAServedBucket: where a heartbeat is seen to change, nothing is.
func TestCutOfAServedBucket(t *testing.T) {
	w := newWorld(t)
	w.flip(w.log(35))
	live := &beatingBucket{Bucket: w.bucket, t: t}
	before := w.objects(storage.FolderOf(w.conv))
	var served *inspect.ServedError
	if _, err := inspect.Cut(t.Context(), live, w.conv, unserved); !errors.As(err, &served) {
		t.Errorf("cut of a bucket that is served: %v", err)
	}
	if diff := cmp.Diff(before, w.objects(storage.FolderOf(w.conv))); diff != "" {
		t.Errorf("it has changed something:\n%s", diff)
	}
}

// beatingBucket is one whose member m1 lives: its heartbeat is another at every look.
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

// wantCut checks what a cut leaves: a log that is whole, of which nothing is destroyed, and
// which no writer of before can go on with.
func (w *world) wantCut(before map[string]string, got *inspect.CutReport) {
	w.t.Helper()
	for _, line := range w.verify(inspect.Scope{Conv: w.conv}) {
		if strings.HasPrefix(line, "damage") {
			w.t.Errorf("after the cut: %s", line)
		}
	}
	if again, err := inspect.Cut(w.t.Context(), w.bucket, w.conv, unserved); !errors.Is(err, inspect.ErrReadable) {
		w.t.Errorf("another cut: %+v, %v", again, err)
	}
	after := w.objects("")
	kept := slices.Collect(maps.Values(after))
	for _, key := range w.under("truncated/") {
		if name, err := storage.ParseKey(key); err != nil || !name.Cut || name.Conv != w.conv {
			w.t.Errorf("%s is parsed as %+v, %v", key, name, err)
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
			w.t.Errorf("a paused writer that had stored batch %d goes on: %v", seq, err)
		}
	}
	// The numbers stay taken when everything is compacted.
	keys, err := w.logs.Compactor(w.conv).Compact(context.Background(), got.Next-1, nil, 1)
	check(w.t, err)
	w.remove(keys)
	for seq := got.Last + 1; seq < got.Next; seq++ {
		if !slices.Contains(w.under("log/"), w.log(seq)) {
			w.t.Errorf("batch %d can be taken again", seq)
		}
	}
}

// TestCutIsInterrupted: whatever request is the last one, the log is as damaged as before
// or whole, the cut can be repeated, and whatever was there is still there.
func TestCutIsInterrupted(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		w.cut(w.log(33))
		before := w.objects("")
		dying := &dyingBucket{Bucket: w.bucket, left: n}
		first, err := inspect.Cut(t.Context(), dying, w.conv, unserved)
		if err == nil {
			return
		}
		if !errors.Is(err, errDied) {
			t.Fatalf("after %d writes: %v", n, err)
		}
		// Whoever repeats it finds claims in the place of some of them.
		if first == nil || len(first.Batches) != 3 || len(first.Submissions) != 1 {
			t.Errorf("after %d writes it does not say what is lost: %+v", n, first)
		}
		got, err := inspect.Cut(t.Context(), w.bucket, w.conv, unserved)
		if errors.Is(err, inspect.ErrReadable) {
			continue // it was over but for telling what is owed
		}
		check(t, err)
		if got.Last != 32 {
			t.Errorf("after %d writes it is cut behind %d, want 32", n, got.Last)
		}
		w.wantCut(before, got)
	}
}

var errDied = errors.New("died")

// dyingBucket takes so many writes.
type dyingBucket struct {
	storage.Bucket
	left int
}

func (b *dyingBucket) die() error {
	if b.left--; b.left < 0 {
		return errDied
	}
	return nil
}

func (b *dyingBucket) Create(ctx context.Context, key string, body storage.Body) error {
	if err := b.die(); err != nil {
		return err
	}
	return b.Bucket.Create(ctx, key, body)
}

func (b *dyingBucket) Put(ctx context.Context, key string, body storage.Body) error {
	if err := b.die(); err != nil {
		return err
	}
	return b.Bucket.Put(ctx, key, body)
}

func (b *dyingBucket) Delete(ctx context.Context, key string) error {
	if err := b.die(); err != nil {
		return err
	}
	return b.Bucket.Delete(ctx, key)
}
