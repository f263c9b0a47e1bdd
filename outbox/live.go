package outbox

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	// DraftEvery is at least between two drafts of a reply, and before the first.
	DraftEvery = 2 * time.Second
	// ShowTimeout bounds one call of Show of [Live].
	ShowTimeout = 10 * time.Second
)

// Draft is what a notice of a settlement will say, as far as it is said.
type Draft struct {
	Target string
	// Channel is that of [Post].
	Channel string
	// From is the conversation, UID its incarnation, and Submission what is being worked on.
	From       conversation.Address
	UID        conversation.UID
	Submission conversation.SubmissionID
	// Text is what was said so far and is durable, never empty, up to 24 KiB; Cut says that there is more. It
	// may be less than before: what a broken stream had said is withdrawn.
	Text string
	Cut  bool
}

// Live is a [Target] that sees what a notice of a settlement will say, while it is being said.
type Live interface {
	Target
	// Show shows a draft, which takes the place of the one before. Drafts are best effort: one that fails
	// is not shown again, but by the next, which comes after a pause that grows, and no sooner than a
	// [*LaterError] says; after a [*GoneError] none of the submission comes. What is said in less than
	// [DraftEvery] has none, and neither has a conversation that owes the target a post, and a process that
	// dies or hands its conversation over may skip any. The notice itself is delivered in any case. Calls
	// for one submission, of Show and of Deliver, come one after the other, Deliver last: it waits for
	// a draft that is being shown, which ends within ShowTimeout if Show heeds its context.
	Show(ctx context.Context, d Draft) error
}
