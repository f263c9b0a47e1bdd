package work

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/conversation"
)

func TestDispatchGateTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		if err := g.enter(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		var order []string
		wait := func(ctx context.Context, agent, name string) {
			go func() {
				if g.enter(ctx, agent) == nil {
					order = append(order, name)
					g.leave()
				}
			}()
			synctest.Wait()
		}
		impatient, leave := context.WithCancel(t.Context())
		wait(t.Context(), "loud", "l1")
		wait(impatient, "loud", "gone")
		wait(t.Context(), "loud", "l2")
		wait(t.Context(), "loud", "l3")
		wait(impatient, "other", "gone too")
		wait(t.Context(), "calm", "c1")
		leave()
		synctest.Wait()
		if waiting, _ := g.counts(); waiting != 4 {
			t.Errorf("got %d queued, want 4", waiting)
		}
		g.leave()
		synctest.Wait()
		if want := []string{"l1", "c1", "l2", "l3"}; !slices.Equal(order, want) {
			t.Errorf("got order %v, want %v", order, want)
		}
		if err := g.enter(t.Context(), "first"); err != nil || g.free != 0 || len(g.agents) != 0 {
			t.Errorf("at the end: got error %v, %d free, agents %q; want nil, 0, none", err, g.free, g.agents)
		}
	})
}

func TestDispatchGateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := newGate(0)
		for range maxQueuedDispatches {
			go func() { _ = g.enter(ctx, "loud") }()
		}
		synctest.Wait()
		if err := g.enter(ctx, "loud"); conversation.CodeOf(err) != conversation.CodeUnavailable {
			t.Errorf("message above the limit: got error %v, want unavailable", err)
		}
		go func() {
			if err := g.enter(ctx, "calm"); !errors.Is(err, context.Canceled) {
				t.Errorf("another agent: got error %v, want canceled", err)
			}
		}()
		synctest.Wait()
		if waiting, refused := g.counts(); waiting != maxQueuedDispatches+1 || refused != 1 {
			t.Errorf("got %d queued and %d refused, want %d and 1", waiting, refused, maxQueuedDispatches+1)
		}
		cancel()
		synctest.Wait()
		if waiting, _ := g.counts(); waiting != 0 || len(g.agents) != 0 {
			t.Errorf("after cancel: got %d queued, agents %q, want none", waiting, g.agents)
		}
	})
}
