package actors_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage/storagetest"
)

// roomForThree fits three idle conversations of one or two turns, about 19 kB each, but not four.
const roomForThree = 64_000

// inMemory returns those conversations that are in memory.
func (n *actorNode) inMemory(ids ...string) (out []string) {
	synctest.Wait()
	for _, id := range ids {
		if n.rt.InMemory(chat(id)) {
			out = append(out, id)
		}
	}
	return out
}

// idleOf returns a node's idle usage of one consumer.
func (n *actorNode) idleOf(consumer string) memory.IdleUsage {
	n.w.tb.Helper()
	for _, u := range n.rt.Status().Idle {
		if u.Consumer == consumer {
			return u
		}
	}
	n.w.tb.Fatalf("no usage of %s", consumer)
	return memory.IdleUsage{}
}

// continuesSameWriter runs a turn of a passivated conversation that still has readers, and expects the same writer
// to continue.
func (n *actorNode) continuesSameWriter(ctx context.Context, l *loop, at conversation.Address, turn func()) {
	l.tb.Helper()
	batches, resumed := len(l.batches(at)), make(chan error, 1)
	go func() { resumed <- n.rt.Reader().Wait(ctx, at, conversation.Offset(batches-1)) }()
	go func() { _ = n.rt.Reader().Wait(ctx, at, 1000) }() // until ctx ends
	synctest.Wait()
	n.counts.Reset()
	turn()
	if err := <-resumed; err != nil {
		l.tb.Error(err)
	}
	if got := l.claims(at); len(got) != 1 {
		l.tb.Errorf("got claims %v, want 1", got)
	}
	if got, want := n.counts.Counts()[put(storagetest.Log)], len(l.batches(at))-batches; got != want {
		l.tb.Errorf("got %d appends for %d batches, want no lost append", got, want)
	}
}

// TestIdleConversationsAreEvicted: beyond the limit, the least recently used idle conversations leave
// memory, no others do, and all of them continue unchanged.
func TestIdleConversationsAreEvicted(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k, begun, release := &work{}, make(chan struct{}), make(chan struct{})
		busy := held(begun, release, replies("at last"))
		suspended := inTurn(toolCalls("remind"), replies("reminded"))
		opts := agents(chatAgent(reminds(k, time.Hour)))
		opts.IdleBytes = 2 * roomForThree
		n := l.run(part{opts: opts, vendor: onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			switch shown(req)[0] {
			case "user: be busy":
				return busy(ctx, req, a)
			case "user: park":
				return suspended(ctx, req, a)
			}
			return replies("hello")(ctx, req, a)
		})})
		turns := map[string]int{}
		turn := func(id string) {
			t.Helper()
			time.Sleep(time.Second)
			turns[id]++
			n.admit(chat(id), fmt.Sprint(turns[id]), "hello")
			l.completes(chat(id), turns[id])
		}
		want := func(when string, ids ...string) {
			t.Helper()
			if diff := cmp.Diff(ids, n.inMemory("busy", "parked", "0", "1", "2", "3", "4", "5")); diff != "" {
				t.Errorf("in memory, %s (-want +got):\n%s", when, diff)
			}
		}

		n.admit(chat("busy"), "1", "be busy")
		<-begun
		n.admit(chat("parked"), "1", "park")
		l.until("a timer", func() bool { return len(l.timers()) == 1 })
		turn("0")
		turn("1")
		want("when all have room", "busy", "parked", "0", "1")
		turn("2")
		turn("3")
		want("when two are too many", "busy", "1", "2", "3")
		turn("1")
		turn("4")
		want("when 1 was used again", "busy", "1", "3", "4")
		if u := n.idleOf("conversations"); u.Crowded != 3 || u.Tight != 0 || u.Held == 0 || u.Held > roomForThree {
			t.Errorf("got usage %+v", u)
		}
		if u := n.idleOf("writers"); u.Held == 0 || u.Crowded != 0 {
			t.Errorf("got usage %+v", u)
		}

		ctx, leave := context.WithCancel(t.Context())
		n.continuesSameWriter(ctx, l, chat("0"), func() { turn("0") })
		want("when 0 came back", "busy", "0", "1", "4")
		close(release)
		l.completes(chat("busy"), 1)
		want("when busy has nothing to do", "busy", "0", "4")
		leave()

		l.completes(chat("parked"), 1)
		if diff := cmp.Diff(map[string]int{"remind": 2, "note": 1, "call": 1}, k.counts()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Minute)
		l.checkNothingLeft()
		for _, consumer := range []string{"conversations", "followers", "writers"} {
			if u := n.idleOf(consumer); u.Held != 0 {
				t.Errorf("at the end: got usage %+v", u)
			}
		}
	})
}

// TestIdleUnderMemoryPressure: while half of the node's memory is in use, idle conversations leave after one
// second.
func TestIdleUnderMemoryPressure(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		opts := agents(chatAgent())
		opts.Memory = memory.New(1 << 20)
		others := opts.Memory.Account("others", 0)
		n := l.run(part{opts: opts, vendor: onlyModel(replies("hello"))})
		n.admit(chat("0"), "1", "hello")
		l.completes(chat("0"), 1)
		if got := n.inMemory("0"); len(got) != 1 {
			t.Error("got an eviction without memory pressure")
		}
		others.Add(512 << 10)
		n.admit(chat("1"), "1", "hello")
		l.completes(chat("1"), 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := n.inMemory("0", "1"); got != nil {
			t.Errorf("got %v in memory", got)
		}
		if u := n.idleOf("conversations"); u.Tight != 2 || u.Crowded != 0 || u.Held != 0 {
			t.Errorf("got usage %+v", u)
		}
		others.Add(-512 << 10)
		n.admit(chat("0"), "2", "hello")
		l.completes(chat("0"), 2)
		if got := n.inMemory("0"); len(got) != 1 {
			t.Error("got an eviction after the memory pressure")
		}
		if got := l.claims(chat("0")); len(got) != 1 {
			t.Errorf("got claims %v, want 1", got)
		}
	})
}
