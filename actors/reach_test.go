package actors

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// replacing is a store whose creates overwrite existing objects, unfit for a log.
type replacing struct{ storage.Bucket }

func (r replacing) Create(ctx context.Context, key string, body storage.Body) error {
	return r.Put(ctx, key, body)
}

// ahead is a store whose clock is behind this machine's.
type ahead struct{ storage.Bucket }

func (a ahead) Unwrap() storage.Bucket { return a.Bucket }

func (ahead) ClockAhead() time.Duration { return 2 * time.Minute }

// TestSharedBucketIsProbed: a node rejects an unfit store if others can reach it, and accepts it if it
// is exclusive.
func TestSharedBucketIsProbed(t *testing.T) {
	var logged bytes.Buffer
	run := func(t *testing.T, b storage.Bucket) error {
		r, err := New(b, &Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			select {
			case <-r.Ready():
				cancel()
			case <-ctx.Done():
			}
		}()
		return r.Run(ctx)
	}
	var unusable *BucketError
	var unfit *storage.ProbeError
	if err := run(t, replacing{local.NewMemory()}); !errors.As(err, &unusable) || !errors.As(err, &unfit) || !strings.Contains(err.Error(), "use a store of docs/buckets.md") {
		t.Errorf("got %v, want the probe's error", err)
	}
	if err := run(t, storagetest.Exclusive(replacing{local.NewMemory()})); err != nil {
		t.Errorf("exclusive bucket: got %v", err)
	}
	logged.Reset()
	if err := run(t, storagetest.Shared(ahead{local.NewMemory()})); err != nil || !strings.Contains(logged.String(), "clock differs from the bucket") ||
		!strings.Contains(logged.String(), "bucket passed the probe") {
		t.Errorf("fit store with another clock: got %v\n%s", err, &logged)
	}
}

// TestStoreThatDoesNotAnswer: a node waits a bounded time for a shared bucket, reports the clock
// difference, and stops at once when canceled.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := storagetest.Shared(storagetest.Through(local.NewMemory(), func(ctx context.Context, c *storagetest.Call) error {
			<-ctx.Done()
			return c.Unanswered(context.Cause(ctx))
		}))
		r, err := newRuntime(silent, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var unusable *BucketError
		if err := r.Run(t.Context()); !errors.As(err, &unusable) || !strings.Contains(err.Error(), "no usable answer within 15s") {
			t.Errorf("got %v", err)
		}
		took(t, began, 15*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("stopped: got %v", err)
		}
	})
}

// TestDefaultsFollowTheBucket: the defaults of pace and grace suit an exclusive bucket, or one behind
// a network.
func TestDefaultsFollowTheBucket(t *testing.T) {
	for name, tt := range map[string]struct {
		bucket      storage.Bucket
		opts        *Options
		pace, grace time.Duration
	}{
		"exclusive": {local.NewMemory(), nil, 50 * time.Millisecond, 10 * time.Second},
		"shared":    {storagetest.Shared(local.NewMemory()), nil, 250 * time.Millisecond, 10 * time.Minute},
		"author's":  {local.NewMemory(), &Options{Pace: time.Second, SegmentGrace: time.Minute}, time.Second, time.Minute},
	} {
		r, err := newRuntime(tt.bucket, tt.opts)
		if err != nil {
			t.Fatal(err)
		}
		if r.active.machines.Pace != tt.pace || r.opts.SegmentGrace != tt.grace {
			t.Errorf("%s: got pace %v, grace %v; want %v, %v", name, r.active.machines.Pace, r.opts.SegmentGrace, tt.pace, tt.grace)
		}
	}
}
