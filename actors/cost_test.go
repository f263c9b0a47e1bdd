package actors_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// longPace never elapses within a test: streamed text leaves with the first output of a step and with
// its end, on any machine.
const longPace = time.Hour

func get(c storagetest.Class) storagetest.Request {
	return storagetest.Request{Method: "GET", Class: c}
}

func put(c storagetest.Class) storagetest.Request {
	return storagetest.Request{Method: "PUT", Class: c}
}

func list(c storagetest.Class) storagetest.Request {
	return storagetest.Request{Method: "LIST", Class: c}
}

// bill is the maximum number of requests of each kind; other kinds are not allowed.
type bill map[storagetest.Request]int

func (b bill) check(t *testing.T, desc string, counts map[storagetest.Request]int) {
	t.Helper()
	t.Logf("%s: %v", desc, counts)
	for req, n := range counts {
		if req != list(storagetest.Busy) && req != list(storagetest.Quarantine) && req != list(storagetest.Timer) && n > b[req] { // the sweep of the start has no fixed time
			t.Errorf("%s: %d requests %v, want at most %d", desc, n, req, b[req])
		}
	}
}

// TestCostOfTurns counts the requests of two turns. A machine that is slower than the journal's linger
// between them writes the journal again.
func TestCostOfTurns(t *testing.T) {
	for range 20 {
		if countTurns(t) {
			return
		}
	}
	t.Fatal("two short turns never took less than the linger of the journal")
}

func countTurns(t *testing.T) (fastEnough bool) {
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.Pace = longPace
	n := w.start(setup{opts: opts, model: emits(20)})
	n.counts.Reset()
	began := time.Now()
	n.admit(chat("c"), "1", "hello")
	w.untilSettled(chat("c"), 1)
	// The index entry is written concurrently with the turn.
	eventually(t, "the entry of the index", func() bool { return n.counts.Counts()[put(storagetest.Index)] == 1 })
	first := n.counts.Counts()
	n.counts.Reset()
	n.admit(chat("c"), "2", "hello again")
	w.untilSettled(chat("c"), 2)
	second := n.counts.Counts()
	if time.Since(began) >= actors.JournalLinger {
		return false
	}
	bill{
		get(storagetest.Ckpt): 1, put(storagetest.Log): 3, put(storagetest.Busy): 1, list(storagetest.Log): 2, put(storagetest.Index): 1,
	}.check(t, "turn on a new conversation", first)
	bill{put(storagetest.Log): 3}.check(t, "turn on a warm conversation", second)
	if first[put(storagetest.Busy)] != 1 {
		t.Errorf("got %d journal writes for a new conversation, want 1", first[put(storagetest.Busy)])
	}

	w.untilIdle()
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	return true
}

func TestAdmissionsShareTheJournal(t *testing.T) {
	const conversations = 64
	w := newWorld(t)
	var (
		mu     sync.Mutex
		landed int
		all    = make(chan struct{})
	)
	// A journal write completes only after all admissions have begun, as in a bucket slower than its
	// callers.
	hold := func(op storagetest.Op) {
		if op.Method != "PUT" {
			return
		}
		switch {
		case strings.HasPrefix(op.Key, "pending/"):
			<-all
		case strings.Contains(op.Key, "/log/"):
			mu.Lock()
			defer mu.Unlock()
			if landed++; landed == conversations {
				close(all)
			}
		}
	}
	n := w.start(setup{opts: agents(chatAgent()), model: make(stage), hold: hold})
	n.counts.Reset()
	var wg sync.WaitGroup
	for i := range conversations {
		wg.Go(func() {
			if _, err := n.rt.Admit(t.Context(), message(chat(fmt.Sprint(i)), "k", "hello")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	counts := n.counts.Counts()
	b := bill{get(storagetest.Ckpt): conversations, put(storagetest.Log): conversations, put(storagetest.Busy): 10, list(storagetest.Log): 2 * conversations}
	b[put(storagetest.Index)] = conversations
	b[storagetest.Request{Method: "DELETE", Class: storagetest.Busy}] = 10 // of the journals replaced
	b[storagetest.Request{Method: "GET", Class: storagetest.Busy}] = 10    // if an answer is held longer than the attempt timeout
	b.check(t, "64 admissions", counts)
	listed := 0
	for _, j := range w.journals() {
		listed += len(j.Entries)
	}
	if listed != conversations {
		t.Errorf("got %d listed conversations, want %d", listed, conversations)
	}
}

func TestBatchOverhead(t *testing.T) {
	const word, most = "word", 350
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.Pace = time.Millisecond
	model := make(stage)
	n := w.start(setup{opts: opts, model: model})
	n.admit(chat("c"), "k", "hello")
	c := model.next(t)
	c.text("The first ")
	w.until("the first text", func() bool { return len(only[*conversation.Delta](w.records(chat("c")))) == 1 })
	c.text(word)
	w.until("the word", func() bool { return len(only[*conversation.Delta](w.records(chat("c")))) == 2 })
	batches := w.batches(chat("c"))
	last := batches[len(batches)-1]
	if d := only[*conversation.Delta](last); len(last) != 1 || len(d) != 1 || d[0].Text != word {
		t.Fatalf("got last batch %v, want one word", last)
	}
	size := w.listing()[storage.LogKey(chat("c").Key(), int64(len(batches)-1))]
	overhead := size - int64(len(word))
	t.Logf("a batch of one word has %d bytes, %d of them overhead", size, overhead)
	if size == 0 || overhead > most {
		t.Errorf("got overhead of %d bytes, want at most %d", overhead, most)
	}
	c.finish()
	w.untilSettled(chat("c"), 1)
}

// settleOn waits, as a client does, until a conversation has settled past an offset.
func settleOn(b *testing.B, n *node, at conversation.Address, after conversation.Offset) {
	b.Helper()
	for {
		if err := n.rt.Reader().Wait(b.Context(), at, after); err != nil {
			b.Fatal(err)
		}
		chunks, next := n.updates(at, after)
		for _, c := range chunks {
			if c.Type == conversation.ChunkSettled {
				return
			}
		}
		after = next
	}
}

// benchTurns runs turns of 20 instant tokens, a hundred per conversation. It times the admission or
// the whole turn.
func benchTurns(b *testing.B, wholeTurn bool) {
	w := newWorld(b)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(20)})
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		at := chat(fmt.Sprint(i / 100))
		if i%100 == 0 { // the conversation is in memory before its first timed turn
			b.StopTimer()
			settleOn(b, n, at, n.admit(at, "warm", "hello").Offset)
			b.StartTimer()
		}
		r := n.admit(at, fmt.Sprint(i), "hello")
		if !wholeTurn {
			b.StopTimer()
		}
		settleOn(b, n, at, r.Offset)
		if !wholeTurn {
			b.StartTimer()
		}
	}
	b.StopTimer()
	if err := n.stop(); err != nil {
		b.Error(err)
	}
}

func BenchmarkAdmitWarm(b *testing.B) { benchTurns(b, false) }

func BenchmarkShortTurn(b *testing.B) { benchTurns(b, true) }

// BenchmarkStart times New and Run until the node is ready; stop-ns/op is its graceful shutdown.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	var stopping time.Duration
	for b.Loop() {
		n := w.start(setup{opts: agents(chatAgent()), model: emits(20)})
		b.StopTimer()
		began := time.Now()
		if err := n.stop(); err != nil {
			b.Fatal(err)
		}
		stopping += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(stopping.Nanoseconds())/float64(b.N), "stop-ns/op")
}
