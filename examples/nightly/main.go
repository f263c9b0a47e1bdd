// Command nightly reports on a day: it asks one agent for the sales and another for the incidents, side by side, waits for
// a person to approve, for days if need be, and posts the report once, whatever dies meanwhile.
//
// Run it with a model that is offline and only repeats, and begin a report in another shell:
//
//	go run ./examples/nightly dev --model demo/parrot
//	go run ./examples/nightly runs start nightly --input '{"day":"2026-11-25"}' --key 2026-11-25
//	go run ./examples/nightly runs follow run_…
//
// Kill it and start it again as you like. Then let the report out, and see what has become of it:
//
//	go run ./examples/nightly runs signal run_… approval Ada
//	go run ./examples/nightly runs show run_…
//
// Without --model the model is called with OPENAI_API_KEY.
package main

import (
	"context"
	"log/slog"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

func main() {
	(&parley.Program{
		Agents:    newAgents("openai/gpt-5-mini"),
		Workflows: []agent.AnyWorkflow{newNightly(), newAsk()},
		Targets:   map[string]outbox.Target{"board": printed{slog.Default()}},
	}).Main()
}

// newAgents are those that are asked.
func newAgents(model string) []*agent.Agent {
	return []*agent.Agent{
		{Name: "sales", Model: model, Instructions: "You sum up the sales of a shop on a day, in one sentence."},
		{Name: "incidents", Model: model, Instructions: "You sum up what went wrong in a shop on a day, in one sentence."},
	}
}

type night struct {
	Day string `json:"day" jsonschema:"such as 2026-11-25"`
}

type report struct {
	Day        string `json:"day"`
	Sales      string `json:"sales"`
	Incidents  string `json:"incidents"`
	ApprovedBy string `json:"approvedBy"`
}

// section is what one agent is asked.
type section struct{ Agent, Day string }

// newNightly defines the workflow, and a smaller one that a run of it starts twice, so that both agents are asked before either
// has answered.
func newNightly() *agent.Workflow[night, report] {
	ask := newAsk()
	return agent.NewWorkflow("nightly", func(ctx context.Context, in night) (r report, err error) {
		r.Day = in.Day
		sales, err := ask.Start(ctx, "sales", section{"sales", in.Day}, nil)
		if err != nil {
			return r, err
		}
		incidents, err := ask.Start(ctx, "incidents", section{"incidents", in.Day}, nil)
		if err != nil {
			return r, err
		}
		if r.Sales, err = sales.Wait(ctx); err != nil {
			return r, err
		}
		if r.Incidents, err = incidents.Wait(ctx); err != nil {
			return r, err
		}
		if r.ApprovedBy, err = agent.Wait[string](ctx, "approval", nil); err != nil {
			return r, err
		}
		_, err = agent.Post(ctx, agent.Outgoing{Target: "board", Body: r})
		return r, err
	}, nil)
}

func newAsk() *agent.Workflow[section, string] {
	return agent.NewWorkflow("ask", func(ctx context.Context, in section) (string, error) {
		reply, err := agent.Ask(ctx, conversation.Address{Agent: in.Agent, ID: in.Day}, agent.Text("Sum up "+in.Day+"."), nil)
		if err != nil {
			return "", err
		}
		return reply.Text, nil
	}, nil)
}

// printed is a board that is the log, for those who have none.
type printed struct{ log *slog.Logger }

// Deliver implements outbox.Target.
func (p printed) Deliver(_ context.Context, post outbox.Post) error {
	p.log.Info("posted", "id", post.ID, "body", string(post.Body))
	return nil
}
