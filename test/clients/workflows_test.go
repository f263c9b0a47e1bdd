package clients_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
)

// programVariable makes the test binary run as the program of an author. Its value is the URL of the
// model.
const programVariable = "CLIENTS_PROGRAM"

func TestMain(m *testing.M) {
	if model := os.Getenv(programVariable); model != "" {
		(&parley.Program{Workflows: workflows(model)}).Main()
	}
	os.Exit(m.Run())
}

type nightOf struct {
	Day int `json:"day"`
	// Gate is a gate of the model in the run. Approval makes the run wait for a signal.
	Gate     string `json:"gate,omitempty"`
	Approval bool   `json:"approval,omitempty"`
}

type reportOf struct {
	Day   int `json:"day"`
	Lines int `json:"lines"`
}

func workflows(model string) []agent.AnyWorkflow {
	number := func(n int) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return n, nil }
	}
	fails := agent.NewWorkflow("fails", func(context.Context, nightOf) (int, error) { return 0, errors.New("out of paper") }, nil)
	nightly := agent.NewWorkflow("nightly", func(ctx context.Context, in nightOf) (reportOf, error) {
		lines, err := agent.Step(ctx, "open", number(3))
		if err == nil && in.Gate != "" {
			err = waitGate(ctx, model, in.Gate)
		}
		if err == nil && in.Approval {
			_, err = agent.Wait[bool](ctx, "approval", nil)
		}
		if err == nil {
			_, err = agent.Step(ctx, "close", number(4))
		}
		return reportOf{in.Day, lines}, err
	}, nil)
	return []agent.AnyWorkflow{fails, nightly}
}

// startWorkflows serves the program until the test ends, and returns the URLs of a workflow and of its
// control.
func startWorkflows(t *testing.T, model *httptest.Server) (nightly, control string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "parley.yaml")
	content := fmt.Sprintf("listen: %s\nbucket: {dir: %q}\nauth: {bearerEnv: SERVE_TOKEN}\nbeta: {path: /beta}\n", steadyAddress(t), t.TempDir())
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{program: self, config: config, env: append(environment(), "SERVE_TOKEN="+bearerToken, programVariable+"="+model.URL)}
	_, nightly = startServe(t, s)
	return nightly, startControl(t, s)
}
