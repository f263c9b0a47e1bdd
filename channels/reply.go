package channels

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// Reply is the answer to a delivery, to be sent to the platform.
type Reply struct {
	// ID is the same for each attempt to send the reply. Platforms that accept a message id get it, or
	// [Reply.UUID], and so show the message once.
	ID string
	// Agent and InstanceID identify the conversation of the delivery.
	Agent, InstanceID string
	// Address is the destination: the ReplyAddress of the delivery, or its InstanceID.
	Address    string
	Submission conversation.SubmissionID
	// Outcome is completed, failed or aborted, or "" for an unfinished draft. Text is the agent's
	// answer, up to 24 KiB; it may be empty. Truncated reports that the conversation has more of it.
	Outcome   conversation.Outcome
	Text      string
	Truncated bool
}

// UUID returns the id as a UUID of version 8, for platforms that require one.
func (r *Reply) UUID() string {
	u := sha256.Sum256([]byte(r.ID))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// Replies returns an outbox target for the Notify of a [Delivery], or for an agent whose conversations
// all belong to one platform. It calls send for each reply, at least once, until send returns nil.
// Replies of one conversation are sent one at a time, in the order of the settlements. Errors of send
// are those of [outbox.Target]: a [*outbox.LaterError] for a rate limit, a [*outbox.GoneError] if the
// chat no longer exists. [outbox.Answered] makes them of a response.
//
// The target is an [outbox.ReplyTarget]. A submission gets a reply if a channel delivered it. In
// addition the delivery must name the target, or the target must have the name of the channel. The
// same holds for messages that the program dispatches to a conversation of the channel. Any other post
// becomes a dead letter.
func Replies(send func(ctx context.Context, r Reply) error) outbox.Target { return replies(send) }

type replies func(ctx context.Context, r Reply) error

var _ outbox.ReplyTarget = replies(nil)

func (replies) RepliesForChannel() {}

func (send replies) Deliver(ctx context.Context, p outbox.Post) error {
	r, err := replyOf(p)
	if err != nil {
		return err
	}
	return send(ctx, r)
}

// checkChannel rejects posts that do not answer a delivery of a channel. Otherwise the bot would write
// to a chat of the caller's choice, because the conversation id names the chat and any caller chooses
// an id.
func checkChannel(channel string) error {
	if channel == "" {
		return &outbox.GoneError{Err: errors.New("submission did not arrive through a channel; channels reply to nothing else")}
	}
	return nil
}

func replyOf(p outbox.Post) (Reply, error) {
	if err := checkChannel(p.Channel); err != nil {
		return Reply{}, err
	}
	var n conversation.Notice
	if err := json.Unmarshal(p.Body, &n); err != nil || n.Type != conversation.NoticeSettled || n.Data.SentReply == nil {
		return Reply{}, &outbox.GoneError{Err: errors.New("post is not a settlement notice; channels send nothing else")}
	}
	return Reply{
		ID: string(p.ID), Agent: n.Data.Agent, InstanceID: n.Data.ID, Address: cmp.Or(p.ReplyAddress, n.Data.ID), Submission: n.Data.Submission,
		Outcome: n.Data.Outcome, Text: n.Data.Text, Truncated: n.Data.Truncated,
	}, nil
}

// Excerpt returns the text of the reply in at most so many characters: the answer, an apology for a
// failure, or "" for an aborted submission. Unfinished and truncated texts end in "…".
func (r *Reply) Excerpt(most int) string { return r.begin(most, Characters) }

// Parts splits the text of the reply into messages, see [Split]. An aborted submission has none.
func (r *Reply) Parts(most int, size func(text string) int) []string {
	switch {
	case r.Outcome == conversation.OutcomeAborted:
		return nil
	case r.Outcome == conversation.OutcomeFailed:
		return []string{"Sorry, that went wrong. Please try again."}
	}
	return Split(r.whole(), most, size)
}

// whole returns the text of the reply. It ends in "…" if it is truncated.
func (r *Reply) whole() string {
	if r.Truncated || r.Outcome == "" {
		return r.Text + "…"
	}
	return r.Text
}

// begin returns the first part. It ends in "…" if others follow.
func (r *Reply) begin(most int, size func(text string) int) string {
	parts := r.Parts(most, size)
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return parts[0]
	}
	return Split(r.whole(), most-size("…"), size)[0] + "…"
}
