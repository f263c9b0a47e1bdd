package channels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Result says in a word what became of a delivery.
type Result string

// The results of deliveries. Those up to ResultInvalid are of [Deliver], the rest of channels
// whose callback did not call it.
const (
	ResultAdmitted    Result = "admitted"
	ResultDuplicate   Result = "duplicate"   // known by its id
	ResultConflict    Result = "conflict"    // known by its id, with other content
	ResultUnavailable Result = "unavailable" // 503, to be sent again
	ResultRefused     Result = "refused"     // by the conversation
	ResultInvalid     Result = "invalid"     // by Deliver
	ResultOmitted     Result = "omitted"     // by [Omit]
	ResultAnswered    Result = "answered"    // by the callback
	ResultRejected    Result = "rejected"    // not verified, or no delivery
	ResultFailed      Result = "failed"      // the callback did
)

// arrivalKey and outcomeKey are those of contexts.
type (
	arrivalKey struct{}
	outcomeKey struct{}
)

// arrival is what an [Endpoint] notes of a request.
type arrival struct {
	until   time.Time // zero for none
	trace   conversation.Trace
	body    []byte       // the part that is the same whenever it is sent; nil until the body is read
	unnamed atomic.Int64 // deliveries without an id
}

// nameless returns an id for a delivery to which the platform gave none: the digest of the body, and the number of the
// delivery if the request has several. It is empty outside of a request.
func (a *arrival) nameless() string {
	if a.body == nil {
		return ""
	}
	sum := sha256.Sum256(a.body)
	id := "sha256:" + hex.EncodeToString(sum[:])
	if n := a.unnamed.Add(1); n > 1 {
		id += "/" + strconv.FormatInt(n, 10)
	}
	return id
}

// Outcome is what becomes of one request, for who mounts a channel.
type Outcome struct {
	// Result is what [Deliver] has noted, and later [Outcome.Done]. It is not to be read while
	// the request is handled.
	Result Result
	// Submission is the one that the delivery has caused, or that it repeats.
	Submission conversation.SubmissionID
	// Kind is that of [ResultOmitted].
	Kind string
}

// maxKind bounds the name of a kind of omitted deliveries, in bytes.
const maxKind = 64

// Omit notes that a delivery of a kind is for no conversation, such as "bot" or "edited". It is counted as
// [ResultOmitted], and each kind is logged once. A request with another result has that.
func Omit(ctx context.Context, kind string) {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok && o.Result == "" {
		o.Result, o.Kind = ResultOmitted, strings.ToValidUTF8(kind[:min(len(kind), maxKind)], "")
	}
}

// Observe returns a context under which a request is handled, and what will have become of it.
func Observe(ctx context.Context) (context.Context, *Outcome) {
	o := &Outcome{}
	return context.WithValue(ctx, outcomeKey{}, o), o
}

// note says what became of a delivery; of several in one request the last one counts.
func note(ctx context.Context, r Result, id conversation.SubmissionID) {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok {
		o.Result, o.Submission = r, id
	}
}

// Done completes the outcome by what the handler has returned.
func (o *Outcome) Done(err error) {
	var refusal *Refusal
	switch {
	case o.Result != "" && (err == nil || o.Result != ResultAdmitted):
	case err == nil:
		o.Result = ResultAnswered
	case StatusOf(err) == http.StatusServiceUnavailable:
		o.Result = ResultUnavailable
	case errors.As(err, &refusal) && refusal.Err == nil:
		o.Result = ResultRejected
	default:
		o.Result = ResultFailed
	}
}
