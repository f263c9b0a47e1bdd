package agenthost

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// RunReader is a [StepRecorder] that reads the result of a run which is too long for a signal. Without
// it [agent.Started.Wait] fails for such a result.
type RunReader interface {
	// RunResult returns the result of a completed run.
	RunResult(ctx context.Context, id conversation.RunID) (json.RawMessage, error)
}

// CheckInput validates the JSON input of a workflow's run. The error is like that of
// [CheckInitialData].
func CheckInput(ctx context.Context, workflow *agent.Agent, input json.RawMessage) error {
	if len(workflow.Tools) != 1 {
		return errors.New("the definition is not that of a workflow")
	}
	return unfit("input", workflow.Tools[0].CheckInput(ctx, input))
}
