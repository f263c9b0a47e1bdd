package client

import (
	"context"
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// Reply is [conversation.Reply]: what an agent answered to a message.
type Reply = conversation.Reply

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
			return t.Reply(r.SubmissionID), s.AsError()
		}
	}
	return nil, ctx.Err() // not reached: the sequence ends with an error
}

// Reply returns the agent's answer to a submission as far as the transcript has it.
func (t *Transcript) Reply(id conversation.SubmissionID) *Reply {
	m := t.response(id)
	if m == nil {
		return conversation.ReplyOf(id, nil)
	}
	v := m.snapshot()
	return conversation.ReplyOf(id, &v)
}
