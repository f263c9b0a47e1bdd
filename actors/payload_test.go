package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// nested returns n nested arrays.
func nested(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// reopens stops the node and continues a conversation on another one.
func reopens(t *testing.T, n *node, a *agent.Agent, at conversation.Address, settled int) {
	t.Helper()
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	successor := n.w.start(setup{opts: agents(a), model: emits(1)})
	successor.admit(at, "after the restart", "hello again")
	outcomes(t, afterSettlements(n.w, at, settled+1))
	if got := len(successor.snapshot(at).Settlements); got != settled+1 {
		t.Errorf("got %d public settlements, want %d", got, settled+1)
	}
}

// outputs is an agent whose tool returns the requested value.
func outputs(values map[string]json.RawMessage) *agent.Agent {
	type in struct {
		Name string `json:"name"`
	}
	return chatAgent(agent.NewTool("output", "Returns a value.", func(_ context.Context, in in) (json.RawMessage, error) {
		return values[in.Name], nil
	}, nil))
}

func TestToolOutputIsBounded(t *testing.T) {
	const limit = conversation.MaxPayloadBytes
	text := func(size int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`) }
	a := outputs(map[string]json.RawMessage{
		"deep": nested(1001), "bottomless": nested(10_000), "large": text(limit + 1),
		"deepest": nested(1000), "largest": text(limit),
	})
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(a), model: model})
	n.admit(chat("c"), "k", "go")
	c := model.next(t)
	type want struct{ name, problem string }
	wants := []want{
		{"deep", "is nested 1001 deep"}, {"bottomless", "is nested 10000 deep"}, {"deepest", ""},
		{"large", ""}, {"largest", ""}, // the first is recorded in part
	}
	wants = wants[:sample.Of(len(wants), 4)]
	for i, want := range wants {
		c.call(fmt.Sprintf("p%d", i), "output", fmt.Sprintf(`{"name":%q}`, want.name))
	}
	c.finish()
	c = model.next(t)
	seen := c.seen()
	results := strings.Split(strings.TrimPrefix(seen[len(seen)-1], "tool: "), "|")
	c.finish()
	outcomes(t, afterSettlements(w, chat("c"), 1))
	parts := toolParts(n.snapshot(chat("c")))
	if len(results) != len(wants) || len(parts) != len(wants) {
		t.Fatalf("got %d results and %d parts, want %d", len(results), len(parts), len(wants))
	}
	for i, want := range wants {
		if want.problem == "" {
			if parts[i].State != conversation.StateOutputAvailable || !strings.HasPrefix(results[i], fmt.Sprintf("p%d=", i)) {
				t.Errorf("%s: got public state %s, model result %.80q", want.name, parts[i].State, results[i])
			}
			continue
		}
		if parts[i].State != conversation.StateOutputError || parts[i].Output != nil || parts[i].DurationMs == nil {
			t.Errorf("%s: got public part %+v", want.name, parts[i])
			continue
		}
		errorText := *parts[i].ErrorText
		if !strings.Contains(errorText, want.problem) || !strings.Contains(errorText, "output was omitted") || results[i] != fmt.Sprintf("p%d!%s", i, errorText) {
			t.Errorf("%s: got public error %.200q, model result %.200q", want.name, errorText, results[i])
		}
	}
	reopens(t, n, a, chat("c"), 1)
}

func TestCallArgumentsAreBounded(t *testing.T) {
	const limit = conversation.MaxPayloadBytes
	a := newTools().agent()
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(a), model: model})
	n.admit(chat("c"), "k", "go")
	c := model.next(t)
	c.call("p0", "quick", string(nested(1001)))
	c.call("p1", "quick", string(nested(9_999)))
	c.call("p2", "quick", "x"+strings.Repeat("\n", limit/2+1)+"x") // twice as long as a JSON string
	c.call("p3", "quick", "{}")
	c.finish()
	c = model.next(t)
	seen := c.seen()
	c.finish()
	outcomes(t, afterSettlements(w, chat("c"), 1))
	parts := toolParts(n.snapshot(chat("c")))
	if len(parts) != 4 {
		t.Fatalf("got parts %+v", parts)
	}
	for i, problem := range []string{"is nested 1001 deep", "is nested 9999 deep", "bytes, at most"} {
		if input := string(parts[i].Input); len(input) > 200 || !strings.Contains(input, problem) {
			t.Errorf("got recorded input %.200s, want a note that it %s", input, problem)
		}
		if parts[i].State != conversation.StateOutputError || !strings.Contains(seen[len(seen)-1], fmt.Sprintf("p%d!%s", i, *parts[i].ErrorText)) {
			t.Errorf("got public part %+v, model result %.500q", parts[i], seen[len(seen)-1])
		}
	}
	if parts[3].State != conversation.StateOutputAvailable {
		t.Errorf("got neighboring call %+v", parts[3])
	}
	reopens(t, n, a, chat("c"), 1)
}

func TestCallWithoutAName(t *testing.T) {
	a := newTools().agent()
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(a), model: model})
	n.admit(chat("c"), "k", "go")
	c := model.next(t)
	c.call("p", "", "{}")
	c.finish()
	c = model.next(t)
	seen := c.seen()
	c.finish()
	outcomes(t, afterSettlements(w, chat("c"), 1))
	settled := only[*conversation.ToolSettled](w.records(chat("c")))
	if len(settled) != 1 || !settled[0].Failed || settled[0].DurationMs != nil {
		t.Errorf("got results %+v, want one without a duration", settled)
	}
	parts := toolParts(n.snapshot(chat("c")))
	if len(parts) != 1 || parts[0].ToolName != "unnamed" || parts[0].State != conversation.StateOutputError || parts[0].DurationMs != nil {
		t.Fatalf("got public parts %+v", parts)
	}
	want := []string{"user: go", "assistant: unnamed{}", "tool: p!" + *parts[0].ErrorText}
	if diff := cmp.Diff(want, seen); diff != "" || !strings.Contains(*parts[0].ErrorText, `"unnamed"`) {
		t.Errorf("prompt (-want +got):\n%s", diff)
	}
	reopens(t, n, a, chat("c"), 1)
}

// TestUnfitAdmissionsWriteNothing rejects admissions before any owner is called.
func TestUnfitAdmissionsWriteNothing(t *testing.T) {
	with := func(data json.RawMessage) func(*conversation.Admission) {
		return func(a *conversation.Admission) { a.InitialData = data }
	}
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	before := w.listing()
	for name, tc := range map[string]struct {
		admission conversation.Admission
		code      conversation.Code
		text      string
	}{
		"too deep":   {admission(chat("c"), "k", with(nested(1001))), conversation.CodeInvalidRequest, "initialData is nested 1001 deep"},
		"bottomless": {admission(chat("c"), "k", with(nested(10_000))), conversation.CodeInvalidRequest, "initialData is nested 10000 deep"},
		"too large": {admission(chat("c"), "k", with(json.RawMessage(`"`+strings.Repeat("x", conversation.MaxPayloadBytes)+`"`))),
			conversation.CodeInvalidRequest, "bytes"},
		"not JSON": {admission(chat("c"), "k", with(json.RawMessage(`{`))), conversation.CodeInvalidRequest, "initialData is not JSON"},
		"no key":   {admission(chat("c"), "", plain), conversation.CodeInternal, "no key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, admitted := n.rt.Admit(t.Context(), tc.admission)
			receipt, checked := n.rt.Precheck(t.Context(), tc.admission)
			for _, err := range []error{admitted, checked} {
				if err == nil || conversation.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("got %v, want %s with %q", err, tc.code, tc.text)
				}
			}
			if receipt != nil {
				t.Errorf("got precheck receipt %+v", receipt)
			}
			if n.rt.Activations() != 0 {
				t.Error("got the conversation opened")
			}
		})
	}
	if diff := cmp.Diff(before, w.listing()); diff != "" {
		t.Errorf("bucket (-before +after):\n%s", diff)
	}
	n.accept(admission(chat("c"), "k", with(nested(1000))))
	outcomes(t, afterSettlements(w, chat("c"), 1))
	reopens(t, n, chatAgent(), chat("c"), 1)
}
