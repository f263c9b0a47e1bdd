package providers_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

type (
	parts   = []providers.Part
	message = providers.Message
)

func text(s string) providers.Text { return providers.Text{Text: s} }

func user(p ...providers.Part) message      { return message{Role: providers.RoleUser, Parts: p} }
func assistant(p ...providers.Part) message { return message{Role: providers.RoleAssistant, Parts: p} }
func tool(p ...providers.Part) message      { return message{Role: providers.RoleTool, Parts: p} }

func call(id, arguments string) providers.ToolCall {
	return providers.ToolCall{ID: id, Name: "f", Arguments: json.RawMessage(arguments)}
}

func result(id, s string) providers.ToolResult {
	return providers.ToolResult{CallID: id, Name: "f", Content: parts{text(s)}}
}

func noResult(id string) providers.ToolResult {
	r := result(id, "There is no result: the call was interrupted, and whether it took effect is unknown.")
	r.IsError = true
	return r
}

func TestTransformMessages(t *testing.T) {
	picture := providers.Image{MimeType: "image/png", Content: providers.Bytes{1}}
	hidden := text("(An image was left out here: this model reads text only.)")
	toolHidden := text("(The tool returned an image, left out here: this model reads text only.)")
	thought := providers.Reasoning{Text: "hm", Signature: "s"}
	signed := call("a", `{}`)
	signed.Signature = "c"
	said := assistant(providers.Reasoning{Signature: "r"}, providers.Text{Text: "t", Signature: "t"}, signed, thought, providers.Text{Signature: "u"})
	by := func(model string, m message) message {
		m.Model = model
		return m
	}
	tests := []struct {
		name     string
		input    []string
		in, want []message
	}{
		{"nothing to do", nil, []message{user(text("a")), assistant(text("b"))}, []message{user(text("a")), assistant(text("b"))}},
		{"images seen", []string{"text", "image"}, []message{user(picture, text("a"))}, []message{user(picture, text("a"))}},
		{"runs of images", []string{"text"}, []message{user(picture, picture, text("a"), picture)}, []message{user(hidden, text("a"), hidden)}},
		{"images of tools", nil,
			[]message{assistant(call("a", `{}`)), tool(providers.ToolResult{CallID: "a", Content: parts{picture, picture}})},
			[]message{assistant(call("a", `{}`)), tool(providers.ToolResult{CallID: "a", Name: "f", Content: parts{toolHidden}})}},
		{"empty texts", nil, []message{user(text("")), assistant(), user(text("a"), text(""))}, []message{user(text("a"))}},
		{"orphan at the end", nil, []message{assistant(call("a", `{}`))}, []message{assistant(call("a", `{}`)), tool(noResult("a"))}},
		{"orphan before a message", nil,
			[]message{assistant(call("a", `{}`)), user(text("b"))},
			[]message{assistant(call("a", `{}`)), tool(noResult("a")), user(text("b"))}},
		{"orphan beside a result, order of calls", nil,
			[]message{assistant(call("a", `{}`), call("b", `{}`), call("c", `{}`)), tool(result("c", "C")), tool(result("a", "A"))},
			[]message{assistant(call("a", `{}`), call("b", `{}`), call("c", `{}`)), tool(result("a", "A"), noResult("b"), result("c", "C"))}},
		{"result behind a message", nil,
			[]message{assistant(call("a", `{}`)), user(text("b")), tool(result("a", "A"))},
			[]message{assistant(call("a", `{}`)), tool(result("a", "A")), user(text("b"))}},
		{"result behind the next answer", nil,
			[]message{assistant(call("a", `{}`)), assistant(text("b")), tool(result("a", "A"))},
			[]message{assistant(call("a", `{}`)), tool(noResult("a")), assistant(text("b"))}},
		{"result without call", nil, []message{tool(result("x", "X")), user(text("a")), tool(result("y", "Y"))}, []message{user(text("a"))}},
		{"second result", nil,
			[]message{assistant(call("a", `{}`)), tool(result("a", "A"), result("a", "B"))},
			[]message{assistant(call("a", `{}`)), tool(result("a", "A"))}},
		{"same ids", nil,
			[]message{assistant(call("", `{}`), call("", `{}`), call("call_2", `{}`)), tool(result("", "A"), result("", "B"), result("call_2", "C"))},
			[]message{assistant(call("call", `{}`), call("call_2", `{}`), call("call_2_2", `{}`)), tool(result("call", "A"), result("call_2", "B"), result("call_2_2", "C"))}},
		{"arguments", nil,
			[]message{assistant(call("a", ``), call("b", `null`), call("c", `[1]`), call("d", `"x"`), call("e", `{`), call("f", ` {"n":12345678901234567890}`))},
			[]message{
				assistant(call("a", `{}`), call("b", `{}`), call("c", `{"malformed_arguments":[1]}`), call("d", `{"malformed_arguments":"x"}`),
					call("e", `{"malformed_arguments":"{"}`), call("f", ` {"n":12345678901234567890}`)),
				tool(noResult("a"), noResult("b"), noResult("c"), noResult("d"), noResult("e"), noResult("f")),
			}},
		{"reasoning", nil,
			[]message{by("p/m", assistant(thought, text("a"))), by("p/other", assistant(thought, text("b"))), assistant(thought)},
			[]message{by("p/m", assistant(thought, text("a"))), by("p/other", assistant(text("b")))}},
		{"signatures, in their order", nil,
			[]message{by("p/m", said), by("p/other", said)},
			[]message{by("p/m", said), tool(noResult("a")), by("p/other", assistant(text("t"), call("a", `{}`))), tool(noResult("a"))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := providers.Model{Provider: "p", ID: "m", Input: tt.input}
			got, _ := providers.Transform(m, providers.Request{System: "s", Messages: tt.in}, providers.Options{})
			if diff := cmp.Diff(tt.want, got.Messages); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, _ := providers.Transform(m, got, providers.Options{})
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("a second time changes more (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestTransformOptions(t *testing.T) {
	tests := []struct {
		name     string
		m        providers.Model
		in, want providers.Options
	}{
		{"does not reason", providers.Model{}, providers.Options{ThinkingLevel: "high"}, providers.Options{}},
		{"reasons", providers.Model{Reasoning: true}, providers.Options{ThinkingLevel: "high"}, providers.Options{ThinkingLevel: "high"}},
		{"off", providers.Model{Reasoning: true}, providers.Options{ThinkingLevel: "off"}, providers.Options{ThinkingLevel: "off"}},
		{"off of a model that always thinks", providers.Model{Reasoning: true, Thinking: providers.ThinkingMap{"off": nil}}, providers.Options{ThinkingLevel: "off"},
			providers.Options{ThinkingLevel: "off"}},
		{"left to the vendor", providers.Model{Reasoning: true}, providers.Options{}, providers.Options{}},
		{"a level that it does not have", providers.Model{Reasoning: true}, providers.Options{ThinkingLevel: "max"}, providers.Options{ThinkingLevel: "high"}},
		{"model's limit", providers.Model{MaxTokens: 9}, providers.Options{}, providers.Options{MaxTokens: 9}},
		{"lower limit", providers.Model{MaxTokens: 9}, providers.Options{MaxTokens: 5}, providers.Options{MaxTokens: 5}},
		{"higher limit", providers.Model{MaxTokens: 9}, providers.Options{MaxTokens: 50}, providers.Options{MaxTokens: 9}},
		{"unknown limit", providers.Model{}, providers.Options{MaxTokens: 50}, providers.Options{MaxTokens: 50}},
		{"rest stays", providers.Model{}, providers.Options{APIKey: "k", SessionID: "s"}, providers.Options{APIKey: "k", SessionID: "s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := providers.Transform(tt.m, providers.Request{}, tt.in)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestThinkingLevelValid(t *testing.T) {
	for level, want := range map[providers.ThinkingLevel]bool{"": true, "off": true, "xhigh": true, "max": true, "extreme": false, "High": false} {
		if level.Valid() != want {
			t.Errorf("%q: valid %v, want %v", level, !want, want)
		}
	}
}
