package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
)

// mistral is Mistral's format, whose keys are those of chat-completions.
type mistral struct{ completions }

// mistralCall has all members that the vendor takes: it refuses others.
type mistralCall struct {
	Model           string               `json:"model"`
	Stream          bool                 `json:"stream"`
	MaxTokens       int                  `json:"max_tokens"`
	Temperature     float64              `json:"temperature"`
	PromptMode      string               `json:"prompt_mode"`
	ReasoningEffort string               `json:"reasoning_effort"`
	PromptCacheKey  string               `json:"prompt_cache_key"`
	Stop            []string             `json:"stop"`
	ToolChoice      json.RawMessage      `json:"tool_choice"`
	Messages        []completionsMessage `json:"messages"`
	Tools           []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      bool            `json:"strict"`
		} `json:"function"`
	} `json:"tools"`
}

type mistralChunk struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	ImageURL string         `json:"image_url"`
	Thinking []mistralChunk `json:"thinking"`
}

func (mistral) decode(body []byte) (*prompt, error) {
	var c mistralCall
	if err := strictly(body, &c); err != nil {
		return nil, err
	}
	p := &prompt{model: c.Model, stream: c.Stream, maxTokens: c.MaxTokens, effort: c.ReasoningEffort + c.PromptMode}
	for _, t := range c.Tools {
		p.tools = append(p.tools, t.Function.Name)
	}
	role := ""
	for i, m := range c.Messages {
		if role == sideTool && m.Role != sideTool && m.Role != sideAssistant {
			return nil, fmt.Errorf("message %d: unexpected role %q after role %q", i, m.Role, role)
		}
		role = m.Role
		err := m.checkMistral()
		if err == nil {
			err = p.addMessage(m, (*turn).readChunks)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return p, nil
}

// mistralID is an id of a call.
var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func (m completionsMessage) checkMistral() error {
	ids := []string{m.ToolCallID}
	if m.Role != sideTool {
		ids = nil
	}
	for _, c := range m.ToolCalls {
		ids = append(ids, c.ID)
	}
	for _, id := range ids {
		if !mistralID.MatchString(id) {
			return fmt.Errorf("id %q of a call has not nine letters and digits", id)
		}
	}
	if m.Role == "developer" {
		return errors.New("unknown role")
	}
	return nil
}

func (t *turn) readChunks(content json.RawMessage) error {
	var chunks []mistralChunk
	if err := json.Unmarshal(content, &chunks); err != nil {
		return fmt.Errorf("decode content: %w", err)
	}
	for _, c := range chunks {
		switch {
		case c.Type == "text":
			t.texts = append(t.texts, c.Text)
		case c.Type == "thinking" && t.side == sideAssistant && len(c.Thinking) > 0:
		case c.Type == "image_url" && t.side != sideAssistant:
			if err := t.showURL(c.ImageURL); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown chunk %q of %s", c.Type, t.side)
		}
	}
	return nil
}

func (mistral) failure(status int, message string) any {
	return object{"object": "error", "message": message, "type": completionsError(status), "param": nil, "code": nil, "raw_status_code": status}
}

func mistralFinish(finish string) string {
	switch finish {
	case finishTool:
		return "tool_calls"
	case finishFilter:
		return "error" // it has no word for it
	}
	return finish
}

func mistralUsage(u usage) object {
	return object{
		"prompt_tokens": u.input, "completion_tokens": u.output, "total_tokens": u.input + u.output,
		"prompt_tokens_details": object{"cached_tokens": 0},
	}
}

func mistralThinking(s string) object {
	return object{"type": "thinking", "thinking": []object{{"type": "text", "text": s}}}
}

func mistralToolCall(i int, id, name, arguments string) object {
	return object{"id": id, "type": "function", "index": i, "function": object{"name": name, "arguments": arguments}}
}

func (mistral) whole(p *prompt, a *answer) any {
	message := object{"role": "assistant", "content": a.content}
	if a.thoughts != "" {
		message["content"] = []object{mistralThinking(a.thoughts), {"type": "text", "text": a.content}}
	}
	var calls []object
	for i, c := range a.calls {
		calls = append(calls, mistralToolCall(i, c.id, c.name, c.args))
	}
	message["tool_calls"] = calls
	return object{
		"id": p.id(), "object": "chat.completion", "created": 0, "model": p.model, "usage": mistralUsage(a.usage),
		"choices": []object{{"index": 0, "message": message, "finish_reason": mistralFinish(a.finish)}},
	}
}

func (mistral) stream(w *sender, p *prompt) voice {
	return &mistralVoice{w: w, id: p.id(), model: p.model}
}

// mistralVoice streams one response. Calls come whole, and usage with the reason to stop.
type mistralVoice struct {
	w         *sender
	id, model string
	calls     int
}

func (v *mistralVoice) chunk(delta object, finish any, u any) {
	if !v.w.begun {
		delta["role"] = "assistant"
	}
	e := object{
		"id": v.id, "object": "chat.completion.chunk", "created": 0, "model": v.model,
		"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
	}
	if u != nil {
		e["usage"] = u
	}
	v.w.event("", e)
}

func (v *mistralVoice) text(s string) { v.chunk(object{"content": s}, nil, nil) }

func (v *mistralVoice) reasoning(s string) {
	v.chunk(object{"content": []object{mistralThinking(s)}}, nil, nil)
}

func (v *mistralVoice) call(id, name, arguments string) {
	v.chunk(object{"content": nil, "tool_calls": []object{mistralToolCall(v.calls, id, name, arguments)}}, nil, nil)
	v.calls++
}

func (v *mistralVoice) fail(message string) {
	v.w.event("", mistral{}.failure(http.StatusInternalServerError, message))
}

func (v *mistralVoice) end(finish string, u usage) {
	v.chunk(object{"content": ""}, mistralFinish(finish), mistralUsage(u))
	v.w.event("", "[DONE]")
}
