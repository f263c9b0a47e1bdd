package machine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// client builds a conversation from chunks alone, as the protocol specifies.
type client struct{ doc conversation.Snapshot }

// checkChunks compares a client that starts at batch k (-1: from nothing) with the snapshots of every
// third later batch and of the last.
func checkChunks(log []entry, k int) error {
	var c client
	s := conversation.NewState()
	for n, e := range log {
		if err := s.Apply(e.batch); err != nil {
			return err
		}
		if !s.Exists() || n < k {
			continue
		}
		if n == k {
			if err := copyJSON(s.Snapshot(), &c.doc); err != nil {
				return err
			}
			continue
		}
		chunks, err := conversation.Project(s.Created().ConversationID, e.batch, func() (*conversation.Snapshot, error) { return s.Snapshot(), nil })
		if err != nil {
			return err
		}
		for _, chunk := range chunks {
			if err := c.apply(chunk); err != nil {
				return fmt.Errorf("batch %d: %w", n, err)
			}
		}
		c.doc.Offset = e.batch.Offset
		if n != len(log)-1 && n%3 != 0 {
			continue
		}
		got, err := conversation.EncodeJSON(c.doc)
		if err != nil {
			return err
		}
		want, err := conversation.EncodeJSON(s.Snapshot())
		if err != nil {
			return err
		}
		if string(got) != string(want) {
			return fmt.Errorf("from %d, batch %d: client holds\n%s\nsnapshot is\n%s", k, n, got, want)
		}
		if err := checkWaitParts(s, c.doc.Messages); err != nil {
			return fmt.Errorf("batch %d: %w", n, err)
		}
	}
	return nil
}

// checkWaitParts checks that a call has one data part for its waits, open as long as a wait is.
func checkWaitParts(s *conversation.State, messages []conversation.Message) error {
	seen := map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			call, ok := strings.CutPrefix(p.Type, conversation.DataPrefix+"wait-")
			if !ok {
				continue
			}
			var shown struct{ State string }
			if err := json.Unmarshal(p.Data, &shown); err != nil {
				return err
			}
			if open := s.Waits(conversation.CallID(call)); seen[p.Type] || (shown.State == "waiting") != open {
				return fmt.Errorf("part %s shows the state %q (duplicate: %v), open wait of the call: %v", p.Type, shown.State, seen[p.Type], open)
			}
			seen[p.Type] = true
		}
	}
	return nil
}

func copyJSON(from, to any) error {
	b, err := conversation.EncodeJSON(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

func (c *client) apply(chunk conversation.Chunk) error {
	switch chunk.Type {
	case conversation.ChunkReset:
		c.doc = conversation.Snapshot{}
		return copyJSON(chunk.Snapshot, &c.doc)
	case conversation.ChunkAppended:
		c.doc.Messages = append(c.doc.Messages, *chunk.Message)
	case conversation.ChunkSettled:
		c.doc.Settlements = append(c.doc.Settlements, conversation.Settlement{
			SubmissionID: chunk.SubmissionID, Outcome: chunk.Outcome, Error: chunk.Error,
		})
	case conversation.ChunkStarted:
		if c.message(chunk.MessageID) == nil {
			c.doc.Messages = append(c.doc.Messages, conversation.Message{
				ID: chunk.MessageID, Role: conversation.RoleAssistant, Purpose: conversation.PurposeAssistant,
				Display: conversation.DisplayVisible, SubmissionID: chunk.SubmissionID, TurnID: chunk.TurnID,
				Parts: []conversation.Part{},
			})
		}
	case conversation.ChunkToolOutput, conversation.ChunkToolOutputError:
		return c.output(chunk)
	default:
		m := c.message(chunk.MessageID)
		if m == nil {
			return fmt.Errorf("%s: unknown message %s", chunk.Type, chunk.MessageID)
		}
		return change(m, chunk)
	}
	return nil
}

func (c *client) message(id conversation.MessageID) *conversation.Message {
	for i := range c.doc.Messages {
		if c.doc.Messages[i].ID == id {
			return &c.doc.Messages[i]
		}
	}
	return nil
}

func change(m *conversation.Message, chunk conversation.Chunk) error {
	var last *conversation.Part
	if n := len(m.Parts); n > 0 && m.Parts[n-1].State == conversation.StateStreaming {
		last = &m.Parts[n-1]
	}
	switch chunk.Type {
	case conversation.ChunkDelta:
		if last != nil && last.Type == string(chunk.Kind) {
			text := *last.Text + chunk.Delta
			last.Text = &text
			return nil
		}
		closePart(last)
		m.Parts = append(m.Parts, conversation.Part{
			Type: string(chunk.Kind), Text: &chunk.Delta, State: conversation.StateStreaming,
		})
	case conversation.ChunkToolInput:
		closePart(last)
		m.Parts = append(m.Parts, conversation.Part{
			Type: conversation.PartTypeTool, ToolName: chunk.ToolName, ToolCallID: chunk.ToolCallID, Input: chunk.Input,
			State: conversation.StateInputAvailable,
		})
	case conversation.ChunkCompleted:
		closePart(last)
	case conversation.ChunkDataPart:
		part := conversation.Part{Type: conversation.DataPrefix + chunk.Name, Data: chunk.Data}
		if i := slices.IndexFunc(m.Parts, func(p conversation.Part) bool { return p.Type == part.Type }); i >= 0 {
			m.Parts[i] = part
			return nil
		}
		m.Parts = append(m.Parts, part)
	case conversation.ChunkMetadata:
		if len(m.Metadata) > 0 {
			return fmt.Errorf("response %s has metadata already", m.ID)
		}
		return json.Unmarshal(chunk.Metadata, &m.Metadata)
	default:
		return fmt.Errorf("unexpected chunk %s", chunk.Type)
	}
	return nil
}

func closePart(p *conversation.Part) {
	if p != nil {
		p.State = conversation.StateDone
	}
}

func (c *client) output(chunk conversation.Chunk) error {
	for i := range c.doc.Messages {
		for j := range c.doc.Messages[i].Parts {
			p := &c.doc.Messages[i].Parts[j]
			if p.ToolCallID != chunk.ToolCallID {
				continue
			}
			if p.State != conversation.StateInputAvailable {
				return fmt.Errorf("call %s is %s", p.ToolCallID, p.State)
			}
			p.State, p.Output, p.ErrorText, p.DurationMs = conversation.StateOutputAvailable, chunk.Output, chunk.ErrorText, chunk.DurationMs
			if chunk.Type == conversation.ChunkToolOutputError {
				p.State = conversation.StateOutputError
			}
			return nil
		}
	}
	return fmt.Errorf("unknown call %s", chunk.ToolCallID)
}
