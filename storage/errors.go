package storage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Kinds of errors of a bucket or a writer. Test them with errors.Is.
var (
	// ErrExists reports that a conditional create found an object under the key. It may be the
	// caller's own, from an attempt whose answer was lost.
	ErrExists = errors.New("object exists")
	// ErrNotFound reports that no object exists under the key.
	ErrNotFound = errors.New("object not found")
	// ErrConflict reports that the bucket rejected a write because of a concurrent one. Nothing was
	// written; the caller may retry with the same bytes.
	ErrConflict = errors.New("concurrent write, nothing stored")
	// ErrUncertain reports that the outcome of a write is unknown: it may be stored now, later, or
	// never.
	ErrUncertain = errors.New("outcome unknown")
	// ErrRefused reports that the bucket or this package rejected the request: credentials, a missing
	// bucket, an invalid argument. Nothing was written.
	ErrRefused = errors.New("request refused")
	// ErrUnavailable reports that a read got no usable answer. The caller may retry.
	ErrUnavailable = errors.New("no answer")
	// ErrFenced reports that another writer owns the log.
	ErrFenced = errors.New("writer is fenced")
	// ErrConcurrentAppend reports that two goroutines used a Writer at once. The call that returns it
	// had no effect.
	ErrConcurrentAppend = errors.New("writer is used concurrently")
)

// Operations on a bucket, for [Error.Op].
const (
	OpCreate = "create"
	OpPut    = "put"
	OpGet    = "get"
	OpOpen   = "open"
	OpList   = "list"
	OpDelete = "delete"
)

// Error is the error of every operation on a bucket. It matches Kind and Err with errors.Is and
// errors.As.
type Error struct {
	Op     string // Operation: one of the constants above, or append.
	Key    string // Object key, or prefix of a list.
	Kind   error  // One of the sentinels; nil when the context ended before the request was sent.
	Status int    // HTTP status of the response, 0 if there was none.
	Code   string // Error code of the response, "" if there was none.
	Err    error  // Cause, may be nil.
}

// Error implements error.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString(e.Op + " " + e.Key)
	if e.Kind != nil {
		s.WriteString(": " + e.Kind.Error())
	}
	if e.Status != 0 {
		s.WriteString(": status " + strconv.Itoa(e.Status))
	}
	if e.Code != "" {
		s.WriteString(" " + e.Code)
	}
	if e.Err != nil {
		s.WriteString(": " + e.Err.Error())
	}
	return s.String()
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// AnswerError describes a response that a store cannot have sent: an error inside a success, an HTML
// page of a proxy, missing required fields. The caller ignores its content and may retry.
type AnswerError struct {
	Found  string // Description of the response.
	Code   string // Error code in the response, "" if there is none.
	Remedy string
}

// Error implements error.
func (e *AnswerError) Error() string { return "invalid response: " + e.Found + "; " + e.Remedy }

// ClockError reports that the store rejects every request because of clock skew: the local clock
// differs by more than the store accepts, usually 15 minutes.
type ClockError struct {
	Ahead time.Duration // How far the local clock is ahead; negative is behind, 0 is unknown.
}

// Error implements error. The text includes the remedy.
func (e *ClockError) Error() string {
	by := "by more than the store accepts"
	switch {
	case e.Ahead > 0:
		by = "by " + e.Ahead.Round(time.Second).String() + ", ahead of it"
	case e.Ahead < 0:
		by = "by " + (-e.Ahead).Round(time.Second).String() + ", behind it"
	}
	return "the clock of this machine differs from the store's " + by + ": synchronize it with NTP"
}

// FencedError reports that a writer lost its log to another. It matches ErrFenced. The outcome of its
// last batch is unknown.
type FencedError struct {
	Conv   conversation.Key
	Seq    int64 // Number of the key that another writer took, or the highest number above a stale claim.
	Winner Nonce // Nonce of the writer that owns Seq, "" if it was not read.
	Err    error // Why the winner is unknown, nil otherwise.
}

// Error implements error.
func (e *FencedError) Error() string {
	s := fmt.Sprintf("conversation %s: %v at %d", e.Conv, ErrFenced, e.Seq)
	if e.Winner != "" {
		s += " by " + string(e.Winner)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// Unwrap returns the cause.
func (e *FencedError) Unwrap() error { return e.Err }

// CorruptError reports an object that does not match its key: it does not decode, has another sequence
// number, or breaks the hash chain. Nothing after it may be served.
type CorruptError struct {
	Conv conversation.Key // Conversation, "" for an object without one.
	Key  string           // Object key.
	Seq  int64            // Number of the batch or journal.
	Err  error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("read %s: corrupt object: %v", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// GapError reports a missing batch below a stored one.
type GapError struct {
	Conv conversation.Key
	Seq  int64 // The first missing sequence number.
	Next int64 // The lowest number found above it, -1 if none was listed.
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("batch %d of %s is missing; the next one is %d", e.Seq, e.Conv, e.Next)
}

// FormatError reports a bucket of a format that this version must not write. Nothing was changed.
type FormatError struct {
	StoredVersion    int // 0 if the bucket holds data without a stamp, -1 if the stamp is unreadable.
	SupportedVersion int
	Reason           string // Cause and remedy.
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("open bucket: stored format %d, supported format %d: %s", e.StoredVersion, e.SupportedVersion, e.Reason)
}

// IntegrityError reports that an attachment does not have the stated size or, if WantSize and Size are
// equal, digest.
type IntegrityError struct {
	Key            string
	WantSize, Size int64 // Bytes.
	Want, Got      Digest
}

// Error implements error.
func (e *IntegrityError) Error() string {
	if e.WantSize != e.Size {
		return fmt.Sprintf("read %s: has %d bytes, want %d", e.Key, e.Size, e.WantSize)
	}
	return fmt.Sprintf("read %s: digest is %s", e.Key, e.Got)
}

// Reason returns the mismatch, "size" or "digest".
func (e *IntegrityError) Reason() string {
	if e.WantSize != e.Size {
		return "size"
	}
	return "digest"
}

// IsCorrupt reports whether err is a [*CorruptError] or a [*GapError]: stored objects do not match
// their keys, and reading them again ends the same way.
func IsCorrupt(err error) bool {
	var corrupt *CorruptError
	var gap *GapError
	return errors.As(err, &corrupt) || errors.As(err, &gap)
}
