package bedrockconverse_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/providertest"
)

// encode returns the body with sorted keys.
func encode(t *testing.T, m providers.Model, req providers.Request, o providers.Options) string {
	t.Helper()
	return providertest.Encoded(t, newCodec(), m, req, o)
}

// sonnet is a model with cache markers, images and a thinking budget.
const sonnet = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"

func user(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleUser, Parts: parts}
}

func results(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleTool, Parts: parts}
}

// covers: providers/118, providers/165, providers/168, providers/204
func TestEncodeWholeRequest(t *testing.T) {
	m := providers.Model{Provider: "p", ID: sonnet, Input: []string{"text", "image"}, Reasoning: true, MaxTokens: 64000}
	spec := "p/" + sonnet
	req := providers.Request{
		System: "Be <brief>.",
		Tools: []providers.Tool{
			{Name: "add", Description: "Adds.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "now"},
		},
		Messages: []providers.Message{
			user(providers.Text{Text: "See"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")}),
			{Role: providers.RoleAssistant, Model: spec, Parts: []providers.Part{
				providers.Reasoning{Text: "Hm", Signature: "c2ln"}, providers.Reasoning{Signature: `{"redactedContent":"cmVk"}`}, providers.Reasoning{Text: "unsigned"},
				providers.Text{Text: "\n\n"},
				providers.ToolCall{ID: "c0", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
				providers.ToolCall{ID: "c1", Name: "now", Arguments: json.RawMessage(`{"": 1, "a": [{"": 2, "b": "\"\":"}]}`)},
			}},
			results(
				providers.ToolResult{CallID: "c0", Content: []providers.Part{providers.Text{Text: "ok"}, providers.Image{MimeType: "image/gif", Content: providers.Bytes("x")}}},
				providers.ToolResult{CallID: "c1", IsError: true, Content: []providers.Part{providers.Text{Text: " "}, providers.Image{MimeType: "image/jpg", Content: providers.Bytes("y")}}},
			),
			user(providers.Text{Text: "one"}),
			{Role: providers.RoleAssistant, Model: spec, Parts: []providers.Part{providers.Reasoning{Text: "cut off", Signature: "c2ln"}}},
			user(providers.Text{Text: "two"}),
			{Role: providers.RoleAssistant, Model: "q/other", Parts: []providers.Part{
				providers.Reasoning{Text: "secret", Signature: "x"}, providers.Text{Text: "Done."},
			}},
			user(providers.Text{Text: "\t"}, providers.Text{Text: "and?"}),
		},
	}
	got := encode(t, m, req, providers.Options{MaxTokens: 9000, Temperature: new(0.0), ThinkingLevel: providers.ThinkingLow})
	want := providertest.Canonical(t, `{
		"system": [{"text": "Be <brief>."}, {"cachePoint": {"type": "default"}}],
		"inferenceConfig": {"maxTokens": 11048},
		"additionalModelRequestFields": {
			"thinking": {"type": "enabled", "budget_tokens": 2048, "display": "summarized"},
			"anthropic_beta": ["interleaved-thinking-2025-05-14"]
		},
		"toolConfig": {"tools": [
			{"toolSpec": {"name": "add", "description": "Adds.", "inputSchema": {"json": {"type": "object", "properties": {"n": {"type": "integer"}}}}}},
			{"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object", "properties": {}}}}}
		]},
		"messages": [
			{"role": "user", "content": [{"text": "See"}, {"image": {"format": "png", "source": {"bytes": "YWJj"}}}]},
			{"role": "assistant", "content": [
				{"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "c2ln"}}},
				{"reasoningContent": {"redactedContent": "cmVk"}},
				{"toolUse": {"toolUseId": "c0", "name": "add", "input": {"n": 12345678901234567890}}},
				{"toolUse": {"toolUseId": "c1", "name": "now", "input": {"a": [{"b": "\"\":"}]}}}
			]},
			{"role": "user", "content": [
				{"toolResult": {"toolUseId": "c0", "status": "success", "content": [{"text": "ok"}, {"image": {"format": "gif", "source": {"bytes": "eA=="}}}]}},
				{"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "(The tool returned nothing.)"}]}},
				{"image": {"format": "jpeg", "source": {"bytes": "eQ=="}}},
				{"text": "one"}, {"text": "two"}
			]},
			{"role": "assistant", "content": [{"text": "Done."}]},
			{"role": "user", "content": [{"text": "and?"}, {"cachePoint": {"type": "default"}}]}
		]
	}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEncodeOtherModels: only Claude gets cache markers, reasoning, and its own output limit.
// covers: providers/165
func TestEncodeOtherModels(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "amazon.nova-pro-v1:0", Reasoning: true, MaxTokens: 5000}
	req := providers.Request{System: "s", Messages: []providers.Message{
		user(providers.Text{Text: "a"}),
		{Role: providers.RoleAssistant, Model: m.Spec(), Parts: []providers.Part{providers.Reasoning{Text: "Hm", Signature: "c2ln"}, providers.Text{Text: "b"}}},
		user(providers.Text{Text: "c"}),
	}}
	got := encode(t, m, req, providers.Options{ThinkingLevel: providers.ThinkingHigh, Temperature: new(0.5)})
	want := providertest.Canonical(t, `{"system": [{"text": "s"}], "inferenceConfig": {"temperature": 0.5}, "messages": [
		{"role": "user", "content": [{"text": "a"}]}, {"role": "assistant", "content": [{"text": "b"}]}, {"role": "user", "content": [{"text": "c"}]}]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEncodeModelFields covers thinking and output options of each model family.
// covers: providers/167
func TestEncodeModelFields(t *testing.T) {
	adaptive := func(effort, more string) string {
		return `,"inferenceConfig":{"maxTokens":64000},"additionalModelRequestFields":{"thinking":{"type":"adaptive"` + more + `,"output_config":{"effort":"` + effort + `"}}`
	}
	const (
		plain   = `,"display":"summarized"}`
		binding = `,"display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}},"anthropic_beta":["thinking-binding-controls-2026-08-01"]`
	)
	budget := func(limit, tokens string) string {
		return `,"inferenceConfig":{"maxTokens":` + limit + `},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":` + tokens + `,"display":"summarized"},"anthropic_beta":["interleaved-thinking-2025-05-14"]}`
	}
	high := "high"
	type model = providers.Model
	for name, tt := range map[string]struct {
		id    string
		level providers.ThinkingLevel
		limit int // limit of the model
		most  int // limit of the caller
		more  func(*model)
		want  string
	}{
		"opus 4.6":              {"anthropic.claude-opus-4-6-v1", "high", 64000, 0, nil, adaptive("high", plain)},
		"sonnet 4.6, minimal":   {"eu.anthropic.claude-sonnet-4-6", "minimal", 64000, 0, nil, adaptive("low", plain)},
		"opus 4.7":              {"anthropic.claude-opus-4-7", "medium", 64000, 0, nil, adaptive("medium", binding)},
		"opus 5":                {"global.anthropic.claude-opus-5", "low", 64000, 0, nil, adaptive("low", binding)},
		"haiku 5.5":             {"us.anthropic.claude-haiku-5-5", "low", 64000, 0, nil, adaptive("low", binding)},
		"fable 5.1":             {"us.anthropic.claude-fable-5-1", "low", 64000, 0, nil, adaptive("low", binding)},
		"a word of the map":     {"anthropic.claude-opus-4-6-v1", "minimal", 64000, 0, func(m *model) { m.Thinking = providers.ThinkingMap{"minimal": &high} }, adaptive("high", plain)},
		"government":            {"us-gov.anthropic.claude-opus-4-8", "high", 64000, 0, nil, adaptive("high", "}")},
		"government's region":   {"arn:aws-us-gov:bedrock:us-gov-west-1:1:inference-profile/anthropic.claude-opus-4-8", "high", 64000, 0, nil, adaptive("high", "}")},
		"government's host":     {"anthropic.claude-opus-4-8", "high", 64000, 0, func(m *model) { m.BaseURL = "https://bedrock-runtime.us-gov-west-1.amazonaws.com" }, adaptive("high", "}")},
		"government, a budget":  {"us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "low", 64000, 0, nil, strings.Replace(budget("64000", "2048"), `,"display":"summarized"`, "", 1)},
		"forced to be adaptive": {"arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", "high", 64000, 0, func(m *model) { m.Compat.ForceAdaptiveThinking = providers.FlagOn }, adaptive("high", plain)},
		"forced not to be":      {"anthropic.claude-opus-4-6-v1", "low", 64000, 0, func(m *model) { m.Compat.ForceAdaptiveThinking = providers.FlagOff }, budget("64000", "2048")},
		"sonnet 3.7":            {"us.anthropic.claude-3-7-sonnet-20250219-v1:0", "medium", 64000, 0, nil, budget("64000", "8192")},
		"sonnet 4":              {"us.anthropic.claude-sonnet-4-20250514-v1:0", "medium", 64000, 1000, nil, budget("9216", "8192")},
		"no limits":             {sonnet, "low", 0, 0, nil, budget("10240", "2048")},
		"shrinking budget":      {sonnet, "high", 4096, 0, nil, budget("4096", "3072")},
		"no room for a budget":  {sonnet, "high", 2000, 0, nil, `,"inferenceConfig":{"maxTokens":2000}`},
		"too old to think":      {"anthropic.claude-3-5-sonnet-20241022-v2:0", "high", 8000, 0, nil, `,"inferenceConfig":{"maxTokens":8000}`},
		"no version":            {"anthropic.claude-instant-v1", "high", 8000, 0, nil, `,"inferenceConfig":{"maxTokens":8000}`},
		"off":                   {sonnet, "off", 64000, 0, nil, `,"inferenceConfig":{"maxTokens":64000},"additionalModelRequestFields":{"thinking":{"type":"disabled"}}`},
		"never off":             {"anthropic.claude-fable-5", "off", 64000, 0, func(m *model) { m.Thinking = providers.ThinkingMap{"off": nil} }, `,"inferenceConfig":{"maxTokens":64000}`},
		"left to the vendor":    {sonnet, "", 64000, 0, nil, `,"inferenceConfig":{"maxTokens":64000}`},
		"does not reason":       {sonnet, "high", 64000, 0, func(m *model) { m.Reasoning = false }, `,"inferenceConfig":{"maxTokens":64000}`},
		"gpt-oss":               {"openai.gpt-oss-120b-1:0", "medium", 64000, 0, nil, `,"additionalModelRequestFields":{"reasoning_effort":"medium"}`},
		"gpt-oss, minimal":      {"openai.gpt-oss-120b-1:0", "minimal", 64000, 0, nil, `,"additionalModelRequestFields":{"reasoning_effort":"low"}`},
		"gpt-oss, max":          {"openai.gpt-oss-120b-1:0", "max", 64000, 0, func(m *model) { m.Thinking = providers.ThinkingMap{"max": &high} }, `,"additionalModelRequestFields":{"reasoning_effort":"high"}`},
		"gpt-oss, off":          {"openai.gpt-oss-120b-1:0", "off", 64000, 0, nil, ``},
		"gpt":                   {"us.openai.gpt-6-sol", "high", 64000, 50, nil, `,"inferenceConfig":{"maxTokens":50},"additionalModelRequestFields":{"reasoning":{"effort":"high"}}`},
		"gpt, unchanged":        {"us.openai.gpt-6-sol", "", 64000, 0, nil, ``},
		"nova":                  {"amazon.nova-2-lite-v1:0", "high", 64000, 64000, nil, ``},
	} {
		t.Run(name, func(t *testing.T) {
			m := model{Provider: "p", ID: tt.id, Reasoning: true, MaxTokens: tt.limit}
			if tt.more != nil {
				tt.more(&m)
			}
			got := encode(t, m, providers.Request{}, providers.Options{ThinkingLevel: tt.level, MaxTokens: tt.most})
			want := providertest.Canonical(t, `{"messages":[]`+tt.want+"}")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestChoices covers stop texts and tool choice.
// covers: providers/181
func TestChoices(t *testing.T) {
	offered := `"tools":[{"toolSpec":{"name":"look","inputSchema":{"json":{"type":"object","properties":{}}}}},{"toolSpec":{"name":"find","inputSchema":{"json":{"type":"object","properties":{}}}}}]`
	m := providers.Model{Provider: "p", ID: sonnet, Reasoning: true}
	providertest.Choices(t, newCodec(), m, map[string]providers.Options{
		`{"toolConfig":{` + offered + `,"toolChoice":{"any":{}}}}`:               {ToolChoice: providers.ToolRequired},
		`{"toolConfig":{` + offered + `,"toolChoice":{"tool":{"name":"find"}}}}`: {ToolChoice: "find"},
		`{"inferenceConfig":{"stopSequences":["END"]}}`:                          {Stop: []string{"END"}},
		`{"toolConfig":{` + offered + `,"toolChoice":{"any":{}}},"additionalModelRequestFields":{"thinking":{"type":"disabled"}}}`: {
			ToolChoice: providers.ToolRequired, ThinkingLevel: providers.ThinkingLow,
		},
	})
	req := providers.Request{Tools: []providers.Tool{{Name: "look"}}}
	if _, err := newCodec().Encode(m, req, providers.Options{ToolChoice: providers.ToolNone}); err == nil || !strings.Contains(err.Error(), "does not support tool choice none") {
		t.Errorf("got %v", err)
	}
	if _, err := newCodec().Encode(m, providers.Request{}, providers.Options{ToolChoice: providers.ToolNone}); err != nil {
		t.Error(err)
	}
}

// TestEncodeTemperature: thinking and temperature exclude each other.
func TestEncodeTemperature(t *testing.T) {
	for name, tt := range map[string]struct {
		m    providers.Model
		o    providers.Options
		want bool
	}{
		"no thinking":       {providers.Model{ID: sonnet}, providers.Options{}, true},
		"thinking off":      {providers.Model{ID: sonnet, Reasoning: true}, providers.Options{ThinkingLevel: "off"}, true},
		"budget":            {providers.Model{ID: sonnet, Reasoning: true}, providers.Options{ThinkingLevel: "low"}, false},
		"effort":            {providers.Model{ID: "anthropic.claude-opus-5", Reasoning: true}, providers.Options{ThinkingLevel: "low"}, false},
		"other, thinking":   {providers.Model{ID: "openai.gpt-oss-20b", Reasoning: true}, providers.Options{ThinkingLevel: "low"}, true},
		"refused":           {providers.Model{ID: sonnet, Compat: providers.Compat{SupportsTemperature: providers.FlagOff}}, providers.Options{}, false},
		"refused by others": {providers.Model{ID: "x", Compat: providers.Compat{SupportsTemperature: providers.FlagOff}}, providers.Options{}, false},
	} {
		tt.o.Temperature = new(0.25)
		if got := strings.Contains(encode(t, tt.m, providers.Request{}, tt.o), `"temperature": 0.25`); got != tt.want {
			t.Errorf("%s: sent is %v", name, got)
		}
	}
}

// TestEncodeResultsOfOtherModels: results of calls made without reasoning are sent without a budget.
// covers: providers/167
func TestEncodeResultsOfOtherModels(t *testing.T) {
	m := providers.Model{Provider: "p", ID: sonnet, Reasoning: true, MaxTokens: 64000}
	call := providers.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{}`)}
	for name, tt := range map[string]struct {
		message []providers.Part
		want    bool
	}{
		"without":  {[]providers.Part{call}, false},
		"unsigned": {[]providers.Part{providers.Reasoning{Text: "a"}, call}, false},
		"with":     {[]providers.Part{providers.Reasoning{Text: "a", Signature: "s"}, call}, true},
	} {
		got := encode(t, m, providers.Request{Messages: []providers.Message{
			user(providers.Text{Text: "a"}), {Role: providers.RoleAssistant, Model: m.Spec(), Parts: tt.message}, results(providers.ToolResult{CallID: "c"}),
		}}, providers.Options{ThinkingLevel: "low"})
		if strings.Contains(got, "budget_tokens") != tt.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestEncodeCacheMarks: markers are set for models that support them, or for all if forced.
// covers: providers/166
func TestEncodeCacheMarks(t *testing.T) {
	for id, want := range map[string]bool{
		"anthropic.claude-3-5-haiku-20241022-v1:0": true, "anthropic.claude-3-5-sonnet-20241022-v2:0": false, "anthropic.claude-3-haiku-20240307-v1:0": false,
		"us.anthropic.claude-3-7-sonnet-20250219-v1:0": true, sonnet: true, "anthropic.claude-opus-5": true, "anthropic.claude-v2:1": false,
		"amazon.nova-pro-v1:0": false, "openai.gpt-oss-20b": false,
	} {
		for force, want := range map[string]bool{"": want, "1": true, "true": true, "0": want} {
			c := bedrockconverse.NewCodec(&bedrockconverse.Options{Getenv: environment(map[string]string{"AWS_BEDROCK_FORCE_CACHE": force})})
			got := providertest.Encoded(t, c, providers.Model{ID: id}, providers.Request{System: "s", Messages: []providers.Message{user(providers.Text{Text: "a"})}}, providers.Options{})
			if n := strings.Count(got, "cachePoint"); n != 0 != want || n != 0 && n != 2 {
				t.Errorf("%s, forced %q: got %d marks", id, force, n)
			}
		}
	}
}

// TestLongCacheRetention checks the retention of markers.
// covers: providers/117, providers/118, providers/166
func TestLongCacheRetention(t *testing.T) {
	for name, tt := range map[string]struct {
		m    providers.Model
		want int
	}{
		"by default": {providers.Model{ID: sonnet}, 0},
		"long":       {providers.Model{ID: sonnet, LongCacheRetention: true}, 2},
		"not known":  {providers.Model{ID: sonnet, LongCacheRetention: true, Compat: providers.Compat{SupportsLongCacheRetention: providers.FlagOff}}, 0},
		"takes none": {providers.Model{ID: "amazon.nova-pro-v1:0", LongCacheRetention: true}, 0},
	} {
		got := encode(t, tt.m, providers.Request{System: "s", Messages: []providers.Message{user(providers.Text{Text: "a"})}}, providers.Options{})
		if n := strings.Count(got, `"ttl": "1h"`); n != tt.want {
			t.Errorf("%s: %d marks for an hour in %s", name, n, got)
		}
	}
}

// TestEncodeToolsOfHistory: calls in the history require offered tools.
// covers: providers/168
func TestEncodeToolsOfHistory(t *testing.T) {
	call := func(id, name string) []providers.Message {
		return []providers.Message{
			user(providers.Text{Text: "a"}),
			{Role: providers.RoleAssistant, Parts: []providers.Part{providers.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(`{}`)}}},
			results(providers.ToolResult{CallID: id}),
		}
	}
	offered := func(req providers.Request) (names []string) {
		var body struct {
			ToolConfig struct {
				Tools []struct {
					ToolSpec struct {
						Name        string
						InputSchema struct{ JSON json.RawMessage }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(encode(t, providers.Model{ID: "m"}, req, providers.Options{})), &body); err != nil {
			t.Fatal(err)
		}
		for _, tool := range body.ToolConfig.Tools {
			if len(tool.ToolSpec.InputSchema.JSON) == 0 {
				t.Errorf("tool %q: got no schema", tool.ToolSpec.Name)
			}
			names = append(names, tool.ToolSpec.Name)
		}
		return names
	}
	history := []*providers.Block{providers.NewBlock(call("1", "zoo")), providers.NewBlock(call("2", "odd name"))}
	if got, want := offered(providers.Request{History: history, Messages: call("3", "zoo")}), []string{"odd_name", "zoo"}; !slices.Equal(got, want) {
		t.Errorf("offers %q, want %q", got, want)
	}
	if got, want := offered(providers.Request{History: history, Tools: []providers.Tool{{Name: "new"}}}), []string{"new"}; !slices.Equal(got, want) {
		t.Errorf("offers %q, want %q", got, want)
	}
	if got := offered(providers.Request{Messages: []providers.Message{user(providers.Text{Text: "a"})}}); got != nil {
		t.Errorf("offers %q", got)
	}
}

// TestEncodeIDs: invalid and repeated ids are changed, the same in call and result, and stay distinct.
// covers: providers/168
func TestEncodeIDs(t *testing.T) {
	ids := []string{"tooluse_1", "functions.f:0", "functions.f_0", "functions.f.0", "tooluse_1", "größe", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66)}
	var messages []providers.Message
	for _, id := range ids {
		messages = append(messages, user(providers.Text{Text: "a"}), providers.Message{Role: providers.RoleAssistant, Parts: []providers.Part{
			providers.ToolCall{ID: id, Name: "f", Arguments: json.RawMessage(`{}`)},
		}}, results(providers.ToolResult{CallID: id}))
	}
	var body struct {
		Messages []struct {
			Content []struct{ ToolUse, ToolResult struct{ ToolUseID string } }
		}
	}
	if err := json.Unmarshal([]byte(encode(t, providers.Model{ID: "m"}, providers.Request{Messages: messages}, providers.Options{})), &body); err != nil {
		t.Fatal(err)
	}
	seen, last := map[string]bool{}, ""
	for _, m := range body.Messages {
		for _, b := range m.Content {
			if id := b.ToolUse.ToolUseID; id != "" {
				if seen[id] || len(id) > 64 || strings.ContainsAny(id, ".:ö") {
					t.Errorf("got id %q", id)
				}
				seen[id], last = true, id
			}
			if id := b.ToolResult.ToolUseID; id != "" && id != last {
				t.Errorf("result of %q: got id %q", last, id)
			}
		}
	}
	if len(seen) != len(ids) || !seen["tooluse_1"] || !seen[strings.Repeat("x", 64)] {
		t.Errorf("got ids %q", slices.Sorted(maps.Keys(seen)))
	}
}

// TestEncodeAddress: an id is one path segment, and the key is a bearer token.
// covers: providers/157
func TestEncodeAddress(t *testing.T) {
	for _, tt := range []struct{ id, key, skip, path, authorization string }{
		{"us.amazon.nova-2-lite-v1:0", "k", "", "/model/us.amazon.nova-2-lite-v1%3A0/converse-stream", "Bearer k"},
		{"arn:aws:bedrock:eu-west-1:1:inference-profile/a b", "", "", "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fa%20b/converse-stream", ""},
		{"m", "k", "1", "/model/m/converse-stream", ""},
	} {
		c := bedrockconverse.NewCodec(&bedrockconverse.Options{Getenv: environment(map[string]string{"AWS_BEDROCK_SKIP_AUTH": tt.skip})})
		call, err := c.Encode(providers.Model{ID: tt.id}, providers.Request{}, providers.Options{APIKey: tt.key})
		if err != nil || call.Path != tt.path || call.Header.Get("Authorization") != tt.authorization || call.Header.Get("Accept") != "application/vnd.amazon.eventstream" {
			t.Errorf("%q: got %+v, %v", tt.id, call, err)
		}
	}
}

// signatures are valid and invalid signatures.
var signatures = []string{"c2ln", `{"redactedContent":"cmVk"}`, `{"redactedContent":""}`, `{"redactedContent":"?"}`, `{`, `{"reasoningText":{"text":"a"}}`}

// TestHistory covers requests with and without cache markers.
func TestHistory(t *testing.T) {
	for _, force := range []string{"0", "1"} {
		c := bedrockconverse.NewCodec(&bedrockconverse.Options{Getenv: environment(map[string]string{"AWS_BEDROCK_FORCE_CACHE": force})})
		providertest.RunHistory(t, c, signatures)
	}
}

// FuzzSignatures encodes arbitrary signatures.
func FuzzSignatures(f *testing.F) { providertest.FuzzSignatures(f, newCodec(), signatures) }
