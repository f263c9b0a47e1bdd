package outbox

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	// DraftEvery is the minimum interval between two drafts of a reply, and before the first.
	DraftEvery = 2 * time.Second
	// ShowTimeout bounds one call of [Live.Show].
	ShowTimeout = 10 * time.Second
)

// Draft is the text so far of a future notice of a settlement.
type Draft struct {
	Target string
	// Channel and ReplyAddress are those of [Post].
	Channel, ReplyAddress string
	// From is the conversation, UID its incarnation, and Submission the submission in progress.
	From       conversation.Address
	UID        conversation.UID
	Submission conversation.SubmissionID
	// Text is the durable text so far, never empty, up to 24 KiB; Truncated reports truncation. It may
	// become shorter, because the text of a failed stream is withdrawn.
	Text      string
	Truncated bool
}

// Live is a [Target] that shows a notice of a settlement while it is generated.
type Live interface {
	Target
	// Show shows a draft and replaces the one before. Drafts are best effort. A failed draft is not
	// retried: the next one follows after a growing backoff, and not before the time of a
	// [*LaterError]. After a [*GoneError] the submission has no further drafts. Text generated in less
	// than [DraftEvery] has no draft, and neither has a conversation with a pending post to the
	// target. A crash or a handover may skip drafts. The notice itself is delivered in any case.
	//
	// Calls of Show and Deliver for one submission are sequential, Deliver last. Deliver waits for a
	// running Show, which must heed its context and thus ends within ShowTimeout.
	Show(ctx context.Context, d Draft) error
}
