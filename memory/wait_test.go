package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/memory"
)

// TestWait checks that claims are granted in order of arrival, and that small ones do not wait behind
// large ones.
func TestWait(t *testing.T) {
	const kib, limit = int64(1 << 10), int64(1 << 20)
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(limit)
		outputs, others := b.Account("outputs", limit/2), b.Account("others", 0)
		var granted []string
		wait := func(ctx context.Context, name string, n int64) {
			go func() {
				if err := outputs.Wait(ctx, n); err != nil {
					name += ": " + err.Error()
				}
				granted = append(granted, name)
			}()
			synctest.Wait()
		}
		holds := func(used, waiters int64, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := outputs.Used(); got != used*kib || outputs.Waiters() != waiters {
				t.Errorf("got %d KiB used and %d waiters, want %d and %d", got/kib, outputs.Waiters(), used, waiters)
			}
			if len(granted) != len(want) {
				t.Fatalf("got grants %q, want %q", granted, want)
			}
			for i := range want {
				if granted[i] != want[i] {
					t.Errorf("got grants %q, want %q", granted, want)
				}
			}
			granted = nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(t.Context(), "beyond any bound", 4*limit)
		holds(4<<10, 0, "beyond any bound")
		wait(t.Context(), "first", 400*kib)
		wait(ctx, "cancelled", 400*kib)
		wait(t.Context(), "second", 100*kib)
		holds(4<<10, 3)
		outputs.Add(-4 * limit)
		holds(400, 2, "first")
		wait(t.Context(), "small", 64*kib)
		holds(464, 2, "small")
		cancel()
		holds(464, 1, "cancelled: context canceled")
		outputs.Add(-64 * kib)
		holds(500, 0, "second")

		others.Add(limit)
		outputs.Add(-500 * kib)
		wait(t.Context(), "alone", 100*kib)
		wait(t.Context(), "next", 100*kib)
		holds(100, 1, "alone")
		others.Add(-limit)
		holds(200, 0, "next")
	})
}

// TestWaitsEnd checks that a claim whose context has ended reserves nothing, even if memory is freed
// at the same time.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := memory.New(100<<20).Account("outputs", 1<<20)
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			a.Add(1 << 20)
			done := make(chan error, 1)
			go func() { done <- a.Wait(ctx, 1<<20) }()
			synctest.Wait()
			go cancel()
			a.Add(-1 << 20)
			switch err := <-done; {
			case err == nil:
				a.Add(-1 << 20)
			case !errors.Is(err, context.Canceled):
				t.Fatalf("got error %v, want %v", err, context.Canceled)
			}
			if a.Used() != 0 || a.Waiters() != 0 {
				t.Fatalf("got %d bytes used and %d waiters, want none", a.Used(), a.Waiters())
			}
		}
	})
}

func TestAmple(t *testing.T) {
	a := memory.New(400).Account("outputs", 0)
	for used, want := range map[int64]bool{0: true, 99: true, 100: false, 400: false} {
		a.Add(used)
		if got := a.Ample(); got != want {
			t.Errorf("with %d of 400 bytes in use: ample %t, want %t", used, got, want)
		}
		a.Add(-used)
	}
	if unbounded := memory.New(0).Account("outputs", 0); !unbounded.Ample() {
		t.Error("got no ample room without a bound")
	}
}
