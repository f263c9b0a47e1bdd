package follower

import (
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/storage"
)

// retryAfter is what a reader is told when the bucket gives no answer.
const retryAfter = 2 * time.Second

var (
	errStopped = errors.New("followers are stopped")
	// errStillRead says that the bucket answers, and takes longer than a reader waits.
	errStillRead = errors.New("the log is still being read")
	// errBroken says that the view must not be used before the log was read again.
	errBroken = errors.New("view is not the log")
)

// logError says that the records of a batch cannot be decoded, folded or shown.
// Reading it again does not help.
type logError struct {
	seq int64
	err error
}

// Error implements error.
func (e *logError) Error() string { return fmt.Sprintf("show batch %d: %v", e.seq, e.err) }

// Unwrap returns the cause.
func (e *logError) Unwrap() error { return e.err }

// permanent reports whether reading the same log again must end the same way.
func permanent(err error) bool {
	var log *logError
	var format *storage.FormatError
	return errors.As(err, &log) || errors.As(err, &format) || damaged(err)
}

func (s *Set) unavailable(cause error) error { return conversation.Unavailable(retryAfter, cause) }

// noRoom is what a reader gets who cannot wait here. full names the bound.
func (s *Set) noRoom(full error) error {
	e := conversation.Unavailable(retryAfter, full)
	e.Details = fmt.Sprintf("There is no room to follow another conversation: %v. It can be read without waiting. Retry after the time given.", full)
	return e
}

// explain turns an error of the source into what a caller gets: an internal one
// for a damaged log, otherwise the advice to come back. A log that a newer version wrote
// is not damaged: a node of that version serves it.
func (s *Set) explain(key conversation.Key, err error) error {
	var newer *conversation.UnknownRecordError
	if errors.As(err, &newer) || errors.Is(err, feed.ErrVersion) {
		return s.unavailable(err)
	}
	if permanent(err) {
		return fmt.Errorf("follow conversation %s: %w", key, err)
	}
	return s.unavailable(fmt.Errorf("follow conversation %s: %w", key, err))
}

func notFound() error {
	return conversation.Errorf(conversation.CodeStreamNotFound, "The conversation has never received a message.")
}

func beyond(after, head conversation.Offset) error {
	return conversation.Errorf(conversation.CodeStreamStoreFailure,
		"The offset %s is beyond the head %s of the conversation.", after, head)
}
