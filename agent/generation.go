package agent

import (
	"fmt"
	"math"
	"slices"
)

// Generation says how a model writes its replies. Every field may be zero: then the model does
// what it does by itself.
type Generation struct {
	// Temperature is how freely the model chooses its words, 0 to 2. Models that reason mostly
	// take none, and it is left out for them.
	Temperature *float64

	// MaxOutputTokens bounds one reply. A reply that is cut off by it ends the work as it is, and
	// the calls of tools in it do not run: the model is asked again, up to three times. Zero, or
	// more than the model writes, is as much as it does.
	MaxOutputTokens int

	// StopSequences are up to 4 texts at which a reply ends, without them. Models that are asked
	// in a responses format have none: such a call fails.
	StopSequences []string

	// ToolChoice says whether the model has to call a tool.
	ToolChoice ToolChoice
}

// ToolChoice is [ToolAuto], [ToolRequired], [ToolNone], or the name of the tool that the model has
// to call. It counts for every call of the model: with anything but ToolAuto and ToolNone a reply
// always goes on with tools, so [Agent.Prepare] should set it for some turns only.
type ToolChoice string

// What is no name of a tool.
const (
	ToolAuto     ToolChoice = ""
	ToolRequired ToolChoice = "required"
	ToolNone     ToolChoice = "none"
)

// maxStops is what all vendors take.
const maxStops = 4

// issues returns what is wrong with g for a model that has these tools.
func (g *Generation) issues(named func(tool string) bool) []Issue {
	var issues []Issue
	bad := func(field, format string, args ...any) {
		issues = append(issues, Issue{"Generation." + field, fmt.Sprintf(format, args...)})
	}
	if t := g.Temperature; t != nil && (math.IsNaN(*t) || *t < 0 || *t > 2) {
		bad("Temperature", "is %v; use 0 to 2, or nil for that of the model", *t)
	}
	if g.MaxOutputTokens < 0 {
		bad("MaxOutputTokens", "is %d; use 1 or more, or 0 for as much as the model writes", g.MaxOutputTokens)
	}
	if n := len(g.StopSequences); n > maxStops {
		bad("StopSequences", "are %d; use at most %d", n, maxStops)
	}
	if i := slices.Index(g.StopSequences, ""); i >= 0 {
		bad(fmt.Sprintf("StopSequences[%d]", i), "is empty; remove it")
	}
	switch c := g.ToolChoice; c {
	case ToolAuto, ToolRequired, ToolNone:
	default:
		if !named(string(c)) {
			bad("ToolChoice", "%q is no tool of the agent; name one, or use %q or %q", c, ToolRequired, ToolNone)
		}
	}
	return issues
}
