package agenttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

// TestSpendingIsBounded verifies that a model that always calls a tool is stopped by the turn limit,
// over crashes. A subagent counts against the limit of its parent.
func TestSpendingIsBounded(t *testing.T) {
	spend := func(limits agent.Limits, crashEvery int, models map[string]*agenttest.Model, subagents ...*agent.Agent) (*conversation.SettlementError, int) {
		var got *conversation.SettlementError
		calls := 0
		synctest.Test(t, func(t *testing.T) {
			var h *agenttest.Host
			again := func(context.Context, struct{}) (string, error) {
				if calls++; crashEvery > 0 && calls%crashEvery == 0 {
					h.Crash()
				}
				return "again", nil
			}
			a := &agent.Agent{
				Name: "spender", Model: "openai/gpt-5", Limits: limits, Subagents: subagents,
				Tools: []agent.Tool{agent.NewTool("again", "Go on.", again, nil)},
			}
			h = agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Models: models})
			var failed *client.SettledError
			if _, err := h.Conversation("spender", "1").Settle(client.Message{Body: "Go"}); !errors.As(err, &failed) {
				t.Fatalf("got settlement error %v", err)
			}
			got = failed.Err
		})
		return got, calls
	}
	always := agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer { return agenttest.Call("again", nil) })
	greedy := map[string]*agenttest.Model{"openai/gpt-5": always}
	check := func(name string, err *conversation.SettlementError, bound string, limit, spent float64) {
		t.Helper()
		want := map[string]any{"bound": bound, "limit": limit, "spent": spent}
		if diff := cmp.Diff(want, err.Meta); err.Type != conversation.CodeLimitReached || diff != "" {
			t.Errorf("%s: error %s (-want +got):\n%s", name, err.Type, diff)
		}
	}
	err, calls := spend(agent.Limits{}, 0, greedy)
	check("default", err, "turns", 100, 100)
	if calls != 100 {
		t.Errorf("got %d calls of the tool", calls)
	}
	err, calls = spend(agent.Limits{Turns: 7}, 2, greedy)
	check("over crashes", err, "turns", 7, 7)
	if calls != 7 {
		t.Errorf("over crashes: got %d calls of the tool", calls)
	}
	err, _ = spend(agent.Limits{ToolCalls: 3}, 0, greedy)
	check("calls of tools", err, "toolCalls", 3, 3)
	err, _ = spend(agent.Limits{Tokens: 5}, 0, greedy)
	check("tokens", err, "tokens", 5, 5)

	asks := agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer {
		return agenttest.Call(agent.TaskTool, map[string]string{"agent": "helper", "prompt": "Help"})
	})
	helper := &agent.Agent{Name: "helper", Description: "Helps.", Model: "openai/small"}
	model := agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer { return agenttest.Say("There.") })
	err, _ = spend(agent.Limits{Turns: 5}, 0, map[string]*agenttest.Model{"openai/gpt-5": asks, "openai/small": model}, helper)
	check("with a subagent", err, "turns", 5, 5)
	if mine, theirs := len(asks.Requests()), len(model.Requests()); mine != 3 || theirs != 2 {
		t.Errorf("with a subagent: got %d calls of its own and %d of the subagent", mine, theirs)
	}
}
