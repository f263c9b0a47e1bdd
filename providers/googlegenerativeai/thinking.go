package googlegenerativeai

import (
	"strings"

	"github.com/parleyrun/parley/providers"
)

// thinkingConfig has either a level or a budget.
type thinkingConfig struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
	Level           string `json:"thinkingLevel,omitempty"`
	// Budget is in tokens; -1 lets the model decide.
	Budget *int `json:"thinkingBudget,omitempty"`
}

// dynamic lets the model choose the number of tokens.
const dynamic = -1

// minAnswer is the minimum output left for the answer, in tokens.
const minAnswer = 1024

// budgets are the token budgets of minimal, low, medium and high.
type budgets [4]int

// budgetsOf returns the documented budgets of a model; the first is its minimum. ok is false for an
// unknown model.
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

// thinking returns the option for a level, nil for none, and the output limit. The limit includes the
// budget, which is added to the limit of the answer.
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
	case off && strings.HasPrefix(id, "gemini-2.5-pro"): // this model rejects 0
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

// takesLevels reports whether a model accepts a level instead of a budget.
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

// alwaysThinks reports whether a model cannot disable thinking. Unknown models count as such, because
// no model of their generation can.
func alwaysThinks(m providers.Model) bool {
	return len(m.Thinking) == 0 || !m.Thinking.Takes(providers.ThinkingOff)
}

// levelOf returns the vendor's value for a level; off maps to the lowest level of the model.
func levelOf(m providers.Model, level providers.ThinkingLevel) string {
	if level == providers.ThinkingOff {
		level = m.Thinking.Clamp(providers.ThinkingMinimal)
	}
	if len(m.Thinking) == 0 && level == providers.ThinkingMinimal && strings.Contains(bareID(m.ID), "-pro") {
		level = providers.ThinkingLow // the minimum of models with this name
	}
	word, _ := m.Thinking.Word(level)
	return strings.ToUpper(word)
}
