package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Reply is what an agent answered to a message. What it has of the message is shared with it, and
// not to be changed.
type Reply struct {
	Submission SubmissionID
	// Text is what it said, its text parts joined by blank lines, without reasoning.
	Text string
	// Output is what the agent's model gave in the form that the agent asks for, as JSON; nil of
	// an agent that answers with text.
	Output json.RawMessage
	// Data has the values of its data parts by name, in the order they were written.
	Data map[string][]json.RawMessage
	// Metadata is what the agent's author put onto the message; nil if nothing.
	Metadata json.RawMessage
	// Message is the whole of it; nil if the agent said nothing, and of a reply to a question of
	// another conversation, which has its text and output alone.
	Message *Message
	// Cut says of such a reply that it is longer: Text is its beginning, and there is no Output.
	Cut bool
}

// ReplyOf returns the reply to a submission that is in a message, nil for none.
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

// Outcomes of a settlement that are not a reply; see [SettledError].
var (
	ErrFailed  = errors.New("the submission failed")
	ErrAborted = errors.New("the submission was aborted")
)

// SettledError says that a submission was settled otherwise than completed. errors.Is finds
// [ErrFailed] or [ErrAborted] in it.
type SettledError struct {
	Submission SubmissionID
	Outcome    Outcome
	// Err is the caller-safe reason. It is never nil, but may be empty.
	Err *SettlementError
}

// AsError returns what was not completed as a *SettledError, and nil if it was.
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

// Error implements error. Its text may be shown to callers.
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

// Is implements the errors.Is of ErrFailed and ErrAborted.
func (e *SettledError) Is(target error) bool {
	switch e.Outcome {
	case OutcomeFailed:
		return target == ErrFailed
	case OutcomeAborted:
		return target == ErrAborted
	}
	return false
}
