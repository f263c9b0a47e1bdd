package conversation

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// SnapshotVersion is the value of the snapshot's field v.
const SnapshotVersion = 1

// Snapshot is the materialized conversation through an offset.
type Snapshot struct {
	V              int            `json:"v"`
	ConversationID ConversationID `json:"conversationId"`
	Offset         Offset         `json:"offset"`
	Messages       []Message      `json:"messages"`
	Settlements    []Settlement   `json:"settlements"`

	// History is the encoded history before Messages and Settlements, in a snapshot of a state with
	// attached history. It is never decoded: a decoded snapshot has everything in the other two.
	History []*HistoryPage `json:"-"`
}

// MarshalJSON writes the whole snapshot, attached history first. It fails if a part has to be read
// first; see [Snapshot.Pieces].
func (s *Snapshot) MarshalJSON() ([]byte, error) {
	list, err := s.Pieces()
	if err != nil {
		return nil, err
	}
	size := 0
	for _, p := range list {
		if p.Bytes == nil {
			return nil, fmt.Errorf("encode snapshot: %w", ErrLeft)
		}
		size += len(p.Bytes)
	}
	out := make([]byte, 0, size)
	for _, p := range list {
		out = append(out, p.Bytes...)
	}
	return out, nil
}

// appendList joins lists whose elements are joined by commas. Lists may be empty.
func appendList(dst []byte, lists [][]byte) []byte {
	first := true
	for _, l := range lists {
		if len(l) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		dst, first = append(dst, l...), false
	}
	return dst
}

// Settlement is the terminal outcome of a submission as clients see it.
type Settlement struct {
	SubmissionID SubmissionID     `json:"submissionId"`
	Outcome      Outcome          `json:"outcome"`
	Error        *SettlementError `json:"error,omitempty"`
}

// Role is the render lane of a message.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// Purpose is the meaning of a message.
type Purpose string

// The purposes. Dispatch is a delivered signal, advisory a message of the runtime.
const (
	PurposeUser      Purpose = "user"
	PurposeAssistant Purpose = "assistant"
	PurposeDispatch  Purpose = "dispatch"
	PurposeAdvisory  Purpose = "advisory"
)

// Signal is the public part of a signal's envelope.
type Signal struct {
	TagName    string            `json:"tagName,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Message is one message of the transcript. An assistant message is one whole response, with all turns
// of its submission.
type Message struct {
	ID           MessageID       `json:"id"`
	Role         Role            `json:"role"`
	Purpose      Purpose         `json:"purpose"`
	Display      Display         `json:"display"`
	SubmissionID SubmissionID    `json:"submissionId,omitempty"`
	TurnID       TurnID          `json:"turnId,omitempty"`
	Signal       *Signal         `json:"signal,omitempty"`
	Parts        []Part          `json:"parts"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`

	// Left is set in a snapshot for a message that is in the log only. Parts is unused then.
	Left *Left `json:"-"`
}

// Part types and states on the wire. The type of a data part is DataPrefix followed by its name.
const (
	PartTypeText      = "text"
	PartTypeReasoning = "reasoning"
	PartTypeFile      = "file"
	PartTypeTool      = "dynamic-tool"
	DataPrefix        = "data-"

	StateStreaming       = "streaming"
	StateDone            = "done"
	StateInputAvailable  = "input-available"
	StateOutputAvailable = "output-available"
	StateOutputError     = "output-error"
)

// Part is one part of a message. Type and State determine the fields present. Absent fields are
// omitted from the JSON form.
type Part struct {
	Type string `json:"type"`

	// text, reasoning
	Text  *string `json:"text,omitempty"`
	State string  `json:"state,omitempty"`

	// data-<name>
	Data json.RawMessage `json:"data,omitempty"`

	// file
	MediaType string       `json:"mediaType,omitempty"`
	ID        AttachmentID `json:"id,omitempty"`
	Size      *int64       `json:"size,omitempty"`
	Filename  string       `json:"filename,omitempty"`

	// dynamic-tool
	ToolName   string          `json:"toolName,omitempty"`
	ToolCallID CallID          `json:"toolCallId,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	ErrorText  *string         `json:"errorText,omitempty"`
	DurationMs *int64          `json:"durationMs,omitempty"`
}

// Position orders chunks: by batch, then by index within the batch.
type Position struct {
	Batch Offset `json:"-"`
	Index int    `json:"-"`
}

// MarshalJSON writes both components as numbers.
func (p Position) MarshalJSON() ([]byte, error) { return p.appendTo(nil), nil }

func (p Position) appendTo(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"batch":`...), int64(p.Batch), 10)
	dst = strconv.AppendInt(append(dst, `,"index":`...), int64(p.Index), 10)
	return append(dst, '}')
}

// UnmarshalJSON reads both components as numbers.
func (p *Position) UnmarshalJSON(b []byte) error {
	var v struct {
		Batch int64 `json:"batch"`
		Index int   `json:"index"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*p = Position{Offset(v.Batch), v.Index}
	return nil
}

// Compare returns -1, 0 or 1 as p is before, at or after q.
func (p Position) Compare(q Position) int {
	switch {
	case p.Batch != q.Batch:
		if p.Batch < q.Batch {
			return -1
		}
		return 1
	case p.Index < q.Index:
		return -1
	case p.Index > q.Index:
		return 1
	}
	return 0
}

// ChunkType is the kind of a wire-visible change. The list is closed: public clients reject unknown
// types.
type ChunkType string

// The chunk types.
const (
	ChunkReset           ChunkType = "conversation-reset"
	ChunkAppended        ChunkType = "message-appended"
	ChunkStarted         ChunkType = "message-started"
	ChunkMetadata        ChunkType = "message-metadata"
	ChunkDataPart        ChunkType = "data-part"
	ChunkDelta           ChunkType = "message-delta"
	ChunkToolInput       ChunkType = "tool-input"
	ChunkToolOutput      ChunkType = "tool-output"
	ChunkToolOutputError ChunkType = "tool-output-error"
	ChunkCompleted       ChunkType = "message-completed"
	ChunkSettled         ChunkType = "submission-settled"
)

// Chunk is one wire-visible change. Type determines the fields present.
type Chunk struct {
	Type           ChunkType        `json:"type"`
	ConversationID ConversationID   `json:"conversationId"`
	Snapshot       *Snapshot        `json:"snapshot,omitempty"`
	Message        *Message         `json:"message,omitempty"`
	MessageID      MessageID        `json:"messageId,omitempty"`
	SubmissionID   SubmissionID     `json:"submissionId,omitempty"`
	TurnID         TurnID           `json:"turnId,omitempty"`
	Kind           PartKind         `json:"kind,omitempty"`
	Delta          string           `json:"delta,omitempty"`
	Name           string           `json:"name,omitempty"`
	Data           json.RawMessage  `json:"data,omitempty"`
	Metadata       json.RawMessage  `json:"metadata,omitempty"`
	ToolCallID     CallID           `json:"toolCallId,omitempty"`
	ToolName       string           `json:"toolName,omitempty"`
	Input          json.RawMessage  `json:"input,omitempty"`
	Output         json.RawMessage  `json:"output,omitempty"`
	ErrorText      *string          `json:"errorText,omitempty"`
	DurationMs     *int64           `json:"durationMs,omitempty"`
	Outcome        Outcome          `json:"outcome,omitempty"`
	Error          *SettlementError `json:"error,omitempty"`
	Timestamp      *Time            `json:"timestamp,omitempty"`
	Position       Position         `json:"position"`
}
