package agenttest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// interrupted is how a runtime tells the model that its answer was, and notRun that calls in it are
// not made.
var (
	interrupted = regexp.MustCompile(`^<advisory>\s*Your reply was interrupted\b`)
	notRun      = regexp.MustCompile(`^This call did not run: the response was interrupted\b`)
)

// question is what a model was asked before it was interrupted, in a form that can be compared, and
// what it has said to that already.
func question(messages []providers.Message) (asked, said string) {
	for len(messages) > 0 {
		m := messages[len(messages)-1]
		text, only := texts(m)
		if n := len(messages); n > 1 && cutOff(m) {
			text, _ = texts(messages[n-2])
			messages, said = messages[:n-2], text+said
			continue
		}
		if !only || m.Role == providers.RoleTool || m.Role == providers.RoleUser && !interrupted.MatchString(text) {
			break
		}
		if m.Role == providers.RoleAssistant {
			said = text + said
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
	return out.String(), said
}

// cutOff reports whether a message says that none of the calls before it was made, because the reply
// with them was interrupted.
func cutOff(m providers.Message) bool {
	return m.Role == providers.RoleTool && !slices.ContainsFunc(m.Parts, func(p providers.Part) bool {
		r, ok := p.(providers.ToolResult)
		if !ok || !r.IsError || len(r.Content) != 1 {
			return true
		}
		text, ok := r.Content[0].(providers.Text)
		return !ok || !notRun.MatchString(text.Text)
	})
}

// texts joins the texts of a message and reports whether there is nothing else but reasoning in it.
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
