package clientcmd

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/server"
)

var program = clitest.New(Commands, server.Commands)

// withNightly is the variable that adds a workflow to the program.
const withNightly = "PARLEY_TEST_NIGHTLY"

func TestMain(m *testing.M) {
	if os.Getenv(withNightly) != "" {
		program.Own.Workflows = []agent.AnyWorkflow{nightly()}
	}
	program.Main(m)
}

type night struct {
	Day string `json:"day"`
}

// nightly waits for an approval, which is a text.
func nightly() *agent.Workflow[night, string] {
	return agent.NewWorkflow("nightly", func(ctx context.Context, in night) (string, error) {
		if in.Day == "doomsday" {
			return "", errors.New("out of paper")
		}
		lines, err := agent.Step(ctx, "count", func(context.Context) (string, error) { return strings.ToUpper(in.Day), nil })
		if err != nil {
			return "", err
		}
		by, err := agent.Wait[string](ctx, "approval", nil)
		return lines + " by " + by, err
	}, nil)
}
