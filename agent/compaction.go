package agent

import "fmt"

// Defaults of [Compaction], in tokens.
const (
	DefaultReserveTokens    = 20_000
	DefaultKeepRecentTokens = 8_000
)

// Compaction configures when and how the older part of a conversation is replaced by a summary in
// requests to the model. The transcript for clients stays whole. Submissions do not wait for it. The
// zero value suits most agents.
type Compaction struct {
	// Off disables compaction at the threshold. A request that the model server refuses as too long
	// still triggers it, because the conversation could not continue otherwise.
	Off bool

	// ReserveTokens is the free room of the model's context window below which the conversation is
	// compacted after a response. Zero means [DefaultReserveTokens], or the longest answer of the
	// model if that is less.
	ReserveTokens int

	// KeepRecentTokens is the approximate size of the latest part that stays verbatim. Zero means
	// [DefaultKeepRecentTokens]. Less stays in a small window, and after a request that was refused as
	// too long.
	KeepRecentTokens int

	// Model writes the summary; empty means the conversation's own model.
	Model string

	// Instructions are added to the prompt of the summary, such as the facts that matter in
	// conversations of this agent.
	Instructions string
}

// WithDefaults returns c with zero ReserveTokens and KeepRecentTokens replaced by the defaults for a
// model whose answers have at most maxOutput tokens; 0 means unknown.
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
