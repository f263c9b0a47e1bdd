package actors_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// shedding returns a node that passivates conversations as soon as they are idle.
func shedding(w *world) *node {
	opts := agents(chatAgent())
	opts.Pace, opts.UnloadAfter = longPace, time.Millisecond
	return w.start(setup{opts: opts, model: emits(3)})
}

// shed runs a turn and waits until its conversation has left memory and the journal.
func (n *node) shed(at conversation.Address, turn int) {
	n.w.tb.Helper()
	n.admit(at, fmt.Sprint(turn), "hello")
	n.w.untilSettled(at, turn)
	eventually(n.w.tb, "passivation", func() bool { return n.rt.Activations() == 0 })
	n.w.untilIdle()
}

// claims returns the nonces of the writers of a log, in order.
func (w *world) claims(at conversation.Address) []storage.Nonce {
	w.tb.Helper()
	var out []storage.Nonce
	for b, err := range w.logs.Batches(context.Background(), at.Key(), storage.Start()) {
		if err != nil {
			w.tb.Fatal(err)
		}
		if b.First {
			out = append(out, b.Nonce)
		}
	}
	return out
}

// TestIdleConversationNeedsNoNewClaim counts the requests of an admission to a passivated
// conversation: its log is read, and no claim is verified.
func TestIdleConversationNeedsNoNewClaim(t *testing.T) {
	w := newWorld(t)
	n := shedding(w)
	at := chat("c")
	n.shed(at, 1)
	batches := len(w.batches(at))
	n.counts.Reset()
	n.shed(at, 2)
	bill{
		get(storagetest.Ckpt): 1, list(storagetest.Log): 1, get(storagetest.Log): batches, put(storagetest.Log): 3, put(storagetest.Busy): 2,
		put(storagetest.Index):                      1, // the one of the first turn may still be in flight
		{Method: "DELETE", Class: storagetest.Busy}: 2,
	}.check(t, "turn on a conversation out of memory", n.counts.Counts())
	n.shed(at, 3)
	if got := w.claims(at); len(got) != 1 {
		t.Errorf("got claims %v, want 1", got)
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
}

// TestIdleWriterIsFenced lets another writer append to a passivated conversation. The node notices
// that before it admits anything, and claims the log anew.
func TestIdleWriterIsFenced(t *testing.T) {
	w := newWorld(t)
	n := shedding(w)
	at := chat("c")
	n.shed(at, 1)
	tail := storage.Start()
	for b, err := range w.logs.Batches(t.Context(), at.Key(), storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		tail = b.Position()
	}
	if _, err := w.logs.Writer(at.Key(), "stranger", tail, 9).Append(t.Context(), nil, 0); err != nil {
		t.Fatal(err)
	}
	batches := len(w.batches(at))
	n.counts.Reset()
	n.shed(at, 2)
	if got := w.claims(at); len(got) != 3 || got[1] != "stranger" || got[2] == got[0] {
		t.Errorf("got claims %v, want 3", got)
	}
	if got, want := n.counts.Counts()[put(storagetest.Log)], len(w.batches(at))-batches; got != want {
		t.Errorf("got %d appends for %d batches, want no lost append", got, want)
	}
	n.shed(at, 3)
	if got := w.claims(at); len(got) != 3 {
		t.Errorf("got claims %v after another turn, want 3", got)
	}
}

// TestRecoveryEventsNameTheConversation: while the bucket is unavailable, a recovery event has the
// agent and id of a conversation that was never opened on this node.
func TestRecoveryEventsNameTheConversation(t *testing.T) {
	w, opts := newWorld(t), agents(chatAgent())
	recoveries := make(chan observability.Envelope, 100)
	opts.Events.Observers = []observability.Sink{&observability.Callbacks{Any: func(e observability.Event) {
		if _, ok := e.Payload.(*observability.SubmissionRecovery); ok {
			recoveries <- e.Envelope
		}
	}}}
	n := w.start(setup{opts: opts, model: emits(1)})
	n.fault.Store(int32(storagetest.ErrorBefore))
	_, err := n.rt.Admit(t.Context(), message(chat("c"), "1", "hello"))
	codeIs(t, err, conversation.CodeUnavailable)
	if got := <-recoveries; got.Agent != "chat" || got.Instance != "c" {
		t.Errorf("got an event of recovery of agent %q, instance %q, want chat, c", got.Agent, got.Instance)
	}
}

// TestWriterSurvivesBucketOutage: an activation that fails to open its log does not consume the
// idle writer.
func TestWriterSurvivesBucketOutage(t *testing.T) {
	w := newWorld(t)
	n := shedding(w)
	at := chat("c")
	n.shed(at, 1)
	n.fault.Store(int32(storagetest.ErrorBefore))
	_, err := n.rt.Admit(t.Context(), message(at, "2", "hello"))
	codeIs(t, err, conversation.CodeUnavailable)
	eventually(t, "the end of the activation", func() bool { return strings.Contains(n.log.String(), "conversation cannot be opened") })
	n.fault.Store(int32(storagetest.None))
	n.shed(at, 2)
	if got := w.claims(at); len(got) != 1 {
		t.Errorf("got claims %v, want 1", got)
	}
}

// TestMemoryOfIdleConversations measures the memory of nodes with idle conversations. The cost of
// one includes the test's own record of each request, and a share of lazily created state of a busy
// node. With all of them in memory it would be 8 kB.
func TestMemoryOfIdleConversations(t *testing.T) {
	const bound = 4000
	some, more := sample.Of(500, 100), sample.Of(2500, 500)
	each := (weigh(t, more) - weigh(t, some)) / int64(more-some)
	t.Logf("%d bytes per idle conversation", each)
	if each > bound {
		t.Errorf("got %d bytes per idle conversation, want at most %d", each, bound)
	}
}

// weigh returns the live heap of a node with n idle conversations.
func weigh(t *testing.T, conversations int) int64 {
	w := newWorld(t)
	n := shedding(w)
	var wg sync.WaitGroup
	for first := range 16 {
		wg.Go(func() {
			for i := first; i < conversations; i += 16 {
				if _, err := n.rt.Admit(t.Context(), message(chat(fmt.Sprint(i)), "k", "hello")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.untilIdle()
	eventually(t, "passivation", func() bool { return n.rt.Activations() == 0 })
	with := live()
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	n.rt = nil // only the bucket is left
	return with - live()
}

// live returns the live heap in bytes.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // objects kept by finalizers and pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
