package storagetest_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// always selects one kind for every write.
func always(kind storagetest.Kind) func(storagetest.Op) storagetest.Kind {
	return func(op storagetest.Op) storagetest.Kind {
		if op.Method == http.MethodPut {
			return kind
		}
		return storagetest.None
	}
}

// way is a way to inject faults: it returns a bucket without faults, and one with a plan.
type way func(t *testing.T, plan storagetest.Plan) (clean, faulty storage.Bucket, faults releaser)

type releaser interface{ Release() int }

func TestKinds(t *testing.T) {
	over := func(b storage.Bucket, plan storagetest.Plan) (storage.Bucket, storage.Bucket, releaser) {
		faulty := storagetest.Faulty(b, plan)
		return b, faulty, faulty
	}
	onServers(t, func(t *testing.T, empty func(*testing.T, string) storage.Bucket) {
		kinds(t, func(t *testing.T, plan storagetest.Plan) (storage.Bucket, storage.Bucket, releaser) {
			return over(empty(t, ""), plan)
		})
	})
	t.Run("in process", func(t *testing.T) {
		kinds(t, func(t *testing.T, plan storagetest.Plan) (storage.Bucket, storage.Bucket, releaser) {
			return over(memory(t), plan)
		})
	})
	t.Run("below the S3 client", func(t *testing.T) {
		kinds(t, func(t *testing.T, plan storagetest.Plan) (storage.Bucket, storage.Bucket, releaser) {
			clean, faulty, faults := over(memory(t), plan)
			return clean, behindS3(t, faulty, ""), faults
		})
	})
}

func kinds(t *testing.T, make way) {
	for _, tt := range []struct {
		kind    storagetest.Kind
		want    error // Of the create.
		landed  string
		release int // Requests that Release lands.
	}{
		{storagetest.None, nil, "mine", 0},
		{storagetest.LostAck, storage.ErrUncertain, "mine", 0},
		{storagetest.Delayed, storage.ErrUncertain, "", 1},
		{storagetest.Duplicate, nil, "mine", 1},
		{storagetest.ErrorBefore, storage.ErrUncertain, "", 0},
		{storagetest.ErrorAfter, storage.ErrUncertain, "mine", 0},
		{storagetest.Timeout, storage.ErrUncertain, "", 0},
		{storagetest.ForeignWinner, storage.ErrExists, "theirs", 0},
	} {
		t.Run(tt.kind.String(), func(t *testing.T) {
			var clean storage.Bucket
			held := 0
			clean, faulty, faults := make(t, storagetest.Plan{
				Decide: always(tt.kind), DelayRequests: -1,
				ForeignWinner: func(key string) { put(t, clean, key, "theirs") },
				Hold:          func(storagetest.Op) { held++ },
			})
			err := faulty.Create(t.Context(), "k", storage.Bytes([]byte("mine")))
			if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
				t.Errorf("create: %v, want %v", err, tt.want)
			}
			if got := content(t, clean, "k"); got != tt.landed {
				t.Errorf("stored %q, want %q", got, tt.landed)
			}
			if want := map[bool]int{true: 1}[tt.landed != ""]; held != want {
				t.Errorf("hold was called %d times, want %d", held, want)
			}
			if n := faults.Release(); n != tt.release {
				t.Errorf("release landed %d requests, want %d", n, tt.release)
			}
			if got := content(t, clean, "k"); (tt.landed != "" || tt.release > 0) && got == "" {
				t.Errorf("nothing is stored after release")
			}
		})
	}
}

func put(t *testing.T, b storage.Bucket, key, content string) {
	t.Helper()
	if err := b.Put(t.Context(), key, storage.Bytes([]byte(content))); err != nil {
		t.Error(err)
	}
}

// content returns the stored content, "" if absent.
func content(t *testing.T, b storage.Bucket, key string) string {
	t.Helper()
	data, err := b.Get(t.Context(), key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	return string(data)
}

func TestDelayCountsRequests(t *testing.T) {
	store := memory(t)
	first := true
	faulty := storagetest.Faulty(store, storagetest.Plan{DelayRequests: 2, Decide: func(storagetest.Op) storagetest.Kind {
		defer func() { first = false }()
		return map[bool]storagetest.Kind{true: storagetest.Delayed}[first]
	}})
	put := faulty.Put(t.Context(), "k", storage.Bytes([]byte("late")))
	if !errors.Is(put, storage.ErrUncertain) {
		t.Fatal(put)
	}
	for i, want := range []string{"", "late"} {
		content(t, faulty, "other")
		if got := content(t, store, "k"); got != want {
			t.Errorf("after %d requests %q is stored, want %q", i+1, got, want)
		}
	}
}

// TestSeedDecides checks that the fault of a request depends on the seed but not on the order of other
// requests.
func TestSeedDecides(t *testing.T) {
	rates := map[storagetest.Kind]float64{storagetest.LostAck: .2, storagetest.ErrorBefore: .2, storagetest.Timeout: .2}
	drawn := func(seed uint64, concurrent bool) map[string]string {
		b := storagetest.Faulty(memory(t), storagetest.Plan{Seed: seed, Rates: rates})
		var mu sync.Mutex
		got := make(map[string]string)
		var wg sync.WaitGroup
		for i := range 40 {
			one := func() {
				for n := range 3 {
					err := b.Put(t.Context(), fmt.Sprint(i), storage.Bytes([]byte("x")))
					mu.Lock()
					got[fmt.Sprint(i, n)] = fmt.Sprint(err)
					mu.Unlock()
				}
			}
			if concurrent {
				wg.Go(one)
			} else {
				one()
			}
		}
		wg.Wait()
		return got
	}
	if diff := cmp.Diff(drawn(1, false), drawn(1, true)); diff != "" {
		t.Errorf("the order changes outcomes:\n%s", diff)
	}
	if cmp.Equal(drawn(1, false), drawn(2, false)) {
		t.Error("the seed changes nothing")
	}
}

func TestLatencyAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storagetest.Faulty(memory(t), storagetest.Plan{Latency: time.Second, Rates: map[storagetest.Kind]float64{storagetest.Timeout: 1},
			Match: func(op storagetest.Op) bool { return op.Key != "spared" }})
		start := time.Now()
		put(t, faulty, "spared", "x")
		if d := time.Since(start); d <= 0 || d > 2*time.Second {
			t.Errorf("the request took %v, want up to 2 s", d)
		}
		if err := faulty.Put(t.Context(), "k", storage.Bytes([]byte("x"))); !errors.Is(err, storage.ErrUncertain) {
			t.Errorf("put: %v, want an unknown outcome", err)
		}
		faulty.Heal()
		start = time.Now()
		put(t, faulty, "k", "x")
		if d := time.Since(start); d != 0 {
			t.Errorf("a healed request took %v", d)
		}
		if diff := cmp.Diff(map[storagetest.Kind]int{storagetest.Timeout: 1}, faulty.Injected()); diff != "" {
			t.Errorf("injected (-want +got):\n%s", diff)
		}
	})
}

func TestReadsFailToo(t *testing.T) {
	store := memory(t)
	put(t, store, "k", "x")
	for kind, want := range map[storagetest.Kind]error{
		storagetest.LostAck: storage.ErrUnavailable, storagetest.Timeout: storage.ErrUnavailable, storagetest.Delayed: storage.ErrUnavailable,
		storagetest.ErrorBefore: storage.ErrUnavailable, storagetest.ErrorAfter: storage.ErrUnavailable,
		storagetest.Duplicate: nil, storagetest.ForeignWinner: nil,
	} {
		b := storagetest.Faulty(store, storagetest.Plan{Decide: func(storagetest.Op) storagetest.Kind { return kind }})
		_, err := b.Get(t.Context(), "k")
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: get: %v, want %v", kind, err, want)
		}
		if _, err = b.List(t.Context(), storage.ListQuery{}); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: list: %v, want %v", kind, err, want)
		}
	}
}

func TestCounter(t *testing.T) {
	counter := storagetest.NewCounter()
	b := counter.Bucket(memory(t))
	logs := storage.NewLogs(b, nil)
	conv := testKey(t)
	w := logs.Writer(conv, "n", storage.Start(), 1)
	for range 3 {
		if _, err := w.Append(t.Context(), []byte("{}\n"), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := storage.NewJournalWriter(b).Write(t.Context(), storage.Journal{Member: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := storage.PutBlob(t.Context(), b, conv, storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	content(t, b, "x")
	want := map[storagetest.Request]int{
		{Method: "PUT", Class: storagetest.Log}:   3,
		{Method: "LIST", Class: storagetest.Log}:  1, // The claim is verified once.
		{Method: "PUT", Class: storagetest.Busy}:  1,
		{Method: "PUT", Class: storagetest.Blob}:  1,
		{Method: "GET", Class: storagetest.Other}: 1,
	}
	if diff := cmp.Diff(want, counter.Counts()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	counter.Reset()
	if n := len(counter.Counts()); n != 0 {
		t.Errorf("%d kinds of request after a reset", n)
	}
}
