package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parleyrun/parley/agent"
)

// A test calls a tool like a function. Invalid input never reaches the function; the model gets the
// reason.
func ExampleTool_Run() {
	type order struct {
		Number int `json:"number"`
	}
	cancel := agent.NewTool("cancel", "Cancel an order.", func(_ context.Context, o order) (string, error) {
		return fmt.Sprintf("order %d is cancelled", o.Number), nil
	}, nil)

	out, err := cancel.Run(context.Background(), json.RawMessage(`{"number":7}`))
	fmt.Println(string(out.Output), err)

	_, err = cancel.Run(context.Background(), json.RawMessage(`{"number":"seven","why":"late"}`))
	var wrong *agent.InputError
	if errors.As(err, &wrong) {
		for _, issue := range wrong.Issues {
			fmt.Println(issue)
		}
	}
	// Output:
	// "order 7 is cancelled" <nil>
	// unknown member "why"
	// /number: got string, want integer
}

// A schema from another source checks values like one derived from a Go type.
func ExampleNewSchema() {
	schema, err := agent.NewSchema(json.RawMessage(`{"type":"object","properties":{"stars":{"type":"integer","minimum":1,"maximum":5}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.Validate(context.Background(), json.RawMessage(`{"stars":4}`)))
	fmt.Println(schema.Validate(context.Background(), json.RawMessage(`{"stars":6}`)))
	// Output:
	// <nil>
	// /stars: must be at most 5
}

// An agent with structured output, a low temperature, a fallback model, a subagent and a cost limit.
func ExampleAgent() {
	type verdict struct {
		Spam   bool   `json:"spam"`
		Reason string `json:"reason" jsonschema:"one sentence"`
	}
	judge := &agent.Agent{
		Name: "judge", Model: "openai/gpt-5", Fallbacks: []string{"anthropic/claude-haiku-4-5"},
		Instructions: "Judge mail.",
		Output:       agent.SchemaFor[verdict](),
		Generation:   agent.Generation{Temperature: new(0.0), MaxOutputTokens: 500},
		Limits:       agent.Limits{Turns: 10, Dollars: 0.05},
		Subagents: []*agent.Agent{{
			Name: "reader", Description: "Reads long mail.", Instructions: "Sum up the mail.",
		}},
	}
	fmt.Println(judge.Validate())
	fmt.Println(string(judge.Output.JSON()))
	// Output:
	// <nil>
	// {"type":"object","properties":{"spam":{"type":"boolean"},"reason":{"type":"string","description":"one sentence"}},"required":["spam","reason"],"additionalProperties":false}
}
