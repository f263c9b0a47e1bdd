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

// Reply is what became of a delivery, on its way back to the platform.
type Reply struct {
	// ID is the same each time that the reply is handed over. A platform that takes an id of a
	// message gets it, or [Reply.UUID], so that it shows the message once.
	ID string
	// Agent and InstanceID are those of the delivery.
	Agent, InstanceID string
	// Address is where the reply goes: the ReplyAddress of the delivery, or its InstanceID if it has none.
	Address    string
	Submission conversation.SubmissionID
	// Outcome is completed, failed or aborted, and "" of a draft, which goes on. Text is what the agent said,
	// which may be nothing, up to 24 KiB; Cut says that there is more, which stands in the conversation.
	Outcome conversation.Outcome
	Text    string
	Cut     bool
}

// UUID is the id in the form of a UUID, of version 8, for platforms that take no other.
func (r *Reply) UUID() string {
	u := sha256.Sum256([]byte(r.ID))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// Replies is the target that Notify of a [Delivery] names, or of an agent whose conversations are all of
// one platform: send brings each reply to the platform. It is called at least once for each, until it
// returns nil, those of a conversation one after the other in the order of its settlements. Its errors
// are those of [outbox.Target], and [outbox.Answered] makes them of an answer: a
// [*outbox.LaterError] of a platform that limits, a [*outbox.GoneError] if a chat is no more.
//
// The target is an [outbox.ReplyTarget]: a submission is replied to if a channel delivered it, and if that delivery
// named the target or the target has the name of the channel. So is a message that the program dispatches to a
// conversation of the channel. Any other post is a dead letter at once.
func Replies(send func(ctx context.Context, r Reply) error) outbox.Target { return replies(send) }

type replies func(ctx context.Context, r Reply) error

var _ outbox.ReplyTarget = replies(nil)

// RepliesForChannel implements [outbox.ReplyTarget].
func (replies) RepliesForChannel() {}

// Deliver implements [outbox.Target].
func (send replies) Deliver(ctx context.Context, p outbox.Post) error {
	r, err := replyOf(p)
	if err != nil {
		return err
	}
	return send(ctx, r)
}

// checkChannel refuses what does not reply to a channel's delivery. The bot or account of the target would speak to a
// chat of a caller's choice: the id of the conversation names the chat, and any caller chooses an id.
func checkChannel(channel string) error {
	if channel == "" {
		return &outbox.GoneError{Err: errors.New("no channel delivered the submission, and a channel replies to nothing else")}
	}
	return nil
}

func replyOf(p outbox.Post) (Reply, error) {
	if err := checkChannel(p.Channel); err != nil {
		return Reply{}, err
	}
	var n conversation.Notice
	if err := json.Unmarshal(p.Body, &n); err != nil || n.Type != conversation.NoticeSettled || n.Data.SentReply == nil {
		return Reply{}, &outbox.GoneError{Err: errors.New("it is not a notice of a settlement, and a channel replies with nothing else")}
	}
	return Reply{
		ID: string(p.ID), Agent: n.Data.Agent, InstanceID: n.Data.ID, Address: cmp.Or(p.ReplyAddress, n.Data.ID), Submission: n.Data.Submission,
		Outcome: n.Data.Outcome, Text: n.Data.Text, Cut: n.Data.Cut,
	}, nil
}

// Words are what the reply says where a message has at most so many characters: the text, an apology for what
// has failed, and nothing, "", for what was aborted. What goes on, or is cut, ends in "…".
func (r *Reply) Words(most int) string { return r.begin(most, Characters) }

// Parts returns what the reply says in as many messages as it needs, see [Split]: none of what was aborted.
func (r *Reply) Parts(most int, size func(text string) int) []string {
	switch {
	case r.Outcome == conversation.OutcomeAborted:
		return nil
	case r.Outcome == conversation.OutcomeFailed:
		return []string{"Sorry, that went wrong. Please try again."}
	}
	return Split(r.whole(), most, size)
}

// whole returns the text of the reply, which ends in "…" if it goes on.
func (r *Reply) whole() string {
	if r.Cut || r.Outcome == "" {
		return r.Text + "…"
	}
	return r.Text
}

// begin returns the first of the parts, which ends in "…" if others follow.
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
