package providers

import (
	"encoding/json"
	"errors"

	"github.com/parleyrun/parley/providers/sse"
)

// maxContentDepth bounds how deep lists of parts stand in each other.
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

// Content reads content as formats of chat completions have it: a text, a part, or a list of
// parts. say takes the answer, think the reasoning. A part of another type is an oddity; the
// error is of content that is neither.
func (a *Assembler) Content(raw json.RawMessage, say, think func(string)) error {
	return a.content(raw, say, think, 0)
}

func (a *Assembler) content(raw json.RawMessage, say, think func(string), depth int) error {
	if !sse.Given(raw) {
		return nil
	}
	switch raw[0] {
	case '"':
		s, err := sse.Text(raw)
		say(s)
		return err
	case '{':
		return a.contentPart(raw, say, think, depth)
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
			if err := a.contentPart(part, say, think, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return errContent
}

func (a *Assembler) contentPart(raw json.RawMessage, say, think func(string), depth int) error {
	var p contentPart
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &p); err != nil && !errors.As(err, &odd) {
		return err
	}
	switch p.Type {
	case "text", "output_text", "":
		return a.content(p.Text, say, think, depth+1)
	case "refusal":
		return a.content(p.Refusal, say, think, depth+1)
	case "thinking", "reasoning", "reasoning_text", "reasoning_content", "summary_text":
		for _, member := range []json.RawMessage{p.Thinking, p.Reasoning, p.Summary, p.Content, p.Text} {
			if sse.Given(member) {
				return a.content(member, think, think, depth+1)
			}
		}
		return nil
	}
	a.Odd("content", p.Type)
	return nil
}
