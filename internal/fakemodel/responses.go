package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Types of items.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemResult    = "function_call_output"
)

// Phases of messages, for models whose names end with "-codex".
const (
	phaseComment = "commentary"
	phaseFinal   = "final_answer"
)

// Variants of the responses format. They differ in keys, checks and the form of errors, which by
// default is that of chat-completions.
var (
	openAI = newVendor("completions responses", responses(refuseResponses))
	azure  = newVendor("completions responses azure", responses(refuseResponses))
	codex  = newVendor("completions responses codex", responses(refuseCodex))
)

func responses(refuse func(call any) error) vendor {
	return vendor{
		read: func(p *prompt, c any) error {
			if err := refuse(c); err != nil {
				return err
			}
			return p.addItems(list(c, "input"))
		},
		fill: func(a *answer, b *block, name string) string {
			switch {
			case name == "encrypted": // the encrypted content is incomplete at first
				return quote(a.p.encrypt(string(b.content)))
			case len(b.content) == 0 || !strings.HasSuffix(a.p.model, "-codex"): // the phase of a complete message
				return ""
			case a.finish != "" && b == a.last():
				return `"phase":"` + phaseFinal + `",`
			}
			return `"phase":"` + phaseComment + `",`
		},
	}
}

// refuseResponses rejects calls that no variant accepts.
func refuseResponses(c any) error {
	switch n := number(c, "max_output_tokens"); {
	case n != 0 && n < 16:
		return errors.New("max_output_tokens: integer below minimum value 16")
	case len(text(c, "prompt_cache_key")) > 64:
		return errors.New("prompt_cache_key: string too long")
	case has(c, "reasoning") && has(c, "temperature"):
		return errors.New("unsupported parameter: 'temperature' is not supported with this model")
	case has(c, "reasoning") && !slices.Contains(list(c, "include"), any("reasoning.encrypted_content")):
		return errors.New("include lacks reasoning.encrypted_content; without it the reasoning is lost")
	}
	return nil
}

func refuseCodex(c any) error {
	switch {
	case number(c, "max_output_tokens") != 0:
		return errors.New("unsupported parameter: max_output_tokens")
	case get(c, "store") == true:
		return errors.New("store must be set to false")
	case get(c, "stream") != true:
		return errors.New("stream must be set to true")
	case text(c, "instructions") == "":
		return errors.New("instructions are required")
	case slices.ContainsFunc(list(c, "input"), isSystem):
		return errors.New("system messages are instructions of a subscription")
	}
	return refuseResponses(c)
}

func isSystem(item any) bool {
	return text(item, "role") == "system" || text(item, "role") == "developer"
}

// isEmitted reports whether an item is model output.
func isEmitted(item any) bool {
	kind := text(item, "type")
	return text(item, "role") == sideAssistant || kind == itemReasoning || kind == itemCall
}

func (p *prompt) addItems(items []any) error {
	for i, item := range items {
		var err error
		if text(item, "type") == itemReasoning && (i+1 == len(items) || !isEmitted(items[i+1])) {
			err = errors.New("item of type 'reasoning' was provided without its required following item")
		} else {
			err = p.addItem(item)
		}
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	return nil
}

// addItem converts an item to a turn. Consecutive items of the model are one turn.
func (p *prompt) addItem(item any) error {
	role, content := text(item, "role"), get(item, "content")
	t := &turn{side: role}
	if isEmitted(item) {
		if n := len(p.turns); n == 0 || p.turns[n-1].side != sideAssistant {
			p.turns = append(p.turns, turn{side: sideAssistant})
		}
		t = &p.turns[len(p.turns)-1]
	}
	switch kind := text(item, "type"); kind {
	case itemReasoning:
		if text(item, "encrypted_content") != p.encrypt(strings.Join(texts(item, "summary.*.text"), "")) {
			return errors.New("invalid_encrypted_content: the encrypted content could not be verified")
		}
		return nil
	case itemCall:
		c := call{text(item, "call_id"), text(item, "name"), text(item, "arguments")}
		if len(c.id) > 64 || !json.Valid([]byte(c.args)) {
			return fmt.Errorf("call_id %q is too long, or its arguments are not JSON", c.id)
		}
		t.calls = append(t.calls, c)
		return nil
	case itemResult:
		t.side, t.result, content = sideTool, text(item, "call_id"), get(item, "output")
	case "", itemMessage:
		switch {
		case isSystem(item) && len(p.turns) > 0:
			return errors.New("system messages must come first")
		case !isSystem(item) && role != sideUser && role != sideAssistant:
			return fmt.Errorf("unknown role %q", role)
		case !slices.Contains([]string{"", phaseComment, phaseFinal}, text(item, "phase")):
			return fmt.Errorf("unknown phase %q", text(item, "phase"))
		}
	default:
		return fmt.Errorf("unknown item type %q", kind)
	}
	err := t.read(content, partsOf{"+output_text": "text", "-input_text": "text", "-input_image": "image_url"})
	switch {
	case isSystem(item):
		p.system += strings.Join(t.texts, "\n")
	case t.side != sideAssistant:
		p.turns = append(p.turns, *t)
	}
	return err
}

// encrypt returns a stand-in for reasoning that only its model can read.
func (p *prompt) encrypt(thoughts string) string { return sign(p.model + " " + thoughts) }
