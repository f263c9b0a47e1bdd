package agenthost

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// RunReader is a [StepRecorder] that reads the result of a run which is too long to be told. Without it
// [agent.Started.Wait] fails for such a one.
type RunReader interface {
	// RunResult returns the result of a run that is completed.
	RunResult(ctx context.Context, id conversation.RunID) (json.RawMessage, error)
}

// CheckInput decides whether a run of a workflow may begin with this input, which is JSON. The error is as that of
// [CheckInitialData].
func CheckInput(ctx context.Context, workflow *agent.Agent, input json.RawMessage) error {
	if len(workflow.Tools) != 1 {
		return errors.New("the definition is not that of a workflow")
	}
	return unfit("input", workflow.Tools[0].CheckInput(ctx, input))
}
