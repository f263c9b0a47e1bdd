package actors

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/work"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// checkedAdmission is an admission after its schema check: of initial data, of a workflow's input, or
// of a signal.
type checkedAdmission struct {
	admission  conversation.Admission
	precheck   bool
	unfit      *conversation.Error        // nil if valid
	fit        *machine.Fit               // result of the schema check of a signal
	deadLetter *conversation.PostEnqueued // the post that a signal redelivers
}

// schemaOf returns the agent whose schema the initial data must match, or nil. Initial data count only
// where they create a conversation; until the log is read, any admission may.
func (a *activation) schemaOf(adm conversation.Admission) *agent.Agent {
	named := a.rt.agents[adm.Address.Agent]
	if _, created := a.machine.Address(); named == nil || named.InitialData == nil || created {
		return nil
	}
	return named
}

// inputOf returns the workflow whose input schema an admission must match, or nil if it begins no run.
func (a *activation) inputOf(adm conversation.Admission) *agent.Agent {
	_, run := conversation.WorkflowOf(adm.Address.Agent)
	if _, created := a.machine.Address(); !run || created || adm.Delivery.Kind == conversation.KindSignal {
		return nil
	}
	return a.rt.agents[adm.Address.Agent]
}

// awaitedBy returns the wait that a signal resolves, or nil.
func (a *activation) awaitedBy(adm conversation.Admission) *conversation.Wait {
	name, ok := adm.Delivery.Awaited()
	if !ok || !a.machine.Open() {
		return nil
	}
	return a.machine.State().Awaiting(name)
}

// checkOf returns the check for an admission, or nil if it needs none.
func (a *activation) checkOf(adm conversation.Admission) func(context.Context, *checkedAdmission) error {
	if named := a.schemaOf(adm); named != nil {
		return func(ctx context.Context, in *checkedAdmission) error {
			return agenthost.CheckInitialData(ctx, named, in.admission.InitialData)
		}
	}
	if workflow := a.inputOf(adm); workflow != nil {
		return func(ctx context.Context, in *checkedAdmission) error {
			return agenthost.CheckInput(ctx, workflow, json.RawMessage(in.admission.Delivery.Body))
		}
	}
	if find := a.deadPost(adm); find != nil {
		return find
	}
	if w := a.awaitedBy(adm); w != nil {
		schema := w.Schema
		return func(ctx context.Context, in *checkedAdmission) (err error) {
			in.fit, err = work.FitSignal(ctx, schema, in.admission.Delivery.Body)
			return err
		}
	}
	return nil
}

// checkAsync checks an admission in another goroutine and sends it to the activation again. A check
// may use its whole step budget, so at most half as many run as there are processors. Asker is the
// context of a local caller, nil for one on another node.
func (a *activation) checkAsync(
	from grain.Sender, in checkedAdmission, check func(context.Context, *checkedAdmission) error, asker context.Context,
) {
	a.rt.tasks.spawn(func() {
		ctx, cancel := context.WithTimeout(a.self.ctx, a.rt.opts.AdmitTimeout)
		defer cancel()
		if asker != nil {
			defer context.AfterFunc(asker, cancel)()
		}
		err := a.rt.accounts.check(ctx, func() error { return check(ctx, &in) })
		switch {
		case a.self.ctx.Err() != nil: // The next owner decides.
			from.Answer(answerMessage(machine.Moved{Untouched: true}))
		case err == nil, errors.As(err, &in.unfit):
			// If the activation has ended, the message returns to its sender.
			a.self.Forward(in, from)
		case ctx.Err() == nil:
			a.rt.opts.Logger.Error("admission cannot be checked", "conversation", string(a.key), "err", err, "cause", work.Cause(err, false))
			from.Answer(answerMessage(machine.Refused{Err: &conversation.Error{Code: conversation.CodeInternal, Err: err}}))
		default:
			from.Answer(answerMessage(machine.Refused{Err: conversation.Unavailable(retryAfter, err)}))
		}
	})
}

// check runs a check once a slot is free.
func (a *accounts) check(ctx context.Context, check func() error) error {
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := check()
	var bound *agent.SchemaBoundError
	if errors.As(err, &bound) {
		a.unchecked.Add(1)
	}
	return err
}
