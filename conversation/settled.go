package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Reply is an agent's reply to a message. It shares memory with the message and must not be changed.
type Reply struct {
	Submission SubmissionID
	// Text is the text parts of the reply, joined by blank lines, without reasoning.
	Text string
	// Output is the agent's structured output as JSON; nil for an agent that replies with text.
	Output json.RawMessage
	// Data has the values of the data parts by name, in write order.
	Data map[string][]json.RawMessage
	// Metadata is set by the agent's author; nil for none.
	Metadata json.RawMessage
	// Message is the whole message. It is nil if the agent produced none, and for a reply to another
	// conversation, which has only text and output.
	Message *Message
	// Truncated is set if such a reply was too long: Text is truncated and Output is nil.
	Truncated bool
}

// ReplyOf returns the reply to a submission from a message, nil for none.
func ReplyOf(id SubmissionID, m *Message) *Reply {
	r := &Reply{Submission: id, Data: map[string][]json.RawMessage{}}
	if m == nil {
		return r
	}
	for _, d := range m.Data() {
		r.Data[d.Name] = append(r.Data[d.Name], d.Data)
	}
	r.Text, r.Output, r.Metadata, r.Message = m.Text(), m.Output(), m.Metadata, m
	return r
}

// Outcomes of a settlement without a reply; see [SettledError].
var (
	ErrFailed  = errors.New("the submission failed")
	ErrAborted = errors.New("the submission was aborted")
)

// SettledError is returned for a submission whose outcome is not completed. It matches [ErrFailed] or
// [ErrAborted] in errors.Is.
type SettledError struct {
	Submission SubmissionID
	Outcome    Outcome
	// Err is the caller-safe reason. It is never nil, but may be empty.
	Err *SettlementError
}

// AsError returns nil for a completed settlement, otherwise a *SettledError.
func (s *Settlement) AsError() error {
	if s.Outcome == OutcomeCompleted {
		return nil
	}
	e := &SettledError{Submission: s.SubmissionID, Outcome: s.Outcome, Err: s.Error}
	if e.Err == nil {
		e.Err = &SettlementError{}
	}
	return e
}

// Error implements error. The text is caller-safe.
func (e *SettledError) Error() string {
	s := fmt.Sprintf("submission %s: %s", e.Submission, e.Outcome)
	if e.Err.Type != "" {
		s += ": " + string(e.Err.Type)
	}
	if e.Err.Message != "" {
		s += ": " + e.Err.Message
	}
	return s
}

// Is reports whether the error matches ErrFailed or ErrAborted.
func (e *SettledError) Is(target error) bool {
	switch e.Outcome {
	case OutcomeFailed:
		return target == ErrFailed
	case OutcomeAborted:
		return target == ErrAborted
	}
	return false
}
