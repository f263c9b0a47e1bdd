package agenttest

import (
	"context"
	"errors"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// Begin begins a run of a workflow, over crashes. An error fails the test.
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

// SignalRun sends a run a signal, as [agent.Signal] makes it, over crashes. An error fails the test.
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

// AwaitRun returns a run when it has ended, over crashes. The error is a [*conversation.SettledError], beside the run, if
// it failed or was aborted.
func (h *Host) AwaitRun(id conversation.RunID) (run *conversation.Run, err error) {
	err = h.insist(func(ctx context.Context, p *process) error {
		_, run, err = conversation.AwaitRun(ctx, p.runtime.Reader().(conversation.RunReader), id)
		return err
	})
	if err == nil {
		err = run.Err()
	}
	return run, err
}

// admit has a runtime take something, over crashes.
func (h *Host) admit(a conversation.Admission) error {
	return h.insist(func(ctx context.Context, p *process) error {
		_, err := p.runtime.Admit(ctx, a)
		return err
	})
}

// insist tries something that is safe to repeat until it is decided, at whatever process serves.
func (h *Host) insist(try func(ctx context.Context, p *process) error) error {
	ctx, cancel := h.patient()
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
