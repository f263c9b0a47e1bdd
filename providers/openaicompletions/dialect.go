package openaicompletions

import (
	"slices"
	"strings"
	"unicode"

	"github.com/parleyrun/parley/providers"
)

// dialect is what a server takes: Model.Compat, and what that leaves open, derived.
type dialect struct {
	shown shown

	store, developer, effort, usage, zaiToolStream, toolsWithHistory bool
	// levels tells that the server knows more words for effort than low, medium and high.
	levels     bool
	strict     bool
	maxTokens  string
	thinking   string
	mark       *cacheControl // of the prompt cache, where it needs marks
	cacheKey   bool
	longCache  bool
	affinity   string // format of session headers, empty for none
	ownSession string // a header of the vendor for the session, empty for none
}

// shown is the part of a dialect that history is encoded in.
type shown struct {
	toolName, assistantAfterTool, nonNull, thinkingAsText, reasoningContent, shortIDs bool
}

// vendors are known by the ids of their providers, or by their hosts. What they do not
// say is as the vendor wants it whom the format is of.
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

// unknown is a server that nothing is known of: it gets what all of them take.
var unknown = providers.Compat{
	SupportsStore: providers.FlagOff, SupportsDeveloperRole: providers.FlagOff, MaxTokensField: FieldMaxTokens,
}

// shownBy is how history has to look by what is known of a model's server.
func shownBy(m providers.Model, k providers.Compat) shown {
	return shown{
		toolName:           k.RequiresToolResultName.Or(false),
		assistantAfterTool: k.RequiresAssistantAfterToolResult.Or(false),
		nonNull:            k.RequiresNonNullAssistantContent.Or(false),
		thinkingAsText:     k.RequiresThinkingAsText.Or(false),
		shortIDs:           ownHost(m),
		reasoningContent:   m.Reasoning && k.RequiresReasoningContentOnAssistantMessages.Or(wantsReasoningContent(m.ID)),
	}
}

// reasoningFamilies are the families of models whose templates require the reasoning of earlier calls, on any server.
var reasoningFamilies = []string{"kimi", "deepseek", "mimo"}

// wantsReasoningContent reports whether a model belongs to one of reasoningFamilies. Gateways put owners before the name
// and versions, variants and regions behind it. Models distilled from a family, and DeepSeek's R1, have other templates.
func wantsReasoningContent(id string) bool {
	words := strings.FieldsFunc(strings.ToLower(id), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.Contains(words, "distill") || slices.Contains(words, "r1") {
		return false
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(reasoningFamilies, w) })
}

// dialectOf returns what a model's server takes.
func (c codec) dialectOf(m providers.Model) dialect {
	if c.binding {
		return dialect{shown: shownBy(m, m.Compat), usage: true, effort: true, strict: true, maxTokens: FieldMaxCompletionTokens}
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
		shown: shownBy(m, k),
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

// ownHost reports whether a model is reached at the vendor whom the format is of.
func ownHost(m providers.Model) bool {
	return providers.OnHost(m, "openai.com") || providers.OnHost(m, "openai.azure.com")
}

// cacheAnthropic is the only format of marks.
const cacheAnthropic = "anthropic"
