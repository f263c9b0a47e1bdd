package googlegenerativeai

import (
	"strings"

	"github.com/parleyrun/parley/providers"
)

// thinkingConfig has either a level or a budget.
type thinkingConfig struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
	Level           string `json:"thinkingLevel,omitempty"`
	// Budget is in tokens, -1 for as many as the model likes.
	Budget *int `json:"thinkingBudget,omitempty"`
}

// dynamic leaves the number of tokens to the model.
const dynamic = -1

// minAnswer is what a budget leaves of the output for the answer, in tokens.
const minAnswer = 1024

// budgets are the tokens of minimal, low, medium and high.
type budgets [4]int

// budgetsOf returns the budgets of a model, as the vendor documents its range, the first of
// them the least it takes; ok is false for a model that none are known of.
func budgetsOf(id string) (b budgets, ok bool) {
	switch {
	case strings.HasPrefix(id, "gemini-2.5-pro"):
		return budgets{128, 2048, 8192, 32768}, true
	case strings.HasPrefix(id, "gemini-2.5-flash-lite"):
		return budgets{512, 2048, 8192, 24576}, true
	case strings.HasPrefix(id, "gemini-2.5-flash"):
		return budgets{128, 2048, 8192, 24576}, true
	}
	return b, false
}

func (b budgets) of(l providers.ThinkingLevel) int {
	switch l {
	case providers.ThinkingMinimal:
		return b[0]
	case providers.ThinkingLow:
		return b[1]
	case providers.ThinkingMedium:
		return b[2]
	}
	return b[3]
}

// thinking returns what a model is told of a level, nil for nothing, and the limit of its
// output, which counts what it thinks: a budget comes on top of what the answer may have.
func thinking(m providers.Model, o providers.Options) (t *thinkingConfig, limit int) {
	id, level, limit := bareID(m.ID), o.ThinkingLevel, o.MaxTokens
	off := level == providers.ThinkingOff
	switch {
	case level == "":
		return nil, limit
	case takesLevels(m) && (!off || alwaysThinks(m)):
		return &thinkingConfig{IncludeThoughts: !off, Level: levelOf(m, level)}, limit
	}
	known, ok := budgetsOf(id)
	switch {
	case off && strings.HasPrefix(id, "gemini-2.5-pro"): // which refuses 0
		return &thinkingConfig{Budget: &known[0]}, limit
	case off:
		return &thinkingConfig{Budget: new(0)}, limit
	case !ok:
		return &thinkingConfig{IncludeThoughts: true, Budget: new(dynamic)}, limit
	}
	budget := known.of(level)
	if limit > 0 {
		limit = max(limit, minAnswer) + budget
		if most := m.MaxOutput(); most > 0 {
			limit = min(limit, most)
		}
		budget = max(min(budget, limit-minAnswer), known[0])
	}
	return &thinkingConfig{IncludeThoughts: true, Budget: &budget}, limit
}

// takesLevels reports whether a model is told a level, and not a budget.
func takesLevels(m providers.Model) bool {
	if g := generation(m); g > 0 {
		return g >= 3
	}
	if id := bareID(m.ID); strings.HasPrefix(id, "gemma-4") || strings.HasPrefix(id, "gemma4") {
		return true
	}
	for _, word := range m.Thinking {
		if word != nil {
			return true
		}
	}
	return false
}

// alwaysThinks reports whether the least that a model can be told is its lowest level. One
// that nothing is known of is taken for one: of its generation none could be told off.
func alwaysThinks(m providers.Model) bool {
	return len(m.Thinking) == 0 || !m.Thinking.Takes(providers.ThinkingOff)
}

// levelOf is the vendor's word for a level; off is the lowest that the model has.
func levelOf(m providers.Model, level providers.ThinkingLevel) string {
	if level == providers.ThinkingOff {
		level = m.Thinking.Clamp(providers.ThinkingMinimal)
	}
	if len(m.Thinking) == 0 && level == providers.ThinkingMinimal && strings.Contains(bareID(m.ID), "-pro") {
		level = providers.ThinkingLow // the least of the models of that name
	}
	word, _ := m.Thinking.Word(level)
	return strings.ToUpper(word)
}
