package fakemodel

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Types of blocks.
const (
	blockText     = "text"
	blockThinking = "thinking"
	blockToolUse  = "tool_use"
)

// plainID is an id of a call as Claude and Gemini take it.
var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// errThinking is what Claude says wherever it is served.
var errThinking = errors.New("the final block in an assistant message cannot be `thinking`")

// messages is the messages format.
type messages struct{}

func (messages) key(h http.Header) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearer(h)
}

type messagesCall struct {
	Model     string          `json:"model"`
	Stream    bool            `json:"stream"`
	MaxTokens int             `json:"max_tokens"`
	System    json.RawMessage `json:"system"`
	Thinking  struct {
		BudgetTokens int `json:"budget_tokens"`
	} `json:"thinking"`
	Output struct {
		Effort string `json:"effort"`
	} `json:"output_config"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	Source    struct {
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

func (messages) decode(body []byte) (*prompt, error) {
	var c messagesCall
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("decode call: %w", err)
	}
	if c.MaxTokens <= 0 {
		return nil, errors.New("max_tokens is missing")
	}
	p := &prompt{model: c.Model, stream: c.Stream, maxTokens: c.MaxTokens, effort: c.Output.Effort}
	if c.Thinking.BudgetTokens > 0 {
		p.effort = strconv.Itoa(c.Thinking.BudgetTokens)
	}
	for _, t := range c.Tools {
		p.tools = append(p.tools, t.Name)
	}
	system, err := blocks(c.System)
	if err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	for _, b := range system {
		p.system += b.Text
	}
	role, begun := sideAssistant, ""
	for i, m := range c.Messages {
		if m.Role == role || m.Role != sideUser && m.Role != sideAssistant {
			return nil, fmt.Errorf("message %d: role %q where the sides must alternate", i, m.Role)
		}
		role = m.Role
		content, err := blocks(m.Content)
		if err == nil {
			err = p.addBlocks(role, content)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if role == sideAssistant {
			begun = content[0].Type
		}
	}
	if n := len(p.turns); c.Thinking.BudgetTokens > 0 && n > 0 && p.turns[n-1].side == sideTool && begun != blockThinking {
		return nil, errors.New("when thinking is enabled, a final assistant message must start with a thinking block")
	}
	return p, nil
}

// blocks reads a list of blocks, or a text in its place.
func blocks(raw json.RawMessage) ([]messagesBlock, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if text, ok := plain(raw); ok {
		return []messagesBlock{{Type: blockText, Text: text}}, nil
	}
	var out []messagesBlock
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("decode content: %w", err)
	}
	return out, nil
}

// plain returns the text of a JSON value that is one. A history is mostly texts
// without escapes, which need no second decoding.
func plain(raw json.RawMessage) (text string, ok bool) {
	if raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	return text, json.Unmarshal(raw, &text) == nil
}

// addBlocks makes turns of a message: the results in it, then the rest.
func (p *prompt) addBlocks(role string, content []messagesBlock) error {
	if len(content) == 0 {
		return errors.New("content is empty")
	}
	if content[len(content)-1].Type == blockThinking {
		return errThinking
	}
	t := turn{side: role}
	for _, b := range content {
		if b.Type != "tool_result" {
			if err := t.addBlock(b); err != nil {
				return err
			}
			continue
		}
		if t.texts != nil || t.images != nil || role != sideUser {
			return errors.New("results must come first in a user's message")
		}
		inner, err := blocks(b.Content)
		if err != nil {
			return err
		}
		result := turn{side: sideTool, result: b.ToolUseID}
		for _, b := range inner {
			if err := result.addBlock(b); err != nil {
				return err
			}
		}
		p.turns = append(p.turns, result)
	}
	if t.texts != nil || t.images != nil || t.calls != nil || role == sideAssistant {
		p.turns = append(p.turns, t)
	}
	return nil
}

func (t *turn) addBlock(b messagesBlock) error {
	switch b.Type {
	case blockText:
		if blank(b.Text) {
			return errors.New("text is blank")
		}
		t.texts = append(t.texts, b.Text)
	case "image":
		return t.show(b.Source.MediaType, b.Source.Data)
	case blockThinking:
		if b.Signature != sign(b.Thinking) {
			return errors.New("signature of thinking does not match")
		}
	case blockToolUse:
		if !strings.HasPrefix(string(b.Input), "{") || !plainID.MatchString(b.ID) {
			return fmt.Errorf("input of call %q is no object, or its id not plain", b.ID)
		}
		t.calls = append(t.calls, call{b.ID, b.Name, string(b.Input)})
	default:
		return fmt.Errorf("unknown block %q", b.Type)
	}
	return nil
}

// sign stands for what only the vendor can make.
func sign(thinking string) string {
	sum := sha256.Sum256([]byte("fakemodel " + thinking))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (messages) failure(status int, message string) any {
	return object{"type": "error", "error": object{"type": errorType(status), "message": message}}
}

// errorType names an error by its status.
func errorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

func messagesFinish(finish string) string {
	switch finish {
	case finishLength:
		return "max_tokens"
	case finishTool:
		return "tool_use"
	case finishFilter:
		return "refusal"
	}
	return "end_turn"
}

func (messages) whole(p *prompt, a *answer) any {
	content := []object{}
	if a.thoughts != "" {
		content = append(content, object{"type": blockThinking, "thinking": a.thoughts, "signature": sign(a.thoughts)})
	}
	if a.content != "" {
		content = append(content, object{"type": blockText, "text": a.content})
	}
	for _, c := range a.calls {
		content = append(content, object{"type": blockToolUse, "id": c.id, "name": c.name, "input": json.RawMessage(c.args)})
	}
	return object{
		"id": p.id(), "type": "message", "role": sideAssistant, "model": p.model, "content": content,
		"stop_reason": messagesFinish(a.finish), "stop_sequence": nil,
		"usage": object{"input_tokens": a.usage.input, "output_tokens": a.usage.output},
	}
}

func (messages) stream(w *sender, p *prompt) voice { return &messagesVoice{w: w, p: p} }

// messagesVoice streams one response, one open block at a time.
type messagesVoice struct {
	w *sender
	p *prompt
	// kind is the type of the open block, empty for none; index its number.
	kind  string
	index int
	// thoughts is the open block of thinking, to sign it.
	thoughts string
}

func (v *messagesVoice) event(kind string, fields object) {
	fields["type"] = kind
	v.w.event(kind, fields)
}

func (v *messagesVoice) begin() {
	if !v.w.begun {
		v.event("message_start", object{"message": object{
			"id": v.p.id(), "type": "message", "role": sideAssistant, "model": v.p.model, "content": []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": v.p.words(), "output_tokens": 1},
		}})
	}
}

// open opens a block, unless one of the kind is open.
func (v *messagesVoice) open(kind string, block object) {
	v.begin()
	if v.kind == kind && kind != blockToolUse {
		return
	}
	v.close()
	v.kind = kind
	block["type"] = kind
	v.event("content_block_start", object{"index": v.index, "content_block": block})
}

func (v *messagesVoice) close() {
	if v.kind == "" {
		return
	}
	if v.kind == blockThinking {
		v.delta(object{"type": "signature_delta", "signature": sign(v.thoughts)})
		v.thoughts = ""
	}
	v.event("content_block_stop", object{"index": v.index})
	v.kind = ""
	v.index++
}

func (v *messagesVoice) delta(d object) {
	v.event("content_block_delta", object{"index": v.index, "delta": d})
}

func (v *messagesVoice) text(s string) {
	v.open(blockText, object{"text": ""})
	v.delta(object{"type": "text_delta", "text": s})
}

func (v *messagesVoice) reasoning(s string) {
	v.open(blockThinking, object{"thinking": "", "signature": ""})
	v.thoughts += s
	v.delta(object{"type": "thinking_delta", "thinking": s})
}

func (v *messagesVoice) call(id, name, arguments string) {
	v.open(blockToolUse, object{"id": id, "name": name, "input": object{}})
	for _, piece := range halves(arguments) {
		v.delta(object{"type": "input_json_delta", "partial_json": piece})
	}
}

func (v *messagesVoice) fail(message string) {
	v.begin()
	v.w.event("error", messages{}.failure(http.StatusInternalServerError, message))
}

func (v *messagesVoice) end(finish string, u usage) {
	v.begin()
	v.close()
	v.event("message_delta", object{
		"delta": object{"stop_reason": messagesFinish(finish), "stop_sequence": nil},
		"usage": object{"output_tokens": u.output},
	})
	v.event("message_stop", object{})
}
