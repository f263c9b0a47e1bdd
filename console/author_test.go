package console_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
)

// asAuthor is the variable that makes the test binary run the program of an author.
const asAuthor = "CONSOLE_AS_AUTHOR"

func TestMain(m *testing.M) {
	if os.Getenv(asAuthor) != "" {
		parley.Main(author())
	}
	os.Exit(m.Run())
}

type (
	about    struct{ Topic string }
	failing  struct{ Why string }
	progress struct{ Percent int }
	approval struct{ Name string }
)

// author returns an agent with one of each feature that the page shows.
func author() *agent.Agent {
	show := agent.NewDataWriter[progress]("progress", nil)
	look := agent.NewTool("look_up", "Look something up.", func(_ context.Context, in about) (map[string]string, error) {
		return map[string]string{"topic": in.Topic, "note": in.Topic + " keeps people awake."}, nil
	}, nil)
	return &agent.Agent{
		Name: "author", Description: "Has tools, a helper and somebody to ask.", Model: "fake/m1", Fallbacks: []string{"fake/m2"},
		Tools: []agent.Tool{
			look,
			agent.NewTool("refuse", "Fail.", func(_ context.Context, in failing) (string, error) { return "", errors.New(in.Why) }, nil),
			agent.NewTool("show", "Show progress.", func(ctx context.Context, in progress) (string, error) {
				return "shown", show.Write(ctx, in)
			}, &agent.ToolOptions{Data: []agent.Data{show}}),
			agent.NewTool("approve", "Ask somebody.", func(ctx context.Context, in approval) (string, error) {
				yes, err := agent.Wait[bool](ctx, in.Name, nil)
				return fmt.Sprintf("approved: %t", yes), err
			}, &agent.ToolOptions{Durable: true}),
		},
		Data: []agent.Data{show},
		Hooks: agent.Hooks{ResponseStarted: func(context.Context, *agent.Turn) (map[string]any, error) {
			return map[string]any{"mood": "calm"}, nil
		}},
		Subagents: []*agent.Agent{{Name: "reader", Description: "Looks one thing up.", Instructions: "Look it up.", Tools: []agent.Tool{look}}},
	}
}
