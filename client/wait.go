package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// Reply is what an agent answered to a message.
type Reply struct {
	Submission conversation.SubmissionID
	// Text is what it said, its text parts joined by blank lines, without reasoning.
	Text string
	// Output is what the agent's model gave in the form that the agent asks for, as JSON; nil of
	// an agent that answers with text.
	Output json.RawMessage
	// Data has the values of its data parts by name, in the order they were written.
	Data map[string][]json.RawMessage
	// Metadata is what the agent's author put onto the message; nil if nothing.
	Metadata json.RawMessage
	// Message is the whole of it; nil if the agent said nothing.
	Message *conversation.Message
}

// Wait returns the reply to a message once its submission is settled. It follows
// the conversation from the receipt's offset as [Conversation.Observe] does, for as
// long as ctx lives, and Submission, Offset of a stored receipt are all it needs.
//
// A submission that failed or was aborted is a [*SettledError], beside the reply as
// far as it got.
func (c *Conversation) Wait(ctx context.Context, r Receipt) (*Reply, error) {
	t, err := NewTranscript(nil)
	if err != nil {
		return nil, err
	}
	for u, err := range c.Observe(ctx, r.Offset, nil) {
		if err != nil {
			return nil, fmt.Errorf("wait for submission %s: %w", r.SubmissionID, err)
		}
		if err := t.Apply(u); err != nil {
			return nil, fmt.Errorf("wait for submission %s: %w", r.SubmissionID, err)
		}
		if s := t.settlement(r.SubmissionID); s != nil {
			return t.Reply(r.SubmissionID), settled(s)
		}
	}
	return nil, ctx.Err() // not reached: the sequence ends with an error
}

// settled is the error of a settlement, nil if it is completed.
func settled(s *conversation.Settlement) error {
	if s.Outcome == conversation.OutcomeCompleted {
		return nil
	}
	e := &SettledError{Submission: s.SubmissionID, Outcome: s.Outcome, Err: s.Error}
	if e.Err == nil {
		e.Err = &conversation.SettlementError{}
	}
	return e
}

// Reply returns the agent's answer to a submission as far as the transcript has it.
func (t *Transcript) Reply(id conversation.SubmissionID) *Reply {
	out := &Reply{Submission: id, Data: map[string][]json.RawMessage{}}
	m := t.response(id)
	if m == nil {
		return out
	}
	v := m.snapshot()
	for _, d := range v.Data() {
		out.Data[d.Name] = append(out.Data[d.Name], d.Data)
	}
	out.Text, out.Output, out.Metadata, out.Message = v.Text(), v.Output(), v.Metadata, &v
	return out
}
