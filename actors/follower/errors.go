package follower

import (
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/storage"
)

// retryAfter is the delay that readers are asked for when the bucket does not answer.
const retryAfter = 2 * time.Second

var (
	errStopped = errors.New("followers are stopped")
	// errStillRead reports that a load is progressing but takes longer than LoadTimeout.
	errStillRead = errors.New("log load still in progress")
	// errBroken reports that the log must be read again before the view is used.
	errBroken = errors.New("view does not match log")
)

// logError reports that the records of a batch cannot be decoded, folded or encoded. Reading the log
// again does not help.
type logError struct {
	seq int64
	err error
}

// Error implements error.
func (e *logError) Error() string { return fmt.Sprintf("process batch %d: %v", e.seq, e.err) }

// Unwrap returns the cause.
func (e *logError) Unwrap() error { return e.err }

// permanent reports whether reading the same log again must fail in the same way.
func permanent(err error) bool {
	var log *logError
	var format *storage.FormatError
	return errors.As(err, &log) || errors.As(err, &format) || corrupt(err)
}

func (s *Set) unavailable(cause error) error { return conversation.Unavailable(retryAfter, cause) }

// errFull returns the error for a reader that cannot wait on this node. bound names the exceeded bound.
func (s *Set) errFull(bound error) error {
	e := conversation.Unavailable(retryAfter, bound)
	e.Details = fmt.Sprintf("No room to follow another conversation: %v. Reads without waiting still work. Retry after the given time.", bound)
	return e
}

// explain turns an error of the source into a protocol error: internal for a corrupt log, otherwise
// unavailable with a retry delay. A log written by a newer version is not corrupt: a node of that
// version can serve it.
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
