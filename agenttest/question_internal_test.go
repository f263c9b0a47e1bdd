package agenttest

import (
	"testing"

	"github.com/parleyrun/parley/providers"
)

// TestQuestionAskedAgain verifies that messages about a crash are no part of the question.
func TestQuestionAskedAgain(t *testing.T) {
	text := func(r providers.Role, s string) providers.Message {
		return providers.Message{Role: r, Parts: []providers.Part{providers.Text{Text: s}}}
	}
	ask, continued := text(providers.RoleUser, "Tea?"), text(providers.RoleUser, "<advisory>\nYour reply was interrupted. What you had written is kept.\n</advisory>")
	call := func(transcript, result string, failed bool) []providers.Message {
		return []providers.Message{
			{Role: providers.RoleAssistant, Parts: []providers.Part{providers.Text{Text: transcript}, providers.ToolCall{ID: "1", Name: "pour"}}},
			{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{
				CallID: "1", Name: "pour", IsError: failed, Content: []providers.Part{providers.Text{Text: result}},
			}}},
		}
	}
	const notRun = "This call did not run: the response was interrupted before it started. Call the tool again if it is still needed."
	asked, _ := question([]providers.Message{ask})
	for name, tt := range map[string]struct {
		more       []providers.Message
		same       bool
		transcript string
	}{
		"an interrupted text":           {[]providers.Message{text(providers.RoleAssistant, "Yes, "), continued}, true, "Yes, "},
		"an interrupted call":           {call("", notRun, true), true, ""},
		"a text and a call":             {call("I pour. ", notRun, true), true, "I pour. "},
		"twice":                         {append(call("I ", notRun, true), text(providers.RoleAssistant, "pour. "), continued), true, "I pour. "},
		"a call that has run":           {call("", "poured", false), false, ""},
		"a call that has failed":        {call("", "no tea", true), false, ""},
		"an outcome with the same text": {call("", notRun, false), false, ""},
	} {
		got, transcript := question(append([]providers.Message{ask}, tt.more...))
		if (got == asked) != tt.same || transcript != tt.transcript {
			t.Errorf("%s: got same question %v, output %q", name, got == asked, transcript)
		}
	}
}
