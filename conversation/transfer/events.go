package transfer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// event has the members read from an event of any version of the beta protocol.
type event struct {
	Type         string                      `json:"type"`
	RunID        string                      `json:"runId"`
	Conversation conversation.ConversationID `json:"conversationId"`
	Submission   string                      `json:"submissionId"`
	Dispatch     string                      `json:"dispatchId"`
	Operation    string                      `json:"operationId"`
	Kind         string                      `json:"operationKind"`
	Task         string                      `json:"taskId"`
	Message      json.RawMessage             `json:"message"` // a string in log events
	Call         conversation.CallID         `json:"toolCallId"`
	IsError      bool                        `json:"isError"`
	Result       json.RawMessage             `json:"result"`
	DurationMs   *int64                      `json:"durationMs"`
	Name         string                      `json:"name"`
	Data         json.RawMessage             `json:"data"`
	Outcome      conversation.Outcome        `json:"outcome"`
	Error        json.RawMessage             `json:"error"`
}

// message is a message of the model's view.
type message struct {
	Role    string              `json:"role"`
	Call    conversation.CallID `json:"toolCallId"`
	Content json.RawMessage     `json:"content"`
	IsError bool                `json:"isError"`
}

// block is a part of a message's content.
type block struct {
	Type      string              `json:"type"`
	Text      string              `json:"text"`
	Thinking  string              `json:"thinking"`
	MimeType  string              `json:"mimeType"`
	ID        conversation.CallID `json:"id"`
	Name      string              `json:"name"`
	Arguments json.RawMessage     `json:"arguments"`
}

// Events collects a conversation from the event stream of a beta agent, page by page from its start.
// Work of subagents is excluded. The zero value is ready.
type Events struct {
	out     Conversation
	at      map[string]*prompted // by the id shared by the events of a prompt
	ended   []*prompted          // in the order of their ends
	current *prompted
	count   int
}

type prompted struct {
	id        conversation.SubmissionID
	user      bool
	response  int // index of its response plus 1, 0 before
	end       *conversation.Settlement
	confirmed bool // by submission_settled
}

// Page adds one page, a JSON array, and returns its number of events.
func (e *Events) Page(b []byte) (int, error) {
	var list []event
	if err := json.Unmarshal(b, &list); err != nil {
		return 0, fmt.Errorf("read events: %w", err)
	}
	for i := range list {
		if err := e.event(&list[i]); err != nil {
			return 0, fmt.Errorf("read event %d: %w", e.count, err)
		}
		e.count++
	}
	return len(list), nil
}

// Conversation returns the conversation of all pages.
func (e *Events) Conversation() (*Conversation, error) {
	if len(e.out.Messages) == 0 {
		return nil, ErrEmpty
	}
	out := e.out
	for _, p := range e.ended {
		if p.user || p.response > 0 {
			out.Settlements = append(out.Settlements, *p.end)
		}
	}
	for i := range out.Messages {
		for j := range out.Messages[i].Parts {
			if p := &out.Messages[i].Parts[j]; p.State == conversation.StateInputAvailable {
				p.State, p.ErrorText = conversation.StateOutputError, new("The event stream has no outcome of this call.")
			}
		}
	}
	return &out, nil
}

func (e *Events) event(ev *event) error {
	if ev.RunID != "" {
		return errors.New("a workflow run is not a conversation")
	}
	if ev.Task != "" {
		return nil
	}
	e.out.ID = cmp.Or(e.out.ID, ev.Conversation)
	switch ev.Type {
	case "message_end":
		return e.message(ev)
	case "tool":
		e.settled(ev.Call, ev.IsError, ev.Result, ev.DurationMs)
	case "data":
		e.append(e.prompt(ev), conversation.Part{Type: conversation.DataPrefix + ev.Name, Data: ev.Data})
	case "operation":
		if ev.Kind == "prompt" {
			return e.end(ev, outcomeOf(ev.IsError), false)
		}
	case "submission_settled":
		return e.end(ev, ev.Outcome, true)
	}
	return nil
}

func outcomeOf(failed bool) conversation.Outcome {
	if failed {
		return conversation.OutcomeFailed
	}
	return conversation.OutcomeCompleted
}

// prompt returns the prompt of an event. Events identify it by submission, by dispatch, or, in the
// first versions, only by operation.
func (e *Events) prompt(ev *event) *prompted {
	key := cmp.Or(ev.Submission, ev.Dispatch, ev.Operation)
	if key == "" && e.current != nil {
		return e.current
	}
	if e.at == nil {
		e.at = map[string]*prompted{}
	}
	p := e.at[key]
	if p == nil {
		id := cmp.Or(ev.Submission, ev.Dispatch)
		if id == "" {
			id = "sub_" + strings.TrimPrefix(cmp.Or(ev.Operation, fmt.Sprint(len(e.at))), "op_")
		}
		p = &prompted{id: conversation.SubmissionID(id)}
		e.at[key] = p
	}
	e.current = p
	return p
}

func (e *Events) message(ev *event) error {
	var m message
	if err := json.Unmarshal(ev.Message, &m); err != nil {
		return err
	}
	blocks, err := blocksOf(m.Content)
	if err != nil {
		return err
	}
	switch p := e.prompt(ev); m.Role {
	case "user":
		if !p.user { // a repeated attempt sends it again
			p.user = true
			e.add(p, conversation.RoleUser, conversation.PurposeUser, conversation.Part{Type: conversation.PartTypeText, Text: new(textAndNotes(blocks)), State: conversation.StateDone})
		}
	case "assistant":
		for _, b := range blocks {
			e.answer(p, b)
		}
	case "toolResult":
		e.settled(m.Call, m.IsError, jsonOf(textAndNotes(blocks)), nil)
	}
	return nil
}

// blocksOf decodes content, which is a text or a list.
func blocksOf(content json.RawMessage) (out []block, err error) {
	if len(content) > 0 && content[0] == '"' {
		var text string
		err = json.Unmarshal(content, &text)
		return []block{{Type: "text", Text: text}}, err
	}
	return out, json.Unmarshal(content, &out)
}

// textAndNotes returns the text of a message. Events omit images; a note replaces each.
func textAndNotes(blocks []block) string {
	var texts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			texts = append(texts, b.Text)
		case "image":
			texts = append(texts, fmt.Sprintf("[An image (%s) stood here. It is not part of the event stream it was brought over from.]", b.MimeType))
		}
	}
	return strings.Join(texts, "\n\n")
}

func jsonOf(text string) json.RawMessage {
	b, _ := conversation.EncodeJSON(text) // encoding a string cannot fail
	return b
}

// answer appends a block of the assistant to the response of its prompt.
func (e *Events) answer(p *prompted, b block) {
	switch {
	case b.Type == "text" && b.Text != "":
		e.append(p, conversation.Part{Type: conversation.PartTypeText, Text: &b.Text, State: conversation.StateDone})
	case b.Type == "thinking" && b.Thinking != "":
		e.append(p, conversation.Part{Type: conversation.PartTypeReasoning, Text: &b.Thinking, State: conversation.StateDone})
	case b.Type == "toolCall":
		e.append(p, conversation.Part{
			Type: conversation.PartTypeTool, ToolName: b.Name, ToolCallID: b.ID, Input: orNull(b.Arguments), State: conversation.StateInputAvailable,
		})
	}
}

func (e *Events) append(p *prompted, part conversation.Part) {
	if p.response == 0 {
		e.add(p, conversation.RoleAssistant, conversation.PurposeAssistant)
		p.response = len(e.out.Messages)
	}
	m := &e.out.Messages[p.response-1]
	m.Parts = append(m.Parts, part)
}

func (e *Events) add(p *prompted, role conversation.Role, purpose conversation.Purpose, parts ...conversation.Part) {
	e.out.Messages = append(e.out.Messages, conversation.Message{
		ID: conversation.MessageID(fmt.Sprintf("msg_import_%d", len(e.out.Messages))), Role: role, Purpose: purpose,
		Display: conversation.DisplayVisible, SubmissionID: p.id, Parts: parts,
	})
}

// settled sets the outcome of a call. The first one counts.
func (e *Events) settled(id conversation.CallID, failed bool, result json.RawMessage, ms *int64) {
	for i := range slices.Backward(e.out.Messages) {
		for j := range e.out.Messages[i].Parts {
			p := &e.out.Messages[i].Parts[j]
			if p.ToolCallID != id || p.State != conversation.StateInputAvailable {
				continue
			}
			p.State, p.Output, p.DurationMs = conversation.StateOutputAvailable, orNull(result), ms
			if failed {
				text := string(result)
				_ = json.Unmarshal(result, &text) // other values stay JSON
				p.State, p.Output, p.ErrorText = conversation.StateOutputError, nil, &text
			}
			return
		}
	}
}

// end records the end of a prompt. The end of an operation is provisional until the settlement.
func (e *Events) end(ev *event, outcome conversation.Outcome, settled bool) error {
	p := e.prompt(ev)
	if p.end != nil && (p.confirmed || !settled) {
		return nil
	}
	s := &conversation.Settlement{SubmissionID: p.id, Outcome: outcome}
	switch outcome {
	case conversation.OutcomeCompleted:
	case conversation.OutcomeFailed, conversation.OutcomeAborted:
		s.Error = errorOf(ev.Error, outcome)
	default:
		return fmt.Errorf("unknown outcome %q of a submission", outcome)
	}
	if p.end == nil {
		e.ended = append(e.ended, p)
	}
	p.end, p.confirmed = s, settled
	return nil
}

// errorOf decodes an error, which is a text or an object with a message.
func errorOf(b json.RawMessage, outcome conversation.Outcome) *conversation.SettlementError {
	out := &conversation.SettlementError{Type: conversation.CodeInternal, Message: "The submission failed."}
	if outcome == conversation.OutcomeAborted {
		out.Type, out.Message = conversation.CodeAborted, "The submission was aborted."
	}
	var decoded struct {
		Type    conversation.Code `json:"type"`
		Message string            `json:"message"`
		Meta    map[string]any    `json:"meta"`
	}
	var text string
	switch {
	case json.Unmarshal(b, &text) == nil && text != "":
		out.Message = text
	case json.Unmarshal(b, &decoded) == nil:
		out.Type, out.Message, out.Meta = cmp.Or(decoded.Type, out.Type), cmp.Or(decoded.Message, out.Message), decoded.Meta
	}
	return out
}

func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}
