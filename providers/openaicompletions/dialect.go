package openaicompletions

import (
	"slices"
	"strings"
	"unicode"

	"github.com/parleyrun/parley/providers"
)

// dialect is Model.Compat with all unset fields derived.
type dialect struct {
	shown shown

	store, developer, effort, usage, zaiToolStream, toolsWithHistory bool
	// levels is set if the server supports effort levels other than low, medium and high.
	levels     bool
	strict     bool
	maxTokens  string
	thinking   string
	mark       *cacheControl // cache_control marker, if the prompt cache needs one
	cacheKey   bool
	longCache  bool
	affinity   string // format of session headers, empty for none
	ownSession string // vendor's own session header, empty for none
}

// shown is the part of a dialect that affects the encoding of history.
type shown struct {
	toolName, assistantAfterTool, nonNull, thinkingAsText, reasoningContent, shortIDs bool
}

// vendors are matched by provider id or host. Unset fields default to those of the format's own
// vendor.
func vendors() []vendor {
	const off, on = providers.FlagOff, providers.FlagOn
	plain := providers.Compat{}
	noRole := providers.Compat{SupportsDeveloperRole: off, SupportsStore: off}
	maxed := func(c providers.Compat) providers.Compat {
		c.MaxTokensField = FieldMaxTokens
		return c
	}
	effortless := func(c providers.Compat) providers.Compat {
		c.SupportsReasoningEffort = off
		return c
	}
	near := func(c providers.Compat) providers.Compat {
		c.SendSessionAffinityHeaders = on
		return c
	}
	thinks := func(format string, c providers.Compat) providers.Compat {
		c.ThinkingFormat = format
		return c
	}
	brief := func(c providers.Compat) providers.Compat {
		c.SupportsLongCacheRetention = off
		return c
	}
	deepseek := thinks(thinkDeepSeek, maxed(noRole))
	deepseek.RequiresReasoningContentOnAssistantMessages = on
	xiaomi := effortless(thinks(thinkDeepSeek, plain))
	xiaomi.RequiresReasoningContentOnAssistantMessages = on
	moonshot := maxed(noRole)
	moonshot.RequiresReasoningContentOnAssistantMessages = on
	strict := func(c providers.Compat) providers.Compat { // refuses members that it does not know
		c.RequiresReasoningContentOnAssistantMessages = off
		return c
	}
	zai := thinks(thinkZai, maxed(noRole))
	zai.ZaiToolStream = on
	openrouter := near(thinks(thinkOpenRouter, plain))
	openrouter.SupportsStore, openrouter.SessionAffinityFormat = on, providers.AffinityOpenRouter
	together := brief(thinks(thinkTogether, effortless(maxed(noRole))))
	return []vendor{
		{"openai", "openai.com", plain}, {"azure", "openai.azure.com", plain},
		{"ant-ling", "ant-ling.com", brief(thinks(thinkAntLing, effortless(maxed(noRole))))},
		{"baseten", "baseten.co", brief(near(maxed(noRole)))},
		{"cerebras", "cerebras.ai", strict(noRole)},
		{"cloudflare-ai-gateway", "gateway.ai.cloudflare.com", brief(near(effortless(maxed(noRole))))},
		{"cloudflare-workers-ai", "api.cloudflare.com", brief(near(noRole))},
		{"deepseek", "deepseek.com", deepseek},
		{"fireworks", "fireworks.ai", brief(near(noRole))},
		{"github-copilot", "githubcopilot.com", effortless(noRole)},
		{"groq", "groq.com", strict(plain)},
		{"huggingface", "huggingface.co", providers.Compat{SupportsDeveloperRole: off}},
		{"kimi-coding", "kimi.com", moonshot}, {"moonshotai", "moonshot.ai", moonshot}, {"moonshotai-cn", "moonshot.cn", moonshot},
		{"nvidia", "integrate.api.nvidia.com", brief(effortless(maxed(noRole)))},
		{"opencode", "opencode.ai", maxed(noRole)}, {"opencode-go", "opencode.ai", maxed(noRole)},
		{"openrouter", "openrouter.ai", openrouter},
		{"qwen-token-plan", "maas.aliyuncs.com", thinks(thinkQwen, noRole)},
		{"together", "together.ai", together}, {"together", "together.xyz", together},
		{"xiaomi", "xiaomimimo.com", xiaomi},
		{"xai", "x.ai", effortless(noRole)},
		{"zai", "z.ai", zai}, {"zai-coding-cn", "bigmodel.cn", zai},
		{"chutes", "chutes.ai", maxed(noRole)},
	}
}

type vendor struct {
	id, host string
	compat   providers.Compat
}

// unknown is the Compat of unknown servers: features that all of them support.
var unknown = providers.Compat{
	SupportsStore: providers.FlagOff, SupportsDeveloperRole: providers.FlagOff, MaxTokensField: FieldMaxTokens,
}

// reasoningView returns how history is encoded for a model's server.
func reasoningView(m providers.Model, k providers.Compat) shown {
	return shown{
		toolName:           k.RequiresToolResultName.Or(false),
		assistantAfterTool: k.RequiresAssistantAfterToolResult.Or(false),
		nonNull:            k.RequiresNonNullAssistantContent.Or(false),
		thinkingAsText:     k.RequiresThinkingAsText.Or(false),
		shortIDs:           ownHost(m),
		reasoningContent:   m.Reasoning && k.RequiresReasoningContentOnAssistantMessages.Or(wantsReasoningContent(m.ID)),
	}
}

// reasoningFamilies are model families whose templates require the reasoning of earlier calls, on any server.
var reasoningFamilies = []string{"kimi", "deepseek", "mimo"}

// wantsReasoningContent reports whether a model belongs to one of reasoningFamilies. Gateways put owners before the name
// and versions, variants and regions after it. Models distilled from a family, and DeepSeek's R1, have other templates.
func wantsReasoningContent(id string) bool {
	words := strings.FieldsFunc(strings.ToLower(id), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.Contains(words, "distill") || slices.Contains(words, "r1") {
		return false
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(reasoningFamilies, w) })
}

// dialectOf returns the dialect of a model's server.
func (c codec) dialectOf(m providers.Model) dialect {
	if c.binding {
		return dialect{shown: reasoningView(m, m.Compat), usage: true, effort: true, strict: true, maxTokens: FieldMaxCompletionTokens}
	}
	derived, known, host := unknown, false, providers.Host(m)
	for _, v := range c.vendors {
		if m.Provider == v.id || providers.Under(host, v.host) {
			derived, known = v.compat, true
			break
		}
	}
	if derived.ThinkingFormat == thinkOpenRouter {
		of, _, _ := strings.Cut(m.ID, "/")
		derived.SupportsDeveloperRole = providers.FlagOf(of == "openai" || of == "anthropic")
		if of == "anthropic" {
			derived.CacheControlFormat = cacheAnthropic
		}
	}
	k := m.Compat.Over(derived)
	d := dialect{
		shown: reasoningView(m, k),
		store: k.SupportsStore.Or(true), developer: m.Reasoning && k.SupportsDeveloperRole.Or(true),
		effort: k.SupportsReasoningEffort.Or(true), usage: k.SupportsUsageInStreaming.Or(true), strict: k.SupportsStrictMode.Or(false),
		zaiToolStream: k.ZaiToolStream.Or(false), toolsWithHistory: k.RequiresToolsWithToolHistory.Or(false),
		levels: known, maxTokens: k.MaxTokensField, thinking: k.ThinkingFormat,
		cacheKey: ownHost(m), longCache: m.LongCacheRetention && k.SupportsLongCacheRetention.Or(true),
	}
	if k.CacheControlFormat == cacheAnthropic {
		d.mark = &cacheControl{Type: "ephemeral"}
		if d.longCache {
			d.mark.TTL = "1h"
		}
	}
	if c.maxTokensField != "" {
		d.maxTokens = c.maxTokensField
	}
	d.cacheKey = d.cacheKey || d.longCache
	switch k.PromptCacheKeyMode {
	case "enabled":
		d.cacheKey = true
	case "disabled":
		d.cacheKey = false
	}
	if k.SendSessionAffinityHeaders.Or(false) {
		d.affinity = providers.AffinityOpenAI
		if k.SessionAffinityFormat != "" {
			d.affinity = k.SessionAffinityFormat
		}
	}
	if strings.HasPrefix(m.Provider, "opencode") {
		d.ownSession = "X-Opencode-Session"
	}
	return d
}

// ownHost reports whether a model is reached at the vendor that defines the format.
func ownHost(m providers.Model) bool {
	return providers.OnHost(m, "openai.com") || providers.OnHost(m, "openai.azure.com")
}

// cacheAnthropic is the only supported CacheControlFormat.
const cacheAnthropic = "anthropic"
