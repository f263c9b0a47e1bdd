package agent

import (
	"cmp"
	"math"

	"github.com/parleyrun/parley/conversation"
)

// Limits bound what the work on one submission brings forth, that of its subagents
// included. Zero fields mean the defaults.
type Limits struct {
	// ResponseBytes bounds what models say in a response, or in the work on a task:
	// text, reasoning and signatures of all its turns, and within one reply the
	// arguments of its calls too. Every part counts 256 bytes more. Beyond it the
	// submission fails with model_output_too_long. Zero is [DefaultResponseBytes], the
	// most is [conversation.MaxResponseText].
	ResponseBytes int

	// ArgumentBytes bounds the arguments of one call, beyond which the submission fails
	// likewise. Zero is [DefaultArgumentBytes], which is also the most.
	ArgumentBytes int

	// OutputBytes bounds what the calls of a response bring, those of its subagents
	// included: arguments, outputs, error texts and recorded steps. Every call, and every
	// step, counts 256 bytes more. Of an output that is longer than 4 MiB, or for which
	// there is no room, a part is recorded, and counts twice; the model reads on in all of
	// it. Where there is no room even so the model reads that, once; [Step] returns
	// [ErrStepsFull]; and when there is no room for another call, the submission fails with
	// model_output_too_long. Zero is [DefaultOutputBytes], which is also the most: all of it
	// is kept until the submission is settled.
	OutputBytes int

	// CallsPerReply bounds the calls of one reply. None of a reply with more is run: the
	// model is told and asked again, up to three times in a row, and then the submission
	// fails likewise. Zero is [DefaultCallsPerReply].
	CallsPerReply int

	// Turns bounds the model calls of one submission, those of its subagents included: a
	// model that never stops calling tools ends there. Calls that failed and were repeated,
	// and summaries, do not count. What is over this bound, or one of the next three, fails
	// with submission_limit_reached before the next model call, or at the call of a tool. They
	// are counted by what is recorded, so a crash does not begin them anew. Zero is
	// [DefaultTurns].
	Turns int

	// ToolCalls bounds what these model calls ask for, be it that a call is refused. Zero is
	// [DefaultToolCalls].
	ToolCalls int

	// Tokens bounds what these model calls use, input and output, and Dollars what they cost at
	// the prices that are known of the models, those of models without a price as 0. One call may go beyond either. Zero is no
	// bound.
	Tokens  int64
	Dollars float64

	// Dispatches bounds the messages that the tools and hooks of one submission
	// [Dispatch] while one node works on it; those that a call which runs again has sent
	// before do not count. Zero is [DefaultDispatches].
	Dispatches int

	// DispatchDepth bounds chains of messages whose senders are unsettled: one from outside has
	// depth 0, one that is dispatched in the work on another the next depth, whatever agent it is
	// to. Depths count from the first sender that is settled, so a run that starts the next one
	// and ends goes on for years. The bound is that of the agent which sends. Zero is
	// [DefaultDispatchDepth].
	DispatchDepth int

	// TreeSubmissions and TreeDollars bound a tree of dispatches: a submission that was not dispatched by the work on
	// another begins one, and the messages that its work dispatches belong to it, to whatever agent they are, and those
	// that their work dispatches. The bounds are those of the agent that began the tree, over the last 24 hours.
	// TreeSubmissions counts the dispatched messages, beyond which [Dispatch] returns a [DispatchLimitError]. TreeDollars
	// counts the cost of all model calls of the tree at the known prices, those of the first submission included; beyond
	// it nothing more is dispatched, and submissions of the tree fail with submission_limit_reached before their next
	// model call. Calls that run at that time may go beyond it. Zero is [DefaultTreeSubmissions] and no bound of dollars;
	// TreeSubmissions is at most [conversation.MaxTreeMembers].
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
