package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// nested returns a subagent with depth levels in all.
func nested(depth int) *agent.Agent {
	a := scout()
	if depth > 1 {
		a.Subagents = []*agent.Agent{nested(depth - 1)}
	}
	return a
}

func TestValidateSubagents(t *testing.T) {
	for _, tc := range []struct {
		name    string
		spoil   func(sub *agent.Agent)
		field   string
		message string
	}{
		{"as it should be", func(*agent.Agent) {}, "", ""},
		{"own model", func(s *agent.Agent) {
			s.Model, s.Fallbacks, s.ThinkingLevel = "p/m", []string{"p/n"}, agent.ThinkingOff
		}, "", ""},
		{"own prepare", func(s *agent.Agent) {
			s.Prepare = func(context.Context, *agent.Turn, *agent.Setup) error { return nil }
		}, "", ""},
		{"the same agent in two places", func(s *agent.Agent) {
			s.Subagents = []*agent.Agent{{Name: "b", Description: "B."}, {Name: "c", Description: "C."}}
			s.Subagents[0].Subagents = s.Subagents[1:]
		}, "", ""},
		{"name", func(s *agent.Agent) { s.Name = "Scout" }, "Subagents[0].Name", "does not match"},
		{"description", func(s *agent.Agent) { s.Description = "" }, "Subagents[0].Description", "the model chooses"},
		{"model", func(s *agent.Agent) { s.Model = "gpt" }, "Subagents[0].Model", "provider/model"},
		{"fallback", func(s *agent.Agent) { s.Model, s.Fallbacks = "p/m", []string{"p/m"} }, "Subagents[0].Fallbacks[0]", "asked before already"},
		{"fallbacks alone", func(s *agent.Agent) { s.Fallbacks = []string{"p/m"} }, "Subagents[0].Fallbacks", "without a Model"},
		{"thinking", func(s *agent.Agent) { s.ThinkingLevel = "hard" }, "Subagents[0].ThinkingLevel", "is unknown"},
		{"instructions", func(s *agent.Agent) {
			s.InstructionsFunc = func(context.Context, *agent.Turn) (string, error) { return "", nil }
		}, "Subagents[0].InstructionsFunc", "keep one"},
		{"tool", func(s *agent.Agent) { s.Tools = []agent.Tool{{}} }, "Subagents[0].Tools[0]", "NewTool"},
		{"tools at once", func(s *agent.Agent) { s.ToolConcurrency = -1 }, "Subagents[0].ToolConcurrency", "default of 16"},
		{"compaction", func(s *agent.Agent) { s.Compaction.Model = "gpt" }, "Subagents[0].Compaction.Model", "provider/model"},
		{"initial data", func(s *agent.Agent) { s.InitialData = agent.SchemaFor[int]() }, "Subagents[0].InitialData", "no caller"},
		{"state", func(s *agent.Agent) { s.State = []agent.StateDefinition{agent.NewState("n", 0)} }, "Subagents[0].State", "belongs to"},
		{"data", func(s *agent.Agent) { s.Data = []agent.Data{agent.NewDataWriter[int]("n", nil)} }, "Subagents[0].Data", "no response"},
		{"hook started", func(s *agent.Agent) {
			s.Hooks.DeliveryStarted = func(context.Context, *agent.Turn) error { return nil }
		}, "Subagents[0].Hooks", "are set"},
		{"hook settled", func(s *agent.Agent) { s.Hooks.Settled = func(context.Context, *agent.Settlement) error { return nil } }, "Subagents[0].Hooks", "are set"},
		{"durability", func(s *agent.Agent) { s.Durability.Timeout = time.Minute }, "Subagents[0].Durability", "bounded by the submission"},
		{"limits", func(s *agent.Agent) { s.Limits.CallsPerReply = 1 }, "Subagents[0].Limits", "the submission belongs to"},
		{"events", func(s *agent.Agent) { s.Events.Content = true }, "Subagents[0].Events", "agent of the conversation"},
		{"nil below", func(s *agent.Agent) { s.Subagents = []*agent.Agent{nil} }, "Subagents[0].Subagents[0]", "is nil"},
		{"itself", func(s *agent.Agent) { s.Subagents = []*agent.Agent{s} }, "Subagents[0].Subagents[0]", `leads back to agent "scout"`},
		{"a longer way to itself", func(s *agent.Agent) {
			below := nested(2)
			below.Name, below.Subagents[0].Subagents = "b", []*agent.Agent{s}
			s.Subagents = []*agent.Agent{below}
		}, "Subagents[0].Subagents[0].Subagents[0].Subagents[0]", "leads back"},
		{"named alike", func(s *agent.Agent) { s.Subagents = []*agent.Agent{scout(), nested(1)} }, "Subagents[0].Subagents[1]", `is named "scout" like Subagents[0].Subagents[0]`},
		{"as deep as may be", func(s *agent.Agent) { s.Subagents = []*agent.Agent{nested(3)} }, "", ""},
		{"too deep", func(s *agent.Agent) { s.Subagents = []*agent.Agent{nested(4)} }, "Subagents[0].Subagents[0].Subagents[0].Subagents[0].Subagents", "at most 4 levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := valid()
			a.Subagents = []*agent.Agent{scout()}
			tc.spoil(a.Subagents[0])
			err := a.Validate()
			if tc.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var def *agent.DefinitionError
			if !errors.As(err, &def) {
				t.Fatalf("got %v, want a DefinitionError", err)
			}
			if len(def.Issues) != 1 || def.Issues[0].Path != tc.field || !strings.Contains(def.Issues[0].Problem, tc.message) {
				t.Errorf("got %v, want one issue of %s with %q", def.Issues, tc.field, tc.message)
			}
		})
	}
	a := valid()
	a.Subagents = []*agent.Agent{a}
	if err := a.Validate(); err == nil || !strings.Contains(err.Error(), `Subagents[0]: leads back to agent "issue-triage"`) {
		t.Errorf("recursive agent: got %v", err)
	}
}

func TestInherit(t *testing.T) {
	parent := &agent.Setup{Model: "p/m", Fallbacks: []string{"p/n"}, ThinkingLevel: agent.ThinkingHigh}
	for _, tc := range []struct {
		name       string
		sub, want  agent.Agent
		sameObject bool
	}{
		{"everything", agent.Agent{}, agent.Agent{Model: "p/m", Fallbacks: []string{"p/n"}, ThinkingLevel: agent.ThinkingHigh}, false},
		{"own level", agent.Agent{ThinkingLevel: agent.ThinkingOff}, agent.Agent{Model: "p/m", Fallbacks: []string{"p/n"}, ThinkingLevel: agent.ThinkingOff}, false},
		{"own model", agent.Agent{Model: "q/m"}, agent.Agent{Model: "q/m"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sub := scout()
			sub.Model, sub.ThinkingLevel = tc.sub.Model, tc.sub.ThinkingLevel
			got := agenthost.Inherit(sub, parent)
			if (got == sub) != tc.sameObject || got.Name != "scout" || got.Instructions != sub.Instructions {
				t.Errorf("got %+v", got)
			}
			have := agent.Agent{Model: got.Model, Fallbacks: got.Fallbacks, ThinkingLevel: got.ThinkingLevel}
			if diff := cmp.Diff(facts(&agent.Setup{Model: tc.want.Model, Fallbacks: tc.want.Fallbacks, ThinkingLevel: tc.want.ThinkingLevel}),
				facts(&agent.Setup{Model: have.Model, Fallbacks: have.Fallbacks, ThinkingLevel: have.ThinkingLevel})); diff != "" {
				t.Errorf("inherited (-want +got):\n%s", diff)
			}
			if sub.Model != tc.sub.Model || sub.ThinkingLevel != tc.sub.ThinkingLevel {
				t.Error("subagent was changed")
			}
			if _, err := agenthost.SetupFor(t.Context(), got, &agent.Turn{}); err != nil {
				t.Errorf("set up inherited agent: %v", err)
			}
		})
	}
	child := agenthost.Inherit(scout(), parent)
	child.Fallbacks[0] = "q/n"
	if parent.Fallbacks[0] != "p/n" {
		t.Error("parent's setup was changed")
	}
}
