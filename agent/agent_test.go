package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

func valid() *agent.Agent {
	return &agent.Agent{Name: "issue-triage", Model: "anthropic/claude-opus-4-6", Tools: []agent.Tool{labelTool()}}
}

func TestValidateAccepts(t *testing.T) {
	for _, a := range []*agent.Agent{
		valid(),
		{Name: "a", Model: "p/m"},
		{Name: "a0-9", Model: "router/vendor/model:free", ThinkingLevel: agent.ThinkingMax, Instructions: "Be kind."},
		{Name: strings.Repeat("a", 63), Model: "p/m", InitialData: agent.SchemaFor[int]()},
		{
			Name: "a", Model: "p/m", Fallbacks: []string{"p/n", "q/m"}, Subagents: []*agent.Agent{scout()},
			State: []agent.StateDefinition{agent.NewState("n", 1), agent.NewState("m", 1)}, Data: []agent.Data{agent.NewDataWriter[int]("n", nil)},
			Compaction: agent.Compaction{Off: true, ReserveTokens: 1, KeepRecentTokens: 1, Model: "p/small", Instructions: "Keep names."},
			Durability: agent.Durability{MaxAttempts: 1, Timeout: time.Second, Patience: time.Minute}, ToolConcurrency: 1,
			Generation: agent.Generation{Temperature: new(2.0), MaxOutputTokens: 1, StopSequences: []string{"END"}, ToolChoice: agent.TaskTool},
		},
	} {
		if err := a.Validate(); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
}

// mistake is a definition with one mistake, and the expected error.
type mistake struct {
	name    string
	spoil   func(a *agent.Agent)
	field   string
	message string
}

func TestValidateNamesEveryMistake(t *testing.T) {
	namesMistakes(t, []mistake{
		{"no name", func(a *agent.Agent) { a.Name = "" }, "Name", "does not match"},
		{"upper case", func(a *agent.Agent) { a.Name = "Triage" }, "Name", "does not match"},
		{"long name", func(a *agent.Agent) { a.Name = strings.Repeat("a", 64) }, "Name", "does not match"},
		{"line break", func(a *agent.Agent) { a.Name = "a\n" }, "Name", "does not match"},
		{"no model", func(a *agent.Agent) { a.Model = "" }, "Model", "is empty"},
		{"no provider", func(a *agent.Agent) { a.Model = "gpt" }, "Model", "provider/model"},
		{"empty provider", func(a *agent.Agent) { a.Model = "/gpt" }, "Model", "provider/model"},
		{"empty model", func(a *agent.Agent) { a.Model = "openai/" }, "Model", "provider/model"},
		{"space", func(a *agent.Agent) { a.Model = "openai/gpt 5" }, "Model", "white space"},
		{"thinking", func(a *agent.Agent) { a.ThinkingLevel = "hard" }, "ThinkingLevel", `"minimal"`},
		{"two instructions", func(a *agent.Agent) {
			a.Instructions = "x"
			a.InstructionsFunc = func(context.Context, *agent.Turn) (string, error) { return "", nil }
		}, "InstructionsFunc", "keep one"},
		{"attempts", func(a *agent.Agent) { a.Durability.MaxAttempts = -1 }, "Durability.MaxAttempts", "default of 10"},
		{"timeout", func(a *agent.Agent) { a.Durability.Timeout = -1 }, "Durability.Timeout", "default of 1h"},
		{"patience", func(a *agent.Agent) { a.Durability.Patience = -1 }, "Durability.Patience", "default of 10m"},
		{"response bytes", func(a *agent.Agent) { a.Limits.ResponseBytes = -1 }, "Limits.ResponseBytes", "default of 16777216"},
		{"argument bytes", func(a *agent.Agent) { a.Limits.ArgumentBytes = -1 }, "Limits.ArgumentBytes", "default of 4194304"},
		{"long arguments", func(a *agent.Agent) { a.Limits.ArgumentBytes = 4<<20 + 1 }, "Limits.ArgumentBytes", "at most 4194304"},
		{"output bytes", func(a *agent.Agent) { a.Limits.OutputBytes = -1 }, "Limits.OutputBytes", "default of 33554432"},
		{"many outputs", func(a *agent.Agent) { a.Limits.OutputBytes = 32<<20 + 1 }, "Limits.OutputBytes", "at most 33554432"},
		{"calls", func(a *agent.Agent) { a.Limits.CallsPerReply = -1 }, "Limits.CallsPerReply", "default of 128"},
		{"dispatches", func(a *agent.Agent) { a.Limits.Dispatches = -1 }, "Limits.Dispatches", "default of 100"},
		{"dispatch depth", func(a *agent.Agent) { a.Limits.DispatchDepth = -1 }, "Limits.DispatchDepth", "default of 16"},
		{"empty schema", func(a *agent.Agent) { a.InitialData = new(agent.Schema) }, "InitialData", "NewSchema"},
		{"empty tool", func(a *agent.Agent) { a.Tools = append(a.Tools, agent.Tool{}) }, "Tools[1]", "NewTool"},
		{"tools at once", func(a *agent.Agent) { a.ToolConcurrency = -1 }, "ToolConcurrency", "default of 16"},
		{"bad fallback", func(a *agent.Agent) { a.Fallbacks = []string{"p/m", "gpt"} }, "Fallbacks[1]", "provider/model"},
		{"fallback twice", func(a *agent.Agent) { a.Fallbacks = []string{"p/m", "p/m"} }, "Fallbacks[1]", "asked before already"},
		{"fallback is the model", func(a *agent.Agent) { a.Fallbacks = []string{a.Model} }, "Fallbacks[0]", "asked before already"},
		{"reserve", func(a *agent.Agent) { a.Compaction.ReserveTokens = -1 }, "Compaction.ReserveTokens", "default of 20000"},
		{"keep", func(a *agent.Agent) { a.Compaction.KeepRecentTokens = -1 }, "Compaction.KeepRecentTokens", "default of 8000"},
		{"summarizer", func(a *agent.Agent) { a.Compaction.Model = "gpt" }, "Compaction.Model", "provider/model"},
		{"no state", func(a *agent.Agent) { a.State = []agent.StateDefinition{nil} }, "State[0]", "NewState"},
		{"state twice", func(a *agent.Agent) {
			a.State = []agent.StateDefinition{agent.NewState("n", 1), agent.NewState("n", "")}
		}, "State[1]", "State[0]"},
		{"no subagent", func(a *agent.Agent) { a.Subagents = []*agent.Agent{nil} }, "Subagents[0]", "is nil"},
		{"no data", func(a *agent.Agent) { a.Data = []agent.Data{nil} }, "Data[0]", "NewDataWriter"},
		{"data twice", func(a *agent.Agent) {
			a.Data = []agent.Data{agent.NewDataWriter[int]("n", nil), agent.NewDataWriter[string]("n", nil)}
		}, "Data[1]", "Data[0]"},
		{"renamed present tool", func(a *agent.Agent) { a.Renamed = map[string]string{"label": "label"} }, `Renamed["label"]`, "remove the entry"},
		{"renamed to no tool", func(a *agent.Agent) { a.Renamed = map[string]string{"tag": "mark"} }, `Renamed["tag"]`, "no such tool"},
		{"renamed to no name", func(a *agent.Agent) { a.Renamed = map[string]string{"tag": "a b"} }, `Renamed["tag"]`, "cannot be the name"},
		{"tool twice", func(a *agent.Agent) { a.Tools = append(a.Tools, labelTool()) }, "Tools[1]", "Tools[0]"},
	})
	err := (&agent.Agent{Durability: agent.Durability{MaxAttempts: -1, Timeout: -1}}).Validate()
	var def *agent.DefinitionError
	if !errors.As(err, &def) || len(def.Issues) != 4 {
		t.Errorf("all at once: got %v, want 4 issues", err)
	}
}

func TestValidateNamesMistakesOfBounds(t *testing.T) {
	namesMistakes(t, []mistake{
		{"temperature", func(a *agent.Agent) { a.Generation.Temperature = new(2.5) }, "Generation.Temperature", "use 0 to 2"},
		{"no temperature", func(a *agent.Agent) { a.Generation.Temperature = new(math.NaN()) }, "Generation.Temperature", "use 0 to 2"},
		{"output tokens", func(a *agent.Agent) { a.Generation.MaxOutputTokens = -1 }, "Generation.MaxOutputTokens", "or 0 for"},
		{"stops", func(a *agent.Agent) { a.Generation.StopSequences = []string{"a", "b", "c", "d", "e"} }, "Generation.StopSequences", "at most 4"},
		{"empty stop", func(a *agent.Agent) { a.Generation.StopSequences = []string{"a", ""} }, "Generation.StopSequences[1]", "is empty"},
		{"tool that is not there", func(a *agent.Agent) { a.Generation.ToolChoice = "nothing" }, "Generation.ToolChoice", "is no tool of the agent"},
		{"turns", func(a *agent.Agent) { a.Limits.Turns = -1 }, "Limits.Turns", "default of 100"},
		{"tokens", func(a *agent.Agent) { a.Limits.Tokens = -1 }, "Limits.Tokens", "or 0 for no bound"},
		{"dollars", func(a *agent.Agent) { a.Limits.Dollars = math.Inf(1) }, "Limits.Dollars", "or 0 for no bound"},
	})
}

func namesMistakes(t *testing.T, mistakes []mistake) {
	t.Helper()
	for _, tc := range mistakes {
		t.Run(tc.name, func(t *testing.T) {
			a := valid()
			tc.spoil(a)
			var def *agent.DefinitionError
			if err := a.Validate(); !errors.As(err, &def) {
				t.Fatalf("got %v, want a DefinitionError", err)
			}
			if len(def.Issues) != 1 || def.Issues[0].Path != tc.field || !strings.Contains(def.Issues[0].Problem, tc.message) {
				t.Errorf("got %v, want one issue of %s with %q", def.Issues, tc.field, tc.message)
			}
			if !strings.Contains(def.Error(), tc.field+": ") {
				t.Errorf("got text %q, want the field in it", def)
			}
		})
	}
}

func TestDurabilityDefaults(t *testing.T) {
	want := agent.Durability{MaxAttempts: 10, Timeout: time.Hour, Patience: 10 * time.Minute}
	if got := (agent.Durability{}).WithDefaults(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	own := agent.Durability{MaxAttempts: 1, Timeout: time.Second, Patience: time.Minute}
	if got := own.WithDefaults(); got != own {
		t.Errorf("got %+v, want %+v", got, own)
	}
}

func TestAgentTool(t *testing.T) {
	if tool, ok := valid().Tool("label"); !ok || tool.Name() != "label" {
		t.Errorf("got %q, %v", tool.Name(), ok)
	}
	if _, ok := valid().Tool("other"); ok {
		t.Error("found an unknown tool")
	}
}

func TestInstructionsFor(t *testing.T) {
	turn := &agent.Turn{Number: 2, Delivery: conversation.Delivery{Body: "hi"}}
	if got, err := agenthost.InstructionsFor(t.Context(), (&agent.Agent{Instructions: "Be kind."}), turn); got != "Be kind." || err != nil {
		t.Errorf("text: got %q, %v", got, err)
	}
	a := &agent.Agent{Name: "a", InstructionsFunc: func(_ context.Context, t *agent.Turn) (string, error) {
		return "Answer " + t.Delivery.Body, nil
	}}
	if got, err := agenthost.InstructionsFor(t.Context(), a, turn); got != "Answer hi" || err != nil {
		t.Errorf("function: got %q, %v", got, err)
	}
	a.InstructionsFunc = func(context.Context, *agent.Turn) (string, error) { panic("secret") }
	_, err := agenthost.InstructionsFor(t.Context(), a, turn)
	var crash *agent.PanicError
	if !errors.As(err, &crash) || err.Error() != "instructions of agent a crashed" {
		t.Errorf("panic: got %v", err)
	}
}

func TestCheckInitialData(t *testing.T) {
	a := valid()
	for _, raw := range []string{``, `null`, `{"x":1}`} {
		if err := agenthost.CheckInitialData(t.Context(), a, rawOrNil(raw)); err != nil {
			t.Errorf("no schema, %q: %v", raw, err)
		}
	}
	a.InitialData = agent.SchemaFor[labelInput]()
	if err := agenthost.CheckInitialData(t.Context(), a, json.RawMessage(`{"issue":1,"labels":[]}`)); err != nil {
		t.Error(err)
	}
	for raw, want := range map[string]string{
		``:                         "initialData: is required, but was not sent",
		`null`:                     "initialData: got null, want object",
		`{"issue":1,"labels":[2]}`: "initialData: /labels/0: got number, want string",
	} {
		err := agenthost.CheckInitialData(t.Context(), a, rawOrNil(raw))
		var e *conversation.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: got %v, want a conversation.Error", raw, err)
			continue
		}
		if diff := cmp.Diff([]string{"invalid_request", want}, []string{string(e.Code), e.Details}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", raw, diff)
		}
	}
}

func rawOrNil(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
