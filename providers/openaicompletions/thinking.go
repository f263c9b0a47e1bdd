package openaicompletions

import (
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/providers"
)

// Values of Compat.ThinkingFormat.
const (
	thinkOpenAI       = "openai"
	thinkOpenRouter   = "openrouter"
	thinkDeepSeek     = "deepseek"
	thinkZai          = "zai"
	thinkQwen         = "qwen"
	thinkQwenTemplate = "qwen-chat-template"
	thinkTemplate     = "chat-template"
	thinkBaseten      = "baseten"
	thinkTogether     = "together"
	thinkAntLing      = "ant-ling"
	thinkString       = "string-thinking"
)

// thinker encodes the thinking level for a server.
type thinker struct {
	d     dialect
	m     providers.Model
	level providers.ThinkingLevel
}

// on reports whether thinking is requested.
func (t thinker) on() bool { return t.level != providers.ThinkingOff }

// word returns the server's value for the level.
func (t thinker) word() string {
	if w, ok := t.m.Thinking[t.level]; ok && w != nil {
		return *w
	}
	if t.d.levels {
		return string(t.level)
	}
	switch t.level {
	case providers.ThinkingMinimal, providers.ThinkingLow:
		return "low"
	case providers.ThinkingMedium:
		return "medium"
	}
	return "high"
}

// offWord returns the server's value for no thinking. ok is false if the model has none.
func (t thinker) offWord(otherwise string) (word string, ok bool) {
	w, listed := t.m.Thinking[providers.ThinkingOff]
	switch {
	case !listed:
		return otherwise, otherwise != ""
	case w == nil:
		return "", false
	}
	return *w, true
}

// effort returns reasoning_effort for servers with a separate switch, "" for none.
func (t thinker) effort() string {
	if t.on() && t.d.effort {
		return t.word()
	}
	return ""
}

// fill sets the level in the body in the server's format. The level is not empty.
func (t thinker) fill(b *body) error {
	switched := map[string]any{"type": "disabled"}
	if t.on() {
		switched["type"] = "enabled"
	}
	_, canStop := t.offWord("none")
	switch t.d.thinking {
	case thinkZai:
		if t.on() {
			switched["clear_thinking"] = false
		}
		b.Thinking, b.ReasoningEffort = switched, t.effort()
	case thinkDeepSeek:
		if t.on() || canStop {
			b.Thinking = switched
		}
		b.ReasoningEffort = t.effort()
	case thinkQwen:
		b.EnableThinking, b.ReasoningEffort = new(t.on()), t.effort()
	case thinkQwenTemplate:
		b.ChatTemplateKwargs = map[string]any{"enable_thinking": t.on(), "preserve_thinking": true}
	case thinkTemplate:
		return t.template(&b.ChatTemplateKwargs, t.m.Compat.ChatTemplateKwargs)
	case thinkBaseten:
		t.openAI(b)
		return t.template(&b.ChatTemplateArgs, t.m.Compat.ChatTemplateArgs)
	case thinkTogether:
		b.Reasoning, b.ReasoningEffort = map[string]any{"enabled": t.on()}, t.effort()
	case thinkOpenRouter:
		if word, ok := t.either("none"); ok {
			b.Reasoning = map[string]any{"effort": word}
		}
	case thinkAntLing:
		if w := t.m.Thinking[t.level]; t.on() && w != nil {
			b.Reasoning = map[string]any{"effort": *w}
		}
	case thinkString:
		if word, ok := t.either("none"); ok {
			b.Thinking = word
		}
	default:
		t.openAI(b)
	}
	return nil
}

// either returns the value for the level, or none if thinking is off.
func (t thinker) either(none string) (string, bool) {
	if t.on() {
		return t.word(), true
	}
	return t.offWord(none)
}

func (t thinker) openAI(b *body) {
	if !t.d.effort {
		return
	}
	b.ReasoningEffort, _ = t.either("")
}

// template expands the variables of a chat template object.
func (t thinker) template(dst *map[string]any, text providers.Object) error {
	if text == "" {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return fmt.Errorf("decode template values: %w", err)
	}
	out := map[string]any{}
	for name, raw := range members {
		var variable struct {
			Name        string `json:"$var"`
			OmitWhenOff bool   `json:"omitWhenOff"`
		}
		if json.Unmarshal(raw, &variable) != nil || variable.Name == "" {
			out[name] = raw
			continue
		}
		if variable.OmitWhenOff && !t.on() {
			continue
		}
		switch word, ok := t.either(""); {
		case variable.Name == "thinking.enabled":
			out[name] = t.on()
		case variable.Name == "thinking.effort" && ok:
			out[name] = word
		case variable.Name == "thinking.budget" && t.on():
			out[name] = t.level.Budget()
		}
	}
	*dst = out
	return nil
}
