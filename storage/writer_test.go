package storage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// TestAppendResolves checks that an append survives each fault and stores its batch once.
func TestAppendResolves(t *testing.T) {
	cases := map[string]appendFaults{
		"no fault":          {"PUT", nil, requests(2, 0, 1)},
		"lost ack":          {"PUT", []storagetest.Kind{storagetest.LostAck}, requests(3, 1, 1)},
		"error after":       {"PUT", []storagetest.Kind{storagetest.ErrorAfter}, requests(3, 1, 1)},
		"error before":      {"PUT", []storagetest.Kind{storagetest.ErrorBefore, storagetest.ErrorBefore}, requests(2, 0, 1)},
		"timeout":           {"PUT", []storagetest.Kind{storagetest.None, storagetest.Timeout}, requests(2, 0, 1)},
		"delayed":           {"PUT", []storagetest.Kind{storagetest.Delayed}, requests(2, 0, 1)},
		"read-back fails":   {"GET", []storagetest.Kind{storagetest.Timeout, storagetest.LostAck}, requests(2, 0, 1)},
		"verification lost": {"LIST", []storagetest.Kind{storagetest.Timeout, storagetest.LostAck, storagetest.ErrorBefore}, requests(2, 0, 2)},
	}
	for name, faults := range cases {
		t.Run("memory/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faults.resolve(t, memory(t), nil) })
		})
	}
	t.Run("versitygw", func(t *testing.T) {
		server := s3server.Versitygw(t)
		// Real time: backoffs are short, and the timeouts allow for a slow machine.
		opts := &storage.LogOptions{Retry: storage.Retry{Attempt: time.Minute, Read: time.Minute, Min: time.Millisecond, Max: time.Millisecond}}
		for name, faults := range cases {
			t.Run(name, func(t *testing.T) { faults.resolve(t, onServer(t, server), opts) })
		}
	})
}

type appendFaults struct {
	method string
	kinds  []storagetest.Kind
	want   map[storagetest.Request]int // Requests that reach the store for two appends.
}

func (f appendFaults) resolve(t *testing.T, b storage.Bucket, opts *storage.LogOptions) {
	clean, counter := storage.NewLogs(b, nil), storagetest.NewCounter()
	w := storage.NewLogs(faults(counter.Bucket(b), f.method, f.kinds...), opts).Writer(keyOf("x"), "n1", storage.Start(), 1)
	first := mustAppend(t, w, "{\"i\":0}\n")
	second := mustAppend(t, w, "{\"i\":1}\n")
	if diff := cmp.Diff(f.want, counter.Counts()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	got := readAll(t, clean, keyOf("x"))
	if len(got) != 2 || got[0].Position() != first || got[1].Position() != second || string(got[1].Lines) != "{\"i\":1}\n" {
		t.Errorf("got log %+v", got)
	}
}

func requests(put, get, list int) map[storagetest.Request]int {
	m := map[storagetest.Request]int{{Method: "PUT", Class: storagetest.Log}: put, {Method: "LIST", Class: storagetest.Log}: list}
	if get > 0 {
		m[storagetest.Request{Method: "GET", Class: storagetest.Log}] = get
	}
	return m
}

// TestAppendReadBack checks the outcome of a 412 if the read-back meets faults: they are retried, and
// the outcome stays exact.
func TestAppendReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		puts, gets := 0, 0
		faulty := storagetest.Faulty(memory(t), storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
			switch op.Method {
			case "PUT":
				if puts++; puts == 1 {
					return storagetest.LostAck
				}
			case "GET":
				if gets++; gets <= 7 {
					return storagetest.Timeout
				}
			}
			return storagetest.None
		}})
		w := storage.NewLogs(faulty, nil).Writer(keyOf("x"), "n1", storage.Start(), 1)
		if pos := mustAppend(t, w, "{}\n"); pos.Seq != 0 || gets != 8 {
			t.Errorf("position %v after %d reads, want 0 after 8", pos, gets)
		}
	})
}

func TestAppendFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		clean := storage.NewLogs(store, nil)
		claim := func(string) { mustAppend(t, clean.Writer(keyOf("x"), "winner", storage.Start(), 1), "{}\n") }
		faulty := storagetest.Faulty(store, storagetest.Plan{ForeignWinner: claim, Decide: func(storagetest.Op) storagetest.Kind {
			return storagetest.ForeignWinner
		}})
		counter := storagetest.NewCounter()
		w := storage.NewLogs(counter.Bucket(faulty), nil).Writer(keyOf("x"), "loser", storage.Start(), 1)
		_, err := w.Append(t.Context(), []byte("{\"mine\":1}\n"), 1)
		var fenced *storage.FencedError
		if !errors.As(err, &fenced) || fenced.Winner != "winner" || fenced.Seq != 0 || fenced.Conv != keyOf("x") {
			t.Fatalf("got %v, want fenced at 0 by winner", err)
		}
		counter.Reset()
		if _, again := w.Append(t.Context(), []byte("{}\n"), 1); again != err {
			t.Errorf("second append: %v, want the first error", again)
		}
		if diff := cmp.Diff(map[storagetest.Request]int{}, counter.Counts()); diff != "" {
			t.Errorf("a fenced writer sent requests:\n%s", diff)
		}
	})
}

// TestAppendTakenThenGone covers a 412 whose object is gone at the read-back.
func TestAppendTakenThenGone(t *testing.T) {
	b := memory(t)
	key := storage.LogKey(keyOf("x"), 0)
	if err := b.Create(t.Context(), key, storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	w := storage.NewLogs(vanishing{b}, nil).Writer(keyOf("x"), "n1", storage.Start(), 1)
	_, err := w.Append(t.Context(), nil, 1)
	var fenced *storage.FencedError
	if !errors.As(err, &fenced) || fenced.Winner != "" || !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v, want fenced by an unknown winner", err)
	}
}

// vanishing deletes an object before it is read.
type vanishing struct{ storage.Bucket }

func (v vanishing) Get(ctx context.Context, key string) ([]byte, error) {
	if err := v.Delete(ctx, key); err != nil {
		return nil, err
	}
	return v.Bucket.Get(ctx, key)
}

func TestAppendUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		faulty := faults(store, "PUT", storagetest.Delayed, storagetest.Timeout, storagetest.Timeout, storagetest.Timeout, storagetest.Timeout, storagetest.Timeout)
		logs := storage.NewLogs(faulty, nil)
		w := logs.Writer(keyOf("x"), "n1", storage.Start(), 1)
		_, err := w.Append(withTimeout(t, time.Second), []byte("{}\n"), 1)
		if !errors.Is(err, storage.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want an unknown outcome by deadline", err)
		}
		if _, again := w.Append(t.Context(), []byte("{}\n"), 1); again != err {
			t.Errorf("second append: %v, want the first error", again)
		}
		if n := faulty.Release(); n != 1 {
			t.Fatalf("%d delayed requests, want 1", n)
		}
		if got := readAll(t, logs, keyOf("x")); len(got) != 1 || got[0].Nonce != "n1" {
			t.Errorf("the late batch is not in the log: %+v", got)
		}
	})
}

func TestAppendVerifiesUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storagetest.Faulty(memory(t), storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
			return map[bool]storagetest.Kind{true: storagetest.Timeout}[op.Method == "LIST"]
		}})
		w := storage.NewLogs(faulty, nil).Writer(keyOf("x"), "n1", storage.Start(), 1)
		if _, err := w.Append(withTimeout(t, time.Minute), []byte("{}\n"), 1); !errors.Is(err, storage.ErrUncertain) {
			t.Errorf("got %v: a claim that was not verified must not be acknowledged", err)
		}
		if n := faulty.Injected()[storagetest.Timeout]; n < 50 {
			t.Errorf("%d lists in a minute, want it to go on", n)
		}
	})
}

func TestAppendRefused(t *testing.T) {
	forbidden := true
	b := storagetest.Through(memory(t), func(ctx context.Context, c *storagetest.Call) error {
		if forbidden && c.Method == "PUT" {
			return &storage.Error{Op: storage.OpCreate, Key: c.Key, Kind: storage.ErrRefused, Status: 403}
		}
		return c.Do(ctx)
	})
	w := storage.NewLogs(b, &storage.LogOptions{MaxBatchBytes: 1000}).Writer(keyOf("x"), "n1", storage.Start(), 1)
	if _, err := w.Append(t.Context(), []byte("{}\n"), 1); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("403: %v, want ErrRefused", err)
	}
	if _, err := w.Append(t.Context(), []byte("{}"), 1); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("no newline: %v, want ErrRefused", err)
	}
	if _, err := w.Append(t.Context(), append(make([]byte, 1000), '\n'), 1); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("too large: %v, want ErrRefused", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Append(ended, []byte("{}\n"), 1); !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUncertain) {
		t.Errorf("ended context: %v, want no unknown outcome", err)
	}
	forbidden = false
	if pos := mustAppend(t, w, "{}\n"); pos.Seq != 0 {
		t.Errorf("after the refusals: position %v, want 0", pos)
	}
}

// TestAppendOneAtATime holds an append between its write and its answer and calls a second one.
func TestAppendOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		landed := make(chan struct{})
		faulty := storagetest.Faulty(memory(t), storagetest.Plan{Hold: func(storagetest.Op) { <-landed }})
		w := storage.NewLogs(faulty, nil).Writer(keyOf("x"), "n1", storage.Start(), 1)
		done := make(chan error)
		go func() {
			_, err := w.Append(t.Context(), []byte("{}\n"), 1)
			done <- err
		}()
		synctest.Wait()
		if _, err := w.Append(t.Context(), []byte("{}\n"), 1); !errors.Is(err, storage.ErrConcurrentAppend) {
			t.Errorf("second append: %v, want ErrRefused as concurrent", err)
		}
		close(landed)
		if err := <-done; err != nil {
			t.Errorf("first append: %v", err)
		}
		if pos := mustAppend(t, w, "{}\n"); pos.Seq != 1 {
			t.Errorf("third append: %v, want 1", pos)
		}
	})
}

// TestBackOff checks that each backoff lies between half and all of the doubled time, depending on the
// jitter.
func TestBackOff(t *testing.T) {
	for jitter, want := range map[float64][]time.Duration{
		0:        {50, 100, 200, 400, 800, 1000, 1000},
		0.999999: {25, 50, 100, 200, 400, 500, 500},
	} {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Time
			faulty := storagetest.Faulty(memory(t), storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
				if op.Method != "PUT" {
					return storagetest.None
				}
				at = append(at, time.Now())
				return map[bool]storagetest.Kind{true: storagetest.ErrorBefore}[len(at) <= len(want)]
			}})
			logs := storage.NewLogs(faulty, &storage.LogOptions{Retry: storage.Retry{Jitter: func() float64 { return jitter }}})
			mustAppend(t, logs.Writer(keyOf("x"), "n1", storage.Start(), 1), "{}\n")
			for i := range want {
				if got := at[i+1].Sub(at[i]).Round(time.Millisecond); got != want[i]*time.Millisecond {
					t.Errorf("jitter %v, wait %d is %v, want %v ms", jitter, i, got, int(want[i]))
				}
			}
		})
	}
}

// TestAttemptTimeout checks that an attempt times out and is retried while the caller waits.
func TestAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timedOut := 0
		b := storagetest.Through(memory(t), func(ctx context.Context, c *storagetest.Call) error {
			if c.Method == "PUT" && timedOut < 2 {
				timedOut++
				<-ctx.Done()
				return c.Unanswered(ctx.Err())
			}
			return c.Do(ctx)
		})
		start := time.Now()
		mustAppend(t, storage.NewLogs(b, nil).Writer(keyOf("x"), "n1", storage.Start(), 1), "{}\n")
		if d := time.Since(start); d < 4*time.Second || d > 5*time.Second {
			t.Errorf("two attempts that hang took %v, want 2 s each and the back-off", d)
		}
	})
}

// TestReadsAreBounded checks that a read of an unavailable bucket returns an error.
func TestReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		mustAppend(t, storage.NewLogs(store, nil).Writer(keyOf("x"), "n1", storage.Start(), 1), "{}\n")
		for method, want := range map[string]int{"LIST": 4, "GET": 4} {
			faulty := storagetest.Faulty(store, storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
				return map[bool]storagetest.Kind{true: storagetest.ErrorBefore}[op.Method == method]
			}})
			logs := storage.NewLogs(faulty, nil)
			var last error
			for _, err := range logs.Batches(t.Context(), keyOf("x"), storage.Start()) {
				last = err
			}
			if n := faulty.Injected()[storagetest.ErrorBefore]; !errors.Is(last, storage.ErrUnavailable) || n != want {
				t.Errorf("%s: %v after %d attempts, want no answer after %d", method, last, n, want)
			}
		}
	})
}

// TestContinue replaces a writer that claimed: no request verifies a second claim, and a concurrent
// writer fences it.
func TestContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counter := storagetest.NewCounter()
		logs := storage.NewLogs(counter.Bucket(memory(t)), nil)
		first := mustAppend(t, logs.Writer(keyOf("x"), "n1", storage.Start(), 1), "{\"i\":0}\n")
		counter.Reset()
		second := mustAppend(t, logs.Continue(keyOf("x"), "n1", first, 1), "{\"i\":1}\n")
		if diff := cmp.Diff(map[storagetest.Request]int{{Method: "PUT", Class: storagetest.Log}: 1}, counter.Counts()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		got := readAll(t, logs, keyOf("x"))
		if len(got) != 2 || got[1].First || got[1].Epoch != 1 || got[1].Position() != second {
			t.Errorf("got log %+v", got)
		}
		mustAppend(t, logs.Writer(keyOf("x"), "n2", second, 2), "")
		_, err := logs.Continue(keyOf("x"), "n1", second, 1).Append(t.Context(), nil, 0)
		var fenced *storage.FencedError
		if !errors.As(err, &fenced) || fenced.Winner != "n2" {
			t.Errorf("append returned %v, want fenced by n2", err)
		}
	})
}
