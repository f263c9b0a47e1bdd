// Command nightly creates a daily report with a durable workflow. It asks two agents concurrently,
// waits for the approval of a person, for days if necessary, and posts the report once, also after
// crashes.
//
// Run it with the offline demo model, and start a report in another shell:
//
//	go run ./examples/nightly dev --model demo/parrot
//	go run ./examples/nightly runs start nightly --input '{"day":"2026-11-25"}' --key 2026-11-25
//	go run ./examples/nightly runs follow run_…
//
// Kill and restart the program at any time. Then approve the report and print the result:
//
//	go run ./examples/nightly runs signal run_… approval Ada
//	go run ./examples/nightly runs show run_…
//
// Without --model the program calls OpenAI with OPENAI_API_KEY.
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

// newAgents returns the agents that the workflow asks.
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

// section is the input of a question to one agent.
type section struct{ Agent, Day string }

// newNightly returns the workflow. It starts a smaller workflow twice, so that both agents work
// concurrently.
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

// printed is an outbox target that logs the report instead of posting it.
type printed struct{ log *slog.Logger }

// Deliver implements outbox.Target.
func (p printed) Deliver(_ context.Context, post outbox.Post) error {
	p.log.Info("posted", "id", post.ID, "body", string(post.Body))
	return nil
}
