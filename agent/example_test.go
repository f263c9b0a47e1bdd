package agent_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// The agent of the README.
func Example() {
	type input struct {
		City string `json:"city" jsonschema:"name of the city"`
	}
	type output struct {
		Celsius float64 `json:"celsius"`
	}
	weather := func(ctx context.Context, in input) (output, error) {
		return output{Celsius: 21.5}, nil // ask your service here
	}

	concierge := &agent.Agent{
		Name:         "concierge",
		Model:        "openai/gpt-5",
		Instructions: "Help guests plan their day. Look up the weather before you suggest anything outdoors.",
		Tools: []agent.Tool{
			agent.NewTool("weather", "Current weather of a city.", weather, nil),
		},
	}

	fmt.Println(concierge.Validate())
	out, err := concierge.Tools[0].Call(context.Background(), json.RawMessage(`{"city":"Lisbon"}`))
	fmt.Println(string(out), err)
	// Output:
	// <nil>
	// {"celsius":21.5} <nil>
}

func ExampleNewTool() {
	type input struct {
		Issue  int64    `json:"issue" jsonschema:"number of the issue"`
		Labels []string `json:"labels"`
	}
	label := func(ctx context.Context, in input) (string, error) {
		return fmt.Sprintf("issue %d has %d new labels", in.Issue, len(in.Labels)), nil
	}
	tool := agent.NewTool("label", "Label an issue.", label, nil)

	out, err := tool.Call(context.Background(), json.RawMessage(`{"issue": 7, "labels": ["bug", "ui"]}`))
	fmt.Println(string(out), err)

	// Invalid input never reaches the function; the model gets the reason.
	_, err = tool.Call(context.Background(), json.RawMessage(`{"issue": "7"}`))
	fmt.Println(err)
	// Output:
	// "issue 7 has 2 new labels" <nil>
	// invalid input for tool label: missing "labels"; /issue: got string, want integer. Correct the input and call the tool again.
}

func ExampleNewTool_inputSchema() {
	type input struct {
		Size string `json:"size"`
	}
	order := func(ctx context.Context, in input) (string, error) { return "ordered: " + in.Size, nil }
	tool := agent.NewTool("order", "Order a coffee.", order, &agent.ToolOptions{
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {"size": {"enum": ["small", "large"]}},
			"required": ["size"]
		}`),
	})
	_, err := tool.Call(context.Background(), json.RawMessage(`{"size":"huge"}`))
	fmt.Println(err)
	// Output:
	// invalid input for tool order: /size: value must be one of 'small', 'large'. Correct the input and call the tool again.
}

func ExampleCallFrom() {
	type input struct {
		Cents int64 `json:"cents"`
	}
	refund := func(ctx context.Context, in input) (string, error) {
		call, _ := agent.CallFrom(ctx)
		// The call's id is a good idempotency key for another service.
		return fmt.Sprintf("refunded %d as %s", in.Cents, call.ID), nil
	}
	tool := agent.NewTool("refund", "Refund an order.", refund, nil)

	ctx := agenthost.WithCall(context.Background(), agent.Call{ID: "call_01"})
	out, _ := tool.Call(ctx, json.RawMessage(`{"cents": 1250}`))
	fmt.Println(string(out))
	// Output:
	// "refunded 1250 as call_01"
}

func ExampleDataWriter() {
	type progress struct {
		Percent int `json:"percent"`
	}
	written := agent.NewDataWriter[progress]("progress", nil)
	index := func(ctx context.Context, _ struct{}) (string, error) {
		// Clients see a part of type "data-progress" as soon as it is durable.
		return "indexed", written.Write(ctx, progress{Percent: 100})
	}
	librarian := &agent.Agent{
		Name: "librarian", Model: "openai/gpt-5",
		Tools: []agent.Tool{agent.NewTool("index", "Index the library.", index, nil)},
		Data:  []agent.Data{written},
		Hooks: agent.Hooks{
			ResponseFinished: func(ctx context.Context, r *agent.Response) (map[string]any, error) {
				return map[string]any{"tokens": r.Usage.Total}, nil
			},
		},
	}
	fmt.Println(librarian.Validate())

	// A test of a tool collects its data.
	ctx := agenthost.WithData(context.Background(), func(ctx context.Context, name string, data json.RawMessage) error {
		fmt.Println(name, string(data))
		return nil
	})
	out, err := librarian.Tools[0].Call(ctx, nil)
	fmt.Println(string(out), err)
	// Output:
	// <nil>
	// progress {"percent":100}
	// "indexed" <nil>
}

func ExampleNewInitialData() {
	type guest struct {
		Name string `json:"name"`
	}
	begin := agent.NewInitialData[guest](nil)
	a := &agent.Agent{
		Name: "concierge", Model: "openai/gpt-5",
		InitialData: begin.Schema(), // required in the first message
		InstructionsFunc: func(ctx context.Context, t *agent.Turn) (string, error) {
			g, err := begin.Get(ctx)
			return "You are talking to " + g.Name + ".", err
		},
	}
	fmt.Println(a.Validate())

	// The runtime calls this before it accepts the first message, and before a model call.
	ctx, turn := context.Background(), &agent.Turn{InitialData: json.RawMessage(`{"name":"Ada"}`)}
	fmt.Println(agenthost.CheckInitialData(ctx, a, nil))
	fmt.Println(agenthost.CheckInitialData(ctx, a, turn.InitialData))
	fmt.Println(agenthost.InstructionsFor(ctx, a, turn))
	// Output:
	// <nil>
	// invalid_request: initialData: is required, but was not sent
	// <nil>
	// You are talking to Ada. <nil>
}

func ExampleAgent_Validate() {
	a := &agent.Agent{Name: "Issue Triage", Model: "gpt-5"}
	fmt.Println(a.Validate())
	// Output:
	// define agent "Issue Triage":
	//   Name: "Issue Triage" does not match ^[a-z][a-z0-9-]{0,62}$; choose a name such as "issue-triage"
	//   Model: "gpt-5" is not of the form "provider/model"
}
