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

// Result is the outcome of a delivery in one word.
type Result string

// Results of deliveries. [Deliver] sets those up to ResultInvalid; the others apply if the callback
// did not call it.
const (
	ResultAdmitted    Result = "admitted"
	ResultDuplicate   Result = "duplicate"   // known id
	ResultConflict    Result = "conflict"    // known id with different content
	ResultUnavailable Result = "unavailable" // 503, the platform sends again
	ResultRefused     Result = "refused"     // rejected by the conversation
	ResultInvalid     Result = "invalid"     // rejected by Deliver
	ResultOmitted     Result = "omitted"     // passed to [Omit]
	ResultAnswered    Result = "answered"    // the callback responded
	ResultRejected    Result = "rejected"    // not verified, or not a delivery
	ResultFailed      Result = "failed"      // the callback failed
)

type (
	arrivalKey struct{}
	outcomeKey struct{}
)

// arrival is the state of a request that [Deliver] needs.
type arrival struct {
	until   time.Time // zero if unknown
	trace   conversation.Trace
	body    []byte       // the lasting part; nil until the body is read
	unnamed atomic.Int64 // number of deliveries without an id
}

// fallbackID returns an id for a delivery without one: the digest of the body, with a number if the
// request has several such deliveries. It is empty outside of a request.
func (a *arrival) fallbackID() string {
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

// Outcome is the outcome of one request, for the code that mounts a channel.
type Outcome struct {
	// Result is set by [Deliver], and by [Outcome.Done]. It must not be read while the request is
	// handled.
	Result Result
	// Submission is the submission of the delivery, or of its first occurrence.
	Submission conversation.SubmissionID
	// Kind is the kind passed to [Omit].
	Kind string
}

// maxKind limits the kind of an omitted delivery in bytes.
const maxKind = 64

// Omit records that a delivery of a kind, such as "bot" or "edited", addresses no conversation. It is
// counted as [ResultOmitted] unless the request has another result. Each kind is logged once.
func Omit(ctx context.Context, kind string) {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok && o.Result == "" {
		o.Result, o.Kind = ResultOmitted, strings.ToValidUTF8(kind[:min(len(kind), maxKind)], "")
	}
}

// Observe returns a context for handling a request, and the outcome that the handling fills in.
func Observe(ctx context.Context) (context.Context, *Outcome) {
	o := &Outcome{}
	return context.WithValue(ctx, outcomeKey{}, o), o
}

// note records the result of a delivery; the last of several in one request wins.
func note(ctx context.Context, r Result, id conversation.SubmissionID) {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok {
		o.Result, o.Submission = r, id
	}
}

// Done completes the outcome with the error of the handler.
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
