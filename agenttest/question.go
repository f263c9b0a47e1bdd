package agenttest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// interrupted is the runtime's message to a model whose answer was interrupted. notRun reports that
// the calls in the answer were not executed.
var (
	interrupted = regexp.MustCompile(`^<advisory>\s*Your reply was interrupted\b`)
	notRun      = regexp.MustCompile(`^This call did not run: the response was interrupted\b`)
)

// question returns the model's input before the interruption, in comparable form, and the output so
// far.
func question(messages []providers.Message) (asked, transcript string) {
	for len(messages) > 0 {
		m := messages[len(messages)-1]
		text, only := texts(m)
		if n := len(messages); n > 1 && droppedCalls(m) {
			text, _ = texts(messages[n-2])
			messages, transcript = messages[:n-2], text+transcript
			continue
		}
		if !only || m.Role == providers.RoleTool || m.Role == providers.RoleUser && !interrupted.MatchString(text) {
			break
		}
		if m.Role == providers.RoleAssistant {
			transcript = text + transcript
		}
		messages = messages[:len(messages)-1]
	}
	var out strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&out, "\n%s", m.Role)
		for _, p := range m.Parts {
			if image, ok := p.(providers.Image); ok {
				p = providers.Text{Text: fmt.Sprintf("%s of %d bytes", image.MimeType, image.Content.Size())}
			}
			fmt.Fprintf(&out, " %T%+q", p, p)
		}
	}
	return out.String(), transcript
}

// droppedCalls reports whether a message states that the preceding calls were not executed, because
// the reply was interrupted.
func droppedCalls(m providers.Message) bool {
	return m.Role == providers.RoleTool && !slices.ContainsFunc(m.Parts, func(p providers.Part) bool {
		r, ok := p.(providers.ToolResult)
		if !ok || !r.IsError || len(r.Content) != 1 {
			return true
		}
		text, ok := r.Content[0].(providers.Text)
		return !ok || !notRun.MatchString(text.Text)
	})
}

// texts joins the texts of a message. only reports whether it contains nothing else but reasoning.
func texts(m providers.Message) (text string, only bool) {
	only = true
	for _, p := range m.Parts {
		switch p := p.(type) {
		case providers.Text:
			text += p.Text
		case providers.Reasoning:
		default:
			only = false
		}
	}
	return text, only
}
