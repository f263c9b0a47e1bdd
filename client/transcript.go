package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Transcript is a client's copy of a conversation: a snapshot, to which chunks are applied. One
// goroutine owns it.
//
// Invariant: if it began with a snapshot, or at the start, and got every update since, it equals the
// snapshot of its offset.
type Transcript struct {
	id          conversation.ConversationID
	offset      conversation.Offset
	last        conversation.Position // position of the last applied chunk
	messages    []*message
	byID        map[conversation.MessageID]*message
	settlements []conversation.Settlement
}

// message is a message whose parts are under construction.
type message struct {
	view  conversation.Message // Parts and Metadata are unused
	parts []*part
	meta  map[string]any  // nil if there is none
	raw   json.RawMessage // encoded meta; nil if outdated
}

// part is a part whose text grows without copying.
type part struct {
	view conversation.Part // Text is unused
	text *strings.Builder  // of text and reasoning only
}

// NewTranscript returns a transcript of a snapshot, which the caller still owns. Nil is the empty
// snapshot at conversation.Start. An empty transcript with the updates from a later offset is partial:
// it ignores chunks about unknown messages, and has at most the later steps of a response in progress.
func NewTranscript(s *conversation.Snapshot) (*Transcript, error) {
	t := &Transcript{offset: conversation.Start, last: endOf(conversation.Start)}
	if s == nil {
		t.byID = map[conversation.MessageID]*message{}
		return t, nil
	}
	if err := t.replace(s); err != nil {
		return nil, fmt.Errorf("make transcript: %w", err)
	}
	t.offset, t.last = s.Offset, endOf(s.Offset)
	return t, nil
}

// Offset returns the transcript's offset.
func (t *Transcript) Offset() conversation.Offset { return t.offset }

// Apply applies an update. Known chunks are skipped, so updates may overlap. After an error, which
// only a chunk outside the protocol causes, the transcript must not be used any more.
func (t *Transcript) Apply(u Update) error {
	for i := range u.Chunks {
		c := &u.Chunks[i]
		if c.Position.Compare(t.last) <= 0 {
			continue
		}
		if err := t.apply(c); err != nil {
			return fmt.Errorf("apply chunk %s at %v: %w", c.Type, c.Position.Batch, err)
		}
		t.last, t.id = c.Position, c.ConversationID
	}
	t.offset = max(t.offset, u.Next)
	return nil
}

// Snapshot returns the current conversation. Later updates do not change it, and shared parts must not
// be changed. Its cost grows with the number of messages, not with their length.
func (t *Transcript) Snapshot() *conversation.Snapshot {
	s := &conversation.Snapshot{
		V: conversation.SnapshotVersion, ConversationID: t.id, Offset: t.offset,
		Messages:    make([]conversation.Message, 0, len(t.messages)),
		Settlements: append([]conversation.Settlement{}, t.settlements...),
	}
	for _, m := range t.messages {
		s.Messages = append(s.Messages, m.snapshot())
	}
	return s
}

func (m *message) snapshot() conversation.Message {
	v := m.view
	v.Parts = make([]conversation.Part, 0, len(m.parts))
	for _, p := range m.parts {
		pv := p.view
		if p.text != nil {
			text := p.text.String()
			pv.Text = &text
		}
		v.Parts = append(v.Parts, pv)
	}
	if m.meta != nil && m.raw == nil {
		// Values decoded from JSON always encode.
		m.raw, _ = conversation.EncodeJSON(m.meta)
	}
	v.Metadata = m.raw
	return v
}

// settlement returns the outcome of a submission, or nil.
func (t *Transcript) settlement(id conversation.SubmissionID) *conversation.Settlement {
	for i := len(t.settlements) - 1; i >= 0; i-- {
		if t.settlements[i].SubmissionID == id {
			return &t.settlements[i]
		}
	}
	return nil
}

// response returns the agent's message of a submission, or nil.
func (t *Transcript) response(id conversation.SubmissionID) *message {
	for _, m := range slices.Backward(t.messages) {
		if m.view.Role == conversation.RoleAssistant && m.view.SubmissionID == id {
			return m
		}
	}
	return nil
}

func (t *Transcript) apply(c *conversation.Chunk) error {
	switch c.Type {
	case conversation.ChunkReset:
		if c.Snapshot == nil {
			return fmt.Errorf("it has no snapshot")
		}
		return t.replace(c.Snapshot)
	case conversation.ChunkAppended:
		if c.Message == nil {
			return fmt.Errorf("it has no message")
		}
		return t.add(c.Message)
	case conversation.ChunkStarted:
		if t.byID[c.MessageID] != nil {
			return nil // another step of it
		}
		return t.add(&conversation.Message{
			ID: c.MessageID, Role: conversation.RoleAssistant, Purpose: conversation.PurposeAssistant,
			Display: conversation.DisplayVisible, SubmissionID: c.SubmissionID, TurnID: c.TurnID, Metadata: c.Metadata,
		})
	case conversation.ChunkSettled:
		t.settlements = append(t.settlements, conversation.Settlement{SubmissionID: c.SubmissionID, Outcome: c.Outcome, Error: c.Error})
		return nil
	case conversation.ChunkToolOutput, conversation.ChunkToolOutputError:
		t.output(c)
		return nil
	case conversation.ChunkMetadata, conversation.ChunkDataPart, conversation.ChunkDelta,
		conversation.ChunkToolInput, conversation.ChunkCompleted:
		if m := t.byID[c.MessageID]; m != nil {
			return m.change(c)
		}
		return nil
	}
	return fmt.Errorf("the type is unknown")
}

// replace replaces everything but the offset by a snapshot.
func (t *Transcript) replace(s *conversation.Snapshot) error {
	t.id = s.ConversationID
	t.messages, t.byID = nil, make(map[conversation.MessageID]*message, len(s.Messages))
	t.settlements = slices.Clone(s.Settlements)
	for i := range s.Messages {
		if err := t.add(&s.Messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// add appends a message, or replaces the one of its id.
func (t *Transcript) add(v *conversation.Message) error {
	m := &message{view: *v}
	m.view.Parts, m.view.Metadata = nil, nil
	for _, p := range v.Parts {
		made := &part{view: p}
		if p.Text != nil {
			made.text, made.view.Text = &strings.Builder{}, nil
			made.text.WriteString(*p.Text)
		}
		m.parts = append(m.parts, made)
	}
	if err := m.merge(v.Metadata); err != nil {
		return err
	}
	if old := t.byID[v.ID]; old != nil {
		*old = *m
		return nil
	}
	t.byID[v.ID] = m
	t.messages = append(t.messages, m)
	return nil
}

// output completes a call, the last one of its id.
func (t *Transcript) output(c *conversation.Chunk) {
	for _, m := range slices.Backward(t.messages) {
		for _, p := range m.parts {
			if p.view.Type != conversation.PartTypeTool || p.view.ToolCallID != c.ToolCallID {
				continue
			}
			p.view.DurationMs = c.DurationMs
			if c.Type == conversation.ChunkToolOutput {
				p.view.State, p.view.Output, p.view.ErrorText = conversation.StateOutputAvailable, c.Output, nil
			} else {
				p.view.State, p.view.Output, p.view.ErrorText = conversation.StateOutputError, nil, c.ErrorText
			}
			return
		}
	}
}

// change applies a chunk that is about this message.
func (m *message) change(c *conversation.Chunk) error {
	switch c.Type {
	case conversation.ChunkMetadata:
		return m.merge(c.Metadata)
	case conversation.ChunkDataPart:
		view := conversation.Part{Type: conversation.DataPrefix + c.Name, Data: c.Data}
		if i := slices.IndexFunc(m.parts, func(p *part) bool { return p.view.Type == view.Type }); i >= 0 {
			m.parts[i].view = view
			return nil
		}
		m.parts = append(m.parts, &part{view: view})
	case conversation.ChunkDelta:
		if open := m.open(); open == nil || open.view.Type != string(c.Kind) {
			m.closeLast()
			m.parts = append(m.parts, &part{
				view: conversation.Part{Type: string(c.Kind), State: conversation.StateStreaming}, text: &strings.Builder{},
			})
		}
		m.open().text.WriteString(c.Delta)
	case conversation.ChunkToolInput:
		m.closeLast()
		m.parts = append(m.parts, &part{view: conversation.Part{
			Type: conversation.PartTypeTool, State: conversation.StateInputAvailable,
			ToolName: c.ToolName, ToolCallID: c.ToolCallID, Input: c.Input,
		}})
	case conversation.ChunkCompleted:
		for _, p := range m.parts {
			if p.text != nil {
				p.view.State = conversation.StateDone
			}
		}
	}
	return nil
}

// open returns the last part if it is streamed text.
func (m *message) open() *part {
	if len(m.parts) == 0 {
		return nil
	}
	if p := m.parts[len(m.parts)-1]; p.text != nil && p.view.State == conversation.StateStreaming {
		return p
	}
	return nil
}

func (m *message) closeLast() {
	if p := m.open(); p != nil {
		p.view.State = conversation.StateDone
	}
}

// merge merges metadata deeply onto the message's.
func (m *message) merge(raw json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var add map[string]any
	if len(raw) > 0 {
		if err := dec.Decode(&add); err != nil {
			return fmt.Errorf("decode metadata: %w", err)
		}
	}
	if add != nil {
		m.meta, m.raw = mergeObjects(m.meta, add), nil
	}
	return nil
}

// mergeObjects merges src deeply onto dst and returns dst. Keys with a meaning to JavaScript's objects
// are dropped, as all clients do.
func mergeObjects(dst, src map[string]any) map[string]any {
	if dst == nil {
		dst = map[string]any{}
	}
	for k, v := range src {
		switch k {
		case "__proto__", "constructor", "prototype":
			continue
		}
		if sub, ok := v.(map[string]any); ok {
			old, _ := dst[k].(map[string]any)
			v = mergeObjects(old, sub)
		}
		dst[k] = v
	}
	return dst
}
