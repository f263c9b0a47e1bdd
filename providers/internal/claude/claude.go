// Package claude has what Claude's vendor asks for in each format that its models are called
// in: how much they think, and what they refuse.
//
// anthropicmessages and bedrockconverse call it; it calls providers. It has no state.
package claude

import (
	"cmp"
	"slices"

	"github.com/parleyrun/parley/providers"
)

// Thinking says how much a model is to think.
type Thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens,omitempty"`
	Display      string `json:"display,omitempty"`
	// BlockBinding says what becomes of reasoning that was signed behind other messages.
	BlockBinding *BlockBinding `json:"block_binding,omitempty"`
}

// BlockBinding is a part of Thinking.
type BlockBinding struct {
	PrefixMismatchBehavior string `json:"prefix_mismatch_behavior"`
}

// Types of Thinking.
const (
	On       = "enabled"
	Off      = "disabled"
	Adaptive = "adaptive"
)

// Tokens. The vendor refuses a smaller budget; every current model takes DefaultAnswer, which
// is for one whose limit nobody knows.
const (
	minBudget     = 1024
	minAnswer     = 1024
	DefaultAnswer = 8192
)

// Budget returns the limit of the output, and how much of it a model may think, 0 for not at
// all. What is thought counts towards the limit: it is raised by that, as far as the model's
// own goes. Where less than minAnswer would be left, the budget shrinks, and below minBudget
// there is none.
func Budget(m providers.Model, o providers.Options) (limit, budget int) {
	limit, wanted := cmp.Or(o.MaxTokens, DefaultAnswer), o.ThinkingLevel.Budget()
	raised := max(limit, minAnswer) + wanted
	if most := m.MaxOutput(); most > 0 {
		raised = min(raised, most)
	}
	granted := min(wanted, raised-minAnswer)
	if granted < minBudget {
		return limit, 0
	}
	return raised, granted
}

// Effort is the vendor's word for a level.
func Effort(m providers.Model, level providers.ThinkingLevel) string {
	word, _ := m.Thinking.Word(level)
	if _, listed := m.Thinking[level]; !listed && level == providers.ThinkingMinimal {
		return string(providers.ThinkingLow) // the least that the vendor has
	}
	return word
}

// AnswersOthers reports whether the latest messages are results of calls that were made
// without reasoning that is sent back: by another model, or before it was switched on. The
// vendor takes them only from a model that does not think about them within a budget either.
func AnswersOthers(latest []providers.Message, sent func(providers.Reasoning) bool) bool {
	n := len(latest)
	if n < 2 || latest[n-1].Role != providers.RoleTool {
		return false
	}
	return !slices.ContainsFunc(latest[n-2].Parts, func(p providers.Part) bool {
		r, ok := p.(providers.Reasoning)
		return ok && sent(r)
	})
}
