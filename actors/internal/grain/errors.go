package grain

import "errors"

// Errors that callers of Request branch on. They arrive wrapped.
var (
	// ErrNoOwner says that no activation, or no node, has taken the message in time, or that the
	// cluster is not running. Nothing was done; the request may be repeated.
	ErrNoOwner = errors.New("no owner")

	// ErrOutcomeUnknown says that the message was handed over and no reply came: the deadline passed,
	// the caller gave up, the owner left, the link to it ended or the cluster stopped. The work may have been done, may
	// be done later, or never. Repeat it only under an idempotency key.
	ErrOutcomeUnknown = errors.New("outcome unknown")

	// ErrPanicked says that the actor panicked while it handled the message. What it did before that
	// is unknown. The activation is gone; the next request makes a new one.
	ErrPanicked = errors.New("actor panicked")
)

// Reasons for an attempt that certainly did not reach an actor.
var (
	errDeadLetter = errors.New("dead letter")
	errNotMember  = errors.New("target is not a member")
	errNotSent    = errors.New("member cannot be reached")
	errNoMember   = errors.New("view has no member that owns anything")
	errRefused    = errors.New("activation refused")
	errNoTime     = errors.New("nobody took it in the time for that")
)

// Reasons for one that was cut short.
var (
	errMemberLeft = errors.New("member left")
	errLinkEnded  = errors.New("link ended")
	errStopped    = errors.New("cluster is not running")
)

// unseen says that whoever was asked has certainly not seen the message.
func unseen(err error) bool {
	return errors.Is(err, errDeadLetter) || errors.Is(err, errNotMember) || errors.Is(err, errNotSent)
}
