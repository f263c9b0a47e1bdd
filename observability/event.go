package observability

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/parleyrun/parley/conversation"
)

// Version is the version of the event format, v in every event.
const Version = 3

// LiveSeq is the Seq of events that stand in no batch.
const LiveSeq = -1

// Type names a kind of event.
type Type string

// The 30 types.
const (
	TypeSubmissionQueued   Type = "submission_queued"
	TypeSubmissionRunning  Type = "submission_running"
	TypeSubmissionRecovery Type = "submission_recovery"
	TypeSubmissionSettled  Type = "submission_settled"
	TypeOperationStart     Type = "operation_start"
	TypeOperation          Type = "operation"
	TypeAgentStart         Type = "agent_start"
	TypeAgentEnd           Type = "agent_end"
	TypeIdle               Type = "idle"
	TypeTurnStart          Type = "turn_start"
	TypeTurnRequest        Type = "turn_request"
	TypeTurn               Type = "turn"
	TypeTurnMessages       Type = "turn_messages"
	TypeMessageStart       Type = "message_start"
	TypeMessageEnd         Type = "message_end"
	TypeTextDelta          Type = "text_delta"
	TypeThinkingStart      Type = "thinking_start"
	TypeThinkingDelta      Type = "thinking_delta"
	TypeThinkingEnd        Type = "thinking_end"
	TypeToolcallDelta      Type = "toolcall_delta"
	TypeToolStart          Type = "tool_start"
	TypeTool               Type = "tool"
	TypeWaitStart          Type = "wait_start"
	TypeWait               Type = "wait"
	TypePost               Type = "post"
	TypeTaskStart          Type = "task_start"
	TypeTask               Type = "task"
	TypeCompactionStart    Type = "compaction_start"
	TypeCompaction         Type = "compaction"
	TypeLog                Type = "log"
)

// Envelope is what every event has, whatever its type: an identity, a place in an
// order, a moment, and the ids that tell what it belongs to. Ids that do not apply are
// empty.
type Envelope struct {
	// Version is always [Version].
	Version int `json:"v"`
	// ID is unique. That of a durable event is "conversation key/batch/index" and the
	// same whenever and wherever the event is made again.
	ID string `json:"eventId"`
	// Index orders the events of one batch, from 0, and the live events of one node.
	Index int64 `json:"eventIndex"`
	// Seq is the number of the batch that a durable event is made of, [LiveSeq] for a
	// live event. Durable events of a conversation are in order of Seq and Index.
	Seq int64 `json:"seq"`
	// At is when it happened, in milliseconds.
	At   conversation.Time `json:"timestamp"`
	Type Type              `json:"type"`

	// Agent is the registered agent, Instance the id that its caller chose.
	Agent        string                      `json:"agentName,omitempty"`
	Instance     string                      `json:"instanceId,omitempty"`
	Submission   conversation.SubmissionID   `json:"submissionId,omitempty"`
	Conversation conversation.ConversationID `json:"conversationId,omitempty"`
	// Session is SessionDefault, or "task:<task id>" within a subagent's work, whose
	// Task and ParentSession are set then.
	Session       string              `json:"session,omitempty"`
	ParentSession string              `json:"parentSession,omitempty"`
	Task          string              `json:"taskId,omitempty"`
	Harness       string              `json:"harness,omitempty"`
	Operation     string              `json:"operationId,omitempty"`
	Turn          conversation.TurnID `json:"turnId,omitempty"`
}

// SessionDefault is the session of a conversation itself, HarnessDefault the harness of
// every event that has a session.
const (
	SessionDefault = "default"
	HarnessDefault = "default"
)

// Live reports whether the event is best effort and cannot be made again.
func (e *Envelope) Live() bool { return e.Seq == LiveSeq }

// Event is one observation: the envelope and what is particular to its type. Both are
// read-only once it was given to anybody.
type Event struct {
	Envelope
	Payload Payload
}

// Payload is what is particular to a type of event. The payloads of this package are
// the only ones.
type Payload interface {
	// EventType returns the type of the events that have it.
	EventType() Type
}

// UnknownTypeError says that an event has a type that this version does not know.
type UnknownTypeError struct{ Type Type }

// Error implements error.
func (e *UnknownTypeError) Error() string { return fmt.Sprintf("event type %q is not known", e.Type) }

// MarshalJSON implements [json.Marshaler]: one flat object, the envelope first.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends the JSON form of the event, on one line, to dst.
func (e Event) AppendJSON(dst []byte) ([]byte, error) {
	if e.Payload == nil {
		return dst, fmt.Errorf("encode event %s: it has no payload", e.ID)
	}
	if own := e.Payload.EventType(); own != e.Type {
		return dst, fmt.Errorf("encode event %s: type %q has the payload of %q", e.ID, e.Type, own)
	}
	line, err := conversation.AppendJSON(dst, &e.Envelope)
	if err != nil {
		return dst, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	end := len(line)
	if line, err = AppendPayload(line, e.Payload); err != nil {
		return dst, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	if len(line) == end+len("{}") {
		return line[:end], nil
	}
	// One object of both: ...} {... becomes ..., ...
	line[end-1] = ','
	return append(line[:end], line[end+1:]...), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. Fields that it does not know are
// ignored; another version is an error, another type an [*UnknownTypeError].
func (e *Event) UnmarshalJSON(data []byte) error {
	var env Envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	if env.Version != Version {
		return fmt.Errorf("decode event: version %d, supported is %d", env.Version, Version)
	}
	payload, err := DecodePayload(env.Type, data)
	if err != nil {
		return err
	}
	e.Envelope, e.Payload = env, payload
	return nil
}

// DecodePayload reads the payload of a type from its JSON object, which may have more
// fields. The error is an [*UnknownTypeError] for a type that is not known.
func DecodePayload(t Type, data []byte) (Payload, error) {
	known, ok := payloads()[t]
	if !ok {
		return nil, &UnknownTypeError{t}
	}
	p := reflect.New(reflect.TypeOf(known).Elem()).Interface().(Payload)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("decode event of type %s: %w", t, err)
	}
	return p, nil
}

// AppendPayload appends the JSON object of a payload alone to dst, which it returns
// unchanged beside an error.
func AppendPayload(dst []byte, p Payload) ([]byte, error) { return conversation.AppendJSON(dst, p) }
