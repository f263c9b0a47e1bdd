package work

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

func countingFeed() (f *feed, calls *int) {
	calls = new(int)
	return &feed{ready: func() { *calls++ }}, calls
}

func text(s string) machine.ModelEvent {
	return machine.ModelEvent{Kind: machine.ModelText, Text: s}
}

func TestFeedCoalescesTextInOrder(t *testing.T) {
	f, calls := countingFeed()
	reasoning := func(s string) machine.ModelEvent {
		return machine.ModelEvent{Kind: machine.ModelReasoning, Text: s}
	}
	call := func(name string) machine.ModelEvent {
		return machine.ModelEvent{Kind: machine.ModelCall, Name: name, Input: json.RawMessage(`{}`)}
	}
	for _, e := range []machine.ModelEvent{
		reasoning("a"), reasoning("b"), text("c"), text("d"), reasoning("e"), text("f"), call("x"), call("y"), text("g"), text("h"),
		{Kind: machine.ModelDone, StopReason: "stop"},
	} {
		if err := f.push(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	want := []machine.ModelEvent{
		reasoning("ab"), text("cd"), reasoning("e"), text("f"), call("x"), call("y"), text("gh"),
		{Kind: machine.ModelDone, StopReason: "stop"},
	}
	facts := conversation.CallFacts{API: "demo"}
	passed := &machine.Replaced{Name: "demo/two"}
	f.from("demo/one", passed, facts)
	if diff := cmp.Diff(machine.Model{Name: "demo/one", Passed: passed, Facts: facts, Events: want}, f.take()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if *calls != 1 {
		t.Errorf("ready called %d times before take, want 1", *calls)
	}
	if got := f.take(); len(got.Events) != 0 {
		t.Errorf("second take: got %v, want no events", got)
	}
	if err := f.push(t.Context(), text("i")); err != nil {
		t.Fatal(err)
	}
	if *calls != 2 {
		t.Errorf("ready called %d times after take, want 2", *calls)
	}
}

func TestFullFeedBlocksProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := countingFeed()
		big := strings.Repeat("x", maxFeedBytes/4)
		pushed := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 8 {
				if err := f.push(t.Context(), text(big)); err != nil {
					t.Error(err)
				}
				pushed++
			}
		}()
		synctest.Wait()
		if pushed != 4 {
			t.Fatalf("pushed %d events into a full feed, want 4", pushed)
		}
		took := 0
		for range 3 {
			for _, e := range f.take().Events {
				took += len(e.Text)
			}
			synctest.Wait()
		}
		<-done
		if took != 8*len(big) {
			t.Errorf("take: got %d bytes, want %d", took, 8*len(big))
		}
	})
}

func TestCancelledPushLeavesFullFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := countingFeed()
		if err := f.push(t.Context(), text(strings.Repeat("x", maxFeedBytes))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() { result <- f.push(ctx, text("more")) }()
		synctest.Wait()
		select {
		case err := <-result:
			t.Fatalf("push into a full feed: got error %v, want a blocked call", err)
		default:
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled push: got error %v", err)
		}
		if got := f.take().Events; len(got) != 1 || len(got[0].Text) != maxFeedBytes {
			t.Errorf("after a cancelled push: got %d events, want 1", len(got))
		}
	})
}

// TestFeedCountsEvents checks that short events count with their overhead.
func TestFeedCountsEvents(t *testing.T) {
	f, _ := countingFeed()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	kinds := []machine.ModelEventKind{machine.ModelText, machine.ModelReasoning}
	n := 0
	for n < maxFeedBytes && f.push(ended, machine.ModelEvent{Kind: kinds[n%2], Text: "x"}) == nil {
		n++
	}
	if most := maxFeedBytes/eventBytes + 1; n > most {
		t.Errorf("got %d queued events, want at most %d", n, most)
	}
}
