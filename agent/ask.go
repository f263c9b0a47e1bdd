package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// AskOptions are the optional facts of a question.
type AskOptions struct {
	// Timeout is how long the call waits for the reply, up to 30 days, and 0 for as long.
	Timeout time.Duration
}

// Ask sends a message to a conversation, as [Dispatch] does, and waits for what comes of it, as
// [Wait] does: the call is put away meanwhile, for days if need be, and costs nothing but storage.
// It is for durable tools. The message is sent once, whatever dies, and its reply heard once;
// later runs of the call hear the same.
//
// The reply has what the agent said, and its output; of what is longer than 24 KiB the beginning
// of the text is there, and [conversation.Reply.Cut] says so: the whole stands in the conversation
// that was asked. A conversation that asks itself, or that is asked by whom it asks, is answered too:
// what is parked holds up nobody, unless the agent has AnswerInOrder: then nobody answers until the
// time is up.
//
// Who cannot be reached now is asked again, for as long as that lasts.
//
// The error is one of Dispatch; a [*conversation.SettledError] if the submission failed or was
// aborted; [ErrWaitTimeout], after which the submission goes on and nobody is told of it; [ErrSuspended];
// or a [*StepError], as of Wait. Questions to one conversation that are asked at the same time need
// keys of their own, as messages do. A key is one among the questions of a call: other calls that use it
// ask anew. A signal for a wait, which has no reply, is refused.
func Ask(ctx context.Context, to conversation.Address, m Message, o *AskOptions) (*conversation.Reply, error) {
	if o == nil {
		o = &AskOptions{}
	}
	s := stepsFrom(ctx)
	if s == nil {
		return nil, &StepError{Step: "ask " + to.Agent, Err: ErrNoSteps}
	}
	if _, err := s.waiter(ctx, o.Timeout); err != nil {
		return nil, &StepError{Step: "ask " + to.Agent, Err: err}
	}
	a, err := m.Admission(to)
	if a.Key == "" {
		a.Key = nextKey(ctx, to)
	} else { // Another call's question has a reply of its own.
		call, _ := CallFrom(ctx)
		a.Key = fmt.Sprintf("%s/ask/%x", call.ID, sha256.Sum256([]byte(a.Key)))
	}
	digest := sha256.Sum256([]byte(to.ID + "\x00" + a.Key)) // a name has less room
	name := "reply of " + shorten(to.Agent) + " " + hex.EncodeToString(digest[:8])
	if d := &a.Delivery; err == nil && d.Kind == conversation.KindSignal && (d.Type == conversation.SignalWait || d.Type == conversation.SignalOutbox) {
		err = conversation.Errorf(conversation.CodeInvalidRequest, "A signal of type %q is over at once and has no reply: dispatch it.", d.Type)
	}
	if err == nil {
		err = s.ask(ctx, name, a)
	}
	if errors.Is(err, ErrSuspended) {
		return nil, ErrSuspended
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s/%s: %w", to.Agent, shorten(to.ID), err)
	}
	told, err := Wait[conversation.SentReply](ctx, name, &WaitOptions{Timeout: o.Timeout, Schema: toldSchema()})
	if err != nil {
		return nil, err
	}
	settled := conversation.Settlement{SubmissionID: told.Submission, Outcome: told.Outcome, Error: told.Error}
	return &conversation.Reply{Submission: told.Submission, Text: told.Text, Output: told.Output, Cut: told.Cut}, settled.AsError()
}

// toldSchema is that of a [conversation.SentReply].
func toldSchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// ask sends a question whose reply a wait of that name is told, unless that is recorded.
func (s *steps) ask(ctx context.Context, name string, a conversation.Admission) error {
	call, inCall := CallFrom(ctx)
	host, ok := s.recorder.(asker)
	if !inCall || !ok {
		return &StepError{Step: name, Err: ErrNoSteps}
	}
	step := name + " asked"
	if err := s.begin(step); err != nil {
		return &StepError{Step: name, Err: err}
	}
	if _, ok := s.Recorded(step); ok {
		return nil
	}
	a.ReplyTo = &conversation.ReplyTo{Address: call.Address.Reach(), UID: call.UID, Name: name}
	receipt, err := host.Ask(ctx, a)
	if err != nil {
		s.run.Forget(step)
		return err
	}
	return s.keep(ctx, step, receipt.SubmissionID)
}

// keep records the result of a step that the package takes.
func (s *steps) keep(ctx context.Context, step string, result any) error {
	raw, err := contain.Encode("", result)
	if err == nil {
		err = s.Record(context.WithoutCancel(ctx), step, raw)
	}
	if err != nil {
		return &StepError{Step: step, Err: err}
	}
	return nil
}

// asker is agenthost.Asker.
type asker interface {
	Ask(ctx context.Context, a conversation.Admission) (conversation.Receipt, error)
}
