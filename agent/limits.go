package agent

import (
	"cmp"
	"math"

	"github.com/parleyrun/parley/conversation"
)

// Limits bound the resources of one submission, including its subagents. Zero fields mean the
// defaults.
type Limits struct {
	// ResponseBytes bounds the model output of a response, or of a task: text, reasoning and
	// signatures of all its turns, and the arguments of calls within one reply. Every part counts 256
	// bytes more. Beyond it the submission fails with model_output_too_long. Zero means
	// [DefaultResponseBytes]; the maximum is [conversation.MaxResponseText].
	ResponseBytes int

	// ArgumentBytes bounds the arguments of one call; beyond it the submission fails likewise. Zero
	// means [DefaultArgumentBytes], which is also the maximum.
	ArgumentBytes int

	// OutputBytes bounds the calls of a response, including those of subagents: arguments, outputs,
	// error texts and recorded steps. Every call and step counts 256 bytes more.
	//
	// Of an output longer than 4 MiB, or beyond the remaining room, only a part is recorded, which
	// counts twice; the model can read all of it. Without room for that part, the model gets an error
	// once, and [Step] returns [ErrStepsFull]. Without room for another call, the submission fails
	// with model_output_too_long. Zero means [DefaultOutputBytes], which is also the maximum, because
	// all of it stays in memory until the submission is settled.
	OutputBytes int

	// CallsPerReply bounds the calls of one reply. No call of a larger reply runs: the model gets an
	// error and is called again, up to three times in a row; then the submission fails likewise. Zero
	// means [DefaultCallsPerReply].
	CallsPerReply int

	// Turns bounds the model calls of one submission, including its subagents. Repeated calls after
	// failures, and summaries, do not count. A submission over this bound, or one of the next three,
	// fails with submission_limit_reached before the next model call or tool call. The counts are
	// recorded, so they survive a crash. Zero means [DefaultTurns].
	Turns int

	// ToolCalls bounds the tool calls that these model calls request, including refused ones. Zero
	// means [DefaultToolCalls].
	ToolCalls int

	// Tokens bounds the input and output tokens of these model calls, and Dollars their cost at known
	// prices. Models without a price count 0. One call may exceed either bound. Zero means no bound.
	Tokens  int64
	Dollars float64

	// Dispatches bounds the messages that the tools and hooks of one submission [Dispatch] while one
	// node works on it. Messages that an earlier run of a durable call sent do not count. Zero means
	// [DefaultDispatches].
	Dispatches int

	// DispatchDepth bounds chains of messages whose senders are unsettled: a message from outside has
	// depth 0, and one dispatched by the work on it depth 1. Depth counts from the last settled
	// sender, so a run that starts the next run and ends may continue for years. The bound is that of
	// the sending agent. Zero means [DefaultDispatchDepth].
	DispatchDepth int

	// TreeSubmissions and TreeDollars bound a tree of dispatches: a submission from outside, the
	// messages that its work dispatches to any agent, and the messages that their work dispatches. The
	// bounds are those of the root's agent, over the last 24 hours.
	//
	// TreeSubmissions bounds the dispatched messages; beyond it [Dispatch] returns a
	// [DispatchLimitError]. TreeDollars bounds the cost of all model calls of the tree at known
	// prices, including the root's; beyond it nothing more is dispatched, and submissions of the tree
	// fail with submission_limit_reached before their next model call. Calls that run at that time may
	// exceed it. Zero means [DefaultTreeSubmissions] and no bound of dollars; the maximum of
	// TreeSubmissions is [conversation.MaxTreeMembers].
	TreeSubmissions int
	TreeDollars     float64

	// PricedOnly refuses calls of models without a known price, which Dollars and TreeDollars
	// count as 0: a fallback is called instead, or the submission fails with model_failed. A
	// price of 0 for all tokens is no price.
	PricedOnly bool
}

// Defaults of [Limits].
const (
	DefaultResponseBytes = 16 << 20
	DefaultArgumentBytes = conversation.MaxPayloadBytes
	DefaultOutputBytes   = 32 << 20
	DefaultCallsPerReply = 128
	DefaultTurns         = 100
	DefaultToolCalls     = 1000
	DefaultDispatches    = 100
	DefaultDispatchDepth = 16

	DefaultTreeSubmissions = 1000
)

// WithDefaults returns l with its zero fields replaced by the defaults.
func (l Limits) WithDefaults() Limits {
	l.ResponseBytes = cmp.Or(l.ResponseBytes, DefaultResponseBytes)
	l.ArgumentBytes = cmp.Or(l.ArgumentBytes, DefaultArgumentBytes)
	l.OutputBytes = cmp.Or(l.OutputBytes, DefaultOutputBytes)
	l.CallsPerReply = cmp.Or(l.CallsPerReply, DefaultCallsPerReply)
	l.Turns = cmp.Or(l.Turns, DefaultTurns)
	l.ToolCalls = cmp.Or(l.ToolCalls, DefaultToolCalls)
	l.Dispatches = cmp.Or(l.Dispatches, DefaultDispatches)
	l.DispatchDepth = cmp.Or(l.DispatchDepth, DefaultDispatchDepth)
	l.TreeSubmissions = cmp.Or(l.TreeSubmissions, DefaultTreeSubmissions)
	return l
}

// limitIssues checks the limits of an agent.
func (a *Agent) limitIssues(bad func(field, format string, args ...any)) {
	for _, l := range []struct {
		name        string
		value, zero int
	}{
		{"ResponseBytes", a.Limits.ResponseBytes, DefaultResponseBytes},
		{"ArgumentBytes", a.Limits.ArgumentBytes, DefaultArgumentBytes},
		{"OutputBytes", a.Limits.OutputBytes, DefaultOutputBytes},
		{"CallsPerReply", a.Limits.CallsPerReply, DefaultCallsPerReply},
		{"Turns", a.Limits.Turns, DefaultTurns},
		{"ToolCalls", a.Limits.ToolCalls, DefaultToolCalls},
		{"Dispatches", a.Limits.Dispatches, DefaultDispatches},
		{"DispatchDepth", a.Limits.DispatchDepth, DefaultDispatchDepth},
		{"TreeSubmissions", a.Limits.TreeSubmissions, DefaultTreeSubmissions},
	} {
		if l.value < 0 {
			bad("Limits."+l.name, "is %d; use 1 or more, or 0 for the default of %d", l.value, l.zero)
		}
	}
	if a.Limits.Tokens < 0 {
		bad("Limits.Tokens", "is %d; use 1 or more, or 0 for no bound", a.Limits.Tokens)
	}
	for _, l := range []struct {
		name    string
		dollars float64
	}{{"Dollars", a.Limits.Dollars}, {"TreeDollars", a.Limits.TreeDollars}} {
		if !(l.dollars >= 0) || math.IsInf(l.dollars, 1) {
			bad("Limits."+l.name, "is %v; use more than 0, or 0 for no bound", l.dollars)
		}
	}
	if a.Limits.TreeSubmissions > conversation.MaxTreeMembers {
		bad("Limits.TreeSubmissions", "is %d; use at most %d, the number of members that a conversation remembers", a.Limits.TreeSubmissions, conversation.MaxTreeMembers)
	}
	if a.Limits.ResponseBytes > conversation.MaxResponseText {
		bad("Limits.ResponseBytes", "is %d; use at most %d, which is what is kept of a response", a.Limits.ResponseBytes, conversation.MaxResponseText)
	}
	if a.Limits.OutputBytes > DefaultOutputBytes {
		bad("Limits.OutputBytes", "is %d; use at most %d, which is what is kept of a response", a.Limits.OutputBytes, DefaultOutputBytes)
	}
	if a.Limits.ArgumentBytes > conversation.MaxPayloadBytes {
		bad("Limits.ArgumentBytes", "is %d; use at most %d, which is what any value may have", a.Limits.ArgumentBytes, conversation.MaxPayloadBytes)
	}
}
