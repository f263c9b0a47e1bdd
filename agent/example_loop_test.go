package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// Prepare selects the model by the caller's message, and removes a tool.
func ExampleNewSetup() {
	erase := agent.NewTool("erase", "Erase the account.", func(ctx context.Context, _ struct{}) (string, error) { return "erased", nil }, nil)
	a := &agent.Agent{
		Name: "support", Model: "openai/gpt-5-mini", Fallbacks: []string{"anthropic/claude-haiku-4-5"},
		Instructions: "Help.",
		Tools:        []agent.Tool{erase},
		Prepare: func(ctx context.Context, t *agent.Turn, s *agent.Setup) error {
			if t.Delivery.Kind == conversation.KindSignal {
				s.Tools = nil // a signal must not erase anything
			}
			if len(t.Delivery.Body) > 40 {
				s.Model, s.ThinkingLevel = "openai/gpt-5", agent.ThinkingHigh
			}
			return nil
		},
	}
	for _, d := range []conversation.Delivery{
		{Kind: conversation.KindUser, Body: "Hello."},
		{Kind: conversation.KindSignal, Type: "ticket", Body: strings.Repeat("It does not work. ", 3)},
	} {
		s := agent.NewSetup(a)
		err := a.Prepare(context.Background(), &agent.Turn{Delivery: d}, s)
		fmt.Println(s.Model, s.Fallbacks, len(s.Tools), err, s.Validate())
	}
	// Output:
	// openai/gpt-5-mini [anthropic/claude-haiku-4-5] 1 <nil> <nil>
	// openai/gpt-5 [anthropic/claude-haiku-4-5] 0 <nil> <nil>
}

// Hooks load the agent's data, decorate the response, and notify other systems.
func ExampleHooks() {
	customer := agent.NewState("customer", "")
	a := &agent.Agent{
		Name: "support", Model: "openai/gpt-5",
		State: []agent.StateDefinition{customer},
		Hooks: agent.Hooks{
			DeliveryStarted: func(ctx context.Context, t *agent.Turn) error {
				return customer.Set(ctx, "Ada") // ask your service here
			},
			ResponseFinished: func(ctx context.Context, r *agent.Response) (map[string]any, error) {
				return map[string]any{"tokens": r.Usage.Total}, nil
			},
			Settled: func(ctx context.Context, s *agent.Settlement) error {
				name, err := customer.Get(ctx)
				fmt.Println("answered", name, s.Outcome, s.Text)
				return err
			},
		},
	}

	ctx := agenthost.WithState(context.Background(), memory{})
	fmt.Println(agenthost.StartDelivery(ctx, a, &agent.Turn{}))
	metadata, err := agenthost.FinishResponse(ctx, a, &agent.Response{Usage: conversation.Usage{Total: 120}})
	fmt.Println(string(metadata), err)
	fmt.Println(agenthost.AfterSettlement(ctx, a, &agent.Settlement{Outcome: conversation.OutcomeCompleted, Text: "Done."}))
	// Output:
	// <nil>
	// {"tokens":120} <nil>
	// answered Ada completed Done.
	// <nil>
}

// WouldStop checks the result before the response ends, and may send the model back.
func ExampleHooks_wouldStop() {
	runTests := func(ctx context.Context, attempt int) error {
		if attempt == 0 {
			return errors.New("TestParse fails")
		}
		return nil
	}
	coder := &agent.Agent{
		Name: "coder", Model: "anthropic/claude-opus-4-6",
		Hooks: agent.Hooks{
			WouldStop: func(ctx context.Context, r *agent.Response) (string, error) {
				if err := runTests(ctx, r.Continuations); err != nil {
					return "The work is not done: " + err.Error() + ".", nil
				}
				return "", nil
			},
		},
	}
	for n := range 2 {
		again, err := agenthost.BeforeStop(context.Background(), coder, &agent.Response{Continuations: n})
		fmt.Printf("%q %v\n", again, err)
	}
	// Output:
	// "The work is not done: TestParse fails." <nil>
	// "" <nil>
}

// The model delegates tasks to subagents by their descriptions.
func ExampleAgent_subagents() {
	fetch := agent.NewTool("fetch", "Fetch a page.", func(ctx context.Context, _ struct{}) (string, error) { return "…", nil }, nil)
	research := &agent.Agent{
		Name: "research", Model: "anthropic/claude-opus-4-6", ThinkingLevel: agent.ThinkingHigh,
		Instructions: "Split the question, hand the parts out, and sum up.",
		Subagents: []*agent.Agent{
			{Name: "reader", Description: "Reads one page and says what it is about.", Model: "openai/gpt-5-mini", Tools: []agent.Tool{fetch}},
			{Name: "critic", Description: "Looks for what a summary leaves out."},
		},
	}
	fmt.Println(research.Validate())

	// The runtime sets a task up after the model call that requested it.
	s, _ := agenthost.SetupFor(context.Background(), research, &agent.Turn{})
	for _, sub := range s.Subagents {
		sub = agenthost.Inherit(sub, s)
		fmt.Printf("%s: %s %q\n", sub.Name, sub.Model, sub.ThinkingLevel)
	}
	// Output:
	// <nil>
	// reader: openai/gpt-5-mini ""
	// critic: anthropic/claude-opus-4-6 "high"
}
