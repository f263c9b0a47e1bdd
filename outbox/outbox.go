// Package outbox is the seam between conversations and the world that is told of them: what is
// posted, by agent.Post or as a notice of a settlement, is delivered to a [Target]. The
// runtime keeps it in the log of its conversation until it is, and tries again for a day.
//
// A target gets every post at least once, and each time under the same id: a process that
// dies after a delivery and before its record delivers again. The posts of a conversation to
// one target come one after the other, in the order in which they were enqueued, unless one
// was given up and sent again by an operator; those of different conversations have no order.
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

// Post is what a target is given.
type Post struct {
	// ID is the same each time that the post is delivered.
	ID conversation.PostID
	// Target is the name, or the URL, that the author or the sender has given.
	Target string
	// Body is JSON: what the author has posted, or a notice of a settlement.
	Body json.RawMessage
	// From is the conversation, UID its incarnation, and Submission what it is about.
	From       conversation.Address
	UID        conversation.UID
	Submission conversation.SubmissionID
	// Channel is the channel whose delivery the post replies to, as the log has it; empty for any other post.
	Channel string
	// Enqueued is when it was posted, and Attempt counts from 1.
	Enqueued time.Time
	Attempt  int
}

// Target is who posts are delivered to. Implementations are safe for concurrent use, heed ctx, which
// ends after [Timeout], and keep nothing of the post.
type Target interface {
	// Deliver gives a post away. After an error another attempt is made later: within a day,
	// unless it is a [*GoneError], and no sooner than a [*LaterError] says. The text of an
	// error is stored and shown to operators: it has no secrets.
	Deliver(ctx context.Context, p Post) error
}

// ReplyTarget is a [Target] that replies to what a channel delivers. It gets notices with a Channel alone: those of
// submissions that a channel delivered, or that the program dispatched to a conversation that it delivered to. No
// caller names it, and agent.Post does not reach it.
type ReplyTarget interface {
	Target
	// RepliesForChannel marks it.
	RepliesForChannel()
}

// Timeout bounds one attempt to deliver a post.
const Timeout = 20 * time.Second

// Func is a Target that is a function.
type Func func(ctx context.Context, p Post) error

// Deliver implements [Target].
func (f Func) Deliver(ctx context.Context, p Post) error { return f(ctx, p) }

// GoneError says that no other attempt would help: the post becomes a dead letter.
type GoneError struct{ Err error }

// Error implements error.
func (e *GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *GoneError) Unwrap() error { return e.Err }

// LaterError says how long the target wants to be left alone, up to 4 hours.
type LaterError struct {
	After time.Duration
	Err   error
}

// Error implements error.
func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LaterError) Unwrap() error { return e.Err }

// URLs is a target of all URLs that may be named by a caller.
type URLs interface {
	Target
	// Check says why a URL may not be, nil if it may. The text may be shown to callers.
	Check(url string) error
}

// UnknownTargetError says that nothing is delivered to a target.
type UnknownTargetError struct {
	Target string
	Err    error // why a URL may not be; nil for a name
}

// Error implements error. Its text names no other target: tools return it to models.
func (e *UnknownTargetError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("nothing is posted to %.200q: %v", e.Target, e.Err)
	}
	return fmt.Sprintf("there is no target %.80q; add it to webhooks.targets, or to the targets of the program", e.Target)
}

// Unwrap returns the cause.
func (e *UnknownTargetError) Unwrap() error { return e.Err }

// Routes are the targets of a node. All nodes of a bucket have the same. The zero value has none.
type Routes struct {
	// Targets are those that operators and authors have named.
	Targets map[string]Target
	// URLs takes what callers name by a URL; nil refuses all.
	URLs URLs
}

// IsURL reports whether a target is named by a URL.
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
		return nil, &UnknownTargetError{Target: target, Err: fmt.Errorf("no host is allowed; webhooks.allow names those that are")}
	}
	if err := contain.Run("check of a URL", func() error { return r.URLs.Check(target) }); err != nil {
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
			return fmt.Errorf("the target name %.80q is not 1 to 64 letters, digits, '-', '_' or '.'", name)
		}
	}
	return nil
}

func validName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}
