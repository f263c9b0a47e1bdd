package memory_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/memory"
)

func TestTake(t *testing.T) {
	b := memory.New(100)
	readers, bodies := b.Account("readers", 60), b.Account("bodies", 0)
	must(t, readers.Take(60))
	if readers.Room(1) || !bodies.Room(40) || bodies.Room(41) {
		t.Error("Room does not match the remaining bytes")
	}

	var full *memory.FullError
	if err := readers.Take(1); !errors.As(err, &full) || !errors.Is(err, memory.ErrFull) {
		t.Fatalf("take beyond the share: got %v", err)
	}
	if want := (memory.FullError{Account: "readers", Asked: 1, Used: 60, Limit: 60}); *full != want {
		t.Errorf("beyond the share: got %+v, want %+v", *full, want)
	}
	must(t, bodies.Take(40))
	if err := bodies.Take(1); !errors.As(err, &full) {
		t.Fatalf("take beyond the budget: got %v", err)
	}
	if want := (memory.FullError{Account: "bodies", Asked: 1, Used: 100, Limit: 100, Shared: true}); *full != want {
		t.Errorf("beyond the budget: got %+v, want %+v", *full, want)
	}

	readers.Add(-60)
	must(t, bodies.Take(60))
	want := []memory.Usage{{Account: "readers", Refused: 1}, {Account: "bodies", Used: 100, Refused: 1}}
	if diff := cmp.Diff(want, b.Usage()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestLargeClaimsLeaveRoom checks that large claims are rejected while small ones succeed.
func TestLargeClaimsLeaveRoom(t *testing.T) {
	const most, small = 1 << 20, 64 << 10
	b := memory.New(most)
	bodies, readers := b.Account("bodies", 0), b.Account("readers", 0)
	must(t, bodies.Take(most/4*3))
	var full *memory.FullError
	if err := bodies.Take(small + 1); !errors.As(err, &full) {
		t.Fatalf("large claim in the last quarter: got %v", err)
	}
	if want := (memory.FullError{Account: "bodies", Asked: small + 1, Used: most / 4 * 3, Limit: most / 4 * 3, Shared: true}); *full != want {
		t.Errorf("got error %+v, want %+v", *full, want)
	}
	for range most / 4 / small {
		must(t, readers.Take(small))
	}
	if err := readers.Take(1); !errors.Is(err, memory.ErrFull) {
		t.Errorf("small claim: got error %v", err)
	}
}

func TestRunningWorkGoesOn(t *testing.T) {
	b := memory.New(10)
	calls, conversations := b.Account("calls", 0), b.Account("conversations", 0)
	calls.Add(25)
	if got := calls.Used(); got != 25 {
		t.Errorf("holds %d bytes, want 25", got)
	}
	want := "25 of the 10 bytes of memory of this node are in use"
	if err := conversations.Full(); !errors.Is(err, memory.ErrFull) || err.Error() != want {
		t.Errorf("concurrent new work: got %v, want %s", err, want)
	}
	calls.Add(-16)
	must(t, conversations.Full())
	if got := conversations.Used(); got != 0 {
		t.Errorf("asking took %d bytes", got)
	}
}

func TestGivingBackTooMuchPanics(t *testing.T) {
	a := memory.New(10).Account("bodies", 0)
	defer func() {
		if recover() == nil {
			t.Error("got no panic")
		}
	}()
	a.Add(-1)
}

func TestNothingBoundsNothing(t *testing.T) {
	var b *memory.Budget
	a := b.Account("bodies", 1)
	must(t, a.Take(1<<40))
	a.Add(-1 << 50)
	must(t, a.Full())
	a.Turn(1 << 40) // never released
	a.Turn(1 << 40)()
	if !a.Room(1 << 40) {
		t.Error("nil budget: got an error, want no limit")
	}
	if a.Used() != 0 || b.Limit() != 0 || b.Usage() != nil || b.Waiting() != 0 {
		t.Error("nil budget: got held bytes, want 0")
	}
	unbounded := memory.New(0).Account("bodies", 0)
	must(t, unbounded.Take(1<<40))
	if got := unbounded.Used(); got != 1<<40 {
		t.Errorf("an unbounded budget counts %d", got)
	}
}

func TestConcurrentTakes(t *testing.T) {
	b := memory.New(1000)
	a := b.Account("bodies", 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if a.Take(7) == nil {
					a.Add(-7)
				}
			}
		})
	}
	wg.Wait()
	if got := a.Used(); got != 0 {
		t.Errorf("got %d bytes held after all releases, want 0", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
