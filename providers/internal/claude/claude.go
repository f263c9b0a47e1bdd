// Package claude contains the rules of Anthropic's API that its wire formats share: thinking options
// and rejected combinations.
//
// Packages anthropicmessages and bedrockconverse use it. It has no state.
package claude

import (
	"cmp"
	"slices"

	"github.com/parleyrun/parley/providers"
)

// Thinking is the thinking option of a request.
type Thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens,omitempty"`
	Display      string `json:"display,omitempty"`
	// BlockBinding controls reasoning that was signed after other messages.
	BlockBinding *BlockBinding `json:"block_binding,omitempty"`
}

type BlockBinding struct {
	PrefixMismatchBehavior string `json:"prefix_mismatch_behavior"`
}

// Types of Thinking.
const (
	On       = "enabled"
	Off      = "disabled"
	Adaptive = "adaptive"
)

// Token limits. The vendor rejects a smaller budget. Every current model accepts DefaultAnswer, which
// is used for models of unknown limit.
const (
	minBudget     = 1024
	minAnswer     = 1024
	DefaultAnswer = 8192
)

// Budget returns the output limit and the thinking budget, 0 for no thinking. The limit includes the
// budget, so it is raised by the budget up to the model's own limit. If less than minAnswer remains
// for the answer, the budget shrinks; below minBudget there is none.
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

// Effort returns the vendor's value for a level.
func Effort(m providers.Model, level providers.ThinkingLevel) string {
	word, _ := m.Thinking.Word(level)
	if _, listed := m.Thinking[level]; !listed && level == providers.ThinkingMinimal {
		return string(providers.ThinkingLow) // the lowest value of the vendor
	}
	return word
}

// AnswersOthers reports whether the latest messages are results of calls that were made without
// replayed reasoning: by another model, or before thinking was enabled. The vendor rejects such
// results together with a thinking budget.
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
