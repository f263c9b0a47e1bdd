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

// AskOptions are the options of [Ask].
type AskOptions struct {
	// Timeout bounds the wait for the reply, up to 30 days; 0 means 30 days.
	Timeout time.Duration
}

// Ask sends a message to a conversation, like [Dispatch], and waits for its reply, like [Wait]: the
// call is suspended, for days if necessary, and costs only storage. It is for durable tools. The
// message is sent once and its reply received once, also over crashes; later runs of the call get the
// same reply.
//
// The reply has the agent's text and output. Of a reply longer than 24 KiB it has the beginning of the
// text, and [conversation.Reply.Truncated] is set; the whole reply is in the other conversation. A
// conversation may ask itself, and two may ask each other, because a suspended call does not block
// later messages, unless the agent has AnswerInOrder: then the wait times out.
//
// Sending to a conversation that cannot be reached is retried until the timeout.
//
// The error is one of Dispatch; a [*conversation.SettledError] if the submission failed or was
// aborted; [ErrWaitTimeout], after which the submission continues without a receiver of its reply;
// [ErrSuspended]; or a [*StepError], as of Wait. Concurrent questions to one conversation need keys of
// their own, as messages do. A key is scoped to the call: other calls that use it ask anew. A signal
// for a wait, which has no reply, is refused.
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
	} else { // The same question of another call has a reply of its own.
		call, _ := CallFrom(ctx)
		a.Key = fmt.Sprintf("%s/ask/%x", call.ID, sha256.Sum256([]byte(a.Key)))
	}
	digest := sha256.Sum256([]byte(to.ID + "\x00" + a.Key)) // a name is shorter than an address
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
	sent, err := Wait[conversation.SentReply](ctx, name, &WaitOptions{Timeout: o.Timeout, Schema: sentReplySchema()})
	if err != nil {
		return nil, err
	}
	settled := conversation.Settlement{SubmissionID: sent.Submission, Outcome: sent.Outcome, Error: sent.Error}
	return &conversation.Reply{Submission: sent.Submission, Text: sent.Text, Output: sent.Output, Truncated: sent.Truncated}, settled.AsError()
}

// sentReplySchema is that of a [conversation.SentReply].
func sentReplySchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// ask sends a question whose reply resolves the wait of that name, unless the send is recorded.
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
		s.run.Reopen(step)
		return err
	}
	return s.keep(ctx, step, receipt.SubmissionID)
}

// keep records the result of a step of the package itself.
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
