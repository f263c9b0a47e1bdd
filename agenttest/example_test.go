package agenttest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
)

// The model calls a tool and then answers; nothing leaves the process.
func Example() {
	_ = func(t *testing.T) { // func TestConcierge(t *testing.T)
		synctest.Test(t, func(t *testing.T) {
			type place struct{ City string }
			rain := func(context.Context, place) (string, error) { return "rain", nil }
			concierge := &agent.Agent{
				Name: "concierge", Model: "openai/gpt-5",
				Tools: []agent.Tool{agent.NewTool("weather", "Look at the sky.", rain, nil)},
			}
			model := agenttest.NewModel(agenttest.Call("weather", place{"Kiel"}), agenttest.Say("Take an umbrella."))
			h := agenttest.New(t, []*agent.Agent{concierge}, &agenttest.Options{Model: model})
			if reply := h.Conversation("concierge", "room-7").Ask("Shall we walk?"); reply.Text != "Take an umbrella." {
				t.Error(reply.Text)
			}
		})
	}
}
