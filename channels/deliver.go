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
	// KeepDeliveries is how long a delivery's id is known at least: longer than platforms send
	// again.
	KeepDeliveries = 8 * 24 * time.Hour
	// answerBefore is how long before the platform's deadline a delivery is given up.
	answerBefore = 500 * time.Millisecond
	// maxKey is the longest key of an admission, in characters; a longer one is hashed.
	maxKey = 256
	// maxInstanceID is the longest id of a conversation, in bytes.
	maxInstanceID = 512
	// againIn is what a platform is asked to wait for that could not be served in time.
	againIn = time.Second
)

// Delivery is what a webhook says to a conversation: a message of a user or, with a SignalType,
// a signal of a system.
type Delivery struct {
	// Channel is the name of the channel, such as "slack". A delivery's id is its own in it.
	Channel string
	// Agent and InstanceID are the address of the conversation, which begins if there is none.
	// An instance id has 1 to 512 bytes of UTF-8, and is neither "." nor "..".
	Agent, InstanceID string
	// DeliveryID is the platform's, the same whenever the delivery is sent. Empty is the digest of the body of the
	// webhook, for platforms that give none; several without an id in one request differ by their order.
	DeliveryID string
	// Text is what the user writes, or the body of the signal.
	Text string
	// SignalType makes it a signal, with these attributes and this name of its element, which
	// may both be left out.
	SignalType string
	Attributes map[string]string
	TagName    string
	// Notify is the target of the outbox that brings the reply back, such as one of [Replies]. Empty is
	// none but those of the agent.
	Notify string
	// ReplyAddress is where the reply goes, of 1 to 1024 bytes of UTF-8: what InstanceID of the platform's package makes
	// of the message. Empty is the place that InstanceID names, so a conversation of another name, or of several chats,
	// needs it. A message that the agent dispatches to its conversation while it works on the delivery has the same.
	ReplyAddress string
	// InitialData is what the agent is handed if the delivery begins the conversation: any value
	// with JSON. Nil is none.
	InitialData any
}

// Key is the key of the admission: the channel's name and the delivery's id, or the hash of
// them if they are long.
func (d *Delivery) Key() string {
	key := "channel:" + d.Channel + ":" + d.DeliveryID
	if utf8.ValidString(key) && utf8.RuneCountInString(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "channel-sha256:" + hex.EncodeToString(sum[:])
}

// Deliver admits a delivery to a conversation, and returns when that is durable. It is called
// by the callback of a channel, with its context.
//
// A delivery that is known by its id, from the last [KeepDeliveries] at least, is not admitted
// again: the receipt is that of the first, deduplicated, also where its content is another, since
// platforms count attempts in it. Such an id holds within one conversation.
//
// An error is a [*conversation.Error]. Half a second before the platform's deadline, if the
// channel knows one, it is runtime_unavailable at the latest, which a channel answers with 503:
// the platform sends again, and is admitted once.
func Deliver(ctx context.Context, to conversation.Dispatcher, d Delivery) (conversation.Receipt, error) {
	arrived, _ := ctx.Value(arrivalKey{}).(*arrival)
	if arrived == nil {
		arrived = &arrival{}
	}
	if d.DeliveryID == "" {
		d.DeliveryID = arrived.nameless()
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
		// Its key is the platform's business, and no caller's.
		return receipt, conversation.Unavailable(againIn, err)
	default:
		note(ctx, ResultRefused, "")
	}
	return receipt, err
}

// first is the receipt of the delivery that came before, as far as a conflict tells.
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

// admission checks what no conversation would.
func (d *Delivery) admission() (conversation.Admission, error) {
	invalid := func(text string) (conversation.Admission, error) {
		return conversation.Admission{}, conversation.Errorf(conversation.CodeInvalidRequest, "%s", text)
	}
	switch {
	case d.Channel == "" || len(d.Channel) > conversation.MaxTarget || !utf8.ValidString(d.Channel):
		return invalid("A delivery needs the name of its channel, of 1 to 1024 bytes of UTF-8.")
	case d.DeliveryID == "":
		return invalid("A delivery that no webhook brings needs an id: without one it would be admitted whenever it is sent.")
	case d.Agent == "":
		return invalid("A delivery names the agent it is for.")
	case d.InstanceID == "" || len(d.InstanceID) > maxInstanceID || !utf8.ValidString(d.InstanceID):
		return invalid("The instance id of a delivery has 1 to 512 bytes of UTF-8.")
	case isDots(d.InstanceID):
		return invalid("The instance id of a delivery must not be \".\" or \"..\": URL libraries remove such a segment from an address. Use FitID.")
	case len(d.ReplyAddress) > conversation.MaxTarget || !utf8.ValidString(d.ReplyAddress):
		return invalid("The reply address of a delivery has 1 to 1024 bytes of UTF-8.")
	case d.SignalType == "" && (len(d.Attributes) > 0 || d.TagName != ""):
		return invalid("Attributes and the name of a tag belong to signals: give the delivery a signal type.")
	case d.TagName != "" && !conversation.ValidTagName(d.TagName):
		return invalid("The name of a signal's tag must match ^[A-Za-z_][A-Za-z0-9_.-]*$.")
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
		e := conversation.Errorf(conversation.CodeInvalidRequest, "The initial data of a delivery have no JSON.")
		e.Err = err
		return a, e
	}
	a.InitialData = data
	return a, nil
}
