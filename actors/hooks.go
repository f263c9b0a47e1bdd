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

// aside runs a function of an author in a goroutine of its own, because it may ignore
// its context, and waits for it until ctx ends. The error is then why it did.
func aside[T any](ctx context.Context, r *Runtime, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	r.spawn(func() {
		v, err := call()
		done <- result{v, err}
	})
	select {
	case out := <-done:
		return out.value, out.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// hook calls a hook of an author within its time.
func hook[T any](ctx context.Context, r *Runtime, call func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeoutCause(ctx, r.opts.HookTimeout, fmt.Errorf("wait for hook: %w", context.DeadlineExceeded))
	defer cancel()
	return aside(within, r, func() (T, error) { return call(within) })
}

// decorate calls a hook and returns its metadata. Whatever goes wrong is logged and
// is no metadata.
func (r *Runtime) decorate(ctx context.Context, log *slog.Logger, call func(context.Context) (json.RawMessage, error)) json.RawMessage {
	metadata, err := hook(ctx, r, call)
	if err == nil && metadata != nil {
		err = conversation.CheckPayload(metadata)
	}
	switch {
	case ctx.Err() != nil: // the run was cancelled; nobody listens
		return nil
	case err != nil:
		log.Warn("hook failed", "err", logged(err), "cause", cause(err, false))
		return nil
	}
	return metadata
}

// startResponse asks the author for the metadata a new response starts with.
func (c *modelCall) startResponse(ctx context.Context, f *feed) error {
	ag := c.author.agent
	if !c.fresh || ag.Hooks.ResponseStarted == nil {
		return nil
	}
	log := c.rt.log.With("conversation", string(c.key), "submission", string(c.turn.Submission), "hook", "ResponseStarted")
	s := c.author.within(c.told.author(agent.WithDispatcher(ctx, c.sender), map[string]any{"hook": "ResponseStarted"}), ag)
	metadata := c.rt.decorate(s.ctx, log, func(ctx context.Context) (json.RawMessage, error) {
		return ag.StartResponse(ctx, c.turn)
	})
	written := s.writes.take()
	defer s.writes.release()
	if metadata == nil && len(written) == 0 {
		return nil
	}
	return f.push(ctx, machine.ModelEvent{Kind: machine.ModelMetadata, Input: metadata, State: written})
}

// prepareDelivery shows a delivery to its author before the first model call;
// [machine.DeliveryPrepared] brings the end of it.
func (a *activation) prepareDelivery(e machine.PrepareDelivery) {
	w := a.begin(e.Gen, e.Submission)
	sub := a.machine.State().Submission(e.Submission)
	ag, turn, left := w.author.agent, a.turnOf(sub, 0), sub.LeftOf()
	log := a.log.With("submission", string(e.Submission), "hook", "DeliveryStarted")
	told, box := a.tellerOf(e.Submission, ""), a.senderOf(sub)
	a.rt.spawn(func() {
		err := a.rt.history.Complete(w.ctx, a.key, left, &turn.Delivery)
		s := w.author.within(told.author(agent.WithDispatcher(w.ctx, box), map[string]any{"hook": "DeliveryStarted"}), ag)
		if err == nil {
			_, err = hook(s.ctx, a.rt, func(ctx context.Context) (struct{}, error) { return struct{}{}, ag.StartDelivery(ctx, turn) })
		}
		out := machine.DeliveryPrepared{Gen: e.Gen, State: s.writes.take()}
		defer s.writes.release()
		if w.ctx.Err() != nil {
			return // the run was cancelled; nobody listens
		}
		if err != nil {
			log.Warn("hook failed", "err", logged(err), "cause", cause(err, false))
			out.Err = &conversation.SettlementError{Type: conversation.CodeInternal, Message: sayNotStarted}
		}
		a.tell(out)
	})
}

// finishResponse shows a complete response to its author; [machine.ResponseFinished]
// brings what they say.
func (a *activation) finishResponse(e machine.FinishResponse) {
	sub := a.machine.State().Submission(e.Submission)
	w := a.begin(e.Gen, e.Submission)
	ag, resp := w.author.agent, responseOf(sub)
	resp.Turn, resp.Continuations = *a.turnOf(sub, e.Step), sub.Continued
	left := sub.LeftOf()
	log := a.log.With("submission", string(e.Submission))
	told, box := a.tellerOf(e.Submission, e.Turn), a.senderOf(sub)
	a.rt.spawn(func() {
		if err := a.rt.history.Complete(w.ctx, a.key, left, &resp.Turn.Delivery); err != nil && w.ctx.Err() == nil {
			log.Warn("delivery cannot be shown to a hook", "err", err)
		}
		s := w.author.within(told.author(agent.WithDispatcher(w.ctx, box), map[string]any{"hook": "ResponseFinished"}), ag)
		out := machine.ResponseFinished{Gen: e.Gen}
		again, err := hook(s.ctx, a.rt, func(ctx context.Context) (string, error) { return ag.BeforeStop(ctx, resp) })
		if err != nil && w.ctx.Err() == nil {
			log.Warn("hook failed", "hook", "WouldStop", "err", logged(err), "cause", cause(err, false))
		}
		if out.Again = again; again == "" {
			out.Metadata = a.rt.decorate(s.ctx, log.With("hook", "ResponseFinished"), func(ctx context.Context) (json.RawMessage, error) {
				return ag.FinishResponse(agent.WithData(ctx, w.feed.writer(ctx, w.author)), resp)
			})
		}
		out.State = s.writes.take()
		defer s.writes.release()
		if w.ctx.Err() == nil {
			a.tell(out)
		}
	})
}

// showSettlement tells the author of a settlement. Nobody waits for it.
func (a *activation) showSettlement(e machine.ShowSettlement) {
	state := a.machine.State()
	sub := e.Submission
	created, resp := state.Created(), responseOf(sub)
	told := &agent.Settlement{
		Address: created.Address(), UID: created.UID, Submission: sub.ID, Attempts: sub.Attempts,
		Delivery: sub.Delivery, Outcome: e.Outcome, Error: e.Err, Message: sub.Message, Text: resp.Text, Usage: resp.Usage,
	}
	u := a.bystander()
	left := sub.LeftOf()
	log := a.log.With("submission", string(sub.ID), "hook", "Settled")
	teller, box := a.tellerOf(sub.ID, ""), a.senderOf(sub)
	a.rt.spawn(func() {
		err := a.rt.history.Complete(a.rt.life, a.key, left, &told.Delivery)
		if err == nil {
			s := u.within(teller.author(agent.WithDispatcher(a.rt.life, box), map[string]any{"hook": "Settled"}), u.agent)
			_, err = hook(s.ctx, a.rt, func(ctx context.Context) (struct{}, error) { return struct{}{}, u.agent.AfterSettlement(ctx, told) })
		}
		if err != nil {
			log.Warn("hook failed", "err", logged(err), "cause", cause(err, false))
		}
	})
}

// responseOf is what a response says and what it cost.
func responseOf(sub *conversation.Submission) *agent.Response {
	resp := &agent.Response{Message: sub.Message, Usage: sub.Usage()}
	var texts []string
	for _, st := range sub.Steps() {
		if st.Note != "" {
			continue
		}
		resp.StopReason = st.StopReason
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
func (f *feed) writer(run context.Context, u *author) func(context.Context, string, json.RawMessage) error {
	return func(ctx context.Context, name string, data json.RawMessage) error {
		if run.Err() != nil {
			return agent.ErrNoResponse
		}
		if !u.writesData(name) {
			return fmt.Errorf("agent %q does not list it: add the writer to Agent.Data", u.name)
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
