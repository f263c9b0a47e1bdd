package providers_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// TestSetCopilot checks the request headers, without user identity.
// covers: providers/119
func TestSetCopilot(t *testing.T) {
	user := func(parts ...providers.Part) providers.Message {
		return providers.Message{Role: providers.RoleUser, Parts: parts}
	}
	picture := providers.Image{MimeType: "image/png", Content: providers.Bytes("x")}
	text := providers.Text{Text: "q"}
	result := providers.Message{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "c", Content: []providers.Part{text, picture}}}}
	called := providers.Message{Role: providers.RoleAssistant, Parts: []providers.Part{providers.ToolCall{ID: "c", Name: "f"}}}
	block := func(messages ...providers.Message) []*providers.Block {
		return []*providers.Block{providers.NewBlock(messages)}
	}
	sees := []string{providers.InputText, providers.InputImage}
	header := func(initiator, vision string) http.Header {
		h := http.Header{"X-Initiator": {initiator}, "Openai-Intent": {"conversation-edits"}}
		if vision != "" {
			h["Copilot-Vision-Request"] = []string{vision}
		}
		return h
	}
	for name, tt := range map[string]struct {
		provider string
		input    []string
		req      providers.Request
		want     http.Header
	}{
		"another provider":         {"openai", sees, providers.Request{Messages: []providers.Message{user(picture)}}, http.Header{}},
		"nothing":                  {"github-copilot", sees, providers.Request{}, header("user", "")},
		"a person":                 {"github-copilot", sees, providers.Request{Messages: []providers.Message{user(text)}}, header("user", "")},
		"a person, an image":       {"github-copilot", sees, providers.Request{Messages: []providers.Message{user(text, picture)}}, header("user", "true")},
		"a result, an image":       {"github-copilot", sees, providers.Request{Messages: []providers.Message{user(text), called, result}}, header("agent", "true")},
		"an image long ago":        {"github-copilot", sees, providers.Request{History: block(user(picture)), Messages: []providers.Message{user(text)}}, header("user", "true")},
		"a result in blocks alone": {"github-copilot", sees, providers.Request{History: block(user(text), called, result)}, header("agent", "true")},
		"a model without sight":    {"github-copilot", sees[:1], providers.Request{History: block(user(text), called, result)}, header("agent", "")},
	} {
		m := providers.Model{Provider: tt.provider, ID: "m", Input: tt.input}
		req, _ := providers.Transform(m, tt.req, providers.Options{})
		got := http.Header{}
		providers.SetCopilot(got, m, req)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
