package actors_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
)

// looped answers with a call until five have an outcome.
func looped(_ context.Context, req providers.Request, a *providers.Assembler) error {
	results := 0
	for _, m := range req.Messages {
		if m.Role == providers.RoleTool {
			results++
		}
	}
	if results < 5 {
		a.CallArguments(a.StartCall(fmt.Sprint("p", results), "count"), fmt.Sprintf(`{"n":%d}`, results))
		a.Finish(providers.Done{StopReason: providers.StopToolUse})
		return nil
	}
	a.Text("counted")
	a.Finish(providers.Done{StopReason: providers.StopStop})
	return nil
}

// TestManyConversations runs many conversations, each with a tool loop of five steps, concurrently on
// one node. Each settles once, and the node is idle afterwards.
func TestManyConversations(t *testing.T) {
	const calls = 5
	conversations := sample.Of(1000, 100)
	w := newWorld(t)
	var ran, settled atomic.Int64
	var together sync.WaitGroup // the first calls of all conversations, which are held
	var hold atomic.Bool
	release := make(chan struct{})
	a := chatAgent(agent.NewTool("count", "Counts.", func(_ context.Context, in struct {
		N int `json:"n"`
	}) (int, error) {
		if ran.Add(1); in.N == 0 && hold.Load() {
			together.Done()
			<-release
		}
		return in.N + 1, nil
	}, nil))
	a.Hooks.Settled = func(context.Context, *agent.Settlement) error {
		settled.Add(1)
		return nil
	}
	opts := agents(a)
	opts.UnloadAfter, opts.EvictAfter = 100*time.Millisecond, 200*time.Millisecond
	opts.AdmitTimeout, opts.Pace = patience, time.Millisecond
	n := w.start(setup{opts: opts, model: script(looped)})
	n.admit(chat("warm"), "k", "count") // creates lazy state
	eventually(t, "a settlement", func() bool { return settled.Load() == 1 })
	goroutines, heap := quiesced(t, n)
	together.Add(conversations)
	hold.Store(true)

	var callers sync.WaitGroup
	for shard := range 20 {
		callers.Go(func() {
			for i := shard; i < conversations; i += 20 {
				if _, err := n.rt.Admit(t.Context(), message(chat(fmt.Sprint(i)), "k", "count")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	together.Wait()
	var busy runtime.MemStats
	runtime.ReadMemStats(&busy)
	active := n.rt.Activations()
	close(release)
	w.until("all settlements", func() bool { return settled.Load() == int64(conversations+1) })
	for i := range conversations {
		at := chat(fmt.Sprint(i))
		records := w.records(at)
		outcomes(t, records)
		if got := len(only[*conversation.ToolSettled](records)); got != calls {
			t.Errorf("%s: got %d outcomes, want %d", at.ID, got, calls)
		}
	}
	if got := ran.Load(); got != int64(calls*(conversations+1)) {
		t.Errorf("got %d runs, want %d", got, calls*(conversations+1))
	}
	after, left := quiesced(t, n)
	t.Logf("%d active at once with %d KiB each; goroutines %d, then %d; heap %d KiB, then %d KiB",
		active, (busy.HeapAlloc-heap)/uint64(max(active, 1))>>10, goroutines, after, heap>>10, left>>10)
	if active < conversations {
		t.Errorf("got %d concurrent activations, want %d", active, conversations)
	}
	if lines := n.log.String(); strings.Contains(lines, "level=ERROR") {
		t.Errorf("got errors in the log:\n%s", lines)
	}
	eventually(t, fmt.Sprintf("%d goroutines", goroutines), func() bool { return runtime.NumGoroutine() <= goroutines+20 })
}

// quiesced waits until no conversation is in memory, and returns the remaining goroutines and heap.
func quiesced(t *testing.T, n *node) (goroutines int, heap uint64) {
	t.Helper()
	eventually(t, "an idle node", func() bool { return n.rt.Activations() == 0 })
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}
