package agent_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// A crashed run continues after its last recorded step.
func ExampleNewWorkflow() {
	type order struct {
		Item string `json:"item"`
	}
	crashing := true
	orders := agent.NewWorkflow("order", func(ctx context.Context, in order) (string, error) {
		number, err := agent.Step(ctx, "reserve", func(context.Context) (string, error) {
			fmt.Println("reserves the", in.Item)
			return "A-1", nil
		})
		if err != nil {
			return "", err
		}
		if crashing {
			crashing = false
			panic("the power is out")
		}
		return "ordered as " + number, nil
	}, nil)

	// A runtime calls the function; the example does it directly.
	ctx := agenthost.WithSteps(context.Background(), memory{})
	for range 2 {
		out, err := orders.Definition().Tools[0].Call(ctx, json.RawMessage(`{"item":"kettle"}`))
		fmt.Println(string(out), err)
		ctx = agenthost.WithSteps(context.Background(), memory{"reserve": json.RawMessage(`"A-1"`)})
	}
	// Output:
	// reserves the kettle
	//  tool order crashed
	// "ordered as A-1" <nil>
}
