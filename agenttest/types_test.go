package agenttest_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
)

// letter has the features of package encoding/json that schemas of Go types must reproduce.
type (
	Envelope struct {
		From netip.Addr `json:"from"`
		At   time.Time  `json:"at"`
	}
	letter struct {
		Envelope `json:"envelope"`
		Title    string
		Tags     map[string]string
		Pages    map[int]string
		Reply    *letter `json:"reply,omitempty"`
	}
)

// TestTypesThroughTheRuntime verifies that a value is the same in a tool, state, data, output, run,
// step and wait.
func TestTypesThroughTheRuntime(t *testing.T) {
	from := Envelope{netip.MustParseAddr("10.0.0.7"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	want := letter{Envelope: from, Title: "T", Pages: map[int]string{-1: "cover"}, Reply: &letter{Envelope: from}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[string]letter{}
		see := func(where string, l letter) {
			mu.Lock()
			defer mu.Unlock()
			seen[where] = l
		}
		state, data, begin := agent.NewState("letter", letter{}), agent.NewDataWriter[letter]("letter", nil), agent.NewInitialData[letter](nil)
		file := agent.NewTool("file", "Files a letter.", func(ctx context.Context, in letter) (letter, error) {
			see("tool", in)
			if err := state.Set(ctx, in); err != nil {
				return letter{}, err
			}
			kept, err := state.Get(ctx)
			see("state", kept)
			if err == nil {
				kept, err = begin.Get(ctx)
				see("initial data", kept)
			}
			if err != nil {
				return letter{}, err
			}
			return in, data.Write(ctx, in)
		}, nil)
		model := agenttest.NewModel(agenttest.Call("file", want), agenttest.Call(agent.FinishTool, want))
		desk := &agent.Agent{
			Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{file}, Output: agent.SchemaFor[letter](), InitialData: begin.Schema(),
			State: []agent.StateDefinition{state}, Data: []agent.Data{data},
		}
		run := agent.NewWorkflow("file", func(ctx context.Context, in letter) (letter, error) {
			see("run", in)
			again, err := agent.Step(ctx, "copy", func(context.Context) (letter, error) { return in, nil })
			see("step", again)
			if err == nil {
				again, err = agent.Wait[letter](ctx, "answer", nil)
				see("wait", again)
			}
			return again, err
		}, nil)
		h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: model, Workflows: []agent.AnyWorkflow{run}})
		reply, err := h.Conversation("desk", "1").Settle(client.Message{Body: "File it.", InitialData: want})
		if err != nil {
			t.Fatal(err)
		}
		outputs := map[string]json.RawMessage{"output": reply.Output}
		id := agenttest.Begin(h, run, "k", want)
		answer, err := agent.Signal("answer", want)
		if err != nil {
			t.Fatal(err)
		}
		h.SignalRun(id, "answer", answer)
		result, err := h.AwaitRun(id)
		if err != nil {
			t.Fatal(err)
		}
		outputs["result"] = result.Output
		for where, raw := range outputs {
			var l letter
			if err := json.Unmarshal(raw, &l); err != nil {
				t.Error(err)
			}
			see(where, l)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, where := range []string{"tool", "state", "initial data", "run", "step", "wait", "output", "result"} {
			if !reflect.DeepEqual(seen[where], want) {
				t.Errorf("%s: got %+v, want %s", where, seen[where], raw)
			}
		}
	})
}
