package bedrockconverse

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/internal/claude"
)

// version is the version of a Claude model. The zero version is unknown.
type version struct {
	major, minor int
	haiku        bool
}

// claudeVersion matches the version in ids such as "us.anthropic.claude-sonnet-4-5-20250929-v1:0" and
// "anthropic.claude-3-7-sonnet-20250219-v1:0".
var claudeVersion = regexp.MustCompile(`claude-(?:[a-z]+-)?(\d{1,2})(?:-(\d{1,2}))?(?:[-.:@/]|$)`)

// claudeOf reports whether a model is Claude: by its id, or because its registration forces adaptive
// thinking.
func claudeOf(m providers.Model) (c version, ok bool) {
	c.haiku = strings.Contains(m.ID, "haiku")
	if v := claudeVersion.FindStringSubmatch(m.ID); v != nil {
		c.major, _ = strconv.Atoi(v[1]) // at most two digits
		c.minor, _ = strconv.Atoi(v[2]) // empty means 0
	}
	return c, strings.Contains(m.ID, "claude") || m.Compat.ForceAdaptiveThinking.Or(false)
}

func (c version) from(major, minor int) bool {
	return c.major > major || c.major == major && c.minor >= minor
}

// takesMarks reports whether the model supports cache markers.
func (c version) takesMarks() bool {
	return c.from(3, 7) || c.major == 3 && c.minor == 5 && c.haiku
}

// fields are model-specific request fields.
type fields struct {
	Thinking *claude.Thinking `json:"thinking,omitempty"`
	Output   *outputConfig    `json:"output_config,omitempty"`
	Betas    []string         `json:"anthropic_beta,omitempty"`
	// ReasoningEffort is for gpt-oss, Reasoning for other models of its vendor.
	ReasoningEffort string        `json:"reasoning_effort,omitempty"`
	Reasoning       *outputConfig `json:"reasoning,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

// Names of betas.
const (
	betaInterleaved = "interleaved-thinking-2025-05-14"
	betaBinding     = "thinking-binding-controls-2026-08-01"
)

// think sets the thinking option and the output limit.
func (b *body) think(m providers.Model, latest []providers.Message, o providers.Options, government bool) {
	c, isClaude := claudeOf(m)
	level := o.ThinkingLevel
	switch {
	case !isClaude:
		b.limit(m, o)
		b.Fields = effortOf(m, level)
		return
	case level == providers.ThinkingOff && m.Thinking.Takes(level):
		b.Fields = &fields{Thinking: &claude.Thinking{Type: claude.Off}}
	case level == "" || level == providers.ThinkingOff:
	case m.Compat.ForceAdaptiveThinking.Or(c.from(4, 6)):
		b.Fields = adaptive(c, m, level, government)
	case c.from(3, 7) && !claude.AnswersOthers(latest, func(r providers.Reasoning) bool { return encodeReasoning(r) != nil }):
		b.budget(m, o, government)
	}
	if b.Inference.MaxTokens == 0 {
		b.Inference.MaxTokens = o.MaxTokens
	}
	if b.Fields != nil && b.Fields.Thinking.Type != claude.Off || !m.Compat.SupportsTemperature.Or(true) {
		b.Inference.Temperature = nil // the vendor rejects temperature with thinking
	}
}

// limit sets the output limit unless it is the model's own, which is the default.
func (b *body) limit(m providers.Model, o providers.Options) {
	if o.MaxTokens != m.MaxTokens {
		b.Inference.MaxTokens = o.MaxTokens
	}
	if !m.Compat.SupportsTemperature.Or(true) {
		b.Inference.Temperature = nil
	}
}

// adaptive returns the effort option for a model with adaptive thinking.
func adaptive(c version, m providers.Model, level providers.ThinkingLevel, government bool) *fields {
	f := &fields{Thinking: &claude.Thinking{Type: claude.Adaptive}, Output: &outputConfig{Effort: claude.Effort(m, level)}}
	if government {
		return f
	}
	f.Thinking.Display = "summarized"
	if c.from(4, 7) {
		f.Thinking.BlockBinding, f.Betas = &claude.BlockBinding{PrefixMismatchBehavior: "drop_block"}, []string{betaBinding}
	}
	return f
}

// budget sets a thinking budget in tokens, if it fits.
func (b *body) budget(m providers.Model, o providers.Options, government bool) {
	limit, budget := claude.Budget(m, o)
	if budget == 0 {
		return
	}
	b.Inference.MaxTokens = limit
	b.Fields = &fields{Thinking: &claude.Thinking{Type: claude.On, BudgetTokens: budget}, Betas: []string{betaInterleaved}}
	if !government {
		b.Fields.Thinking.Display = "summarized"
	}
}

// effortOf returns the effort option of a model that is not Claude, nil for none.
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
