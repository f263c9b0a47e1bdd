package conversation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// deliveredMessage returns the transcript message of an admission. Fold and projection both use it, so
// they agree.
func deliveredMessage(r *SubmissionAdmitted) *message {
	m := &message{view: Message{ID: r.Message, SubmissionID: r.Submission}}
	d := r.Delivery
	switch d.Kind {
	case KindSignal:
		m.view.Role, m.view.Purpose, m.view.Display = RoleSystem, PurposeDispatch, DisplayDiagnostic
		if d.TagName != "" || len(d.Attributes) > 0 {
			m.view.Signal = &Signal{TagName: d.TagName, Attributes: d.Attributes}
		}
	default:
		m.view.Role, m.view.Purpose, m.view.Display = RoleUser, PurposeUser, DisplayVisible
	}
	m.add(nil, &part{kind: PartTypeText, text: textBuffer{whole: d.Body}})
	for _, a := range d.Attachments {
		m.add(nil, &part{kind: PartTypeFile, file: a})
	}
	return m
}

func advisoryMessage(r *Advisory) *message {
	m := &message{view: Message{
		ID: r.Message, Role: RoleSystem, Purpose: PurposeAdvisory, Display: r.Display, SubmissionID: r.Submission,
	}}
	m.add(nil, &part{kind: PartTypeText, text: textBuffer{whole: r.Text}})
	return m
}

// Snapshot returns the materialized state. It shares nothing that a later Apply changes. History that
// was cut must be attached.
func (s *State) Snapshot() *Snapshot {
	s.whole()
	out := &Snapshot{
		History: s.pages,
		V:       SnapshotVersion, Offset: s.head,
		Messages:    make([]Message, 0, len(s.messages)),
		Settlements: append([]Settlement{}, s.settlements...),
	}
	if s.created != nil {
		out.ConversationID = s.created.ConversationID
	}
	for _, m := range s.messages {
		out.Messages = append(out.Messages, m.snapshot())
	}
	return out
}

func (m *message) snapshot() Message {
	v := m.view
	v.Left = m.left
	v.Parts = make([]Part, 0, len(m.parts))
	for _, p := range m.parts {
		switch n := len(v.Parts); {
		case p.hidden():
		case p.more && n > 0 && v.Parts[n-1].Type == p.kind:
			shown := p.snapshot()
			shown.Text = new(*v.Parts[n-1].Text + *shown.Text)
			v.Parts[n-1] = shown
		default:
			v.Parts = append(v.Parts, p.snapshot())
		}
	}
	if m.meta != nil {
		// encoding a value decoded from JSON cannot fail
		v.Metadata, _ = EncodeJSON(m.meta)
	}
	if v.Signal != nil {
		v.Signal = &Signal{TagName: v.Signal.TagName, Attributes: maps.Clone(v.Signal.Attributes)}
	}
	return v
}

func (p *part) snapshot() Part {
	switch p.kind {
	case PartTypeText, PartTypeReasoning:
		text, state := p.text.String(), StateDone
		if p.streaming {
			state = StateStreaming
		}
		return Part{Type: p.kind, Text: &text, State: state}
	case PartTypeFile:
		size := p.file.Size
		return Part{Type: PartTypeFile, MediaType: p.file.MimeType, ID: p.file.ID, Size: &size, Filename: p.file.Filename}
	case DataPrefix:
		return Part{Type: DataPrefix + p.name, Data: orNull(p.data)}
	}
	out := Part{Type: PartTypeTool, ToolName: p.name, ToolCallID: p.call, Input: orNull(p.data), State: StateInputAvailable}
	switch {
	case p.settled && p.failed:
		text := p.errorText
		out.State, out.ErrorText, out.DurationMs = StateOutputError, &text, p.durationMs
	case p.settled:
		out.State, out.Output, out.DurationMs = StateOutputAvailable, orNull(p.output), p.durationMs
	}
	return out
}

// Project returns the chunks of a batch of the conversation id. A batch with a structural boundary has
// one conversation-reset chunk. At creation its snapshot follows from the batch alone. For a
// compaction or a withdrawn turn, at is called for the state's snapshot at this batch. at may be nil
// for batches without either; otherwise Project fails.
func Project(id ConversationID, b Batch, at func() (*Snapshot, error)) ([]Chunk, error) {
	var out []Chunk
	err := chunksOf(id, b, at, func(c Chunk) error {
		out = append(out, c)
		return nil
	})
	return out, err
}

// AppendProjection appends the chunks of [Project] to dst as [AppendChunks] does, with few
// allocations.
func AppendProjection(dst []byte, id ConversationID, b Batch, at func() (*Snapshot, error)) ([]byte, error) {
	first := true
	err := chunksOf(id, b, at, func(c Chunk) (err error) {
		if first {
			dst = slices.Grow(dst, roomFor(b.Records))
		} else {
			dst = append(dst, ',')
		}
		first = false
		dst, err = appendChunk(dst, &c)
		return err
	})
	return dst, err
}

// roomFor returns the estimated size of a batch's chunks, in bytes.
func roomFor(records []Record) int {
	const fixed = 256 // names, ids, a position
	n := 0
	for _, r := range records {
		switch r := r.(type) {
		case *Delta:
			n += fixed + len(r.Text)
		case *SubmissionAdmitted:
			n += 2*fixed + len(r.Delivery.Body)
		case *ResponseStarted, *StepCompleted, *SubmissionSettled:
			n += fixed
		}
	}
	return n
}

// chunksOf calls yield for every chunk of a batch until yield fails.
func chunksOf(id ConversationID, b Batch, at func() (*Snapshot, error), yield func(Chunk) error) error {
	snap, err := boundary(b, at)
	if err != nil {
		return fmt.Errorf("project batch %d: %w", int64(b.Offset), err)
	}
	if snap != nil {
		return yield(Chunk{
			Type: ChunkReset, ConversationID: snap.ConversationID, Snapshot: snap, Position: Position{Batch: b.Offset},
		})
	}
	pos := Position{Batch: b.Offset}
	for _, r := range b.Records {
		if childOf(r) != "" {
			continue
		}
		c, ok := project(r)
		if !ok {
			continue
		}
		c.ConversationID, c.Position = id, pos
		if err := yield(c); err != nil {
			return err
		}
		pos.Index++
	}
	return nil
}

// boundary returns the snapshot to which a structural batch resets, nil for other batches.
func boundary(b Batch, at func() (*Snapshot, error)) (*Snapshot, error) {
	for i, r := range b.Records {
		switch r.(type) {
		case *ConversationCreated:
			// Earlier records of the batch belong to a previous incarnation.
			s := newStateAt(b.Offset - 1)
			if err := s.Apply(Batch{Offset: b.Offset, Records: b.Records[i:]}); err != nil {
				return nil, err
			}
			return s.Snapshot(), nil
		case *Compacted, *StepDropped:
			if childOf(r) != "" {
				continue
			}
			if at == nil {
				return nil, fmt.Errorf("%s needs the state at its batch", r.Type())
			}
			return at()
		}
	}
	return nil, nil
}

// project returns the chunk of one record, without id and position.
func project(r Record) (Chunk, bool) {
	switch r := r.(type) {
	case *SubmissionAdmitted:
		m := deliveredMessage(r).snapshot()
		return Chunk{Type: ChunkAppended, Message: &m}, true
	case *Advisory:
		m := advisoryMessage(r).snapshot()
		return Chunk{Type: ChunkAppended, Message: &m}, true
	case *ResponseStarted:
		c := Chunk{
			Type: ChunkStarted, MessageID: r.Message, SubmissionID: r.Submission, TurnID: r.Turn, Timestamp: &r.At,
		}
		if !isNull(r.Metadata) {
			c.Metadata = r.Metadata
		}
		return c, true
	case *Delta:
		return Chunk{Type: ChunkDelta, MessageID: r.Message, Kind: r.Kind, Delta: r.Text}, r.Text != ""
	case *ToolCalled:
		return Chunk{
			Type: ChunkToolInput, MessageID: r.Message, ToolCallID: r.Call, ToolName: r.Name, Input: orNull(r.Input),
			Timestamp: &r.At,
		}, true
	case *ToolSettled:
		c := Chunk{Type: ChunkToolOutput, ToolCallID: r.Call, Output: orNull(r.Output), DurationMs: r.DurationMs, Timestamp: &r.At}
		if r.Failed {
			c.Type, c.Output, c.ErrorText = ChunkToolOutputError, nil, &r.ErrorText
		}
		return c, true
	case *StepCompleted:
		return Chunk{Type: ChunkCompleted, MessageID: r.Message, Timestamp: &r.At}, true
	case *DataWritten:
		return Chunk{Type: ChunkDataPart, MessageID: r.Message, Name: r.Name, Data: orNull(r.Data)}, true
	case *MetadataMerged:
		return Chunk{Type: ChunkMetadata, MessageID: r.Message, Metadata: r.Metadata}, !isNull(r.Metadata)
	case *SubmissionSettled:
		return Chunk{
			Type: ChunkSettled, SubmissionID: r.Submission, Outcome: r.Outcome, Error: r.Error, Timestamp: &r.At,
		}, true
	}
	return Chunk{}, false
}

// orNull keeps a member that the protocol requires.
func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}
