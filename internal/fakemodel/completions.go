package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var completions = newVendor("completions", vendor{read: func(p *prompt, c any) error {
	if p.stream && get(c, "stream_options.include_usage") != true {
		return errors.New("stream_options.include_usage is missing; without it the usage is lost")
	}
	return p.chat(c, partsOf{"text": "text", "image_url": "image_url.url"})
}})

// chat converts messages to turns.
func (p *prompt) chat(c any, parts partsOf) error {
	for i, m := range list(c, "messages") {
		t, err := chatTurn(m, parts)
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

func chatTurn(m any, parts partsOf) (turn, error) {
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
	err := t.read(get(m, "content"), parts)
	return t, err
}
