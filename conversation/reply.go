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

// Reply returns the agent's message for a submission and its settlement. Both are nil while the
// submission is not settled; the message is nil if the agent produced none. Both point into the
// snapshot. Attached history is not searched; a decoded snapshot has none.
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

// Text returns the text parts of a message, joined by blank lines, without reasoning.
func (m *Message) Text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == PartTypeText && p.Text != nil {
			texts = append(texts, *p.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// Output returns the newest output given by [FinishTool], nil if there is none. It shares memory with
// the message.
func (m *Message) Output() json.RawMessage {
	for _, p := range slices.Backward(m.Parts) {
		if p.Type == PartTypeTool && p.ToolName == FinishTool && p.ErrorText == nil && p.Output != nil {
			return p.Output
		}
	}
	return nil
}

// Data returns the values of the data parts in order. The values share memory with the message.
func (m *Message) Data() []NamedData {
	var out []NamedData
	for _, p := range m.Parts {
		if name, ok := strings.CutPrefix(p.Type, DataPrefix); ok {
			out = append(out, NamedData{name, p.Data})
		}
	}
	return out
}
