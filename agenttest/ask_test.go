package agenttest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// asking returns an agent whose tool asks another agent.
func asking(o *agent.AskOptions) *agent.Agent {
	consult := agent.NewTool("consult", "Asks the expert.", func(ctx context.Context, _ struct{}) (string, error) {
		reply, err := agent.Ask(ctx, conversation.Address{Agent: "expert", ID: "e"}, agent.Text("Is it true?"), o)
		if err != nil {
			return "", err
		}
		return "the expert says: " + reply.Text, nil
	}, &agent.ToolOptions{Durable: true})
	return &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{consult}}
}

// expert returns an agent with a slow tool.
func expert(asked *int) *agent.Agent {
	think := agent.NewTool("think", "Thinks it over.", func(ctx context.Context, _ struct{}) (string, error) {
		*asked++
		return "thought", agent.Sleep(ctx, "overnight", 10*time.Hour)
	}, &agent.ToolOptions{Durable: true})
	return &agent.Agent{Name: "expert", Model: "anthropic/claude", Tools: []agent.Tool{think}}
}

func consultants() map[string]*agenttest.Model {
	return map[string]*agenttest.Model{
		"openai/gpt-5": agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
			if view := viewOf(r); strings.Contains(view, "the expert says: It is.") { // also after an interrupted reply
				return agenttest.Say("So it is.")
			} else if strings.Contains(view, "submission") {
				return agenttest.Say("Nobody knows: " + r.Last())
			}
			return agenttest.Call("consult", nil)
		}),
		"anthropic/claude": agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
			if strings.Contains(viewOf(r), "thought") {
				return agenttest.Say("It is.")
			}
			return agenttest.Call("think", nil)
		}),
	}
}

// TestAskOverCrashes crashes at each write of both conversations. The question is sent once, and its
// reply received.
func TestAskOverCrashes(t *testing.T) {
	for n := range sample.Of(30, 3) {
		synctest.Test(t, func(t *testing.T) {
			var runs int
			h := agenttest.New(t, []*agent.Agent{asking(nil), expert(&runs)}, &agenttest.Options{Models: consultants()})
			if n > 0 {
				h.CrashAtWrite(n)
			}
			began := time.Now()
			reply, err := h.Conversation("desk", "d").Settle(client.Message{Body: "Is it true?"})
			if err != nil || !strings.HasPrefix(reply.Text, "So it is.") {
				t.Errorf("crash at write %d: got %+v, %v", n, reply, err)
			}
			if took := time.Since(began); took < 10*time.Hour || took > 11*time.Hour {
				t.Errorf("crash at write %d: got duration %v", n, took)
			}
			if asked := h.Conversation("expert", "e").Transcript(); strings.Count(asked, "user: ") != 1 || !strings.Contains(asked, "assistant: ") {
				t.Errorf("crash at write %d: got questions\n%s", n, asked)
			}
		})
	}
}

// TestAskOutcomes covers an abort of the asked conversation and a timeout of the asking one.
func TestAskOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs int
		h := agenttest.New(t, []*agent.Agent{asking(nil), expert(&runs)}, &agenttest.Options{Models: consultants()})
		desk, asked := h.Conversation("desk", "d"), h.Conversation("expert", "e")
		receipt, err := desk.Send(context.Background(), client.Message{Body: "Is it true?"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := asked.Abort(context.Background()); err != nil {
			t.Fatal(err)
		}
		reply, err := desk.Wait(context.Background(), receipt)
		if err != nil || !strings.Contains(reply.Text, "aborted") {
			t.Errorf("after an abort: got %+v, %v", reply, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var runs int
		h := agenttest.New(t, []*agent.Agent{asking(&agent.AskOptions{Timeout: time.Hour}), expert(&runs)}, &agenttest.Options{Models: map[string]*agenttest.Model{
			"openai/gpt-5": agenttest.NewModel(agenttest.Call("consult", nil), agenttest.Say("Nobody knows.")), "anthropic/claude": consultants()["anthropic/claude"],
		}})
		began := time.Now()
		if reply := h.Conversation("desk", "d").Ask("Is it true?"); reply.Text != "Nobody knows." || time.Since(began) > 2*time.Hour {
			t.Errorf("after the timeout: got %q in %v", reply.Text, time.Since(began))
		}
		time.Sleep(24 * time.Hour) // the reply arrives after the timeout
		if text := h.Conversation("expert", "e").Transcript(); !strings.Contains(text, "It is.") {
			t.Errorf("got transcript of the expert:\n%s", text)
		}
	})
}

// TestAskRepliesMatch verifies that each call receives the reply to its own question, for any key,
// outcome and length.
func TestAskRepliesMatch(t *testing.T) {
	markup, long := strings.Repeat("<b>", 8<<10), strings.Repeat("it failed ", 20<<10)
	audit := agent.NewWorkflow("audit", func(context.Context, struct{}) (string, error) { return "", errors.New(long) }, nil)
	consult := agent.NewTool("consult", "Asks the expert.", func(ctx context.Context, _ struct{}) (string, error) {
		question := agent.Text("Is it true?")
		reply, err := agent.Ask(ctx, conversation.Address{Agent: "expert", ID: "e"}, agent.Message{Delivery: question.Delivery, Key: "k"}, nil)
		if errors.Is(err, agent.ErrSuspended) {
			return "", err
		}
		if err != nil || reply.Text != markup || reply.Truncated {
			t.Errorf("%+v, %v", reply, err)
		}
		_, err = audit.Run(ctx, "audit", struct{}{}, nil)
		if errors.Is(err, agent.ErrSuspended) {
			return "", err
		}
		var failed *conversation.SettledError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "it failed it failed") {
			t.Errorf("%.100v", err)
		}
		return "the expert says: It is.", nil
	}, &agent.ToolOptions{Durable: true})
	synctest.Test(t, func(t *testing.T) {
		desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{consult}}
		h := agenttest.New(t, []*agent.Agent{desk, {Name: "expert", Model: "anthropic/claude"}}, &agenttest.Options{Workflows: []agent.AnyWorkflow{audit}, Models: map[string]*agenttest.Model{
			"openai/gpt-5": consultants()["openai/gpt-5"], "anthropic/claude": agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer { return agenttest.Say(markup) }),
		}})
		for _, id := range []string{"a", "b"} {
			if reply := h.Conversation("desk", id).Ask("Is it true?"); reply.Text != "So it is." {
				t.Errorf("%s: got %q", id, reply.Text)
			}
		}
	})
}

// TestAskRefuses verifies that questions without a possible reply fail, and that nothing is sent.
func TestAskRefuses(t *testing.T) {
	signal, err := agent.Signal("approval", true)
	if err != nil {
		t.Fatal(err)
	}
	expert := conversation.Address{Agent: "expert", ID: "e"}
	for name, c := range map[string]struct {
		to   conversation.Address
		m    agent.Message
		o    *agent.AskOptions
		want string
	}{
		"a signal for a wait": {expert, signal, nil, "has no reply"},
		"too long":            {expert, agent.Text("?"), &agent.AskOptions{Timeout: 31 * 24 * time.Hour}, "the maximum is 30 days"},
		"unknown agent":       {conversation.Address{Agent: "unknown", ID: "e"}, agent.Text("?"), nil, "route_not_found"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got error
			consult := agent.NewTool("consult", "Asks.", func(ctx context.Context, _ struct{}) (string, error) {
				_, got = agent.Ask(ctx, c.to, c.m, c.o)
				return "no submission", nil
			}, &agent.ToolOptions{Durable: true})
			desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{consult}}
			h := agenttest.New(t, []*agent.Agent{desk, {Name: "expert", Model: "anthropic/claude"}}, &agenttest.Options{Models: map[string]*agenttest.Model{
				"openai/gpt-5": consultants()["openai/gpt-5"], "anthropic/claude": agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer {
					t.Errorf("%s: got a question, want none", name)
					return agenttest.Say("?")
				}),
			}})
			h.Conversation("desk", "d").Ask("Is it true?")
			if got == nil || !strings.Contains(got.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, got, c.want)
			}
		})
	}
}

func TestAskNeedsADurableTool(t *testing.T) {
	_, err := agent.Ask(context.Background(), conversation.Address{Agent: "expert", ID: "e"}, agent.Text("?"), nil)
	if !errors.Is(err, agent.ErrNoSteps) {
		t.Error(err)
	}
}
