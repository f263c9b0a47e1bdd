package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// completions is the chat-completions format.
type completions struct{}

func (completions) key(h http.Header) string { return bearer(h) }

type completionsCall struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int    `json:"max_tokens"`
	MaxCompletionTokens int    `json:"max_completion_tokens"`
	ReasoningEffort     string `json:"reasoning_effort"`
	Tools               []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	Messages []completionsMessage `json:"messages"`
}

// completionsMessage has all members that Mistral takes, which refuses others.
type completionsMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (completions) decode(body []byte) (*prompt, error) {
	var c completionsCall
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("decode call: %w", err)
	}
	if c.Stream && !c.StreamOptions.IncludeUsage {
		return nil, errors.New("stream_options.include_usage is missing: the usage would be lost")
	}
	p := &prompt{model: c.Model, stream: c.Stream, maxTokens: max(c.MaxTokens, c.MaxCompletionTokens), effort: c.ReasoningEffort}
	for _, t := range c.Tools {
		p.tools = append(p.tools, t.Function.Name)
	}
	for i, m := range c.Messages {
		if err := p.addMessage(m, (*turn).readParts); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return p, nil
}

// addMessage makes a turn of a message, whose parts are read by parts.
func (p *prompt) addMessage(m completionsMessage, parts func(*turn, json.RawMessage) error) error {
	t, err := m.turn(parts)
	switch {
	case err != nil:
		return err
	case m.Role != "system" && m.Role != "developer":
		p.add(t)
		return nil
	case len(p.turns) > 0:
		return errors.New("a system message must come first")
	}
	p.system += strings.Join(t.texts, "\n")
	return nil
}

func (m completionsMessage) turn(parts func(*turn, json.RawMessage) error) (turn, error) {
	t := turn{side: m.Role, result: m.ToolCallID}
	switch m.Role {
	case sideUser, sideAssistant, sideTool, "system", "developer":
	default:
		return t, fmt.Errorf("unknown role %q", m.Role)
	}
	for _, c := range m.ToolCalls {
		if !json.Valid([]byte(c.Function.Arguments)) {
			return t, fmt.Errorf("arguments of call %q are not JSON", c.ID)
		}
		t.calls = append(t.calls, call{c.ID, c.Function.Name, c.Function.Arguments})
	}
	if len(m.Content) == 0 || string(m.Content) == "null" {
		if m.Role != sideAssistant || len(t.calls) == 0 {
			return t, errors.New("content is missing")
		}
		return t, nil
	}
	if text, ok := plain(m.Content); ok {
		t.texts = []string{text}
		return t, nil
	}
	err := parts(&t, m.Content)
	return t, err
}

func (t *turn) readParts(content json.RawMessage) error {
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return fmt.Errorf("decode content: %w", err)
	}
	for _, part := range parts {
		switch part.Type {
		case "text":
			t.texts = append(t.texts, part.Text)
		case "image_url":
			if err := t.showURL(part.ImageURL.URL); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown content part %q", part.Type)
		}
	}
	return nil
}

func (completions) failure(status int, message string) any {
	return object{"error": object{"message": message, "type": completionsError(status), "code": nil}}
}

func completionsError(status int) string {
	if status >= http.StatusInternalServerError {
		return "server_error"
	}
	return errorType(status)
}

func completionsFinish(finish string) string {
	switch finish {
	case finishTool:
		return "tool_calls"
	case finishFilter:
		return "content_filter"
	}
	return finish
}

func completionsUsage(u usage) object {
	return object{
		"prompt_tokens": u.input, "completion_tokens": u.output, "total_tokens": u.input + u.output,
		"completion_tokens_details": object{"reasoning_tokens": u.reasoning},
	}
}

func (completions) whole(p *prompt, a *answer) any {
	message := object{"role": "assistant", "content": a.content}
	if a.thoughts != "" {
		message["reasoning_content"] = a.thoughts
	}
	var calls []object
	for _, c := range a.calls {
		calls = append(calls, object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.args}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return object{
		"id": p.id(), "object": "chat.completion", "created": 0, "model": p.model, "usage": completionsUsage(a.usage),
		"choices": []object{{"index": 0, "message": message, "finish_reason": completionsFinish(a.finish)}},
	}
}

func (completions) stream(w *sender, p *prompt) voice {
	v := &completionsVoice{w: w, id: p.id(), model: p.model}
	v.tail = `},"finish_reason":null,"index":0}],"created":0,"id":` + string(encode(v.id)) +
		`,"model":` + string(encode(v.model)) + `,"object":"chat.completion.chunk","usage":null}`
	return v
}

// completionsVoice streams one response.
type completionsVoice struct {
	w         *sender
	id, model string
	// tail is what follows a delta.
	tail  string
	calls int
}

func (v *completionsVoice) chunk(choices []object, u any) {
	v.w.event("", object{
		"id": v.id, "object": "chat.completion.chunk", "created": 0, "model": v.model, "choices": choices, "usage": u,
	})
}

func (v *completionsVoice) delta(d object) {
	if !v.w.begun {
		d["role"] = "assistant"
	}
	v.chunk([]object{{"index": 0, "delta": d, "finish_reason": nil}}, nil)
}

// word is delta with one text, put together by hand: most events are words.
func (v *completionsVoice) word(field, s string) {
	role := ""
	if !v.w.begun {
		role = `,"role":"assistant"`
	}
	v.w.event("", `{"choices":[{"delta":{"`+field+`":`+string(encode(s))+role+v.tail)
}

func (v *completionsVoice) text(s string)      { v.word("content", s) }
func (v *completionsVoice) reasoning(s string) { v.word("reasoning_content", s) }

func (v *completionsVoice) call(id, name, arguments string) {
	v.delta(object{"tool_calls": []object{{
		"index": v.calls, "id": id, "type": "function", "function": object{"name": name, "arguments": ""},
	}}})
	for _, piece := range halves(arguments) {
		v.delta(object{"tool_calls": []object{{"index": v.calls, "function": object{"arguments": piece}}}})
	}
	v.calls++
}

func (v *completionsVoice) fail(message string) {
	v.w.event("", completions{}.failure(http.StatusInternalServerError, message))
}

func (v *completionsVoice) end(finish string, u usage) {
	v.chunk([]object{{"index": 0, "delta": object{}, "finish_reason": completionsFinish(finish)}}, nil)
	v.chunk([]object{}, completionsUsage(u))
	v.w.event("", "[DONE]")
}
