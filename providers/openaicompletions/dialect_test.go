package openaicompletions_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// otherMembers returns the members of a request except model, stream and messages.
func otherMembers(t *testing.T, m providers.Model, req providers.Request, o providers.Options) string {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(providertest.Encoded(t, openaicompletions.NewCodec(nil), m, req, o)), &got); err != nil {
		t.Fatal(err)
	}
	for _, always := range []string{"model", "messages", "stream"} {
		delete(got, always)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestVendors matches vendors by id or host. high is the request for a level, off for none.
// covers: providers/200
func TestVendors(t *testing.T) {
	const usage = `,"stream_options":{"include_usage":true}`
	for _, tt := range []struct {
		provider, host string
		role           string
		high, off      string
	}{
		{"openai", "api.openai.com", "developer", `"max_completion_tokens":9,"reasoning_effort":"high","store":false` + usage, `"max_completion_tokens":9,"store":false` + usage},
		{"groq", "api.groq.com", "developer", `"max_completion_tokens":9,"reasoning_effort":"high","store":false` + usage, `"max_completion_tokens":9,"store":false` + usage},
		{"huggingface", "router.huggingface.co", "system", `"max_completion_tokens":9,"reasoning_effort":"high","store":false` + usage, `"max_completion_tokens":9,"store":false` + usage},
		{"cerebras", "api.cerebras.ai", "system", `"max_completion_tokens":9,"reasoning_effort":"high"` + usage, `"max_completion_tokens":9` + usage},
		{"fireworks", "api.fireworks.ai", "system", `"max_completion_tokens":9,"reasoning_effort":"high"` + usage, `"max_completion_tokens":9` + usage},
		{"cloudflare-workers-ai", "api.cloudflare.com", "system", `"max_completion_tokens":9,"reasoning_effort":"high"` + usage, `"max_completion_tokens":9` + usage},
		{"cloudflare-ai-gateway", "gateway.ai.cloudflare.com", "system", `"max_tokens":9` + usage, `"max_tokens":9` + usage},
		{"github-copilot", "api.individual.githubcopilot.com", "system", `"max_completion_tokens":9` + usage, `"max_completion_tokens":9` + usage},
		{"xai", "api.x.ai", "system", `"max_completion_tokens":9` + usage, `"max_completion_tokens":9` + usage},
		{"ant-ling", "api.ant-ling.com", "system", `"max_tokens":9` + usage, `"max_tokens":9` + usage},
		{"baseten", "inference.baseten.co", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage, `"max_tokens":9` + usage},
		{"moonshotai", "api.moonshot.ai", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage, `"max_tokens":9` + usage},
		{"moonshotai-cn", "api.moonshot.cn", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage, `"max_tokens":9` + usage},
		{"kimi-coding", "api.kimi.com", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage, `"max_tokens":9` + usage},
		{"nvidia", "integrate.api.nvidia.com", "system", `"max_tokens":9` + usage, `"max_tokens":9` + usage},
		{"opencode", "opencode.ai", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage, `"max_tokens":9` + usage},
		{"chutes", "llm.chutes.ai", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage, `"max_tokens":9` + usage},
		{"deepseek", "api.deepseek.com", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage + `,"thinking":{"type":"enabled"}`, `"max_tokens":9` + usage + `,"thinking":{"type":"disabled"}`},
		{"xiaomi", "api.xiaomimimo.com", "developer", `"max_completion_tokens":9,"store":false` + usage + `,"thinking":{"type":"enabled"}`, `"max_completion_tokens":9,"store":false` + usage + `,"thinking":{"type":"disabled"}`},
		{"zai", "api.z.ai", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage + `,"thinking":{"clear_thinking":false,"type":"enabled"}`, `"max_tokens":9` + usage + `,"thinking":{"type":"disabled"}`},
		{"zai-coding-cn", "open.bigmodel.cn", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage + `,"thinking":{"clear_thinking":false,"type":"enabled"}`, `"max_tokens":9` + usage + `,"thinking":{"type":"disabled"}`},
		{"qwen-token-plan", "token-plan.ap-southeast-1.maas.aliyuncs.com", "system", `"enable_thinking":true,"max_completion_tokens":9,"reasoning_effort":"high"` + usage, `"enable_thinking":false,"max_completion_tokens":9` + usage},
		{"together", "api.together.ai", "system", `"max_tokens":9,"reasoning":{"enabled":true}` + usage, `"max_tokens":9,"reasoning":{"enabled":false}` + usage},
		{"openrouter", "openrouter.ai", "system", `"max_completion_tokens":9,"reasoning":{"effort":"high"},"store":false` + usage, `"max_completion_tokens":9,"reasoning":{"effort":"none"},"store":false` + usage},
		{"unknown vendor", "llm.example", "system", `"max_tokens":9,"reasoning_effort":"high"` + usage, `"max_tokens":9` + usage},
	} {
		for name, m := range map[string]providers.Model{
			"by id":   {Provider: tt.provider, ID: "m", BaseURL: "https://proxy.example/v1", Reasoning: true},
			"by host": {Provider: "own", ID: "m", BaseURL: "https://" + tt.host + "/v1", Reasoning: true},
		} {
			for level, want := range map[providers.ThinkingLevel]string{"high": tt.high, "off": tt.off} {
				if diff := cmp.Diff("{"+want+"}", otherMembers(t, m, providers.Request{}, providers.Options{MaxTokens: 9, ThinkingLevel: level})); diff != "" {
					t.Errorf("%s %s, %s (-want +got):\n%s", tt.provider, name, level, diff)
				}
			}
			var body struct{ Messages []struct{ Role string } }
			sent := providertest.Encoded(t, openaicompletions.NewCodec(nil), m, providers.Request{System: "s"}, providers.Options{})
			if err := json.Unmarshal([]byte(sent), &body); err != nil || body.Messages[0].Role != tt.role {
				t.Errorf("%s %s: got role %v, %v, want %s", tt.provider, name, body.Messages, err, tt.role)
			}
		}
	}
}

// TestReasoningOnAllCalls: vendors that require reasoning_content on each message of the assistant get it on the calls of
// other models, too.
// covers: providers/210
func TestReasoningOnAllCalls(t *testing.T) {
	history := []providers.Message{
		{Role: providers.RoleAssistant, Model: "other/m", Parts: []providers.Part{providers.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{}`)}}},
		{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "c", Content: []providers.Part{providers.Text{Text: "ok"}}}}},
	}
	for provider, want := range map[string]bool{"deepseek": true, "xiaomi": true, "moonshotai": true, "moonshotai-cn": true, "kimi-coding": true, "openai": false, "groq": false} {
		for _, reasons := range []bool{true, false} {
			m := providers.Model{Provider: provider, ID: "m", BaseURL: "https://proxy.example/v1", Reasoning: reasons}
			sent := providertest.Encoded(t, openaicompletions.NewCodec(nil), m, providers.Request{Messages: history}, providers.Options{ThinkingLevel: "high"})
			if got := strings.Contains(sent, `"reasoning_content": ""`); got != (want && reasons) {
				t.Errorf("%s, reasoning %t: reasoning_content is sent: %t, want %t\n%s", provider, reasons, got, want && reasons, sent)
			}
		}
	}
}

// TestThinkingFormats compares requests with compat and thinking map.
// covers: providers/200
func TestThinkingFormats(t *testing.T) {
	levels := providers.ThinkingMap{"off": new("nil"), "xhigh": new("extra")}
	always := providers.ThinkingMap{"off": nil}
	for _, tt := range []struct {
		name   string
		compat providers.Compat
		levels providers.ThinkingMap
		level  providers.ThinkingLevel
		want   string
	}{
		{"words of the map", providers.Compat{}, levels, "xhigh", `{"reasoning_effort":"extra"}`},
		{"the map's off", providers.Compat{}, levels, "off", `{"reasoning_effort":"nil"}`},
		{"never off", providers.Compat{}, always, "off", `{}`},
		{"no effort", providers.Compat{SupportsReasoningEffort: providers.FlagOff}, levels, "high", `{}`},
		{"openrouter", providers.Compat{ThinkingFormat: "openrouter"}, levels, "off", `{"reasoning":{"effort":"nil"}}`},
		{"openrouter, never off", providers.Compat{ThinkingFormat: "openrouter"}, always, "off", `{}`},
		{"deepseek, never off", providers.Compat{ThinkingFormat: "deepseek"}, always, "off", `{}`},
		{"deepseek without effort", providers.Compat{ThinkingFormat: "deepseek", SupportsReasoningEffort: providers.FlagOff}, nil, "high", `{"thinking":{"type":"enabled"}}`},
		{"qwen template", providers.Compat{ThinkingFormat: "qwen-chat-template"}, nil, "off", `{"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}}`},
		{"template", providers.Compat{ThinkingFormat: "chat-template",
			ChatTemplateKwargs: `{"a":{"$var":"thinking.enabled"},"b":{"$var":"thinking.effort"},"c":{"$var":"thinking.budget"},"d":{"x":1},"e":"s"}`}, nil, "low",
			`{"chat_template_kwargs":{"a":true,"b":"low","c":2048,"d":{"x":1},"e":"s"}}`},
		{"template, off", providers.Compat{ThinkingFormat: "chat-template",
			ChatTemplateKwargs: `{"a":{"$var":"thinking.enabled"},"b":{"$var":"thinking.effort"},"c":{"$var":"thinking.budget"},"d":{"$var":"thinking.enabled","omitWhenOff":true}}`}, nil, "off",
			`{"chat_template_kwargs":{"a":false}}`},
		{"template of nothing", providers.Compat{ThinkingFormat: "chat-template"}, nil, "low", `{}`},
		{"baseten", providers.Compat{ThinkingFormat: "baseten", ChatTemplateArgs: `{"enable_thinking":{"$var":"thinking.enabled"}}`}, levels, "off",
			`{"chat_template_args":{"enable_thinking":false},"reasoning_effort":"nil"}`},
		{"together", providers.Compat{ThinkingFormat: "together"}, nil, "medium", `{"reasoning":{"enabled":true},"reasoning_effort":"medium"}`},
		{"ant-ling, listed", providers.Compat{ThinkingFormat: "ant-ling"}, levels, "xhigh", `{"reasoning":{"effort":"extra"}}`},
		{"ant-ling, not listed", providers.Compat{ThinkingFormat: "ant-ling"}, nil, "high", `{}`},
		{"string", providers.Compat{ThinkingFormat: "string-thinking"}, nil, "off", `{"thinking":"none"}`},
		{"string, on", providers.Compat{ThinkingFormat: "string-thinking"}, nil, "high", `{"thinking":"high"}`},
		{"budget", providers.Compat{ThinkingTokenBudgetField: "thinking_budget"}, nil, "medium", `{"reasoning_effort":"medium","thinking_budget":8192}`},
		{"budget of tokens", providers.Compat{ThinkingTokenBudgetField: "thinking_budget_tokens"}, nil, "high", `{"reasoning_effort":"high","thinking_budget_tokens":16384}`},
		{"token budget", providers.Compat{ThinkingTokenBudgetField: "thinking_token_budget"}, nil, "minimal", `{"reasoning_effort":"low","thinking_token_budget":1024}`},
		{"no budget", providers.Compat{ThinkingTokenBudgetField: "thinking_budget"}, nil, "off", `{}`},
		{"left to the vendor", providers.Compat{ThinkingFormat: "zai"}, nil, "", `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.compat.SupportsUsageInStreaming = providers.FlagOff
			m := providers.Model{Provider: "p", ID: "m", BaseURL: "https://llm.example", Reasoning: true, Compat: tt.compat, Thinking: tt.levels}
			if diff := cmp.Diff(tt.want, otherMembers(t, m, providers.Request{}, providers.Options{ThinkingLevel: tt.level})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true, Compat: providers.Compat{ThinkingFormat: "chat-template", ChatTemplateKwargs: `{`}}
	if _, err := openaicompletions.NewCodec(nil).Encode(m, providers.Request{}, providers.Options{ThinkingLevel: "low"}); err == nil {
		t.Error("broken template: got a request, want none")
	}
}

// covers: providers/201
func TestCompatOfRequests(t *testing.T) {
	tools := []providers.Tool{{Name: "f", InputSchema: json.RawMessage(`{}`)}}
	for _, tt := range []struct {
		name   string
		compat providers.Compat
		tools  []providers.Tool
		want   string
	}{
		{"routes", providers.Compat{OpenRouterRouting: `{"zdr":true}`, VercelGatewayRouting: `{"only":["a"]}`}, nil,
			`{"provider":{"zdr":true},"providerOptions":{"gateway":{"only":["a"]}}}`},
		{"strict", providers.Compat{SupportsStrictMode: providers.FlagOn}, tools, `{"tools":[{"function":{"name":"f","parameters":{"properties":{},"type":"object"},"strict":false},"type":"function"}]}`},
		{"stream of arguments", providers.Compat{ZaiToolStream: providers.FlagOn}, tools, `{"tool_stream":true,"tools":[{"function":{"name":"f","parameters":{"properties":{},"type":"object"}},"type":"function"}]}`},
		{"no tools to stream", providers.Compat{ZaiToolStream: providers.FlagOn}, nil, `{}`},
		{"tools with history", providers.Compat{RequiresToolsWithToolHistory: providers.FlagOn}, nil, `{"tools":[]}`},
		{"cache key", providers.Compat{PromptCacheKeyMode: "enabled"}, nil, `{"prompt_cache_key":"s"}`},
		{"store and limit", providers.Compat{SupportsStore: providers.FlagOn, MaxTokensField: "max_completion_tokens"}, nil, `{"max_completion_tokens":7,"store":false}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.compat.SupportsUsageInStreaming = providers.FlagOff
			m := providers.Model{Provider: "p", ID: "m", BaseURL: "https://llm.example", Compat: tt.compat}
			o := providers.Options{SessionID: "s"}
			if tt.name == "store and limit" {
				o.MaxTokens = 7
			}
			req := providers.Request{Tools: tt.tools, History: []*providers.Block{providers.NewBlock(called)}}
			if diff := cmp.Diff(tt.want, otherMembers(t, m, req, o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	m := providers.Model{Provider: "p", ID: "m", Compat: providers.Compat{RequiresToolsWithToolHistory: providers.FlagOn, SupportsUsageInStreaming: providers.FlagOff}}
	if got := otherMembers(t, m, providers.Request{}, providers.Options{}); got != `{}` {
		t.Errorf("without calls: %s", got)
	}
}

// called is a user message followed by a tool call.
var called = []providers.Message{
	{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}}},
	{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
		providers.Reasoning{Text: "hm", Signature: "reasoning"}, providers.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{}`)},
	}},
	{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "c", Content: []providers.Part{providers.Text{Text: "ok"}}}}},
}

// quirky encodes for a server with special requirements.
type quirky struct {
	providers.Codec
	compat providers.Compat
}

// Encode implements providers.Codec.
func (q quirky) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	m.Compat = q.compat
	return q.Codec.Encode(m, req, o)
}

// TestHistoryRequirements checks the messages for each requirement, and equal bytes with any part of the
// history encoded before.
// covers: providers/201
func TestHistoryRequirements(t *testing.T) {
	const call = `"tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"c","type":"function"}]`
	const result, question = `{"content":"ok","role":"tool","tool_call_id":"c"}`, `{"content":"q","role":"user"}`
	for name, tt := range map[string]struct {
		compat providers.Compat
		want   string
	}{
		"none": {providers.Compat{}, question + `,{"content":null,"reasoning":"hm","role":"assistant",` + call + `},` + result + `,` + question},
		"names of tools": {providers.Compat{RequiresToolResultName: providers.FlagOn},
			question + `,{"content":null,"reasoning":"hm","role":"assistant",` + call + `},{"content":"ok","name":"f","role":"tool","tool_call_id":"c"},` + question},
		"a word of the assistant": {providers.Compat{RequiresAssistantAfterToolResult: providers.FlagOn},
			question + `,{"content":null,"reasoning":"hm","role":"assistant",` + call + `},` + result + `,{"content":"I have seen the results of the tools.","role":"assistant"},` + question},
		"no null": {providers.Compat{RequiresNonNullAssistantContent: providers.FlagOn},
			question + `,{"content":"","reasoning":"hm","role":"assistant",` + call + `},` + result + `,` + question},
		"thinking as text": {providers.Compat{RequiresThinkingAsText: providers.FlagOn},
			question + `,{"content":"hm","role":"assistant",` + call + `},` + result + `,` + question},
		"reasoning on all": {providers.Compat{RequiresReasoningContentOnAssistantMessages: providers.FlagOn, RequiresAssistantAfterToolResult: providers.FlagOn},
			question + `,{"content":null,"reasoning_content":"hm","role":"assistant",` + call + `},` + result +
				`,{"content":"I have seen the results of the tools.","reasoning_content":"","role":"assistant"},` + question},
		"marks of the cache": {providers.Compat{CacheControlFormat: "anthropic"},
			question + `,{"content":null,"reasoning":"hm","role":"assistant",` + call + `},` + result + `,{"content":[{"cache_control":{"type":"ephemeral"},"text":"q","type":"text"}],"role":"user"}`},
	} {
		t.Run(name, func(t *testing.T) {
			m := providers.Model{Provider: "p", ID: "m", Reasoning: true, Compat: tt.compat}
			for blocks, req := range map[string]providers.Request{
				"one list":             {Messages: append(slices.Clone(called), called[0])},
				"a block":              {History: []*providers.Block{providers.NewBlock(called)}, Messages: called[:1]},
				"nothing after blocks": {History: []*providers.Block{providers.NewBlock(called), providers.NewBlock(called[:1])}},
			} {
				var body struct{ Messages []any }
				if err := json.Unmarshal([]byte(providertest.Encoded(t, openaicompletions.NewCodec(nil), m, req, providers.Options{})), &body); err != nil {
					t.Fatal(err)
				}
				got, err := json.Marshal(body.Messages)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff("["+tt.want+"]", string(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", blocks, diff)
				}
			}
		})
	}
	const on = providers.FlagOn
	for _, all := range []providers.Compat{
		{RequiresToolResultName: on, RequiresAssistantAfterToolResult: on, RequiresReasoningContentOnAssistantMessages: on, CacheControlFormat: "anthropic"},
		{RequiresThinkingAsText: on, RequiresNonNullAssistantContent: on},
	} {
		providertest.RunHistory(t, quirky{openaicompletions.NewCodec(nil), all}, []string{"reasoning", `[{"type":"reasoning.encrypted","data":"x"}]`})
	}
}

// covers: providers/201
func TestMarksOfTheCache(t *testing.T) {
	m := providers.Model{Provider: "openrouter", ID: "anthropic/m", Reasoning: true, Input: []string{"text", "image"}}
	req := providers.Request{System: "s", Tools: []providers.Tool{{Name: "a"}, {Name: "b"}}, Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "see"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("x")}}},
		{Role: providers.RoleAssistant, Parts: []providers.Part{providers.Text{Text: "a"}}},
	}}
	var body struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []map[string]any
	}
	if err := json.Unmarshal([]byte(providertest.Encoded(t, openaicompletions.NewCodec(nil), m, req, providers.Options{})), &body); err != nil {
		t.Fatal(err)
	}
	const mark = `"cache_control":{"type":"ephemeral"}`
	for i, want := range []string{
		`[{` + mark + `,"text":"s","type":"text"}]`,
		`[{` + mark + `,"text":"see","type":"text"},{"image_url":{"url":"data:image/png;base64,eA=="},"type":"image_url"}]`, `"a"`,
	} {
		if diff := cmp.Diff(providertest.Canonical(t, want), providertest.Canonical(t, string(body.Messages[i].Content))); diff != "" {
			t.Errorf("message %d (-want +got):\n%s", i, diff)
		}
	}
	if body.Messages[0].Role != "developer" || body.Tools[0]["cache_control"] != nil || body.Tools[1]["cache_control"] == nil {
		t.Errorf("got %+v", body)
	}
}

// TestLongCacheRetention: the request for longer retention depends on cache_control markers.
// covers: providers/117, providers/118
func TestLongCacheRetention(t *testing.T) {
	req := providers.Request{System: "s", Tools: []providers.Tool{{Name: "f"}}, Messages: called[:1]}
	for name, tt := range map[string]struct {
		m           providers.Model
		day, marked int
	}{
		"openai":                {providers.Model{Provider: "openai", LongCacheRetention: true}, 1, 0},
		"openai, not asked for": {providers.Model{Provider: "openai"}, 0, 0},
		"marks":                 {providers.Model{Provider: "openrouter", ID: "anthropic/m", LongCacheRetention: true}, 0, 3},
		"marks, not asked for":  {providers.Model{Provider: "openrouter", ID: "anthropic/m"}, 0, 0},
		"a vendor without it":   {providers.Model{Provider: "together", LongCacheRetention: true}, 0, 0},
		"a model without it":    {providers.Model{Provider: "openai", LongCacheRetention: true, Compat: providers.Compat{SupportsLongCacheRetention: providers.FlagOff}}, 0, 0},
		"a server of one's own": {providers.Model{Provider: "p", LongCacheRetention: true}, 1, 0},
	} {
		got := providertest.Encoded(t, openaicompletions.NewCodec(nil), tt.m, req, providers.Options{SessionID: "s"})
		if keyed := strings.Contains(got, `"prompt_cache_key": "s"`); keyed != (tt.day+tt.marked > 0) {
			t.Errorf("%s: has a key: %v, in %s", name, keyed, got)
		}
		if day, marked := strings.Count(got, `"prompt_cache_retention": "24h"`), strings.Count(got, `"ttl": "1h"`); day != tt.day || marked != tt.marked {
			t.Errorf("%s: %d and %d marks, want %d and %d, in %s", name, day, marked, tt.day, tt.marked, got)
		}
	}
	for _, provider := range []string{"ant-ling", "baseten", "cloudflare-ai-gateway", "cloudflare-workers-ai", "fireworks", "nvidia", "together"} {
		if got := otherMembers(t, providers.Model{Provider: provider, LongCacheRetention: true}, providers.Request{}, providers.Options{}); strings.Contains(got, "retention") {
			t.Errorf("%s is sent %s", provider, got)
		}
	}
}

// covers: providers/201
func TestSessionHeaders(t *testing.T) {
	for name, tt := range map[string]struct {
		m    providers.Model
		want map[string]string
	}{
		"none":       {providers.Model{Provider: "p"}, map[string]string{}},
		"fireworks":  {providers.Model{Provider: "fireworks"}, map[string]string{"session_id": "s", "X-Client-Request-Id": "s", "X-Session-Affinity": "s"}},
		"openrouter": {providers.Model{Provider: "openrouter"}, map[string]string{"X-Session-Id": "s"}},
		"asked for, without a session": {providers.Model{Provider: "p", Compat: providers.Compat{
			SendSessionAffinityHeaders: providers.FlagOn, SessionAffinityFormat: "openai-nosession",
		}}, map[string]string{"X-Client-Request-Id": "s"}},
		"opencode": {providers.Model{Provider: "opencode-go"}, map[string]string{"X-Opencode-Session": "s"}},
		"refused":  {providers.Model{Provider: "fireworks", Compat: providers.Compat{SendSessionAffinityHeaders: providers.FlagOff}}, map[string]string{}},
	} {
		call, err := openaicompletions.NewCodec(nil).Encode(tt.m, providers.Request{}, providers.Options{SessionID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for k := range maps.Keys(call.Header) {
			got[k] = call.Header[k][0]
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLongIDs: long ids are shortened in call and result for the vendor that rejects them.
func TestLongIDs(t *testing.T) {
	long := "call-e90191c4-4a4c-44c2-92f5-98caf16932b6-0"
	req := providers.Request{Messages: []providers.Message{
		{Role: providers.RoleAssistant, Parts: []providers.Part{providers.ToolCall{ID: long, Name: "f"}, providers.ToolCall{ID: "short", Name: "f"}}},
		{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: long, Content: []providers.Part{providers.Text{Text: "ok"}}}}},
	}}
	for host, kept := range map[string]bool{"api.openai.com": false, "api.x.ai": true} {
		var body struct {
			Messages []struct {
				Calls []struct{ ID string } `json:"tool_calls"`
				ID    string                `json:"tool_call_id"`
			}
		}
		m := providers.Model{Provider: "p", ID: "m", BaseURL: "https://" + host + "/v1"}
		if err := json.Unmarshal([]byte(providertest.Encoded(t, openaicompletions.NewCodec(nil), m, req, providers.Options{})), &body); err != nil {
			t.Fatal(err)
		}
		call, result := body.Messages[0].Calls, body.Messages[1].ID
		if call[0].ID != result || call[1].ID != "short" || (result == long) != kept || !kept && len(result) > 40 {
			t.Errorf("%s: got %+v", host, body)
		}
	}
}

// TestReasoningByModel: models of families that require reasoning_content get it behind any gateway that takes it,
// however the gateway writes their names.
func TestReasoningByModel(t *testing.T) {
	history := []providers.Message{
		{Role: providers.RoleAssistant, Model: "other/m", Parts: []providers.Part{providers.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{}`)}}},
		{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "c", Content: []providers.Part{providers.Text{Text: "ok"}}}}},
	}
	off := providers.Compat{RequiresReasoningContentOnAssistantMessages: providers.FlagOff}
	for _, tt := range []struct {
		provider, id string
		reasons      bool
		compat       providers.Compat
		want         bool
	}{
		{"openrouter", "moonshotai/kimi-k2.6", true, providers.Compat{}, true},
		{"openrouter", "~moonshotai/kimi-latest", true, providers.Compat{}, true},
		{"openrouter", "moonshotai/kimi-k2-thinking:exacto", true, providers.Compat{}, true},
		{"opencode", "kimi-k2-thinking", true, providers.Compat{}, true},
		{"fireworks", "accounts/fireworks/models/kimi-k2p6", true, providers.Compat{}, true},
		{"gateway", "moonshotai/Kimi-K2-Thinking", true, providers.Compat{}, true},
		{"gateway", "us.moonshotai.kimi_k2-thinking-v1:0", true, providers.Compat{}, true},
		{"cloudflare-workers-ai", "@cf/moonshotai/kimi-k2.6", true, providers.Compat{}, true},
		{"openrouter", "deepseek/deepseek-v4-pro", true, providers.Compat{}, true},
		{"together", "deepseek-ai/DeepSeek-V3.2", true, providers.Compat{}, true},
		{"openrouter", "xiaomi/mimo-v2.5-pro", true, providers.Compat{}, true},
		{"openrouter", "deepseek/deepseek-r1", true, providers.Compat{}, false},
		{"gateway", "deepseek-r1-distill-llama-70b", true, providers.Compat{}, false},
		{"openrouter", "moonshotai/kimi-k2", false, providers.Compat{}, false},
		{"openrouter", "openai/kimiko", true, providers.Compat{}, false},
		{"groq", "moonshotai/kimi-k2-thinking", true, providers.Compat{}, false},
		{"cerebras", "kimi-k2-thinking", true, providers.Compat{}, false},
		{"gateway", "kimi-k2.6", true, off, false},
	} {
		m := providers.Model{Provider: tt.provider, ID: tt.id, BaseURL: "https://proxy.example/v1", Reasoning: tt.reasons, Compat: tt.compat}
		sent := providertest.Encoded(t, openaicompletions.NewCodec(nil), m, providers.Request{Messages: history}, providers.Options{ThinkingLevel: "high"})
		if got := strings.Contains(sent, `"reasoning_content": ""`); got != tt.want {
			t.Errorf("%s/%s, reasoning %t: reasoning_content is sent: %t, want %t\n%s", tt.provider, tt.id, tt.reasons, got, tt.want, sent)
		}
	}
}
