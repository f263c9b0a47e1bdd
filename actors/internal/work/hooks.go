package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// detached runs an author's function in its own goroutine, because it may ignore its context, and
// waits until ctx ends. The error is then the cause of ctx.
func detached[T any](ctx context.Context, n *Node, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	n.o.Spawn(func() {
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

// hook calls an author's hook with a time limit.
func hook[T any](ctx context.Context, n *Node, call func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeoutCause(ctx, n.o.HookTimeout, fmt.Errorf("wait for hook: %w", context.DeadlineExceeded))
	defer cancel()
	return detached(within, n, func() (T, error) { return call(within) })
}

// decorate calls a hook and returns its metadata, or nil if it fails, which is logged.
func (n *Node) decorate(ctx context.Context, log *slog.Logger, call func(context.Context) (json.RawMessage, error)) json.RawMessage {
	metadata, err := hook(ctx, n, call)
	if err == nil && metadata != nil {
		err = conversation.CheckPayload(metadata)
	}
	switch {
	case ctx.Err() != nil: // the work was cancelled
		return nil
	case err != nil:
		log.Warn("hook failed", "err", logged(err), "cause", Cause(err, false))
		return nil
	}
	return metadata
}

// startResponse calls the author's hook for the initial metadata of a response.
func (c *modelCall) startResponse(ctx context.Context, f *feed) error {
	ag := c.author.agent
	if !c.fresh || ag.Hooks.ResponseStarted == nil {
		return nil
	}
	log := c.node.o.Logger.With("conversation", string(c.key), "submission", string(c.turn.Submission), "hook", "ResponseStarted")
	s := c.author.within(c.live.Author(agenthost.WithDispatcher(ctx, c.sender), map[string]any{"hook": "ResponseStarted"}), ag)
	metadata := c.node.decorate(s.ctx, log, func(ctx context.Context) (json.RawMessage, error) {
		return agenthost.StartResponse(ctx, ag, c.turn)
	})
	written := s.writes.take()
	defer s.writes.release()
	if metadata == nil && len(written) == 0 {
		return nil
	}
	return f.push(ctx, machine.ModelEvent{Kind: machine.ModelMetadata, Input: metadata, State: written})
}

// startDelivery calls the author's hook for a delivery before the first model call;
// [machine.DeliveryStarted] reports its end.
func (r *Runner) startDelivery(e machine.StartDelivery, v *view) {
	w := r.begin(e.Gen, v)
	ag, turn := w.author.agent, v.turn(0)
	log := r.o.Logger.With("submission", string(e.Submission), "hook", "DeliveryStarted")
	live, box := r.live(v, ""), r.senderOf(v)
	r.spawn(func() {
		err := r.node.o.History.Complete(w.ctx, r.o.Key, v.left, &turn.Delivery)
		s := w.author.within(live.Author(agenthost.WithDispatcher(w.ctx, box), map[string]any{"hook": "DeliveryStarted"}), ag)
		if err == nil {
			_, err = hook(s.ctx, r.node, func(ctx context.Context) (struct{}, error) { return struct{}{}, agenthost.StartDelivery(ctx, ag, turn) })
		}
		out := machine.DeliveryStarted{Gen: e.Gen, State: s.writes.take()}
		defer s.writes.release()
		if w.ctx.Err() != nil {
			return // the work was cancelled
		}
		if err != nil {
			log.Warn("hook failed", "err", logged(err), "cause", Cause(err, false))
			out.Err = &conversation.SettlementError{Type: conversation.CodeInternal, Message: textNotStarted}
		}
		r.o.Emit(out)
	})
}

// finishResponse calls the author's hooks for a complete response; [machine.ResponseFinished] delivers
// their results.
func (r *Runner) finishResponse(e machine.FinishResponse, v *view, resp *agent.Response) {
	w := r.begin(e.Gen, v)
	ag := w.author.agent
	resp.Turn, resp.Continuations = *v.turn(e.Number), v.continued
	log := r.o.Logger.With("submission", string(e.Submission))
	live, box := r.live(v, e.Turn), r.senderOf(v)
	r.spawn(func() {
		if err := r.node.o.History.Complete(w.ctx, r.o.Key, v.left, &resp.Turn.Delivery); err != nil && w.ctx.Err() == nil {
			log.Warn("read delivery for hook failed", "err", err)
		}
		s := w.author.within(live.Author(agenthost.WithDispatcher(w.ctx, box), map[string]any{"hook": "ResponseFinished"}), ag)
		out := machine.ResponseFinished{Gen: e.Gen}
		again, err := hook(s.ctx, r.node, func(ctx context.Context) (string, error) { return agenthost.BeforeStop(ctx, ag, resp) })
		if errors.Is(err, agenthost.ErrNoOutput) {
			out.Err = &conversation.SettlementError{Type: conversation.CodeOutputMissing, Message: textNoOutput}
		} else if err != nil && w.ctx.Err() == nil {
			log.Warn("hook failed", "hook", "WouldStop", "err", logged(err), "cause", Cause(err, false))
		}
		if out.Again = again; again == "" && out.Err == nil {
			out.Metadata = r.node.decorate(s.ctx, log.With("hook", "ResponseFinished"), func(ctx context.Context) (json.RawMessage, error) {
				return agenthost.FinishResponse(agenthost.WithData(ctx, w.feed.writer(ctx, w.author)), ag, resp)
			})
		}
		out.State = s.writes.take()
		defer s.writes.release()
		if w.ctx.Err() == nil {
			r.o.Emit(out)
		}
	})
}

// showSettlement calls the author's hook for a settlement, without waiting for it.
func (r *Runner) showSettlement(e machine.ShowSettlement, v *view, resp *agent.Response) {
	base := r.node.o.BaseContext
	settled := &agent.Settlement{
		Address: v.created.Address(), UID: v.created.UID, Submission: v.id, Attempts: v.attempts,
		Delivery: v.delivery, Outcome: e.Outcome, Error: e.Err, Message: v.message, Text: resp.Text, Usage: resp.Usage, Dollars: resp.Dollars, InitialData: v.created.InitialData,
	}
	u := r.agentOnly(v)
	log := r.o.Logger.With("submission", string(v.id), "hook", "Settled")
	live, box := r.live(v, ""), r.senderOf(v)
	r.spawn(func() {
		err := r.node.o.History.Complete(base, r.o.Key, v.left, &settled.Delivery)
		if err == nil {
			s := u.within(live.Author(agenthost.WithDispatcher(base, box), map[string]any{"hook": "Settled"}), u.agent)
			_, err = hook(s.ctx, r.node, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, agenthost.AfterSettlement(ctx, u.agent, settled)
			})
		}
		if err != nil {
			log.Warn("hook failed", "err", logged(err), "cause", Cause(err, false))
		}
	})
}
