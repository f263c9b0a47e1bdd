package client

import (
	"context"
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// Reply is [conversation.Reply], an agent's answer to a message.
type Reply = conversation.Reply

// Wait returns the reply to a message after its submission is settled. It follows the conversation
// from the receipt's offset like [Conversation.Observe], until ctx ends. Of a stored receipt it needs
// only Submission and Offset.
//
// For a submission that failed or was aborted the error is a [*SettledError], and the partial reply is
// returned too.
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
			return t.Reply(r.SubmissionID), s.AsError()
		}
	}
	return nil, ctx.Err() // not reached: the sequence ends with an error
}

// Reply returns the agent's answer to a submission, as far as the transcript has it.
func (t *Transcript) Reply(id conversation.SubmissionID) *Reply {
	m := t.response(id)
	if m == nil {
		return conversation.ReplyOf(id, nil)
	}
	v := m.snapshot()
	return conversation.ReplyOf(id, &v)
}
