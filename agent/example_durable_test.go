package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// memory keeps state, steps and messages, for tests of an agent without concurrency.
type memory map[string]json.RawMessage

func (m memory) Get(name string) (json.RawMessage, bool, error) {
	raw, ok := m[name]
	return raw, ok, nil
}

func (m memory) Update(_ context.Context, name string, fn func(json.RawMessage) (json.RawMessage, error)) error {
	raw, err := fn(m[name])
	switch {
	case err != nil || raw == nil:
		return err
	case string(raw) == "null":
		delete(m, name)
	default:
		m[name] = raw
	}
	return nil
}

func (m memory) Recorded(name string) (json.RawMessage, bool) {
	raw, ok := m[name]
	return raw, ok
}

func (m memory) Record(_ context.Context, name string, output json.RawMessage) error {
	m[name] = output
	return nil
}

// A durable tool runs again after a crash; its recorded steps do not.
func ExampleStep() {
	type input struct {
		Order string `json:"order"`
	}
	crashing := true
	refund := func(ctx context.Context, in input) (string, error) {
		call, _ := agent.CallFrom(ctx)
		cents, err := agent.Step(ctx, "refund", func(ctx context.Context) (int64, error) {
			fmt.Println("refund", in.Order, "under key", call.ID)
			return 1250, nil
		})
		if err != nil {
			return "", err
		}
		if crashing {
			panic("the power fails")
		}
		_, err = agent.Step(ctx, "mail", func(ctx context.Context) (bool, error) {
			fmt.Println("mail about", cents, "cents")
			return true, nil
		})
		return fmt.Sprintf("refunded %d cents", cents), err
	}
	tool := agent.NewTool("refund", "Refund an order.", refund, &agent.ToolOptions{Durable: true})

	records := memory{}
	for range 2 {
		ctx := agenthost.WithCall(context.Background(), agent.Call{ID: "call_01"})
		out, err := tool.Call(agenthost.WithSteps(ctx, records), json.RawMessage(`{"order":"A7"}`))
		fmt.Println(string(out), err)
		crashing = false
	}
	// Output:
	// refund A7 under key call_01
	//  tool refund crashed
	// mail about 1250 cents
	// "refunded 1250 cents" <nil>
}

// The conversation keeps the state. A tool's writes become durable with the outcome of its call.
func ExampleState() {
	type input struct {
		Item string `json:"item"`
	}
	cart := agent.NewState("cart", []string{})
	add := func(ctx context.Context, in input) (string, error) {
		items, err := cart.Update(ctx, func(items []string) []string { return append(items, in.Item) })
		return strings.Join(items, ", "), err
	}
	shop := &agent.Agent{
		Name: "shop", Model: "openai/gpt-5",
		Tools: []agent.Tool{agent.NewTool("add", "Put an item into the cart.", add, nil)},
		State: []agent.StateDefinition{cart},
		InstructionsFunc: func(ctx context.Context, t *agent.Turn) (string, error) {
			items, err := cart.Get(ctx)
			return fmt.Sprintf("Sell. There are %d items in the cart.", len(items)), err
		},
	}

	ctx := agenthost.WithState(context.Background(), memory{})
	for _, item := range []string{"pen", "ink"} {
		out, err := shop.Tools[0].Call(ctx, json.RawMessage(`{"item":"`+item+`"}`))
		fmt.Println(string(out), err)
	}
	fmt.Println(agenthost.InstructionsFor(ctx, shop, &agent.Turn{}))
	// Output:
	// "pen" <nil>
	// "pen, ink" <nil>
	// Sell. There are 2 items in the cart. <nil>
}

// A tool can end the run, and return images.
func ExampleResult() {
	finish := agent.NewTool("publish", "Publish the report.", func(ctx context.Context, _ struct{}) (agent.Result, error) {
		chart := agent.Image{MimeType: "image/png", Data: []byte("\x89PNG…"), Filename: "chart.png"}
		return agent.Result{Output: "published", Terminate: true, Images: []agent.Image{chart}}, nil
	}, nil)
	out, err := finish.Run(context.Background(), nil)
	fmt.Println(string(out.Output), out.Terminate, out.Images[0].Filename, err)
	// Output:
	// "published" true chart.png <nil>
}

// desks receives the messages of tools and hooks.
type desks struct{}

func (desks) Admit(_ context.Context, a conversation.Admission) (conversation.Receipt, error) {
	fmt.Printf("to %s/%s under %s: %s\n", a.Address.Agent, a.Address.ID, a.Key, a.Delivery.Body)
	return conversation.Receipt{SubmissionID: "sub_02"}, nil
}

// A message to another conversation is durable when Dispatch returns.
func ExampleDispatch() {
	escalate := agent.NewTool("escalate", "Ask a person.", func(ctx context.Context, _ struct{}) (conversation.Receipt, error) {
		call, _ := agent.CallFrom(ctx)
		to := conversation.Address{Agent: "desk", ID: "night-shift"}
		return agent.Dispatch(ctx, to, agent.Text("Please look at "+call.Address.ID))
	}, nil)

	ctx := agenthost.WithCall(context.Background(), agent.Call{ID: "call_01", Address: conversation.Address{Agent: "support", ID: "42"}})
	_, err := escalate.Call(agenthost.WithDispatcher(ctx, desks{}), nil)
	fmt.Println(err)
	// Output:
	// to desk/night-shift under call_01/1: Please look at 42
	// <nil>
}
