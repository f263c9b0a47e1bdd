package fakemodel

import (
	"errors"
	"fmt"
	"regexp"
)

var mistral = newVendor("mistral", vendor{
	read: func(p *prompt, c any) error {
		before := ""
		for i, m := range list(c, "messages") {
			if err := checkMistral(m, before); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			before = text(m, "role")
		}
		return p.chat(c, partsOf{"text": "text", "+thinking": "thinking", "-image_url": "image_url"})
	},
	fill: func(a *answer, _ *block, _ string) string { // fills the only name, $content
		if a.content(blockThinking) == "" {
			return quote(a.content(blockText))
		}
		return a.form("content and thoughts", nil)
	},
})

var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// checkMistral rejects messages that other vendors of chat-completions accept.
func checkMistral(m any, before string) error {
	role := text(m, "role")
	ids := texts(m, "tool_calls.*.id")
	if role == sideTool {
		ids = append(ids, text(m, "tool_call_id"))
	}
	for _, id := range ids {
		if !mistralID.MatchString(id) {
			return fmt.Errorf("call id %q must have nine letters and digits", id)
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
