package conversation

import "encoding/json"

// PostEnd says what has become of a post.
type PostEnd string

// The two ends of a post.
const (
	PostDelivered PostEnd = "delivered"
	PostDead      PostEnd = "dead" // given up; a dead letter refers to it
)

// The records of posts, which have come together.
type (
	// NoticeAsked says which target is to be told of the settlement of a submission that is
	// admitted in the same batch.
	NoticeAsked struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Target     string       `json:"target"`
	}

	// ReplyAddressed has the address of the reply to a submission that is admitted in the same batch, see [ReplyAddress].
	ReplyAddressed struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Channel    string       `json:"channel"`
		Address    string       `json:"address"`
	}

	// PostEnqueued says that a body is to be delivered to a target: a notice of the settlement
	// of Submission, or what work on it posts. Of a post that is there already it says that it is
	// to be delivered as a new one. Channel is the channel whose delivery the notice replies to,
	// and ReplyAddress its address, see [State.ReplyChannel].
	PostEnqueued struct {
		Must         bool            `json:"must"`
		Post         PostID          `json:"post"`
		Submission   SubmissionID    `json:"submission"`
		Call         CallID          `json:"call,omitempty"` // that posts it, none of a notice
		Target       string          `json:"target"`
		Body         json.RawMessage `json:"body"`
		Channel      string          `json:"channel,omitempty"`
		ReplyAddress string          `json:"replyAddress,omitempty"`
		At           Time            `json:"at"`
	}

	// PostDeferred says that the attempts so far to deliver a post have failed, and that the next
	// is made at a time.
	PostDeferred struct {
		Must       bool         `json:"must"`
		Post       PostID       `json:"post"`
		Submission SubmissionID `json:"submission,omitempty"`
		Target     string       `json:"target,omitempty"`
		Attempts   int          `json:"attempts"`
		Reason     string       `json:"reason"`
		Until      Time         `json:"until"`
		DurationMs int64        `json:"durationMs,omitempty"`
		At         Time         `json:"at"`
	}

	// PostDone says that a post is not tried any more, and why. Reason is that of the last failure.
	PostDone struct {
		Must       bool         `json:"must"`
		Post       PostID       `json:"post"`
		Submission SubmissionID `json:"submission,omitempty"`
		Target     string       `json:"target,omitempty"`
		End        PostEnd      `json:"end"`
		Attempts   int          `json:"attempts"`
		Reason     string       `json:"reason,omitempty"`
		DurationMs int64        `json:"durationMs,omitempty"`
		At         Time         `json:"at"`
	}
)

// Type implements [Record].
func (*NoticeAsked) Type() RecordType { return TypeNoticeAsked }

// Type implements [Record].
func (*ReplyAddressed) Type() RecordType { return TypeReplyAddressed }

// Type implements [Record].
func (*PostEnqueued) Type() RecordType { return TypePostEnqueued }

// Type implements [Record].
func (*PostDeferred) Type() RecordType { return TypePostDeferred }

// Type implements [Record].
func (*PostDone) Type() RecordType { return TypePostDone }
