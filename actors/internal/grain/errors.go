package grain

import "errors"

// Errors that callers of Request branch on. They are returned wrapped.
var (
	// ErrNoOwner reports that no activation or node accepted the message in time, or that the cluster
	// is not running. The message had no effect; the request may be retried.
	ErrNoOwner = errors.New("no owner")

	// ErrOutcomeUnknown reports that the message was handed over and no reply arrived: the deadline
	// passed, the caller canceled, the owner left, the link ended or the cluster stopped. The work may
	// be done, may be done later, or never. Retry only with an idempotency key.
	ErrOutcomeUnknown = errors.New("outcome unknown")

	// ErrPanicked reports that the actor panicked while it handled the message. Its effects before
	// that are unknown. The activation has ended; the next request creates a new one.
	ErrPanicked = errors.New("actor panicked")
)

// Causes of an attempt that certainly reached no actor.
var (
	errDeadLetter = errors.New("dead letter")
	errNotMember  = errors.New("target is not a member")
	errNotSent    = errors.New("member unreachable")
	errNoMember   = errors.New("view has no owner")
	errRefused    = errors.New("activation refused")
	errOwnerWait  = errors.New("no owner accepted the message in time")
)

// Causes of an attempt with an unknown outcome.
var (
	errMemberLeft = errors.New("member left")
	errLinkEnded  = errors.New("link ended")
	errStopped    = errors.New("cluster is not running")
)

// unseen reports whether the target has certainly not seen the message.
func unseen(err error) bool {
	return errors.Is(err, errDeadLetter) || errors.Is(err, errNotMember) || errors.Is(err, errNotSent)
}
