package conversation

import (
	"encoding/json"
	"slices"
	"strings"
)

// NamedData is the value of a data part.
type NamedData struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data"`
}

// Reply returns what the agent answered to a submission and how that ended: nil if
// the agent said nothing, and nil while the submission is not settled. Both are the
// snapshot's own. Attached history is not looked at; a decoded snapshot has none.
func (s *Snapshot) Reply(id SubmissionID) (*Message, *Settlement) {
	var reply *Message
	for i := range s.Messages {
		if m := &s.Messages[i]; m.Role == RoleAssistant && m.SubmissionID == id {
			reply = m
		}
	}
	for i := range s.Settlements {
		if s.Settlements[i].SubmissionID == id {
			return reply, &s.Settlements[i]
		}
	}
	return reply, nil
}

// Text returns what a message says: its text parts joined by blank lines, without
// reasoning.
func (m *Message) Text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == PartTypeText && p.Text != nil {
			texts = append(texts, *p.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// Output returns what the model gave by [FinishTool] last, nil if nothing. It is the message's own.
func (m *Message) Output() json.RawMessage {
	for _, p := range slices.Backward(m.Parts) {
		if p.Type == PartTypeTool && p.ToolName == FinishTool && p.ErrorText == nil && p.Output != nil {
			return p.Output
		}
	}
	return nil
}

// Data returns the values of the data parts in their order. The values are the
// message's own.
func (m *Message) Data() []NamedData {
	var out []NamedData
	for _, p := range m.Parts {
		if name, ok := strings.CutPrefix(p.Type, DataPrefix); ok {
			out = append(out, NamedData{name, p.Data})
		}
	}
	return out
}
