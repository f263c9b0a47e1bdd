package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// ErrNoOutbox is returned by [Post] for a context that is not that of a tool.
var ErrNoOutbox = errors.New("no outbox in the context: use the context of a tool's call")

// ErrOutboxFull is returned by [Post] if the conversation has the maximum of undelivered posts, 256 or
// 4 MiB together.
var ErrOutboxFull = errors.New("outbox quota exceeded: the conversation holds the maximum of undelivered posts; retry later")

// Outgoing is one post.
type Outgoing struct {
	// Target is the name of a target of the program, or of webhooks.targets in parley.yaml, or an
	// https URL at a host of webhooks.allow.
	Target string
	// Body is encoded as JSON, up to 256 KiB.
	Body any
	// Key identifies the post within the conversation. A post with the key of another has the same id,
	// so that the receiver can recognize it. It is not enqueued while the other is undelivered. A key
	// has up to 256 characters; empty means a key made of the call's id and the number of its earlier
	// posts.
	Key string
}

// Post delivers a body to an external target at least once, each time under the id that it returns.
// The post is durable when Post returns. Attempts are made for a day, also over crashes, for each
// target one after the other in the order of the posts. After that it is a dead letter, which an
// operator can resend with "parley outbox". Post does not wait for the delivery.
//
// It is for tools. A durable call that runs again posts nothing twice if it posts in the same order or
// under keys of its own.
//
// The error is ErrNoOutbox, [ErrOutboxFull], or a [*PostError]: an unknown target, a body that cannot
// be encoded or is too large, or the reason why the post may not be durable.
func Post(ctx context.Context, o Outgoing) (conversation.PostID, error) {
	call, inCall := CallFrom(ctx)
	host, ok := ctx.Value(seam.Poster{}).(poster)
	if !inCall || !ok {
		return "", ErrNoOutbox
	}
	p, err := o.posting(ctx, call)
	if err == nil {
		err = postOnce(ctx, host, p)
	}
	switch {
	case err == nil:
		return conversation.PostID(p.ID), nil
	case errors.Is(err, ErrSuspended), errors.Is(err, ErrOutboxFull):
		return "", err
	}
	return "", &PostError{Target: o.Target, Err: err}
}

// PostError is the reason why a post was not enqueued.
type PostError struct {
	Target string
	Err    error
}

// Error implements error.
func (e *PostError) Error() string { return fmt.Sprintf("post to %s: %v", shorten(e.Target), e.Err) }

// Unwrap returns the cause.
func (e *PostError) Unwrap() error { return e.Err }

// posting builds the host's request.
func (o Outgoing) posting(ctx context.Context, call Call) (p seam.Posting, err error) {
	body, err := contain.Encode("body of a post", o.Body)
	switch {
	case err != nil:
		return p, fmt.Errorf("the body has no JSON form: %w", err)
	case len(body) > conversation.MaxPostBytes:
		return p, fmt.Errorf("the JSON body has %d bytes, the maximum is %d", len(body), conversation.MaxPostBytes)
	case o.Target == "" || len(o.Target) > conversation.MaxTarget:
		return p, fmt.Errorf("a target is 1 to %d bytes", conversation.MaxTarget)
	case len(o.Key) > 4*maxIdempotencyKey:
		return p, fmt.Errorf("the key has more than %d characters", maxIdempotencyKey)
	}
	key := "key\x00" + o.Key
	if o.Key == "" {
		key = "call\x00" + nextPost(ctx, call)
	}
	digest := sha256.Sum256([]byte(string(call.UID) + "\x00" + key))
	return seam.Posting{
		ID: "post_" + ulidDigits.EncodeToString(digest[:])[:26], Target: o.Target, Body: body,
		Step: "post " + hex.EncodeToString(digest[:8]),
	}, nil
}

// ulidDigits are the digits of all ids.
var ulidDigits = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// nextPost numbers the posts of a call.
func nextPost(ctx context.Context, call Call) string {
	o := seam.OriginFrom(ctx)
	if o == nil || o.Name == "" {
		return string(call.ID) + rand.Text()
	}
	return fmt.Sprintf("%s%s/%d", o.Name, o.Step, o.Next(seam.Poster{}))
}

// postOnce posts unless an earlier run of a durable call did.
func postOnce(ctx context.Context, host poster, p seam.Posting) error {
	s := stepsFrom(ctx)
	if s == nil || ctx.Value(inStepKey{}) != nil { // within a step, or not durable
		p.Step = ""
		return host.Post(ctx, p)
	}
	if err := s.begin(p.Step); err != nil {
		return err
	}
	if _, ok := s.Recorded(p.Step); ok {
		return nil
	}
	err := host.Post(ctx, p)
	if err != nil {
		s.run.Reopen(p.Step)
	}
	return err
}

// poster is agenthost.Poster.
type poster interface {
	Post(ctx context.Context, p seam.Posting) error
}
