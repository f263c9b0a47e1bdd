package providers_test

import (
	"context"
	"encoding/json"
	"io"
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

// sized is content of a given size.
type sized int64

func (s sized) Size() int64                               { return int64(s) }
func (sized) Open(context.Context) (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF }

// known returns an inspected image that was sent as a PNG.
func known(size int64, mimeType string, width, height int) providers.Image {
	return providers.Image{MimeType: "image/png", Content: sized(size), Facts: &providers.ImageFacts{MimeType: mimeType, Width: width, Height: height}}
}

// sent returns the image in the form for the model.
func sent(size int64, mimeType string, width, height int) providers.Image {
	i := known(size, mimeType, width, height)
	i.MimeType = mimeType
	return i
}

// TestVendorImageLimits covers vendors with lower limits, and limits raised by authors.
// covers: providers/178
func TestVendorImageLimits(t *testing.T) {
	large, wide := known(4<<20, "image/png", 1, 1), known(1, "image/png", 8001, 1)
	for _, tt := range []struct {
		api         string
		limits      providers.InputLimits
		large, wide bool
	}{
		{"openai-completions", providers.InputLimits{}, true, true},
		{"anthropic-messages", providers.InputLimits{}, false, false},
		{"bedrock-converse-stream", providers.InputLimits{ImageBytes: 4718592, ImageSide: 2000}, false, false},
		{"anthropic-messages", providers.InputLimits{ImageBytes: 6 << 20}, true, false},
		{"anthropic-messages", providers.InputLimits{ImageSide: 9000}, false, true},
	} {
		m := providers.Model{Provider: "p", ID: "m", API: tt.api, Input: []string{"image"}, InputLimits: tt.limits}
		req, _ := providers.Transform(m, providers.Request{Messages: []message{user(large, wide)}}, providers.Options{})
		for i, taken := range []bool{tt.large, tt.wide} {
			if _, ok := req.Messages[0].Parts[i].(providers.Image); ok != taken {
				t.Errorf("%s with %+v: image %d: got accepted %v, want %v", tt.api, tt.limits, i, ok, taken)
			}
		}
	}
}

// covers: providers/178
func TestTransformImageFacts(t *testing.T) {
	picture := providers.Image{MimeType: "image/png", Content: providers.Bytes{1}}
	noPicture := text("(A file that was sent as an image was left out here: it is no PNG, JPEG, GIF or WebP picture.)")
	for _, tt := range []struct {
		name     string
		input    []string
		in, want message
	}{
		{"no pictures", []string{"image"}, user(known(1, "", 0, 0), known(0, "image/png", 1, 1)), user(noPicture, noPicture)},
		{"many pixels", []string{"image"}, user(known(1, "image/png", 1<<14, 1), known(1, "image/png", 1, 1<<14+1)),
			user(sent(1, "image/png", 1<<14, 1), text("(An image of 1 × 16385 pixels was left out here: this model takes 16384 a side.)"))},
		{"many bytes", []string{"image"}, user(known(15<<20, "image/gif", 1, 1), known(15<<20+1, "image/gif", 1, 1)),
			user(sent(15<<20, "image/gif", 1, 1), text("(An image was left out here: encoded it has 20971524 bytes, and this model takes 20971520.)"))},
		{"another type than declared", []string{"image"}, user(known(1, "image/webp", 3, 4)), user(sent(1, "image/webp", 3, 4))},
		{"unknown image size", []string{"image"}, user(picture), user(picture)},
		{"none are taken", []string{"text"}, user(known(1, "", 0, 0), picture), user(text("(An image was left out here: this model reads text only.)"))},
	} {
		req, _ := providers.Transform(providers.Model{Input: tt.input}, providers.Request{Messages: []message{tt.in}}, providers.Options{})
		if diff := cmp.Diff([]message{tt.want}, req.Messages); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// covers: providers/175, providers/35 images_of_tools, providers/35 runs_of_images
func TestTransformMessages(t *testing.T) {
	picture := providers.Image{MimeType: "image/png", Content: providers.Bytes{1}}
	hidden := text("(An image was left out here: this model reads text only.)")
	toolHidden := text("(The tool returned an image, left out here: this model reads text only.)")
	thought := providers.Reasoning{Text: "hm", Signature: "s"}
	signed := call("a", `{}`)
	signed.Signature = "c"
	assistantMessage := assistant(providers.Reasoning{Signature: "r"}, providers.Text{Text: "t", Signature: "t"}, signed, thought, providers.Text{Signature: "u"})
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
			[]message{by("p/m", assistantMessage), by("p/other", assistantMessage)},
			[]message{by("p/m", assistantMessage), tool(noResult("a")), by("p/other", assistant(text("t"), call("a", `{}`))), tool(noResult("a"))}},
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
				t.Errorf("transform is not idempotent (-once +twice):\n%s", diff)
			}
		})
	}
}

// covers: providers/10 left_to_the_vendor, providers/31 higher_limit, providers/31 model's_limit
// covers: providers/33 does_not_reason, providers/177 a_level_that_it_does_not_have
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
			t.Errorf("%q: got valid %v, want %v", level, !want, want)
		}
	}
}
