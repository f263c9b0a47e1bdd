package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/parleyrun/parley/agent/internal/seam"

	"github.com/parleyrun/parley/conversation"
)

// Limits of a dispatch.
const (
	maxIdempotencyKey = 256 // characters
	maxConversationID = 512 // bytes
)

// ErrNoDispatcher is returned by [Dispatch] for a context that is not that of a tool or a hook.
var ErrNoDispatcher = errors.New("no dispatcher in the context: use the context of a tool or a hook")

// ErrDispatchLimit is matched by every [*DispatchLimitError].
var ErrDispatchLimit = errors.New("dispatch limit exceeded")

// ErrTreeAborted reports that the tree of dispatches to which the work belongs was aborted. Nothing was sent.
var ErrTreeAborted = errors.New("dispatch refused: its tree was aborted")

// DispatchLimitError names the field of the sending agent's [Limits] that refused a message. Nothing
// was sent.
type DispatchLimitError struct {
	Agent  string
	Option string // a field of Limits
	Limit  float64
}

// Error implements error.
func (e *DispatchLimitError) Error() string {
	sender := fmt.Sprintf("agent %q", e.Agent)
	if workflow, ok := conversation.WorkflowOf(e.Agent); ok {
		sender = fmt.Sprintf("workflow %q", workflow)
	}
	return fmt.Sprintf("dispatch limit exceeded: Limits.%s of %s is %v; raise it if the dispatches are intended", e.Option, sender, e.Limit)
}

// Is makes the error match [ErrDispatchLimit].
func (e *DispatchLimitError) Is(target error) bool { return target == ErrDispatchLimit }

// Message is a delivery to a conversation with its conditions.
type Message struct {
	// Delivery is the content. An empty Kind means a user's message. Attachments cannot be dispatched,
	// because their bytes belong to one conversation.
	Delivery conversation.Delivery

	// InitialData is for a conversation that this message creates; nil means none.
	InitialData json.RawMessage

	// IfAbsent requires that the conversation does not exist yet. IfUID, unless it is empty, requires
	// this incarnation. At most one of them is set.
	IfAbsent bool
	IfUID    conversation.UID

	// Key is the idempotency key: a conversation admits one message per key and answers repetitions
	// with the receipt of the first. It has up to 256 characters; empty means a key of [Dispatch].
	Key string

	// Notify is a target that receives the settlement, like those of [Agent.Notify]; empty for none.
	Notify string
}

// Text returns a user's message with that text.
func Text(body string) Message {
	return Message{Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body}}
}

// Dispatch sends a message to a conversation of any agent of the program, including its own, whose
// address is in [Call] and [Turn]. When Dispatch returns, the message is durable and will reach
// exactly one settlement, also over crashes. Dispatch does not wait for it: a message to the own
// conversation is worked on after the current submission.
//
// Without a Key, the key consists of the id of the tool call, the step if there is one, and a number.
// The number counts the messages sent to that conversation before. A durable call that runs again
// after a crash therefore sends no message twice. If it sends another message in its place, it gets a
// [*conversation.Error] with code submission_conflict. Concurrent messages to one conversation have no
// order, and a repetition after an error counts as another message, so both need keys of their own. In
// a hook, submission and hook replace the call. Outside both, such as in a test without a call, the
// key is random.
//
// The [Limits] of the agent bound the messages of a submission and the number of unsettled submissions
// above a message.
//
// The error is [ErrNoDispatcher], a [*DispatchLimitError], a [*conversation.Error], or the runtime's;
// after one of the last two the message may have been admitted.
func Dispatch(ctx context.Context, to conversation.Address, m Message) (conversation.Receipt, error) {
	d, ok := ctx.Value(seam.Dispatcher{}).(dispatcher)
	err := error(ErrNoDispatcher)
	var a conversation.Admission
	if ok {
		a, err = m.Admission(to)
	}
	var receipt conversation.Receipt
	if err == nil {
		if a.Key == "" {
			a.Key = nextKey(ctx, to)
		}
		receipt, err = d.Admit(ctx, a)
	}
	if err != nil {
		return conversation.Receipt{}, fmt.Errorf("dispatch to %s/%s: %w", to.Agent, shorten(to.ID), err)
	}
	return receipt, nil
}

// Admission returns the runtime's request for the message, under the message's own key, which may be
// empty. The error is a [*conversation.Error] with code invalid_request. [Dispatch] and the runtime
// call it.
func (m Message) Admission(to conversation.Address) (conversation.Admission, error) {
	if m.Delivery.Kind == "" {
		m.Delivery.Kind = conversation.KindUser
	}
	if err := m.check(to); err != nil {
		return conversation.Admission{}, err
	}
	return conversation.Admission{
		Address: to, Delivery: m.Delivery, InitialData: m.InitialData, Key: m.Key,
		Condition: conversation.Condition{Absent: m.IfAbsent, Set: m.IfUID != "", UID: m.IfUID}, Notify: m.Notify,
	}, nil
}

// check validates a message by the rules for callers from outside.
func (m *Message) check(to conversation.Address) error {
	invalid := func(format string, args ...any) error {
		return conversation.Errorf(conversation.CodeInvalidRequest, format, args...)
	}
	d := m.Delivery
	signal := d.Kind == conversation.KindSignal
	switch {
	case to.Agent == "" || to.ID == "" || len(to.ID) > maxConversationID || !utf8.ValidString(to.ID):
		return invalid("An address needs an agent and an id of at most %d bytes.", maxConversationID)
	case !signal && d.Kind != conversation.KindUser:
		return invalid("The kind %.40q is unknown.", d.Kind)
	case len(d.Attachments) > 0:
		return invalid("Attachments cannot be dispatched.")
	case len(d.Body) > conversation.MaxPayloadBytes:
		return invalid("The body is longer than the limit of %d bytes.", conversation.MaxPayloadBytes)
	case signal && d.Type == "":
		return invalid("A signal needs a type.")
	case !signal && (d.Type != "" || d.TagName != "" || len(d.Attributes) > 0):
		return invalid("Type, tag name and attributes are a signal's, and the kind is %q.", d.Kind)
	case d.TagName != "" && !conversation.ValidTagName(d.TagName):
		return invalid("The tag name %.40q cannot be one.", d.TagName)
	case m.IfAbsent && m.IfUID != "":
		return invalid("IfAbsent and IfUID contradict each other.")
	case m.IfUID != "" && m.InitialData != nil:
		return invalid("A uid and initial data contradict each other: initial data are for a conversation that is to be created.")
	case len(m.Notify) > conversation.MaxTarget:
		return invalid("The target of a notice has more than %d bytes.", conversation.MaxTarget)
	case utf8.RuneCountInString(m.Key) > maxIdempotencyKey:
		return invalid("The idempotency key has more than %d characters.", maxIdempotencyKey)
	}
	if m.InitialData != nil {
		if err := conversation.CheckPayload(m.InitialData); err != nil {
			return invalid("The initial data %v.", err)
		}
	}
	return nil
}

// dispatcher is agenthost.Dispatcher.
type dispatcher interface {
	Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error)
}

// withStepOrigin gives a step its own count, because a later run of the call may skip the step.
func withStepOrigin(ctx context.Context, step string) context.Context {
	var name, within string
	if outer := seam.OriginFrom(ctx); outer != nil && outer.Name != "" {
		digest := sha256.Sum256([]byte(step)) // a key is shorter than a name
		name, within = outer.Name, "/"+hex.EncodeToString(digest[:8])
	}
	return seam.WithOrigin(ctx, name, within)
}

// nextKey returns the idempotency key of the next message to a conversation.
func nextKey(ctx context.Context, to conversation.Address) string {
	o := seam.OriginFrom(ctx)
	if o == nil || o.Name == "" {
		return rand.Text()
	}
	return fmt.Sprintf("%s%s/%d", o.Name, o.Step, o.Next(to))
}
