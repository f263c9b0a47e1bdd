package actors_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// hostileSchema tries more branches for hostileData than fit into memory.
const hostileSchema = `{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"},"minItems":1}]}`

func hostileData(at conversation.Address, key string) conversation.Admission {
	return admission(at, key, func(a *conversation.Admission) {
		a.InitialData = json.RawMessage(strings.Repeat("[", 36) + "1" + strings.Repeat("]", 36))
	})
}

// TestInitialDataBeyondTheBounds creates conversations with a few bytes for which a schema tries more
// branches than fit into memory.
func TestInitialDataBeyondTheBounds(t *testing.T) {
	schema, err := agent.NewSchema(json.RawMessage(hostileSchema))
	if err != nil {
		t.Fatal(err)
	}
	a := chatAgent()
	a.InitialData = schema
	w := newWorld(t)
	n := w.start(setup{opts: agents(a), model: emits(1)})
	before := w.listing()
	_, err = n.rt.Admit(t.Context(), hostileData(chat("c"), "1"))
	if e := codeIs(t, err, conversation.CodeInvalidRequest); !strings.Contains(e.Details, "initialData: takes more than ") {
		t.Errorf("got details %q", e.Details)
	}
	if len(w.listing()) != len(before) {
		t.Errorf("got %d objects, want %d", len(w.listing()), len(before))
	}
	if got := n.rt.Status().Unchecked; got != 1 {
		t.Errorf("got %d unchecked, want 1", got)
	}
	// The conversation is usable: it can be created, and then initial data are ignored.
	n.accept(admission(chat("c"), "2", func(a *conversation.Admission) { a.InitialData = json.RawMessage(`[[]]`) }))
	n.accept(hostileData(chat("c"), "3"))
	if got := n.rt.Status().Unchecked; got != 1 {
		t.Errorf("got %d unchecked, want 1: initial data of an existing conversation are ignored", got)
	}
	w.untilSettled(chat("c"), 2)
}

// TestCheckEndsWithItsCaller: a client that disconnects while its data wait for their check cancels
// the check.
func TestCheckEndsWithItsCaller(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		schema, err := agent.NewSchema(json.RawMessage(hostileSchema))
		if err != nil {
			t.Fatal(err)
		}
		a := chatAgent()
		a.InitialData = schema
		n := l.run(part{opts: agents(a), vendor: onlyModel(replies("ok"))})
		for name, leaves := range map[string]bool{"one that stays": false, "one that leaves": true} {
			release := actors.HoldChecks(n.rt)
			before := n.rt.Status().Unchecked
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := n.rt.Admit(ctx, hostileData(chat("c"), name))
				done <- err
			}()
			synctest.Wait()
			if leaves {
				cancel()
				synctest.Wait()
			}
			release()
			if err := <-done; (conversation.CodeOf(err) == conversation.CodeInvalidRequest) == leaves {
				t.Errorf("%s: got %v", name, err)
			}
			synctest.Wait()
			if got := n.rt.Status().Unchecked - before; (got == 0) != leaves {
				t.Errorf("got %d checks for %s", got, name)
			}
			cancel()
		}
	})
}
