package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// decorate calls a hook and returns its metadata. Whatever goes wrong is logged and
// is no metadata. The hook has its own goroutine, because it may ignore its context.
func (r *Runtime) decorate(ctx context.Context, log *slog.Logger, hook func(context.Context) (json.RawMessage, error)) json.RawMessage {
	within, cancel := context.WithTimeout(ctx, r.opts.HookTimeout)
	defer cancel()
	type result struct {
		metadata json.RawMessage
		err      error
	}
	done := make(chan result, 1)
	r.spawn(func() {
		metadata, err := hook(within)
		done <- result{metadata, err}
	})
	var out result
	select {
	case out = <-done:
	case <-within.Done():
		out.err = fmt.Errorf("wait for hook: %w", within.Err())
	}
	if out.err == nil && out.metadata != nil {
		out.err = conversation.CheckPayload(out.metadata)
	}
	switch {
	case ctx.Err() != nil: // the run was cancelled; nobody listens
		return nil
	case out.err != nil:
		log.Warn("hook failed", "err", out.err, "cause", cause(out.err))
		return nil
	}
	return out.metadata
}

// startResponse asks the author for the metadata a new response starts with.
func (c *modelCall) startResponse(ctx context.Context, f *feed) error {
	if !c.fresh || c.agent.Hooks.ResponseStarted == nil {
		return nil
	}
	log := c.rt.log.With("conversation", string(c.key), "submission", string(c.turn.Submission), "hook", "ResponseStarted")
	metadata := c.rt.decorate(ctx, log, func(ctx context.Context) (json.RawMessage, error) {
		return c.agent.StartResponse(ctx, c.turn)
	})
	if metadata == nil {
		return nil
	}
	return f.push(ctx, machine.ModelEvent{Kind: machine.ModelMetadata, Input: metadata})
}

// finishResponse shows a complete response to its author; [machine.ResponseFinished]
// brings what they say.
func (a *activation) finishResponse(e machine.FinishResponse) {
	state := a.machine.State()
	sub := state.Submission(e.Submission)
	ag := a.rt.agents[state.Created().Agent]
	resp := responseOf(sub)
	resp.Turn = *a.turnOf(sub, e.Attempt, e.Step)
	ctx, f := a.beginRun(e.Gen)
	log := a.log.With("submission", string(e.Submission), "hook", "ResponseFinished")
	a.rt.spawn(func() {
		metadata := a.rt.decorate(ctx, log, func(ctx context.Context) (json.RawMessage, error) {
			return ag.FinishResponse(agent.WithData(ctx, f.writer(ctx, ag)), resp)
		})
		if ctx.Err() == nil {
			a.tell(machine.ResponseFinished{Gen: e.Gen, Metadata: metadata})
		}
	})
}

// responseOf is what a response says and what it cost.
func responseOf(sub *conversation.Submission) *agent.Response {
	resp := &agent.Response{Message: sub.Message}
	var texts []string
	for _, st := range sub.Steps() {
		if st.Note != "" {
			continue
		}
		resp.StopReason = st.StopReason
		resp.Usage.Add(st.Usage)
		for _, p := range st.Parts {
			if p.Tool == nil && p.Kind == conversation.PartText {
				texts = append(texts, p.Text)
			}
		}
	}
	resp.Text = strings.Join(texts, "\n\n")
	return resp
}

// writer is where data writers of an agent hand what they write while run holds. An
// author may keep their context's values beyond its end: nobody takes the data then,
// or whoever does throws it away.
func (f *feed) writer(run context.Context, ag *agent.Agent) func(context.Context, string, json.RawMessage) error {
	return func(ctx context.Context, name string, data json.RawMessage) error {
		if run.Err() != nil {
			return agent.ErrNoResponse
		}
		if !ag.WritesData(name) {
			return fmt.Errorf("agent %q does not list it: add the writer to Agent.Data", ag.Name)
		}
		if err := conversation.CheckPayload(data); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(run, cancel)()
		if err := f.deliver(ctx, machine.ModelEvent{Kind: machine.ModelData, Name: name, Input: data}); err != nil {
			return err
		}
		return run.Err()
	}
}
