package fakemodel

import (
	"errors"
	"fmt"
	"regexp"
)

// mistral is Mistral's format. Calls come whole, and usage with the reason to stop.
var mistral = &vendor{
	key:    bearer,
	strict: true,
	call: example(`{"model": "", "stream": true, "max_tokens": 0, "temperature": 0, "prompt_mode": "", "reasoning_effort": "",
		"prompt_cache_key": "", "stop": [""], "tool_choice": null, "messages": [` + completionsMessage + `],
		"tools": [{"type": "", "function": {"name": "", "description": "", "parameters": null, "strict": true}}]}`),
	limits:  []string{"max_tokens"},
	efforts: []string{"reasoning_effort", "prompt_mode"},
	tools:   "tools.*.function.name",
	read: func(p *prompt, c any) error {
		before := ""
		for i, m := range list(c, "messages") {
			if err := checkMistral(m, before); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			before = text(m, "role")
		}
		return p.chat(c, mistralChunk)
	},
	// It has no word for filter.
	finishes: map[string]string{finishStop: `"stop"`, finishLength: `"length"`, finishTool: `"tool_calls"`, finishFilter: `"error"`},
	errors:   completionsErrors,
	says: map[string]string{
		"failure":       `{"object":"error","message":$message,"type":"$error","param":null,"code":null,"raw_status_code":$status}`,
		"text more":     mistralDelta(`$piece`, ""),
		"thinking more": mistralDelta(`[{"type":"thinking","thinking":[{"type":"text","text":$piece}]}]`, ""),
		"call shut":     mistralDelta(`null,"tool_calls":[$part]`, ""),
		"end":           mistralDelta(`""`, `,"usage":$usage`) + "\n[DONE]",
		"usage": `{"prompt_tokens":$in,"completion_tokens":$out,"total_tokens":$total,` +
			`"prompt_tokens_details":{"cached_tokens":0}}`,
		"call part": `{"id":"$call","type":"function","index":$number,"function":{"name":$name,"arguments":$said}}`,
		"whole": `{` + chatWhole + `,"usage":$usage,"choices":[{"index":0,"finish_reason":$stop,` +
			`"message":{"role":"assistant","tool_calls":[$calls],"content":$content}}]}`,
		"content": `[{"type":"thinking","thinking":[{"type":"text","text":$thoughts}]},{"type":"text","text":$texts}]`,
	},
	fill: func(a *answer, _ *block, name string) string {
		if a.said(blockThinking) == "" {
			return a.expand("$texts", nil)
		}
		return a.form(name, nil)
	},
}

func mistralDelta(content, more string) string {
	return `{` + chatChunk + `,"choices":[{"index":0,"delta":{$role"content":` + content + `},"finish_reason":$stop}]` + more + `}`
}

// mistralID is an id of a call.
var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// checkMistral finds what other vendors of chat-completions take of a message.
func checkMistral(m any, before string) error {
	role := text(m, "role")
	ids := texts(m, "tool_calls.*.id")
	if role == sideTool {
		ids = append(ids, text(m, "tool_call_id"))
	}
	for _, id := range ids {
		if !mistralID.MatchString(id) {
			return fmt.Errorf("id %q of a call has not nine letters and digits", id)
		}
	}
	switch {
	case before == sideTool && role != sideTool && role != sideAssistant:
		return fmt.Errorf("unexpected role %q after role %q", role, before)
	case role == "developer":
		return errors.New("unknown role")
	}
	return nil
}

func mistralChunk(t *turn, c any) error {
	kind := text(c, "type")
	switch own := t.side == sideAssistant; {
	case kind == "text":
		t.texts = append(t.texts, text(c, "text"))
	case kind == "thinking" && own && len(list(c, "thinking")) > 0:
	case kind == "image_url" && !own:
		return t.showURL(get(c, "image_url"))
	default:
		return fmt.Errorf("unknown chunk %q of %s", kind, t.side)
	}
	return nil
}
