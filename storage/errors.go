package storage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// What a request to the bucket, or a writer, can end with. Test with errors.Is.
var (
	// ErrExists says a conditional create met an object under the key. It may be
	// the caller's own, from an attempt whose answer was lost.
	ErrExists = errors.New("object exists")
	// ErrNotFound says there is no object under the key.
	ErrNotFound = errors.New("object not found")
	// ErrConflict says the bucket refused a write because of a concurrent one and
	// that nothing landed; the same bytes may be sent again.
	ErrConflict = errors.New("concurrent write, nothing landed")
	// ErrUncertain says the outcome of a write is unknown: it may have landed, may
	// land later, or never.
	ErrUncertain = errors.New("outcome unknown")
	// ErrRefused says the bucket, or this package, rejected the request as such:
	// credentials, a missing bucket, an invalid argument. Nothing landed.
	ErrRefused = errors.New("request refused")
	// ErrUnavailable says a read got no usable answer; it may be repeated.
	ErrUnavailable = errors.New("no answer")
	// ErrFenced says another writer owns the log from here on.
	ErrFenced = errors.New("writer is fenced")
	// ErrConcurrentAppend says a Writer was used by two goroutines at once. The
	// call that got it has done nothing.
	ErrConcurrentAppend = errors.New("concurrent use of a writer")
)

// Verbs of [Error]: the operations on a bucket.
const (
	OpCreate = "create"
	OpPut    = "put"
	OpGet    = "get"
	OpOpen   = "open"
	OpList   = "list"
	OpDelete = "delete"
)

// Error is what every operation on a bucket returns when it does not succeed.
// It matches Kind and Err with errors.Is and errors.As.
type Error struct {
	Op     string // Verb: one of those above, or append.
	Key    string // Object key, or prefix of a list.
	Kind   error  // One of the sentinels; nil when the context ended before anything was sent.
	Status int    // HTTP status of the answer, 0 if there was none.
	Code   string // Error code of the answer, "" if there was none.
	Err    error  // Cause, nil if the answer says it all.
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

// AnswerError describes an answer that is not what a store answers to the request: an error
// in an answer of success, a page of a proxy, an answer that lacks what it must state. What
// it says is not believed; the request may be repeated.
type AnswerError struct {
	Found  string // Description of the answer.
	Code   string // Error code in it, "" if there is none.
	Remedy string
}

// Error implements error.
func (e *AnswerError) Error() string { return "answer is not accepted: " + e.Found + "; " + e.Remedy }

// ClockError says why a store refuses every request: the clock of this machine differs
// from the store's by more than the store takes, mostly 15 minutes.
type ClockError struct {
	Ahead time.Duration // Of the store's clock; negative is behind, 0 is unknown.
}

// Error implements error. It says what to do.
func (e *ClockError) Error() string {
	by := "by more than it takes"
	switch {
	case e.Ahead > 0:
		by = "by " + e.Ahead.Round(time.Second).String() + ", it is ahead"
	case e.Ahead < 0:
		by = "by " + (-e.Ahead).Round(time.Second).String() + ", it is behind"
	}
	return "the clock of this machine differs from the store's " + by + ": set it, and keep it so by NTP"
}

// FencedError says that a writer lost its log. It matches ErrFenced. Whether its
// last batch is in the log is unknown to the caller.
type FencedError struct {
	Conv   conversation.Key
	Seq    int64 // Where the loss showed: the key taken by another, or the highest key above a stale claim.
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

// CorruptError says that a stored object is not what its key promises: it does
// not decode, carries another sequence number, or does not fit the hash chain.
// Nothing after it may be served.
type CorruptError struct {
	Conv conversation.Key // Conversation, "" for an object that belongs to none.
	Key  string           // Object key.
	Seq  int64            // Sequence number of the batch, or number of the journal.
	Err  error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("read %s: corrupt object: %v", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// GapError says that a batch is missing although a later one is stored.
type GapError struct {
	Conv conversation.Key
	Seq  int64 // The first missing sequence number.
	Next int64 // The lowest one found above it, -1 if none was listed.
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("batch %d of %s is missing, next is %d", e.Seq, e.Conv, e.Next)
}

// FormatError says that the bucket was written by a version this one must not
// touch. Nothing was changed.
type FormatError struct {
	StoredVersion    int // 0 if the bucket holds data and no stamp, -1 if the stamp is unreadable.
	SupportedVersion int
	Reason           string // What was found, and what to do.
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("open bucket: stored format %d, supported format %d: %s", e.StoredVersion, e.SupportedVersion, e.Reason)
}

// IntegrityError says that an attachment's bytes are not those it is stored under:
// they have another size or, if WantSize and Size are equal, another digest.
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

// Reason is what does not fit, in one word: "size" or "digest".
func (e *IntegrityError) Reason() string {
	if e.WantSize != e.Size {
		return "size"
	}
	return "digest"
}

// Damaged reports whether an error says that stored objects are not what their
// keys promise, so that reading them again ends the same way: a [*CorruptError] or
// a [*GapError].
func IsCorrupt(err error) bool {
	var corrupt *CorruptError
	var gap *GapError
	return errors.As(err, &corrupt) || errors.As(err, &gap)
}
