// Package outbox defines the delivery of posts to external targets. A post is sent by agent.Post or is
// a notice of a settlement, and is delivered to a [Target]. The runtime keeps it in the log of its
// conversation until it is delivered, and retries for a day.
//
// Delivery is at least once, each time under the same id: after a crash between a delivery and its
// record the post is delivered again. Posts of a conversation to one target are delivered one at a
// time, in the order of enqueueing, unless an operator resends a dead letter. Posts of different
// conversations have no order.
package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// Post is one message to a target.
type Post struct {
	// ID is the same for every delivery of the post.
	ID conversation.PostID
	// Target is the name or URL given by the author or sender.
	Target string
	// Body is JSON: the author's post, or a notice of a settlement.
	Body json.RawMessage
	// From is the conversation, UID its incarnation, and Submission the submission concerned.
	From       conversation.Address
	UID        conversation.UID
	Submission conversation.SubmissionID
	// Channel is the channel whose delivery the post replies to, as in the log; empty for any other
	// post.
	Channel string
	// ReplyAddress is the address of the channel's reply, from its delivery; empty for the place in the
	// id of the conversation.
	ReplyAddress string
	// Enqueued is the time of posting. Attempt counts from 1.
	Enqueued time.Time
	Attempt  int
}

// Target receives posts. Implementations are safe for concurrent use, heed ctx, which ends after
// [Timeout], and do not retain the post.
type Target interface {
	// Deliver delivers a post. After an error the runtime retries within a day, but not after a
	// [*GoneError], and not before the time of a [*LaterError]. The error text is stored and shown to
	// operators, so it must not contain secrets.
	Deliver(ctx context.Context, p Post) error
}

// ReplyTarget is a [Target] that sends the replies of a channel. It gets only notices with a Channel:
// those of submissions that a channel delivered, or that the program dispatched to a conversation of
// the channel. Callers cannot name it, and agent.Post does not reach it.
type ReplyTarget interface {
	Target
	// RepliesForChannel marks the type.
	RepliesForChannel()
}

// Timeout bounds one attempt to deliver a post.
const Timeout = 20 * time.Second

// Func is a function that implements [Target].
type Func func(ctx context.Context, p Post) error

// Deliver implements [Target].
func (f Func) Deliver(ctx context.Context, p Post) error { return f(ctx, p) }

// GoneError reports a permanent failure: the post becomes a dead letter.
type GoneError struct{ Err error }

// Error implements error.
func (e *GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *GoneError) Unwrap() error { return e.Err }

// LaterError reports how long the target wants no attempt, up to 4 hours.
type LaterError struct {
	After time.Duration
	Err   error
}

// Error implements error.
func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LaterError) Unwrap() error { return e.Err }

// URLs is a target for all URLs that callers may name.
type URLs interface {
	Target
	// Check returns why a URL is not allowed, nil if it is. Callers may see the text.
	Check(url string) error
}

// UnknownTargetError reports a target that is not configured.
type UnknownTargetError struct {
	Target string
	Err    error // why a URL is not allowed; nil for a name
}

// Error implements error. The text names no other target, because tools return it to models.
func (e *UnknownTargetError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("post to %.200q rejected: %v", e.Target, e.Err)
	}
	return fmt.Sprintf("unknown target %.80q; add it to webhooks.targets or to the program's targets", e.Target)
}

// Unwrap returns the cause.
func (e *UnknownTargetError) Unwrap() error { return e.Err }

// Routes are the targets of a node. All nodes of a bucket have the same. The zero value has none.
type Routes struct {
	// Targets are the named targets of operators and authors.
	Targets map[string]Target
	// URLs handles URLs named by callers; nil rejects all.
	URLs URLs
}

// IsURL reports whether a target is a URL.
func IsURL(target string) bool {
	return strings.HasPrefix(target, "https://") || strings.HasPrefix(target, "http://")
}

// Find returns a target. The error is an [*UnknownTargetError].
func (r *Routes) Find(target string) (Target, error) {
	if t := r.Targets[target]; t != nil {
		return t, nil
	}
	if !IsURL(target) {
		return nil, &UnknownTargetError{Target: target}
	}
	if r.URLs == nil {
		return nil, &UnknownTargetError{Target: target, Err: fmt.Errorf("no host is allowed; add it to webhooks.allow")}
	}
	if err := contain.Run("URL check", func() error { return r.URLs.Check(target) }); err != nil {
		return nil, &UnknownTargetError{Target: target, Err: err}
	}
	return r.URLs, nil
}

// Check validates the routes: names are 1 to 64 letters, digits, '-', '_' or '.'.
func (r *Routes) Check() error {
	for name, t := range r.Targets {
		if t == nil {
			return fmt.Errorf("target %q is nil", name)
		}
		if !validName(name) {
			return fmt.Errorf("target name %.80q: want 1 to 64 letters, digits, '-', '_' or '.'", name)
		}
	}
	return nil
}

func validName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}
