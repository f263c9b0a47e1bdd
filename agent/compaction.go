package agent

import "fmt"

// Defaults of [Compaction], in tokens.
const (
	DefaultReserveTokens    = 20_000
	DefaultKeepRecentTokens = 8_000
)

// Compaction says when and how the older part of a conversation is replaced by a
// summary in what the model is sent. The transcript that clients read stays whole.
// Submissions do not wait for it. The zero value is what most agents need.
type Compaction struct {
	// Off turns the threshold off. A model that says that what it was sent is too
	// long is still answered by a compaction: the alternative is a conversation that
	// can never go on.
	Off bool

	// ReserveTokens is the room kept free in the model's context window: once less is
	// left after a response, the conversation is compacted. Zero means
	// [DefaultReserveTokens], or the longest answer of the model if that is less.
	ReserveTokens int

	// KeepRecentTokens is about how much of the latest exchange stays word for word.
	// Zero means [DefaultKeepRecentTokens]. Less stays in a small window, and after a
	// request that the vendor refused as too long.
	KeepRecentTokens int

	// Model is who writes the summary; empty means the conversation's own model.
	Model string

	// Instructions are added to what the summarizer is told: what matters in
	// conversations of this agent.
	Instructions string
}

// WithDefaults returns c with ReserveTokens and KeepRecentTokens replaced by the
// defaults where they are zero, for a model whose answers have at most maxOutput
// tokens; 0 if that is not known.
func (c Compaction) WithDefaults(maxOutput int) Compaction {
	if c.ReserveTokens == 0 {
		c.ReserveTokens = DefaultReserveTokens
		if maxOutput > 0 {
			c.ReserveTokens = min(c.ReserveTokens, maxOutput)
		}
	}
	if c.KeepRecentTokens == 0 {
		c.KeepRecentTokens = DefaultKeepRecentTokens
	}
	return c
}

func (c Compaction) issues() []Issue {
	var issues []Issue
	bad := func(field, format string, args ...any) {
		issues = append(issues, Issue{"Compaction." + field, fmt.Sprintf(format, args...)})
	}
	if c.ReserveTokens < 0 {
		bad("ReserveTokens", "is %d; use 1 or more, or 0 for the default of %d", c.ReserveTokens, DefaultReserveTokens)
	}
	if c.KeepRecentTokens < 0 {
		bad("KeepRecentTokens", "is %d; use 1 or more, or 0 for the default of %d", c.KeepRecentTokens, DefaultKeepRecentTokens)
	}
	if c.Model != "" {
		if problem := modelProblem(c.Model); problem != "" {
			bad("Model", "%s", problem)
		}
	}
	return issues
}
