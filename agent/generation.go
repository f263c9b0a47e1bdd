package agent

import (
	"fmt"
	"math"
	"slices"
)

// Generation has the sampling options of a model. A zero field leaves the model's default.
type Generation struct {
	// Temperature is the sampling temperature, 0 to 2. It is omitted for models that do not accept it,
	// such as most reasoning models.
	Temperature *float64

	// MaxOutputTokens bounds one reply. A text reply that reaches it ends the response as it is. Tool
	// calls in such a reply do not run, and the model is called again, up to three times. Zero, or
	// more than the model's maximum, means the maximum.
	MaxOutputTokens int

	// StopSequences are up to 4 texts at which a reply ends; the reply does not include them. A call
	// in a responses format fails with them, because the format has no such option.
	StopSequences []string

	// ToolChoice controls whether the model must call a tool.
	ToolChoice ToolChoice
}

// ToolChoice is [ToolAuto], [ToolRequired], [ToolNone], or the name of the tool that the model must
// call. It applies to every model call: with anything but ToolAuto and ToolNone a reply always
// continues with tools, so [Agent.Prepare] should set it for some turns only.
type ToolChoice string

// Values of [ToolChoice] that are not the name of a tool.
const (
	ToolAuto     ToolChoice = ""
	ToolRequired ToolChoice = "required"
	ToolNone     ToolChoice = "none"
)

// maxStops is the maximum that all vendors accept.
const maxStops = 4

// issues returns the mistakes of g for a model that has these tools.
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
