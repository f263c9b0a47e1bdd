package actors_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// TestInitialDataBeyondTheBounds creates conversations with a few bytes that a schema
// tries more branches for than there is memory.
func TestInitialDataBeyondTheBounds(t *testing.T) {
	schema, err := agent.NewSchema(json.RawMessage(
		`{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"},"minItems":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	a := chatAgent()
	a.InitialData = schema
	w := newWorld(t)
	n := w.start(setup{opts: agents(a), model: says(1)})
	hostile := func(at conversation.Address, key string) conversation.Admission {
		return admission(at, key, func(a *conversation.Admission) {
			a.InitialData = json.RawMessage(strings.Repeat("[", 36) + "1" + strings.Repeat("]", 36))
		})
	}
	before := w.listing()
	_, err = n.rt.Admit(t.Context(), hostile(chat("c"), "1"))
	if e := codeIs(t, err, conversation.CodeInvalidRequest); !strings.Contains(e.Details, "initialData: takes more than ") {
		t.Errorf("details are %q", e.Details)
	}
	if len(w.listing()) != len(before) {
		t.Errorf("the bucket has %d objects, had %d", len(w.listing()), len(before))
	}
	if got := n.rt.Status().Unchecked; got != 1 {
		t.Errorf("%d were counted, want 1", got)
	}
	// The conversation goes on: it can be created, and then data are not consulted.
	n.accept(admission(chat("c"), "2", func(a *conversation.Admission) { a.InitialData = json.RawMessage(`[[]]`) }))
	n.accept(hostile(chat("c"), "3"))
	if got := n.rt.Status().Unchecked; got != 1 {
		t.Errorf("%d were counted, want 1: data of an existing conversation are not consulted", got)
	}
	w.untilSettled(chat("c"), 2)
}
