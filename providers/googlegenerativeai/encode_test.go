package googlegenerativeai_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

// Models of both history shapes.
var (
	third  = providers.Model{Provider: "p", ID: "gemini-3-pro", Reasoning: true, Input: []string{"text", "image"}}
	second = providers.Model{Provider: "p", ID: "gemini-2.5-flash", Reasoning: true, Input: []string{"text", "image"}}
	claude = providers.Model{Provider: "p", ID: "claude-opus-4-6", Input: []string{"text", "image"}}
)

func encode(t *testing.T, m providers.Model, req providers.Request, o providers.Options) string {
	t.Helper()
	return providertest.Encoded(t, googlegenerativeai.NewCodec(nil), m, req, o)
}

// contents returns the contents of messages.
func contents(t *testing.T, m providers.Model, messages ...providers.Message) string {
	t.Helper()
	var body struct{ Contents json.RawMessage }
	if err := json.Unmarshal([]byte(encode(t, m, providers.Request{Messages: messages}, providers.Options{})), &body); err != nil {
		t.Fatal(err)
	}
	return providertest.Canonical(t, string(body.Contents))
}

// withoutResults removes the contents of the user.
func withoutResults(t *testing.T, contents string) string {
	t.Helper()
	var all, models []json.RawMessage
	if err := json.Unmarshal([]byte(contents), &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		var of struct{ Role string }
		if err := json.Unmarshal(c, &of); err != nil {
			t.Fatal(err)
		}
		if of.Role == "model" {
			models = append(models, c)
		}
	}
	out, err := json.Marshal(models)
	if err != nil {
		t.Fatal(err)
	}
	return providertest.Canonical(t, string(out))
}

func user(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleUser, Parts: parts}
}

func assistant(model string, parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleAssistant, Model: model, Parts: parts}
}

func results(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleTool, Parts: parts}
}

func called(id, signature string) providers.ToolCall {
	return providers.ToolCall{ID: id, Name: "f", Arguments: json.RawMessage(`{}`), Signature: signature}
}

func result(id string, content ...providers.Part) providers.ToolResult {
	return providers.ToolResult{CallID: id, Name: "f", Content: content}
}

var png = providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")}

// covers: providers/128
func TestEncodeWholeRequest(t *testing.T) {
	m := third
	m.MaxTokens = 100
	temperature := 0.5
	req := providers.Request{
		System: "Be <brief>.",
		Tools: []providers.Tool{
			{Name: "add", Description: "Adds.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)},
			{Name: "now"},
		},
		Messages: []providers.Message{
			user(providers.Text{Text: "See"}, png),
			assistant("p/gemini-3-pro", providers.Reasoning{Text: "plan", Signature: "2:c2ln"}, providers.Text{Text: "I look."},
				providers.ToolCall{ID: "c1", Name: "add", Arguments: json.RawMessage(`{"n": 12345678901234567890}`), Signature: "c2ln"}),
			results(providers.ToolResult{CallID: "c1", Name: "add", Content: []providers.Part{providers.Text{Text: "3"}, png, providers.Text{Text: "4"}}}),
		},
	}
	want := `{
		"systemInstruction": {"parts": [{"text": "Be <brief>."}]},
		"tools": [{"functionDeclarations": [
			{"name": "add", "description": "Adds.", "parametersJsonSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false}},
			{"name": "now", "parametersJsonSchema": {"type": "object", "properties": {}}}
		]}],
		"generationConfig": {"temperature": 0.5, "maxOutputTokens": 100, "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"}},
		"contents": [
			{"role": "user", "parts": [{"text": "See"}, {"inlineData": {"mimeType": "image/png", "data": "YWJj"}}]},
			{"role": "model", "parts": [
				{"text": "pl", "thought": true}, {"text": "an", "thought": true, "thoughtSignature": "c2ln"}, {"text": "I look."},
				{"functionCall": {"id": "c1", "name": "add", "args": {"n": 12345678901234567890}}, "thoughtSignature": "c2ln"}
			]},
			{"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "add", "response": {"output": "3\n4"},
				"parts": [{"inlineData": {"mimeType": "image/png", "data": "YWJj"}}]}}]}
		]
	}`
	got := encode(t, m, req, providers.Options{ThinkingLevel: "high", Temperature: &temperature})
	if diff := cmp.Diff(providertest.Canonical(t, want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// covers: providers/129
func TestEncodeThinking(t *testing.T) {
	pro := providers.ThinkingMap{"off": nil, "minimal": nil, "low": new("low"), "medium": new("medium"), "high": new("high"), "xhigh": nil, "max": nil}
	flash := providers.ThinkingMap{"off": nil, "minimal": new("minimal"), "low": new("low"), "medium": new("medium"), "high": new("high")}
	gemma := providers.ThinkingMap{"off": nil, "minimal": new("MINIMAL"), "low": nil, "medium": nil, "high": new("HIGH")}
	level := func(word string) string { return `{"includeThoughts":true,"thinkingLevel":"` + word + `"}` }
	budget := func(n int) string { return fmt.Sprintf(`{"includeThoughts":true,"thinkingBudget":%d}`, n) }
	for _, tt := range []struct {
		id     string
		levels providers.ThinkingMap
		level  providers.ThinkingLevel
		want   string // thinkingConfig
	}{
		{"gemini-3.1-pro-preview", pro, "", ""},
		{"gemini-3.1-pro-preview", pro, "minimal", level("LOW")},
		{"gemini-3.1-pro-preview", pro, "max", level("HIGH")},
		{"gemini-3.1-pro-preview", pro, "off", `{"thinkingLevel":"LOW"}`},
		{"gemini-3-pro-preview", nil, "off", `{"thinkingLevel":"LOW"}`},
		{"gemini-3-pro-preview", nil, "minimal", level("LOW")},
		{"gemini-3-flash-preview", flash, "minimal", level("MINIMAL")},
		{"gemini-3-flash-preview", flash, "off", `{"thinkingLevel":"MINIMAL"}`},
		{"gemini-3-flash-preview", nil, "off", `{"thinkingLevel":"MINIMAL"}`},
		{"gemini-3-flash-preview", providers.ThinkingMap{"xhigh": nil}, "off", `{"thinkingBudget":0}`},
		{"gemini-4-argon", nil, "medium", level("MEDIUM")},
		{"gemini-12", nil, "medium", level("MEDIUM")},
		{"gemini-flash-latest", nil, "low", level("LOW")},
		{"publishers/google/models/Gemini-3-flash", nil, "low", level("LOW")},
		{"gemini-robotics-er-2-preview", flash, "low", level("LOW")},
		{"gemma-4-31b-it", gemma, "low", level("HIGH")},
		{"gemma-4-31b-it", gemma, "off", `{"thinkingLevel":"MINIMAL"}`},
		{"gemma4:27b", nil, "low", level("LOW")},
		{"gemini-2.5-pro", nil, "minimal", budget(128)},
		{"gemini-2.5-pro", nil, "low", budget(2048)},
		{"gemini-2.5-pro", nil, "medium", budget(8192)},
		{"gemini-2.5-pro", nil, "high", budget(32768)},
		{"gemini-2.5-pro", nil, "off", `{"thinkingBudget":128}`},
		{"gemini-2.5-flash", nil, "minimal", budget(128)},
		{"gemini-2.5-flash", nil, "max", budget(24576)},
		{"gemini-2.5-flash", nil, "off", `{"thinkingBudget":0}`},
		{"gemini-2.5-flash", flash, "low", budget(2048)}, // this model accepts no levels, even with a map
		{"gemini-2.5-flash-lite-preview", nil, "minimal", budget(512)},
		{"gemini-2.5-flash-lite", nil, "off", `{"thinkingBudget":0}`},
		{"deep-research-preview", nil, "high", budget(-1)},
		{"deep-research-preview", nil, "off", `{"thinkingBudget":0}`},
	} {
		m := providers.Model{Provider: "p", ID: tt.id, Reasoning: true, Thinking: tt.levels}
		want := `{"contents":[]}`
		if tt.want != "" {
			want = `{"contents":[],"generationConfig":{"thinkingConfig":` + tt.want + `}}`
		}
		got := encode(t, m, providers.Request{}, providers.Options{ThinkingLevel: tt.level})
		if diff := cmp.Diff(providertest.Canonical(t, want), got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.id, tt.level, diff)
		}
	}
}

// TestEncodeLimits: thinking counts as output, and a limit applies to the answer.
// covers: providers/129
func TestEncodeLimits(t *testing.T) {
	for _, tt := range []struct {
		id         string
		most       int // limit of the model
		o          providers.Options
		wantLimit  int
		wantBudget int // 0 for none
	}{
		{"gemini-2.5-flash", 65536, providers.Options{ThinkingLevel: "medium", MaxTokens: 1000}, 9216, 8192},
		{"gemini-2.5-flash", 65536, providers.Options{ThinkingLevel: "high"}, 65536, 24576},
		{"gemini-2.5-flash", 10000, providers.Options{ThinkingLevel: "high"}, 10000, 8976},
		{"gemini-2.5-flash", 1100, providers.Options{ThinkingLevel: "high"}, 1100, 128},
		{"gemini-2.5-flash", 0, providers.Options{ThinkingLevel: "medium"}, 0, 8192},
		{"gemini-2.5-flash", 65536, providers.Options{MaxTokens: 1000}, 1000, 0},
		{"gemini-2.5-flash", 65536, providers.Options{MaxTokens: 1000, ThinkingLevel: "off"}, 1000, 0},
		{"gemini-3-flash", 65536, providers.Options{ThinkingLevel: "medium", MaxTokens: 1000}, 1000, 0},
	} {
		m := providers.Model{Provider: "p", ID: tt.id, Reasoning: true, MaxTokens: tt.most}
		var body struct {
			GenerationConfig struct {
				MaxOutputTokens int
				ThinkingConfig  struct{ ThinkingBudget int }
			}
		}
		if err := json.Unmarshal([]byte(encode(t, m, providers.Request{}, tt.o)), &body); err != nil {
			t.Fatal(err)
		}
		if c := body.GenerationConfig; c.MaxOutputTokens != tt.wantLimit || c.ThinkingConfig.ThinkingBudget != tt.wantBudget {
			t.Errorf("%s, %+v: got %+v, want %d and %d", tt.id, tt.o, c, tt.wantLimit, tt.wantBudget)
		}
	}
}

// TestEncodeHistory covers histories of other models and formats, and of crashes.
// covers: providers/127, providers/128
func TestEncodeHistory(t *testing.T) {
	const (
		text  = `{"text":"a"}`
		dummy = `"thoughtSignature":"skip_thought_signature_validator"`
		own   = "p/gemini-3-pro"
	)
	model := func(parts ...string) string { return `{"role":"model","parts":[` + strings.Join(parts, ",") + `]}` }
	users := func(parts ...string) string { return `{"role":"user","parts":[` + strings.Join(parts, ",") + `]}` }
	call := func(id string, rest ...string) string {
		return `{"functionCall":{` + id + `"name":"f","args":{}}` + strings.Join(rest, "") + `}`
	}
	answer := func(id, output string) string {
		return `{"functionResponse":{` + id + `"name":"f","response":` + output + `}}`
	}
	const picture = `{"inlineData":{"mimeType":"image/png","data":"YWJj"}}`
	ok := providers.Text{Text: "ok"}
	long := strings.Repeat("functions.f:", 8)
	for _, tt := range []struct {
		name string
		m    providers.Model
		in   []providers.Message
		want string
	}{
		{"its own calls", third, []providers.Message{assistant(own, called("c1", "s"), called("c2", "")), results(result("c2", ok), result("c1", ok))},
			model(call(`"id":"c1",`, `,"thoughtSignature":"s"`), call(`"id":"c2",`)) + "," +
				users(answer(`"id":"c1",`, `{"output":"ok"}`), answer(`"id":"c2",`, `{"output":"ok"}`))},
		{"calls of another model", third, []providers.Message{assistant("q/m", called("c1", "s"), called("c2", "s")), results(result("c1", ok), result("c2", ok))},
			model(call(`"id":"c1",`, ","+dummy), call(`"id":"c2",`)) + "," +
				users(answer(`"id":"c1",`, `{"output":"ok"}`), answer(`"id":"c2",`, `{"output":"ok"}`))},
		{"in an earlier turn", third, []providers.Message{assistant("q/m", called("c1", "")), results(result("c1", ok)), user(providers.Text{Text: "a"})},
			model(call(`"id":"c1",`, ","+dummy)) + "," + users(answer(`"id":"c1",`, `{"output":"ok"}`)) + "," + users(text)},
		{"refused before", providers.Model{Provider: "p", ID: "gemini-3-pro", NoReplay: true}, []providers.Message{assistant(own, providers.Text{Text: "a", Signature: "1:s"}, called("c1", "s")), results(result("c1", ok))},
			model(text, call(`"id":"c1",`, ","+dummy)) + "," + users(answer(`"id":"c1",`, `{"output":"ok"}`))},
		{"an older model", second, []providers.Message{assistant("q/m", called("c1", "")), results(result("c1", ok))},
			model(call("")) + "," + users(answer("", `{"output":"ok"}`))},
		{"an older model's own", second, []providers.Message{assistant("p/gemini-2.5-flash", called("f_1", "s")), results(result("f_1", ok))},
			model(call("", `,"thoughtSignature":"s"`)) + "," + users(answer("", `{"output":"ok"}`))},
		{"a model of another maker", claude, []providers.Message{assistant("q/m", called("c1", "")), results(result("c1", ok))},
			model(call(`"id":"c1",`)) + "," + users(answer(`"id":"c1",`, `{"output":"ok"}`))},
		{"long id", claude, []providers.Message{assistant("q/m", called(long, "")), results(result(long, ok))},
			model(call(`"id":"LONG",`)) + "," + users(answer(`"id":"LONG",`, `{"output":"ok"}`))},
		{"orphan call", second, []providers.Message{assistant("q/m", called("c1", ""))},
			model(call("")) + "," + users(answer("", `{"error":"There is no result: the call was interrupted, and whether it took effect is unknown."}`))},
		{"result without call", second, []providers.Message{assistant("q/m", providers.Text{Text: "a"}), results(result("c9"))}, model(text)},
		{"empty result", second, []providers.Message{assistant("q/m", called("c1", "")), results(result("c1"))},
			model(call("")) + "," + users(answer("", `{"output":"(no output)"}`))},
		{"images of an older model", second, []providers.Message{assistant("q/m", called("c1", ""), called("c2", "")), results(result("c1", png), result("c2", ok, png))},
			model(call(""), call("")) + "," + users(answer("", `{"output":"(see the image below)"}`), answer("", `{"output":"ok"}`)) + "," +
				users(`{"text":"Images that were returned by f:"}`, picture, `{"text":"Images that were returned by f:"}`, picture)},
		{"an image alone", third, []providers.Message{assistant(own, called("c1", "s")), results(result("c1", png))},
			model(call(`"id":"c1",`, `,"thoughtSignature":"s"`)) + "," +
				users(`{"functionResponse":{"id":"c1","name":"f","response":{"output":"(see the image)"},"parts":[`+picture+`]}}`)},
		{"failed", second, []providers.Message{assistant("q/m", called("c1", "")), results(providers.ToolResult{CallID: "c1", IsError: true, Content: []providers.Part{ok}})},
			model(call("")) + "," + users(answer("", `{"error":"ok"}`))},
		{"replies in a row", third, []providers.Message{assistant("q/m", providers.Text{Text: "a"}), user(providers.Text{}), assistant("q/m", called("c1", "")), results(result("c1", ok))},
			model(text, call(`"id":"c1",`, ","+dummy)) + "," + users(answer(`"id":"c1",`, `{"output":"ok"}`))},
		{"messages in a row", third, []providers.Message{user(providers.Text{Text: "a"}), user(providers.Text{Text: "a"})}, users(text) + "," + users(text)},
		{"reasoning of another", third, []providers.Message{assistant("q/m", providers.Reasoning{Text: "hm", Signature: "2:s"}, providers.Text{Text: "a", Signature: "1:s"})}, model(text)},
		{"reasoning of its own", third, []providers.Message{assistant(own, providers.Reasoning{Text: "hm"}, providers.Text{Text: "a"})}, model(`{"text":"hm","thought":true}`, text)},
		{"an empty text", third, []providers.Message{assistant(own, providers.Text{Text: "a"}, providers.Text{Signature: "0:s"})}, model(text, `{"text":"","thoughtSignature":"s"}`)},
		{"signed in another format", third, []providers.Message{assistant(own, providers.Text{Text: "a", Signature: `{"phase":"x"}`})}, model(text)},
		{"signature without a model", third, []providers.Message{assistant(own, providers.Text{Text: "a", Signature: "0:"})}, model(text)},
		{"a name that is none", second, []providers.Message{assistant("q/m", providers.ToolCall{ID: "c1", Name: "1 more"}), results(providers.ToolResult{CallID: "c1", Content: []providers.Part{ok}})},
			strings.ReplaceAll(model(call(""))+","+users(answer("", `{"output":"ok"}`)), `"f"`, `"_1_more"`)},
		{"a long name", second, []providers.Message{assistant("q/m", providers.ToolCall{ID: "c1", Name: strings.Repeat("f", 65)}), results(providers.ToolResult{CallID: "c1", Content: []providers.Part{ok}})},
			strings.ReplaceAll(model(call(""))+","+users(answer("", `{"output":"ok"}`)), `"f"`, `"_`+strings.Repeat("f", 63)+`"`)},
		{"a name with dots", second, []providers.Message{assistant("q/m", providers.ToolCall{ID: "c1", Name: "a.b:c-1"}), results(providers.ToolResult{CallID: "c1", Content: []providers.Part{ok}})},
			strings.ReplaceAll(model(call(""))+","+users(answer("", `{"output":"ok"}`)), `"f"`, `"a.b:c-1"`)},
		{"of a longer text", third, []providers.Message{assistant(own, providers.Text{Text: "a", Signature: "2:s"})}, model(text)},
		{"of half a rune", third, []providers.Message{assistant(own, providers.Text{Text: "é", Signature: "1:s"})}, model(`{"text":"é"}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sum := sha256.Sum256([]byte(long))
			want := providertest.Canonical(t, "["+strings.ReplaceAll(tt.want, "LONG", fmt.Sprintf("call_%x", sum[:20]))+"]")
			if diff := cmp.Diff(want, contents(t, tt.m, tt.in...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodeSchemas checks the member that contains a schema. providers.TestToolSchemas covers its
// content.
// covers: providers/130
func TestEncodeSchemas(t *testing.T) {
	in := `{"type":"object","properties":{"a":{"const":"x"},"b":{"type":["null","string"]}},"additionalProperties":false}`
	for member, tt := range map[string]struct {
		m    providers.Model
		want string
	}{
		"parametersJsonSchema": {third, `{"type":"object","properties":{"a":{"enum":["x"]},"b":{"type":["null","string"]}},"additionalProperties":false}`},
		"parameters":           {claude, `{"type":"object","properties":{"a":{"enum":["x"]},"b":{"type":"string","nullable":true}}}`},
	} {
		req := providers.Request{Tools: []providers.Tool{{Name: "f", InputSchema: json.RawMessage(in)}}}
		whole := `{"contents":[],"tools":[{"functionDeclarations":[{"name":"f","` + member + `":` + tt.want + `}]}]}`
		if diff := cmp.Diff(providertest.Canonical(t, whole), encode(t, tt.m, req, providers.Options{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", member, diff)
		}
	}
	req := providers.Request{Tools: []providers.Tool{{Name: "f", InputSchema: json.RawMessage(`{"const"`)}}}
	if _, err := googlegenerativeai.NewCodec(nil).Encode(claude, req, providers.Options{}); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("of no schema: got %v, want an error over the schema", err)
	}
}

// TestRequestIsPrefixOfNext: the request of a turn, without its final brackets, is a prefix of the
// next one.
// covers: providers/173
func TestRequestIsPrefixOfNext(t *testing.T) {
	messages := []providers.Message{
		user(providers.Text{Text: "q"}), assistant("q/m", called("c1", "")), results(result("c1", png)), assistant("p/gemini-3-pro", providers.Text{Text: "a"}),
		user(providers.Text{Text: "q"}), assistant("p/gemini-3-pro", called("c2", "s")), results(result("c2")),
	}
	before := ""
	for n := range messages {
		if r := messages[n].Role; r == providers.RoleAssistant {
			continue
		}
		req := providers.Request{System: "s", Tools: []providers.Tool{{Name: "f"}}, Messages: messages[:n+1]}
		call, err := googlegenerativeai.NewCodec(nil).Encode(third, req, providers.Options{ThinkingLevel: "low", MaxTokens: 9})
		if err != nil {
			t.Fatal(err)
		}
		now := strings.TrimSpace(providertest.Sent(t, call))
		if !strings.HasPrefix(now, strings.TrimSuffix(before, "]}")) {
			t.Errorf("got\n%s\nwithout the prefix\n%s", now, before)
		}
		before = now
	}
}

// covers: providers/173
func TestHistoryBlocks(t *testing.T) {
	for _, id := range []string{"m", third.ID} {
		providertest.RunHistoryOf(t, googlegenerativeai.NewCodec(nil), id, []string{"0:c2ln", "1:c2ln", "5:c2ln", "{}"})
	}
}

// TestBlocksOfAnotherShape: a cached encoding is not reused for a model of another shape.
func TestBlocksOfAnotherShape(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "gemini-robotics-er-2"}
	req := providers.Request{History: []*providers.Block{providers.NewBlock([]providers.Message{user(providers.Text{Text: "q"}), assistant("q/m", called("c1", "")), results(result("c1"))})}}
	for _, levels := range []providers.ThinkingMap{nil, {"low": new("low")}, nil} {
		m.Thinking = levels
		if got := encode(t, m, req, providers.Options{}); strings.Contains(got, "skip_thought_signature_validator") != (levels != nil) {
			t.Errorf("%v: %s", levels, got)
		}
	}
}

// FuzzSignatures decodes signatures of arbitrary format.
func FuzzSignatures(f *testing.F) {
	providertest.FuzzSignatures(f, googlegenerativeai.NewCodec(nil), []string{"2:c2ln", "0:c2ln", "1:c2ln", "-1:s", "2:", "99999999999999999999:s", `{"phase":"x"}`})
}

// FuzzSchema sends tools with arbitrary schemas.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"const":"x"}},"anyOf":[{"type":["null"]}]}`))
	f.Add([]byte(`{"items":{"oneOf":[7,{"const":null}]},"const":1e999}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		if !json.Valid(schema) {
			return
		}
		for _, m := range []providers.Model{third, claude} {
			encode(t, m, providers.Request{Tools: []providers.Tool{{Name: "f", InputSchema: schema}}}, providers.Options{})
		}
	})
}

// BenchmarkEncode encodes the next call of a conversation.
func BenchmarkEncode(b *testing.B) {
	providertest.BenchmarkEncode(b, googlegenerativeai.NewCodec(nil))
}
