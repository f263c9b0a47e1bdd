package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// completionsMessage has all members that Mistral takes, which refuses others.
const completionsMessage = `{"role": "", "content": null, "name": "", "tool_call_id": "",
	"tool_calls": [{"id": "", "type": "", "function": {"name": "", "arguments": ""}}]}`

// completions is the chat-completions format.
var completions = &vendor{
	key: bearer,
	call: example(`{"model": "", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 0, "max_completion_tokens": 0,
		"reasoning_effort": "", "tools": [{"function": {"name": ""}}], "messages": [` + completionsMessage + `]}`),
	limits:  []string{"max_tokens", "max_completion_tokens"},
	efforts: []string{"reasoning_effort"},
	tools:   "tools.*.function.name",
	read: func(p *prompt, c any) error {
		if p.stream && get(c, "stream_options.include_usage") != true {
			return errors.New("stream_options.include_usage is missing: the usage would be lost")
		}
		return p.chat(c, completionsPart)
	},
	finishes: map[string]string{finishStop: `"stop"`, finishLength: `"length"`, finishTool: `"tool_calls"`, finishFilter: `"content_filter"`},
	errors:   completionsErrors,
	says: map[string]string{
		"failure":       completionsFailure,
		"text more":     completionsChunk(`{$role"content":$piece}`),
		"thinking more": completionsChunk(`{$role"reasoning_content":$piece}`),
		"call open": completionsChunk(`{$role"tool_calls":[{"index":$number,"id":"$call","type":"function",` +
			`"function":{"name":$name,"arguments":""}}]}`),
		"call more": completionsChunk(`{"tool_calls":[{"index":$number,"function":{"arguments":$piece}}]}`),
		"end":       completionsChunk(`{}`) + "\n{" + chatChunk + `,"choices":[],"usage":$usage}` + "\n[DONE]",
		"usage": `{"prompt_tokens":$in,"completion_tokens":$out,"total_tokens":$total,` +
			`"completion_tokens_details":{"reasoning_tokens":$thought}}`,
		"call part": `{"id":"$call","type":"function","function":{"name":$name,"arguments":$said}}`,
		"whole": `{` + chatWhole + `,"usage":$usage,"choices":[{"index":0,"finish_reason":$stop,` +
			`"message":{"role":"assistant","content":$texts,"reasoning_content":$thoughts,"tool_calls":[$calls]}}]}`,
	},
}

// Members of answers, and of what is sent of one at a time.
const (
	chatWhole = `"id":"$id","object":"chat.completion","created":0,"model":$model`
	chatChunk = `"id":"$id","object":"chat.completion.chunk","created":0,"model":$model`
)

func completionsChunk(delta string) string {
	return `{` + chatChunk + `,"choices":[{"index":0,"delta":` + delta + `,"finish_reason":$stop}],"usage":null}`
}

const completionsFailure = `{"error":{"message":$message,"type":"$error","code":null}}`

// completionsErrors names errors.
var completionsErrors = map[int]string{
	4: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 5: "server_error",
}

// chat makes turns of messages, whose parts are read by part.
func (p *prompt) chat(c any, part func(t *turn, part any) error) error {
	for i, m := range list(c, "messages") {
		t, err := chatTurn(m, part)
		switch {
		case err != nil:
		case t.side != "system" && t.side != "developer":
			p.add(t)
		case len(p.turns) > 0:
			err = errors.New("a system message must come first")
		default:
			p.system += strings.Join(t.texts, "\n")
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

func chatTurn(m any, part func(t *turn, part any) error) (turn, error) {
	t := turn{side: text(m, "role"), result: text(m, "tool_call_id")}
	if !slices.Contains([]string{sideUser, sideAssistant, sideTool, "system", "developer"}, t.side) {
		return t, fmt.Errorf("unknown role %q", t.side)
	}
	for _, c := range list(m, "tool_calls") {
		c := call{text(c, "id"), text(c, "function.name"), text(c, "function.arguments")}
		if !json.Valid([]byte(c.args)) {
			return t, fmt.Errorf("arguments of call %q are not JSON", c.id)
		}
		t.calls = append(t.calls, c)
	}
	if !has(m, "content") && len(t.calls) > 0 && t.side == sideAssistant {
		return t, nil
	}
	err := t.read(get(m, "content"), part)
	return t, err
}

func completionsPart(t *turn, part any) error {
	switch kind := text(part, "type"); kind {
	case "text":
		t.texts = append(t.texts, text(part, "text"))
	case "image_url":
		return t.showURL(get(part, "image_url.url"))
	default:
		return fmt.Errorf("unknown content part %q", kind)
	}
	return nil
}
