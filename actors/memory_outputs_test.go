package actors_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage/local"
)

// TestMemoryOfOutputs runs many conversations concurrently whose tools return large outputs, in a
// process limited to 3 GiB. Its peak is bounded by a multiple of the total output.
func TestMemoryOfOutputs(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		conversations, calls int
		size, most           int
	}{
		{"outputs beyond a record", sample.Of(20, 2), 1, 30e6, 900e6},
		{"outputs within a record", sample.Of(20, 2), 16, 3 << 20, 1510e6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peak(t, tt.most, func(t *testing.T) { largeOutputs(t, tt.conversations, tt.calls, tt.size) })
		})
	}
}

// largeOutputs settles the given number of conversations, each with one turn of several calls.
func largeOutputs(t *testing.T, conversations, calls, size int) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3<<30 - 256<<20))
	store, err := local.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	settled := make(chan agent.Settlement, conversations)
	a := chatAgent(agent.NewTool("big", "Returns much.", func(context.Context, struct{}) (string, error) {
		return strings.Repeat("x", size), nil
	}, nil))
	a.Hooks.Settled = func(_ context.Context, s *agent.Settlement) error {
		settled <- *s
		return nil
	}
	w, opts := newWorldOver(t, store), agents(a)
	opts.Memory = memory.New(3 << 30 / 2)
	n := w.start(setup{opts: opts, model: callsBig(calls)})
	for i := range conversations {
		n.admit(chat(fmt.Sprint("c", i)), "1", "go")
	}
	for range conversations {
		if s := <-settled; s.Outcome != conversation.OutcomeCompleted {
			t.Errorf("got outcome %s with %+v", s.Outcome, s.Error)
		}
	}
}

// callsBig calls the tool big several times in each response.
func callsBig(calls int) script {
	return func(_ context.Context, req providers.Request, out *providers.Assembler) error {
		defer out.Finish(providers.Done{StopReason: providers.StopStop})
		if req.Messages[len(req.Messages)-1].Role == providers.RoleTool {
			out.Text("done")
			return nil
		}
		for i := range calls {
			out.CallArguments(out.StartCall(fmt.Sprint("p", i), "big"), "{}")
		}
		return nil
	}
}

// TestCallsWaitForRoom: a call that waits for the outputs of others does not begin, an abort ends the
// wait at once, and others begin once there is room.
func TestCallsWaitForRoom(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		if got := waitForRoom(t, l); got != "" {
			t.Error(got)
		}
	})
}

// waitForRoom calls a tool in three conversations of a node with memory for one output, and aborts the
// second. It returns the violation, "" if there is none.
func waitForRoom(t *testing.T, l *loop) (wrong string) {
	began, release := make(chan conversation.ConversationID, 3), make(chan struct{})
	big := agent.NewTool("big", "Returns much.", func(ctx context.Context, _ struct{}) (string, error) {
		call, _ := agent.CallFrom(ctx)
		began <- conversation.ConversationID(call.Address.ID)
		<-release
		return strings.Repeat("x", 1<<20), nil
	}, nil)
	released := sync.OnceFunc(func() { close(release) })
	defer released()
	opts := agents(chatAgent(big))
	opts.Memory = memory.New(16 << 20)
	n := l.run(part{opts: opts, vendor: onlyModel(callsBig(1)), page: 1})
	n.admit(chat("first"), "1", "go")
	if got := <-began; got != "first" {
		return fmt.Sprintf("got a call of %q, want first", got)
	}
	n.admit(chat("aborted"), "1", "go")
	n.admit(chat("next"), "1", "go")
	time.Sleep(time.Second)
	if len(began) > 0 {
		return fmt.Sprintf("got a call of %q, want none next to one that is not known to return little", <-began)
	}
	at := time.Now()
	if any, err := n.rt.Abort(t.Context(), chat("aborted")); !any || err != nil {
		return fmt.Sprintf("abort: got %t, %v, want true", any, err)
	}
	if got := l.untilSettled(chat("aborted"), 1)[0]; got.Outcome != conversation.OutcomeAborted || time.Since(at) >= time.Second {
		return fmt.Sprintf("aborted call settled as %s after %v, want %s at once", got.Outcome, time.Since(at), conversation.OutcomeAborted)
	}
	released()
	for _, id := range []string{"first", "next"} {
		if got := l.untilSettled(chat(id), 1)[0]; got.Outcome != conversation.OutcomeCompleted {
			return fmt.Sprintf("%s settled as %s with %+v, want %s", id, got.Outcome, got.Error, conversation.OutcomeCompleted)
		}
	}
	if got := <-began; got != "next" || len(began) > 0 {
		return fmt.Sprintf("got a call of %q and %d more, want one of next", got, len(began))
	}
	return ""
}
