package grain

import "errors"

// Errors that callers of Request branch on. They arrive wrapped.
var (
	// ErrNoOwner says that no activation has taken the message before the deadline, or that the
	// cluster is not running. Nothing was done; the request may be repeated.
	ErrNoOwner = errors.New("no owner")

	// ErrOutcomeUnknown says that the message was handed over and no reply came: the deadline passed,
	// the caller gave up, the owner left or the cluster stopped. The work may have been done, may
	// be done later, or never. Repeat it only under an idempotency key.
	ErrOutcomeUnknown = errors.New("outcome unknown")

	// ErrPanicked says that the actor panicked while it handled the message. What it did before that
	// is unknown. The activation is gone; the next request makes a new one.
	ErrPanicked = errors.New("actor panicked")
)

// Reasons for an attempt that certainly did not reach an actor, and for one that was cut short.
var (
	errDeadLetter = errors.New("dead letter")
	errNotMember  = errors.New("target is not a member")
	errNoMember   = errors.New("view has no member")
	errRefused    = errors.New("activation refused")
	errMemberLeft = errors.New("member left")
	errStopped    = errors.New("cluster is not running")
)
