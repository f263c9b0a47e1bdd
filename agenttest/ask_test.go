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

// asking is an agent whose tool asks another one.
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

// expert is an agent whose tool takes its time.
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
			if view := viewOf(r); strings.Contains(view, "the expert says: It is.") { // also after a reply that was cut off
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

// TestAskOverCrashes at every write of two conversations, of which one asks the other: the question
// is asked once, and its reply heard.
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
				t.Errorf("crash at write %d: %+v, %v", n, reply, err)
			}
			if took := time.Since(began); took < 10*time.Hour || took > 11*time.Hour {
				t.Errorf("crash at write %d: took %v", n, took)
			}
			if asked := h.Conversation("expert", "e").Transcript(); strings.Count(asked, "user: ") != 1 || !strings.Contains(asked, "assistant: ") {
				t.Errorf("crash at write %d: the expert has heard\n%s", n, asked)
			}
		})
	}
}

// TestAskHearsWhatBecomesOfIt: an abort of who is asked, and a timeout of who asks.
func TestAskHearsWhatBecomesOfIt(t *testing.T) {
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
			t.Errorf("after an abort: %+v, %v", reply, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var runs int
		h := agenttest.New(t, []*agent.Agent{asking(&agent.AskOptions{Timeout: time.Hour}), expert(&runs)}, &agenttest.Options{Models: map[string]*agenttest.Model{
			"openai/gpt-5": agenttest.NewModel(agenttest.Call("consult", nil), agenttest.Say("Nobody knows.")), "anthropic/claude": consultants()["anthropic/claude"],
		}})
		began := time.Now()
		if reply := h.Conversation("desk", "d").Ask("Is it true?"); reply.Text != "Nobody knows." || time.Since(began) > 2*time.Hour {
			t.Errorf("after the timeout: %q in %v", reply.Text, time.Since(began))
		}
		time.Sleep(24 * time.Hour) // the reply comes, and nobody waits
		if said := h.Conversation("expert", "e").Transcript(); !strings.Contains(said, "It is.") {
			t.Errorf("the expert:\n%s", said)
		}
	})
}

func TestAskNeedsADurableTool(t *testing.T) {
	_, err := agent.Ask(context.Background(), conversation.Address{Agent: "expert", ID: "e"}, agent.Text("?"), nil)
	if !errors.Is(err, agent.ErrNoSteps) {
		t.Error(err)
	}
}
