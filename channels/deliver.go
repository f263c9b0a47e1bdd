package channels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
)

const (
	// KeepDeliveries is the minimum time for which delivery ids are remembered. It exceeds the retry
	// period of the platforms.
	KeepDeliveries = 8 * 24 * time.Hour
	// deadlineMargin is the margin by which Deliver times out before the platform's deadline.
	deadlineMargin = 500 * time.Millisecond
	// maxKey is the longest admission key in characters; a longer one is hashed.
	maxKey = 256
	// maxInstanceID is the longest conversation id in bytes.
	maxInstanceID = 512
	// retryAfter is the Retry-After of a delivery that timed out.
	retryAfter = time.Second
)

// Delivery is a message of a user to a conversation or, if SignalType is set, a signal of a system.
type Delivery struct {
	// Channel is the name of the channel, such as "slack". Delivery ids are unique per channel.
	Channel string
	// Agent and InstanceID identify the conversation, which is created if it does not exist. An
	// instance id has 1 to 512 bytes of UTF-8, and is neither "." nor "..".
	Agent, InstanceID string
	// DeliveryID is the platform's id of the delivery, which must not change when the platform sends
	// again. If empty, the digest of the webhook's body is used; several such deliveries of one
	// request differ by their order.
	DeliveryID string
	// Text is the text of the user, or the body of the signal.
	Text string
	// SignalType makes the delivery a signal, with optional attributes and an optional element name.
	SignalType string
	Attributes map[string]string
	TagName    string
	// Notify is the outbox target for the reply, such as one of [Replies]. If empty, only the targets
	// of the agent are notified.
	Notify string
	// ReplyAddress is the destination of the reply, 1 to 1024 bytes of UTF-8, as the platform
	// package's InstanceID returns it. If empty, the reply goes to the place that InstanceID names, so
	// set it if the conversation has another name or covers several chats. Messages that the agent
	// dispatches to its own conversation while it handles the delivery inherit the address.
	ReplyAddress string
	// InitialData is passed to the agent if the delivery creates the conversation. It may be any value
	// that encodes as JSON, or nil.
	InitialData any
}

// Key returns the admission key: the channel's name and the delivery id, hashed if they are too long.
func (d *Delivery) Key() string {
	key := "channel:" + d.Channel + ":" + d.DeliveryID
	if utf8.ValidString(key) && utf8.RuneCountInString(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "channel-sha256:" + hex.EncodeToString(sum[:])
}

// Deliver admits a delivery to a conversation, and returns once that is durable. A channel's callback
// calls it with its own context.
//
// A delivery with a known id is not admitted again: Deliver returns the receipt of the first one,
// marked as deduplicated. That holds within one conversation for at least [KeepDeliveries], even if
// the content differs, because platforms count attempts in it.
//
// An error is a [*conversation.Error]. If the channel knows the platform's deadline, Deliver fails
// with runtime_unavailable half a second before it. The channel then responds 503, the platform sends
// again, and the delivery is admitted once.
func Deliver(ctx context.Context, to conversation.Dispatcher, d Delivery) (conversation.Receipt, error) {
	arrived, _ := ctx.Value(arrivalKey{}).(*arrival)
	if arrived == nil {
		arrived = &arrival{}
	}
	if d.DeliveryID == "" {
		d.DeliveryID = arrived.fallbackID()
	}
	a, err := d.admission()
	if err != nil {
		note(ctx, ResultInvalid, "")
		return conversation.Receipt{}, err
	}
	a.Trace = arrived.trace
	admitting := ctx
	if !arrived.until.IsZero() {
		var cancel context.CancelFunc
		admitting, cancel = context.WithDeadline(ctx, arrived.until)
		defer cancel()
	}
	receipt, err := to.Admit(admitting, a)
	known := conversation.CodeOf(err) == conversation.CodeSubmissionConflict
	switch {
	case err == nil && !receipt.Deduplicated:
		note(ctx, ResultAdmitted, receipt.SubmissionID)
	case err == nil:
		note(ctx, ResultDuplicate, receipt.SubmissionID)
	case known:
		receipt = first(err)
		note(ctx, ResultConflict, receipt.SubmissionID)
		return receipt, nil
	case retryable(err), admitting.Err() != nil && ctx.Err() == nil:
		note(ctx, ResultUnavailable, "")
		// The key belongs to the platform and is not shown.
		return receipt, conversation.Unavailable(retryAfter, err)
	default:
		note(ctx, ResultRefused, "")
	}
	return receipt, err
}

// first returns the receipt of the earlier delivery, as far as the conflict contains it.
func first(conflict error) conversation.Receipt {
	var e *conversation.Error
	receipt := conversation.Receipt{Deduplicated: true}
	if errors.As(conflict, &e) {
		switch id := e.Meta["submissionId"].(type) {
		case conversation.SubmissionID:
			receipt.SubmissionID = id
		case string: // from another node
			receipt.SubmissionID = conversation.SubmissionID(id)
		}
	}
	return receipt
}

// admission validates the fields that the conversation does not check.
func (d *Delivery) admission() (conversation.Admission, error) {
	invalid := func(text string) (conversation.Admission, error) {
		return conversation.Admission{}, conversation.Errorf(conversation.CodeInvalidRequest, "%s", text)
	}
	switch {
	case d.Channel == "" || len(d.Channel) > conversation.MaxTarget || !utf8.ValidString(d.Channel):
		return invalid("The channel name of a delivery must have 1 to 1024 bytes of UTF-8.")
	case d.DeliveryID == "":
		return invalid("A delivery outside of a webhook needs an id; otherwise a retry is admitted again.")
	case d.Agent == "":
		return invalid("A delivery needs the name of an agent.")
	case d.InstanceID == "" || len(d.InstanceID) > maxInstanceID || !utf8.ValidString(d.InstanceID):
		return invalid("The instance id of a delivery must have 1 to 512 bytes of UTF-8.")
	case isDots(d.InstanceID):
		return invalid("The instance id of a delivery must not be \".\" or \"..\": URL libraries remove such a segment from an address. Use FitID.")
	case len(d.ReplyAddress) > conversation.MaxTarget || !utf8.ValidString(d.ReplyAddress):
		return invalid("The reply address of a delivery must have 1 to 1024 bytes of UTF-8.")
	case d.SignalType == "" && (len(d.Attributes) > 0 || d.TagName != ""):
		return invalid("Attributes and a tag name need a signal type: set SignalType.")
	case d.TagName != "" && !conversation.ValidTagName(d.TagName):
		return invalid("The tag name of a signal must match ^[A-Za-z_][A-Za-z0-9_.-]*$.")
	}
	a := conversation.Admission{
		Address: conversation.Address{Agent: d.Agent, ID: d.InstanceID}, Key: d.Key(), KeepKey: KeepDeliveries, Dispatched: true,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: d.Text}, Notify: d.Notify, Channel: d.Channel, ReplyAddress: d.ReplyAddress,
	}
	if d.SignalType != "" {
		a.Delivery.Kind, a.Delivery.Type = conversation.KindSignal, d.SignalType
		a.Delivery.Attributes, a.Delivery.TagName = d.Attributes, d.TagName
	}
	if d.InitialData == nil {
		return a, nil
	}
	data, err := json.Marshal(d.InitialData)
	if err != nil {
		e := conversation.Errorf(conversation.CodeInvalidRequest, "The initial data of a delivery cannot be encoded as JSON.")
		e.Err = err
		return a, e
	}
	a.InitialData = data
	return a, nil
}
