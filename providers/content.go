package providers

import (
	"encoding/json"
	"errors"

	"github.com/parleyrun/parley/providers/sse"
)

// maxContentDepth bounds the nesting of lists of parts.
const maxContentDepth = 4

var errContent = errors.New("decode content: neither a text nor a list of parts")

// contentPart is a part of content. Parts of other types have none of its members.
type contentPart struct {
	Type      string          `json:"type"`
	Text      json.RawMessage `json:"text"`
	Refusal   json.RawMessage `json:"refusal"`
	Thinking  json.RawMessage `json:"thinking"`
	Reasoning json.RawMessage `json:"reasoning"`
	Summary   json.RawMessage `json:"summary"`
	Content   json.RawMessage `json:"content"`
}

// Content reads content in the formats of chat completions: a text, a part, or a list of parts. onText
// receives the answer and onReasoning the reasoning. A part of an unknown type is an oddity. Any other JSON
// value is an error.
func (a *Assembler) Content(raw json.RawMessage, onText, onReasoning func(string)) error {
	return a.content(raw, onText, onReasoning, 0)
}

func (a *Assembler) content(raw json.RawMessage, onText, onReasoning func(string), depth int) error {
	if !sse.Given(raw) {
		return nil
	}
	switch raw[0] {
	case '"':
		s, err := sse.Text(raw)
		onText(s)
		return err
	case '{':
		return a.contentPart(raw, onText, onReasoning, depth)
	case '[':
		var list []json.RawMessage
		if depth == maxContentDepth || json.Unmarshal(raw, &list) != nil {
			return errContent
		}
		for _, part := range list {
			if !sse.Given(part) {
				continue
			}
			if part[0] != '{' {
				return errContent
			}
			if err := a.contentPart(part, onText, onReasoning, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return errContent
}

func (a *Assembler) contentPart(raw json.RawMessage, onText, onReasoning func(string), depth int) error {
	var p contentPart
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &p); err != nil && !errors.As(err, &odd) {
		return err
	}
	switch p.Type {
	case "text", "output_text", "":
		return a.content(p.Text, onText, onReasoning, depth+1)
	case "refusal":
		return a.content(p.Refusal, onText, onReasoning, depth+1)
	case "thinking", "reasoning", "reasoning_text", "reasoning_content", "summary_text":
		for _, member := range []json.RawMessage{p.Thinking, p.Reasoning, p.Summary, p.Content, p.Text} {
			if sse.Given(member) {
				return a.content(member, onReasoning, onReasoning, depth+1)
			}
		}
		return nil
	}
	a.Odd("content", p.Type)
	return nil
}
