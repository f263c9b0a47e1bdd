package agenttest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/internal/sample"
)

type verdict struct {
	Spam  bool    `json:"spam"`
	Score float64 `json:"score" jsonschema:"from 0 to 1"`
}

func TestOutput(t *testing.T) {
	good := map[string]any{"spam": true, "score": 0.9}
	for _, tc := range []struct {
		name    string
		output  *agent.Schema
		answers []agenttest.Answer
		want    string // JSON of the output, or the code of the failure
	}{
		{"at once", agent.SchemaFor[verdict](), []agenttest.Answer{agenttest.Call(agent.FinishTool, good)}, `{"score":0.9,"spam":true}`},
		{"wrong first", agent.SchemaFor[verdict](), []agenttest.Answer{
			agenttest.Call(agent.FinishTool, map[string]any{"spam": "yes"}), agenttest.Call(agent.FinishTool, good),
		}, `{"score":0.9,"spam":true}`},
		{"reminded", agent.SchemaFor[verdict](), []agenttest.Answer{agenttest.Say("It is spam."), agenttest.Call(agent.FinishTool, good)}, `{"score":0.9,"spam":true}`},
		{"a list", agent.SchemaFor[[]int](), []agenttest.Answer{agenttest.Call(agent.FinishTool, map[string]any{"output": []int{1, 2}})}, `[1,2]`},
		{"never", agent.SchemaFor[verdict](), []agenttest.Answer{agenttest.Say("It is spam."), agenttest.Say("Really.")}, "submission_output_missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := agenttest.NewModel(tc.answers...)
				a := &agent.Agent{Name: "filter", Model: "openai/gpt-5", Output: tc.output}
				h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
				reply, err := h.Conversation("filter", "1").Settle(client.Message{Body: "Win a prize"})
				var failed *client.SettledError
				got := string(reply.Output)
				if errors.As(err, &failed) {
					got = string(failed.Err.Type)
				}
				if got != tc.want || model.Left() != 0 {
					t.Errorf("got %s, want %s; %d answers are unused", got, tc.want, model.Left())
				}
			})
		})
	}
}

// TestOutputOfASubagent verifies that the output is the result of the task. A subagent that ends
// without an output is reminded once, also over crashes.
func TestOutputOfASubagent(t *testing.T) {
	given := agenttest.Call(agent.FinishTool, verdict{true, 0.5})
	for name, tc := range map[string]struct {
		answers []agenttest.Answer
		want    string
		writes  int // writes before the crash
	}{
		"at once":  {[]agenttest.Answer{given}, `{"score":0.5,"spam":true}`, 0},
		"reminded": {[]agenttest.Answer{agenttest.Say("It is spam."), given}, `{"score":0.5,"spam":true}`, 9},
		"never":    {[]agenttest.Answer{agenttest.Say("It is spam."), agenttest.Say("I said so.")}, "I said so.", 0},
	} {
		for crash := range sample.Of(tc.writes+1, min(tc.writes+1, 2)) {
			synctest.Test(t, func(t *testing.T) {
				judge := &agent.Agent{Name: "judge", Description: "Judges.", Model: "openai/small", Output: agent.SchemaFor[verdict]()}
				a := &agent.Agent{Name: "filter", Model: "openai/gpt-5", Subagents: []*agent.Agent{judge}}
				models := map[string]*agenttest.Model{
					"openai/small": agenttest.NewModel(tc.answers...),
					"openai/gpt-5": agenttest.NewModel(agenttest.Call(agent.TaskTool, map[string]string{"agent": "judge", "prompt": "Judge"}), agenttest.Say("Done.")),
				}
				h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Models: models})
				if crash > 0 {
					h.CrashAtWrite(crash)
				}
				c := h.Conversation("filter", "1")
				c.Ask("Win a prize")
				if got := c.Transcript(); !strings.Contains(got, "= "+tc.want) && !strings.Contains(got, "= \""+tc.want) || strings.Contains(got, "still missing") {
					t.Errorf("%s, crash %d: got transcript %s", name, crash, got)
				}
				var results []string // also of the continuation of an interrupted reply
				for _, r := range models["openai/gpt-5"].Requests() {
					results = append(results, r.Last())
				}
				if !slices.Contains(results, tc.want) || models["openai/small"].Left() != 0 {
					t.Errorf("%s, crash %d: got results %q for the parent", name, crash, results)
				}
			})
		}
	}
}

// TestOutputOverCrashes crashes at each write: the reminder and the output are neither lost nor
// duplicated.
func TestOutputOverCrashes(t *testing.T) {
	for n := 1; n < sample.Of(8, 3); n++ {
		synctest.Test(t, func(t *testing.T) {
			model := agenttest.NewModel(agenttest.Say("It is spam."), agenttest.Call(agent.FinishTool, verdict{true, 1}))
			a := &agent.Agent{Name: "filter", Model: "openai/gpt-5", Output: agent.SchemaFor[verdict]()}
			h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
			h.CrashAtWrite(n)
			reply, err := h.Conversation("filter", "1").Settle(client.Message{Body: "Win a prize"})
			if err != nil || string(reply.Output) != `{"score":1,"spam":true}` {
				t.Errorf("crash at write %d: got %s, %v", n, reply.Output, err)
			}
		})
	}
}
