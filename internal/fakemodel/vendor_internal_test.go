package fakemodel

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestFormsAreJSON fills in all forms of the vendors' files, most of which other tests use. It finds
// undefined names and syntax errors.
func TestFormsAreJSON(t *testing.T) {
	object, filled := regexp.MustCompile(`^(?:[\w.]+ )?(\{.*)$`), 0
	for name, f := range map[string]*vendor{
		"completions": completions, "mistral": mistral, "messages": messages, "converse": converse, "google": google,
		"openai": openAI, "azure": azure, "codex": codex,
	} {
		for key, form := range f.forms {
			for _, kind := range []string{blockText, blockThinking, blockCall} {
				b := &block{kind: kind, content: []byte("{}"), id: "c1", name: "n"}
				a := &answer{of: f, p: &prompt{model: "gemini-3-codex"}, blocks: []*block{b}, finish: finishStop, status: 500}
				for line := range strings.SplitSeq(string(a.appendForm(nil, form, b)), "\n") {
					if found := object.FindStringSubmatch(line); found != nil && !json.Valid([]byte(found[1])) {
						t.Errorf("%s: form %q is not JSON: %s", name, key, found[1])
					}
					filled++
				}
			}
		}
	}
	if filled < 500 {
		t.Errorf("got %d forms, want at least 500", filled)
	}
}
