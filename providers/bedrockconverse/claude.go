package bedrockconverse

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// claude is which Claude a model is. The zero claude is one that its id does not tell.
type claude struct {
	major, minor int
	haiku        bool
}

// claudeVersion finds the version in ids such as "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
// and "anthropic.claude-3-7-sonnet-20250219-v1:0".
var claudeVersion = regexp.MustCompile(`claude-(?:[a-z]+-)?(\d{1,2})(?:-(\d{1,2}))?(?:[-.:@/]|$)`)

// claudeOf reports whether a model is Claude: by its id, or because a registration says that
// it decides by itself how much to think.
func claudeOf(m providers.Model) (c claude, ok bool) {
	c.haiku = strings.Contains(m.ID, "haiku")
	if v := claudeVersion.FindStringSubmatch(m.ID); v != nil {
		c.major, _ = strconv.Atoi(v[1]) // digits, few
		c.minor, _ = strconv.Atoi(v[2]) // or nothing, which is 0
	}
	return c, strings.Contains(m.ID, "claude") || m.Compat.ForceAdaptiveThinking.Or(false)
}

func (c claude) from(major, minor int) bool {
	return c.major > major || c.major == major && c.minor >= minor
}

// takesMarks reports whether the model takes marks of the prompt cache.
func (c claude) takesMarks() bool {
	return c.from(3, 7) || c.major == 3 && c.minor == 5 && c.haiku
}

// fields are what models take beside what all of them do.
type fields struct {
	Thinking *thinking     `json:"thinking,omitempty"`
	Output   *outputConfig `json:"output_config,omitempty"`
	Betas    []string      `json:"anthropic_beta,omitempty"`
	// ReasoningEffort is of gpt-oss, Reasoning of other models of its vendor.
	ReasoningEffort string        `json:"reasoning_effort,omitempty"`
	Reasoning       *outputConfig `json:"reasoning,omitempty"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens,omitempty"`
	Display      string `json:"display,omitempty"`
	// BlockBinding says what becomes of reasoning that was signed behind other messages.
	BlockBinding *blockBinding `json:"block_binding,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type blockBinding struct {
	PrefixMismatchBehavior string `json:"prefix_mismatch_behavior"`
}

// Types of thinking, and names of betas.
const (
	thinkingOn       = "enabled"
	thinkingOff      = "disabled"
	thinkingAdaptive = "adaptive"
	betaInterleaved  = "interleaved-thinking-2025-05-14"
	betaBinding      = "thinking-binding-controls-2026-08-01"
)

// Tokens. Claude refuses a smaller budget; defaultAnswer is for a model whose limit nobody
// knows.
const (
	minBudget     = 1024
	minAnswer     = 1024
	defaultAnswer = 8192
)

// think sets how much the model is to think, and to say.
func (b *body) think(m providers.Model, latest []providers.Message, o providers.Options, government bool) {
	c, isClaude := claudeOf(m)
	level := o.ThinkingLevel
	switch {
	case !isClaude:
		b.limit(m, o)
		b.Fields = effortOf(m, level)
		return
	case level == providers.ThinkingOff && m.Thinking.Takes(level):
		b.Fields = &fields{Thinking: &thinking{Type: thinkingOff}}
	case level == "" || level == providers.ThinkingOff:
	case m.Compat.ForceAdaptiveThinking.Or(c.from(4, 6)):
		b.Fields = adaptive(c, m, level, government)
	case c.from(3, 7) && !answersOthers(latest):
		b.budget(m, o, government)
	}
	if b.Inference.MaxTokens == 0 {
		b.Inference.MaxTokens = o.MaxTokens
	}
	if b.Fields != nil && b.Fields.Thinking.Type != thinkingOff || !m.Compat.SupportsTemperature.Or(true) {
		b.Inference.Temperature = nil // the vendor refuses it beside thinking
	}
}

// limit sends the limit of the output if it is not the model's own, which is the default.
func (b *body) limit(m providers.Model, o providers.Options) {
	if o.MaxTokens != m.MaxTokens {
		b.Inference.MaxTokens = o.MaxTokens
	}
	if !m.Compat.SupportsTemperature.Or(true) {
		b.Inference.Temperature = nil
	}
}

// adaptive tells a model that decides by itself how much effort it is worth.
func adaptive(c claude, m providers.Model, level providers.ThinkingLevel, government bool) *fields {
	word, _ := m.Thinking.Word(level)
	if _, listed := m.Thinking[level]; !listed && level == providers.ThinkingMinimal {
		word = string(providers.ThinkingLow) // the least that the vendor has
	}
	f := &fields{Thinking: &thinking{Type: thinkingAdaptive}, Output: &outputConfig{Effort: word}}
	if government {
		return f
	}
	f.Thinking.Display = "summarized"
	if c.from(4, 7) {
		f.Thinking.BlockBinding, f.Betas = &blockBinding{"drop_block"}, []string{betaBinding}
	}
	return f
}

// budget lets a model think for some tokens, which count towards its limit: it is raised by
// them, as far as the model's own goes. Where less than minAnswer would be left, the budget
// shrinks, and below minBudget there is none.
func (b *body) budget(m providers.Model, o providers.Options, government bool) {
	wanted, limit := o.ThinkingLevel.Budget(), o.MaxTokens
	if limit == 0 {
		limit = defaultAnswer
	}
	raised := max(limit, minAnswer) + wanted
	if m.MaxTokens > 0 {
		raised = min(raised, m.MaxTokens)
	}
	granted := min(wanted, raised-minAnswer)
	if granted < minBudget {
		return
	}
	b.Inference.MaxTokens = raised
	b.Fields = &fields{Thinking: &thinking{Type: thinkingOn, BudgetTokens: granted}, Betas: []string{betaInterleaved}}
	if !government {
		b.Fields.Thinking.Display = "summarized"
	}
}

// effortOf says how much a model that is not Claude is to think; nil for one that is not
// told.
func effortOf(m providers.Model, level providers.ThinkingLevel) *fields {
	word, ok := m.Thinking.Word(level)
	switch {
	case level == "" || level == providers.ThinkingOff || !ok:
	case strings.Contains(m.ID, "gpt-oss"):
		switch level {
		case providers.ThinkingMinimal:
			word = string(providers.ThinkingLow)
		case providers.ThinkingXHigh, providers.ThinkingMax:
			word = string(providers.ThinkingHigh)
		}
		return &fields{ReasoningEffort: word}
	case strings.Contains(m.ID, "gpt-"):
		return &fields{Reasoning: &outputConfig{Effort: word}}
	}
	return nil
}

// answersOthers reports whether the latest messages are results of calls that were made
// without reasoning, by another model for one. The vendor takes them only from a model that
// does not think about them within a budget either.
func answersOthers(latest []providers.Message) bool {
	n := len(latest)
	if n < 2 || latest[n-1].Role != providers.RoleTool {
		return false
	}
	return !slices.ContainsFunc(latest[n-2].Parts, func(p providers.Part) bool {
		r, ok := p.(providers.Reasoning)
		return ok && encodeReasoning(r) != nil
	})
}
