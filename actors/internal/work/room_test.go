package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/memory"
)

var bigTool = toolName{"chat", "big"}

// TestCallsWaitForOutputs checks that earlier output sizes limit concurrent calls.
func TestCallsWaitForOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 10 << 20
		account := memory.New(0).Account("tool outputs", 3*costOf(size))
		o := newToolOutputs(account)
		began := make(chan *outputRoom, 100)
		begin := func(ctx context.Context, most time.Duration) {
			go func() {
				room, err := o.reserve(ctx, bigTool, most)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want %v", err, context.Canceled)
				}
				began <- room
			}()
		}
		want := func(when string, n int) {
			t.Helper()
			synctest.Wait()
			if len(began) != n {
				t.Fatalf("%s: got %d calls that began, want %d", when, len(began), n)
			}
		}
		for range 5 {
			begin(t.Context(), time.Minute)
		}
		want("nothing is known", 1)
		first := <-began
		first.returned(size)
		want("one has returned, and leaves room for one of unknown size", 1)
		time.Sleep(unknownWait)
		want("it was waited for", 4) // calls that started before
		for range 4 {
			room := <-began
			room.returned(size)
			room.release()
		}
		begin(t.Context(), time.Minute)
		begin(t.Context(), time.Minute)
		want("two fit beside it", 2)
		ctx, cancel := context.WithCancel(t.Context())
		begin(ctx, time.Minute)
		begin(t.Context(), time.Minute)
		want("all is in use", 2)
		cancel()
		want("one was aborted", 3)
		first.release()
		first.release()
		want("one gave its room back", 4)
		begin(t.Context(), time.Second)
		want("all is in use again", 4)
		time.Sleep(time.Second)
		want("it waited for as long as it may run", 5)
		for range 5 {
			(<-began).release()
		}
		if used := account.Used(); used != 0 {
			t.Errorf("got %d bytes in use at the end, want 0", used)
		}
	})
}

func TestSmallOutputsDoNotWait(t *testing.T) {
	account := memory.New(0).Account("tool outputs", 1<<20)
	o := newToolOutputs(account)
	o.learn(bigTool, 100)
	for range 1000 {
		if _, err := o.reserve(t.Context(), bigTool, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEstimates(t *testing.T) {
	o := newToolOutputs(nil)
	for _, tt := range []struct{ returned, want int64 }{{800, 800}, {0, 700}, {900, 900}, {10, 787}} {
		if o.learn(bigTool, tt.returned); o.sizes[bigTool] != tt.want {
			t.Errorf("after an output of %d bytes: got an estimate of %d, want %d", tt.returned, o.sizes[bigTool], tt.want)
		}
	}
	for i := range maxTools {
		o.learn(toolName{"chat", string(rune(i + 1))}, 1)
	}
	if n := len(o.sizes); n > maxTools {
		t.Errorf("got estimates of %d tools, want at most %d", n, maxTools)
	}
}

// TestFewOutputsAreEncodedAtOnce checks that large outputs take turns, small ones do not, and a turn
// without end delays others only for a bounded time.
func TestFewOutputsAreEncodedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newToolOutputs(memory.New(0).Account("tool outputs", 1<<20))
		room, err := o.reserve(t.Context(), bigTool, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		encode := func(ctx context.Context, size int64) time.Duration {
			began := time.Now()
			if _, err := room.encode(ctx, size); !errors.Is(err, ctx.Err()) {
				t.Errorf("encode %d bytes: got error %v, want %v", size, err, ctx.Err())
			}
			return time.Since(began)
		}
		for range memory.Turns() {
			if took := encode(t.Context(), smallOutput+1); took != 0 {
				t.Errorf("a free turn: waited for %v, want 0", took)
			}
		}
		if took := encode(t.Context(), smallOutput); took != 0 {
			t.Errorf("a small output: waited for %v, want 0", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took := encode(ctx, smallOutput+1); took != time.Second {
			t.Errorf("an output whose work is cancelled after 1s: waited for %v", took)
		}
		if took := encode(t.Context(), smallOutput+1); took != encodeWait {
			t.Errorf("no turn ends: waited for %v, want %v", took, encodeWait)
		}
	})
}
