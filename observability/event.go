package observability

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/parleyrun/parley/conversation"
)

// Version is the version of the event format, v in every event.
const Version = 3

// LiveSeq is the Seq of events that belong to no batch.
const LiveSeq = -1

// Type is the type of an event.
type Type string

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

// Envelope holds the fields common to all events: identity, order, time, and the ids of the objects
// concerned. Ids that do not apply are empty.
type Envelope struct {
	// Version is always [Version].
	Version int `json:"v"`
	// ID is unique. That of a durable event is "conversation key/batch/index" and the same whenever
	// the event is produced again.
	ID string `json:"eventId"`
	// Index orders the events of one batch, from 0, and the live events of one node.
	Index int64 `json:"eventIndex"`
	// Seq is the number of the batch of a durable event, [LiveSeq] for a live event. Durable events of
	// a conversation are ordered by Seq and Index.
	Seq int64 `json:"seq"`
	// At is the time of the event, in milliseconds.
	At   conversation.Time `json:"timestamp"`
	Type Type              `json:"type"`

	// Agent is the registered agent, Instance the id chosen by its caller.
	Agent        string                      `json:"agentName,omitempty"`
	Instance     string                      `json:"instanceId,omitempty"`
	Submission   conversation.SubmissionID   `json:"submissionId,omitempty"`
	Conversation conversation.ConversationID `json:"conversationId,omitempty"`
	// Session is SessionDefault, or "task:<task id>" within a subagent's work, for which Task and
	// ParentSession are set.
	Session       string              `json:"session,omitempty"`
	ParentSession string              `json:"parentSession,omitempty"`
	Task          string              `json:"taskId,omitempty"`
	Harness       string              `json:"harness,omitempty"`
	Operation     string              `json:"operationId,omitempty"`
	Turn          conversation.TurnID `json:"turnId,omitempty"`
}

// Session of a conversation itself, and harness of every event with a session.
const (
	SessionDefault = "default"
	HarnessDefault = "default"
)

// Live reports whether the event is best effort and cannot be produced again.
func (e *Envelope) Live() bool { return e.Seq == LiveSeq }

// Event is an envelope and the payload of its type. Both are read-only once shared.
type Event struct {
	Envelope
	Payload Payload
}

// Payload holds the fields of one type of event. Only this package defines payloads.
type Payload interface {
	// EventType returns the type of the events that have it.
	EventType() Type
}

// UnknownTypeError reports an event of a type that this version does not know.
type UnknownTypeError struct{ Type Type }

// Error implements error.
func (e *UnknownTypeError) Error() string { return fmt.Sprintf("unknown event type %q", e.Type) }

// MarshalJSON implements [json.Marshaler]: one flat object, the envelope first.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends the JSON form of the event, on one line, to dst.
func (e Event) AppendJSON(dst []byte) ([]byte, error) {
	if e.Payload == nil {
		return dst, fmt.Errorf("encode event %s: missing payload", e.ID)
	}
	if own := e.Payload.EventType(); own != e.Type {
		return dst, fmt.Errorf("encode event %s: type %q with payload of %q", e.ID, e.Type, own)
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
	// Join both objects: ...} {... becomes ..., ...
	line[end-1] = ','
	return append(line[:end], line[end+1:]...), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It ignores unknown fields. Another version is an error,
// another type an [*UnknownTypeError].
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

// DecodePayload decodes the payload of a type from its JSON object and ignores unknown fields. It
// returns an [*UnknownTypeError] for an unknown type.
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

// AppendPayload appends the JSON object of a payload alone to dst. After an error it returns dst
// unchanged.
func AppendPayload(dst []byte, p Payload) ([]byte, error) { return conversation.AppendJSON(dst, p) }
