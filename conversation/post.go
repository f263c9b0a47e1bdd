package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// SignalOutbox is the type of signals that redeliver a failed post. Their attributes "post" and "batch"
// name the post and the batch of the log that has it. Both come from its dead letter.
const SignalOutbox = "parley.outbox"

// Bounds of the undelivered posts of a conversation.
const (
	// MaxPosts bounds their number, and MaxPostsBytes the sum of their bodies.
	MaxPosts      = 256
	MaxPostsBytes = 4 << 20
	// MaxPostBytes bounds the body of one post.
	MaxPostBytes = 256 << 10
	// MaxTarget bounds the name of a target, or its URL, in bytes.
	MaxTarget = 1024
)

// Post is an undelivered body for a target. Values returned by [State] methods are read-only.
type Post struct {
	ID         PostID          `json:"id"`
	Submission SubmissionID    `json:"submission"`
	Target     string          `json:"target"`
	Body       json.RawMessage `json:"body"`
	At         Time            `json:"at"`
	Offset     Offset          `json:"offset"` // offset of the batch with the body
	// Attempts counts the failed attempts. Reason is the last failure. The next attempt is due at
	// Until; 0 is at once.
	Attempts int    `json:"attempts,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Until    Time   `json:"until,omitempty"`
	// Channel is the channel that the post replies to, see [State.ReplyChannel]; empty for none.
	Channel string `json:"channel,omitempty"`
	// ReplyAddress is the channel's reply address; empty for the one given by the conversation's id.
	ReplyAddress string `json:"replyAddress,omitempty"`
}

// Posts returns the undelivered posts in the order of their enqueueing. The slice is shared and
// read-only.
func (s *State) Posts() []*Post { return s.posts }

// Post returns an undelivered post, or nil.
func (s *State) Post(id PostID) *Post {
	i := slices.IndexFunc(s.posts, func(p *Post) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return s.posts[i]
}

// PostBytes returns the estimated memory of the posts.
func (s *State) PostBytes() (n int) {
	for _, p := range s.posts {
		n += PartBytes + len(p.Target) + len(p.Body) + len(p.Reason) + len(p.ReplyAddress)
	}
	return n
}

// NextPosts returns the next post of each target, oldest first.
func (s *State) NextPosts() []*Post {
	var out []*Post
	for _, p := range s.posts {
		if !slices.ContainsFunc(out, func(before *Post) bool { return before.Target == p.Target }) {
			out = append(out, p)
		}
	}
	return out
}

// PostsDue returns the time at which the first of the next posts is due, and the offset of the batch
// that set it. It is not ok if there are none.
func (s *State) PostsDue() (until Time, at Offset, ok bool) {
	for _, p := range s.NextPosts() {
		if !ok || p.Until < until {
			until, ok = p.Until, true
		}
	}
	return until, s.postsAt, ok
}

func (s *State) foldNoticeAsked(r *NoticeAsked) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	sub.Notify = append(slices.Clone(sub.Notify), r.Target)
	s.openPath(ReplyPath{Channel: sub.Channel, Target: r.Target})
	return nil
}

func (s *State) foldPostEnqueued(r *PostEnqueued) error {
	p := &Post{ID: r.Post, Submission: r.Submission, Target: r.Target, Body: r.Body, At: r.At, Offset: s.head, Channel: r.Channel, ReplyAddress: r.ReplyAddress}
	if i := slices.IndexFunc(s.posts, func(p *Post) bool { return p.ID == r.Post }); i >= 0 {
		s.posts = slices.Clone(s.posts)
		s.posts[i] = p
	} else {
		s.posts = append(slices.Clip(s.posts), p)
	}
	s.postsAt = s.head
	return nil
}

func (s *State) foldPostDeferred(r *PostDeferred) error {
	i := slices.IndexFunc(s.posts, func(p *Post) bool { return p.ID == r.Post })
	if i < 0 {
		return s.bad(r, "there is no post %s", r.Post)
	}
	p := *s.posts[i]
	p.Attempts, p.Reason, p.Until = r.Attempts, r.Reason, r.Until
	s.posts = slices.Clone(s.posts)
	s.posts[i], s.postsAt = &p, s.head
	return nil
}

func (s *State) foldPostDone(r *PostDone) error {
	if s.Post(r.Post) == nil {
		return s.bad(r, "there is no post %s", r.Post)
	}
	s.posts = slices.DeleteFunc(slices.Clone(s.posts), func(p *Post) bool { return p.ID == r.Post })
	s.postsAt = s.head
	return nil
}

// Notice is the body of a post that reports a settlement.
type Notice struct {
	Type      string     `json:"type"`      // [NoticeSettled]
	Timestamp string     `json:"timestamp"` // RFC 3339
	Data      NoticeData `json:"data"`
}

// NoticeData is the content of a notice.
type NoticeData struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
	UID   UID    `json:"uid"`
	*SentReply
	// Usage and Dollars sum the model calls of the submission and its subagents. They are absent if no
	// model was called, or without a known price.
	Usage   Usage   `json:"usage,omitzero"`
	Dollars float64 `json:"dollars,omitempty"`
}

// NoticeSettled is the type of a notice of a settlement.
const NoticeSettled = "submission.settled"

// Notice returns the body of the post that reports a settlement, before the settlement is folded.
func (s *State) Notice(r *SubmissionSettled) (json.RawMessage, error) {
	sub := s.bySub[r.Submission]
	if sub == nil || s.created == nil {
		return nil, fmt.Errorf("notice of %s: unknown submission", r.Submission)
	}
	spent := s.Spent(sub.ID)
	return EncodeJSON(Notice{
		Type: NoticeSettled, Timestamp: time.UnixMilli(int64(r.At)).UTC().Format(time.RFC3339Nano),
		Data: NoticeData{Agent: s.created.Agent, ID: s.created.ID, UID: s.created.UID, SentReply: s.sentReply(sub, r), Usage: spent.Usage, Dollars: spent.Dollars},
	})
}
