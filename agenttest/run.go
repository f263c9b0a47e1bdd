package agenttest

import (
	"context"
	"errors"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// Begin starts a run of a workflow, and retries over crashes. An error fails the test.
func Begin[In, Out any](h *Host, w *agent.Workflow[In, Out], key string, in In) conversation.RunID {
	h.t.Helper()
	a, err := w.Admission(key, in)
	if err == nil {
		err = h.admit(a)
	}
	if err != nil {
		h.t.Fatalf("begin workflow %s: %v", w.Name(), err)
	}
	return conversation.RunID(a.Address.ID)
}

// SignalRun sends a signal to a run, as made by [agent.Signal], and retries over crashes. An error
// fails the test.
func (h *Host) SignalRun(id conversation.RunID, key string, m agent.Message) {
	h.t.Helper()
	m.Key = key
	a, err := m.Admission(conversation.RunAddress(id))
	if err == nil {
		err = h.admit(a)
	}
	if err != nil {
		h.t.Fatalf("signal run %s: %v", id, err)
	}
}

// AwaitRun waits for the end of a run, over crashes. If the run failed or was aborted, it returns the
// run and a [*conversation.SettledError].
func (h *Host) AwaitRun(id conversation.RunID) (run *conversation.Run, err error) {
	err = h.retry(func(ctx context.Context, p *process) error {
		_, run, err = conversation.AwaitRun(ctx, p.runtime.Reader().(conversation.RunReader), id)
		return err
	})
	if err == nil {
		err = run.Err()
	}
	return run, err
}

// admit admits a submission, over crashes.
func (h *Host) admit(a conversation.Admission) error {
	return h.retry(func(ctx context.Context, p *process) error {
		_, err := p.runtime.Admit(ctx, a)
		return err
	})
}

// retry repeats an idempotent call on the current process until its outcome is known.
func (h *Host) retry(try func(ctx context.Context, p *process) error) error {
	ctx, cancel := h.waitContext()
	defer cancel()
	for {
		err := try(ctx, h.current())
		var known *conversation.Error
		if err == nil || ctx.Err() != nil || errors.As(err, &known) && known.RetryAfter == 0 {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
