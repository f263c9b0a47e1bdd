package conversation

import "encoding/json"

// PostEnd is the outcome of a post.
type PostEnd string

// The outcomes of a post.
const (
	PostDelivered PostEnd = "delivered"
	PostDead      PostEnd = "dead" // undeliverable; a dead letter refers to it
)

// The records of posts.
type (
	// NoticeAsked names the target to notify of the settlement of a submission. The submission is
	// admitted in the same batch.
	NoticeAsked struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Target     string       `json:"target"`
	}

	// ReplyAddressed is the reply address of a submission admitted in the same batch; see
	// [ReplyAddress].
	ReplyAddressed struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Channel    string       `json:"channel"`
		Address    string       `json:"address"`
	}

	// PostEnqueued enqueues a body for a target: a notice of the settlement of Submission, or a post
	// by its work. If the post exists already, it is enqueued again as a new one. Channel is the
	// channel whose delivery the notice replies to, and ReplyAddress its address; see
	// [State.ReplyChannel].
	PostEnqueued struct {
		Must         bool            `json:"must"`
		Post         PostID          `json:"post"`
		Submission   SubmissionID    `json:"submission"`
		Call         CallID          `json:"call,omitempty"` // that enqueued it; empty for a notice
		Target       string          `json:"target"`
		Body         json.RawMessage `json:"body"`
		Channel      string          `json:"channel,omitempty"`
		ReplyAddress string          `json:"replyAddress,omitempty"`
		At           Time            `json:"at"`
	}

	// PostDeferred schedules the next attempt of a post whose attempts so far have failed.
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

	// PostDone ends the attempts to deliver a post. Reason is the last failure.
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
