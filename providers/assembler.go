package providers

import (
	"context"
	"iter"
)

// NewStream turns produce into a stream that keeps the package's guarantees:
// Codecs through NewHTTP and other Protocols share it. Each iteration calls
// produce once, on the goroutine that ranges. produce feeds the Assembler until
// it has called Finish or meets an error, and should return early once
// Assembler.Stopped. An error that is not an *Error is read as a failure of the
// connection; returning nil without Finish is a truncated stream. The bounds of the
// reply are the defaults of Limits unless produce sets others by Assembler.Bound.
func NewStream(ctx context.Context, m Model, produce func(*Assembler) error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		left := false // The consumer broke out of its loop: yield must not be called again.
		a := NewAssembler(func(e Event) bool {
			if ctx.Err() != nil {
				return false
			}
			left = !yield(e, nil)
			return !left
		})
		a.model = m
		err := ctx.Err()
		if err == nil {
			err = produce(a)
		}
		switch {
		case left || a.finished && !a.Stopped():
		case ctx.Err() != nil:
			yield(nil, &Error{Kind: KindAborted, Provider: m.Provider, Err: context.Cause(ctx)})
		case a.over != nil:
			yield(nil, &Error{Kind: KindTooLong, Provider: m.Provider, Err: a.over})
		case err != nil:
			yield(nil, asError(m.Provider, err))
		default:
			yield(nil, &Error{Kind: KindTruncated, Provider: m.Provider, Err: errNoTerminal})
		}
	}
}

// Assembler turns the fragments of one vendor response into well-ordered
// Events, and holds the response to its Limits. It belongs to one stream and one
// goroutine. Once Stopped, or after Finish, calls do nothing.
type Assembler struct {
	yield     func(Event) bool
	model     Model
	limits    Limits
	bytes     int         // of the reply so far
	part      partKind    // of the part under way
	over      *LimitError // nil unless the reply was cut off
	stopped   bool
	finished  bool
	reasoning bool
	signature string
	calls     []pendingCall
	// shown tells that there was an event, said that there was text or a call.
	shown, said bool
	stop        StopReason // by End
	// Pieces of text and of reasoning that end inside a character.
	text, thought textJoiner
	tools         []Tool
	onOdd         func(Oddity)
	odd           []string // kinds that were reported
}

type pendingCall struct {
	id, name  string
	arguments argumentText
	ended     bool
}

// partKind tells neighbouring parts apart.
type partKind int

const (
	partNone partKind = iota
	partText
	partReasoning
	partCall
)

// NewAssembler returns an Assembler that passes events to yield until that
// returns false, with the default Limits.
func NewAssembler(yield func(Event) bool) *Assembler {
	return &Assembler{yield: yield, limits: Limits{}.withDefaults()}
}

// Bound replaces the limits of the response. It comes before everything else.
func (a *Assembler) Bound(l Limits) { a.limits = l.withDefaults() }

// Watch has the oddities of the response reported to odd, which may be nil, and names the
// tools that it may call. It comes before everything else.
func (a *Assembler) Watch(tools []Tool, odd func(Oddity)) { a.tools, a.onOdd = tools, odd }

// Model is the model that answers, of a stream by NewStream, else the zero Model.
func (a *Assembler) Model() Model { return a.model }

// Stopped reports that nobody takes further events, or that the response has reached
// one of its limits.
func (a *Assembler) Stopped() bool { return a.stopped || a.over != nil }

// Hold counts n bytes that the codec keeps to hand over later, and reports whether
// the response may have them.
func (a *Assembler) Hold(n int) bool {
	if a.Stopped() {
		return false
	}
	a.bytes += n
	return a.within(LimitedReply, a.limits.ReplyBytes, a.bytes)
}

// HoldCalls reports whether the response may have n calls, of which the codec keeps
// some to hand over later.
func (a *Assembler) HoldCalls(n int) bool {
	return !a.Stopped() && a.within(LimitedCalls, a.limits.Calls, n)
}

// within cuts the response off if it has more of something than it may.
func (a *Assembler) within(what Limited, limit, got int) bool {
	if got > limit {
		a.over = &LimitError{What: what, Limit: limit, Got: got}
		return false
	}
	return true
}

// count takes n bytes of a part of a kind.
func (a *Assembler) count(kind partKind, n int) bool {
	if kind != a.part {
		n += partBytes
		a.part = kind
	}
	return a.Hold(n)
}

// Text appends to the answer. A piece may end inside a character that the next one goes on
// with, see sse.Text; bytes that make no character become U+FFFD.
func (a *Assembler) Text(s string) {
	if s == "" || !a.count(partText, len(s)) {
		return
	}
	a.endReasoning()
	a.said = true
	a.emitText(a.text.add(s))
}

func (a *Assembler) emitText(s string) {
	if s != "" {
		a.emit(TextDelta{Text: s})
	}
}

// endPiece shows what stands for a character of the text that was cut.
func (a *Assembler) endPiece() { a.emitText(a.text.rest()) }

// Reasoning appends to the reasoning. A signature that is not empty replaces
// the one so far; text may be empty then.
func (a *Assembler) Reasoning(text, signature string) {
	if text == "" && signature == "" {
		return
	}
	grown := len(text)
	if signature != a.signature { // some codecs give it with every piece
		grown += len(signature)
	}
	if !a.count(partReasoning, grown) {
		return
	}
	a.endPiece()
	a.reasoning = true
	if signature != "" {
		a.signature = signature
	}
	a.emitReasoning(a.thought.add(text))
}

func (a *Assembler) emitReasoning(s string) {
	if s != "" {
		a.emit(ReasoningDelta{Text: s})
	}
}

// EndReasoning closes the reasoning under way with a signature, or stands for reasoning
// of which nothing is shown. Without either it does nothing.
func (a *Assembler) EndReasoning(signature string) {
	if signature != "" && !a.count(partReasoning, len(signature)) {
		return
	}
	if signature != "" {
		a.endPiece()
		a.reasoning, a.signature = true, signature
	}
	a.endReasoning()
	a.part = partNone
}

// EndText closes the text under way with a signature, or stands for text of which nothing
// is shown. Without a signature it does nothing.
func (a *Assembler) EndText(signature string) {
	if signature == "" || !a.count(partText, len(signature)) {
		return
	}
	a.endReasoning()
	a.endPiece()
	a.emit(TextEnd{Signature: signature})
	a.part = partNone
}

// StartCall opens a tool call and returns its index. The name is the one of a tool if the
// model has written that with marks of its own around it.
func (a *Assembler) StartCall(id, name string) int {
	i := len(a.calls)
	if !a.HoldCalls(i+1) || !a.count(partNone, partBytes+len(id)+len(name)) {
		return i
	}
	a.part, a.said = partCall, true
	a.endReasoning()
	a.endPiece()
	name = toolName(name, a.tools)
	a.calls = append(a.calls, pendingCall{id: id, name: name})
	a.emit(ToolCallStart{Index: i, ID: id, Name: name})
	return i
}

// CallArguments appends to the arguments of the call StartCall returned index for, unless
// that has ended.
func (a *Assembler) CallArguments(index int, fragment string) {
	if fragment == "" || !a.Hold(len(fragment)) {
		return
	}
	call := &a.calls[index]
	if call.ended || !a.within(LimitedArguments, a.limits.ArgumentBytes, call.arguments.size()+len(fragment)) {
		return
	}
	a.emitArguments(index, call.arguments.add(fragment))
}

func (a *Assembler) emitArguments(index int, s string) {
	if s != "" {
		a.emit(ToolCallDelta{Index: index, Arguments: s})
	}
}

// EndCall closes a call, with a signature if it has one. A vendor that closes its calls
// says so, since what comes after a call is to stand after it. Calls that are open in
// the end are closed by Finish.
func (a *Assembler) EndCall(index int, signature string) {
	if signature != "" && !a.Hold(len(signature)) || a.Stopped() {
		return
	}
	a.endReasoning()
	c := &a.calls[index]
	if c.ended {
		return
	}
	c.ended = true
	shown, arguments, malformed := c.arguments.end()
	c.arguments = argumentText{}
	a.emitArguments(index, shown)
	a.emit(ToolCallEnd{Index: index, ID: c.id, Name: c.name, Arguments: arguments, Malformed: malformed, Signature: signature})
}

// Finish closes everything open and ends the stream with d. It sets Usage.Total, sets a
// StopReason that is empty to that of End, and corrects one that contradicts the calls. Vendors are
// known to say "stop" after a call.
func (a *Assembler) Finish(d Done) {
	if a.over != nil {
		return
	}
	a.endReasoning()
	a.endPiece()
	for i := range a.calls {
		a.EndCall(i, "")
	}
	if d.StopReason == "" {
		d.StopReason = a.stop
	}
	switch {
	case d.StopReason == StopStop && len(a.calls) > 0:
		d.StopReason = StopToolUse
	case d.StopReason == StopToolUse && len(a.calls) == 0:
		d.StopReason = StopStop
	}
	u := &d.Usage
	u.Total = u.Input + u.Output + u.CacheRead + u.CacheWrite
	a.emit(d)
	a.finished = true
}

func (a *Assembler) endReasoning() {
	if a.reasoning {
		a.emitReasoning(a.thought.rest())
		a.emit(ReasoningEnd{Signature: a.signature})
		a.reasoning, a.signature = false, ""
	}
}

func (a *Assembler) emit(e Event) {
	if !a.Stopped() && !a.finished {
		a.shown = true
		a.stopped = !a.yield(e)
	}
}
