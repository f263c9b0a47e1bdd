package providers

import (
	"context"
	"iter"
)

// NewStream turns produce into a stream that keeps the guarantees of the package. Codecs use it
// through NewHTTP; other Protocols use it directly. Each iteration calls produce once, on the
// goroutine that ranges. produce feeds the Assembler until it has called Finish or returns an error.
// It should return early once Assembler.Stopped. An error that is not an *Error becomes KindNetwork.
// Returning nil without Finish becomes KindTruncated. The default Limits apply unless produce calls
// Assembler.Bound.
func NewStream(ctx context.Context, m Model, produce func(*Assembler) error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		left := false // The consumer left its loop: yield must not be called again.
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

// Assembler turns the fragments of one vendor response into well-ordered Events and enforces its
// Limits. It belongs to one stream and one goroutine. Once Stopped, or after Finish, calls have no
// effect.
type Assembler struct {
	yield     func(Event) bool
	model     Model
	limits    Limits
	bytes     int         // bytes of the reply so far
	part      partKind    // kind of the current part
	over      *LimitError // nil unless a limit was exceeded
	stopped   bool
	finished  bool
	reasoning bool
	signature string
	calls     []pendingCall
	// shown is set after the first event, said after the first text or call.
	shown, hasContent bool
	stop              StopReason // set by End
	// Joiners for fragments of text and reasoning that end inside a character.
	text, thought textJoiner
	tools         []Tool
	onOdd         func(Oddity)
	odd           []string // kinds already reported
}

type pendingCall struct {
	id, name  string
	arguments argumentText
	ended     bool
}

type partKind int

const (
	partNone partKind = iota
	partText
	partReasoning
	partCall
)

// NewAssembler returns an Assembler with the default Limits. It passes events to yield until yield
// returns false.
func NewAssembler(yield func(Event) bool) *Assembler {
	return &Assembler{yield: yield, limits: Limits{}.withDefaults()}
}

// Bound replaces the limits of the response. Call it before any other method.
func (a *Assembler) Bound(l Limits) { a.limits = l.withDefaults() }

// Watch sets the tools that the response may call and the callback for oddities; odd may be nil. Call
// it before any other method.
func (a *Assembler) Watch(tools []Tool, odd func(Oddity)) { a.tools, a.onOdd = tools, odd }

// Model returns the model of a stream made by NewStream, otherwise the zero Model.
func (a *Assembler) Model() Model { return a.model }

// Stopped reports whether the consumer has stopped reading or the response has reached a limit.
func (a *Assembler) Stopped() bool { return a.stopped || a.over != nil }

// Hold counts n bytes that the codec buffers and reports whether they are within the limits.
func (a *Assembler) Hold(n int) bool {
	if a.Stopped() {
		return false
	}
	a.bytes += n
	return a.within(LimitedReply, a.limits.ReplyBytes, a.bytes)
}

// HoldCalls reports whether n calls are within the limits, including calls that the codec buffers.
func (a *Assembler) HoldCalls(n int) bool {
	return !a.Stopped() && a.within(LimitedCalls, a.limits.Calls, n)
}

// within ends the response if got exceeds the limit.
func (a *Assembler) within(desc Limited, limit, got int) bool {
	if got > limit {
		a.over = &LimitError{Quantity: desc, Limit: limit, Got: got}
		return false
	}
	return true
}

// count adds n bytes to the current part of the kind.
func (a *Assembler) count(kind partKind, n int) bool {
	if kind != a.part {
		n += partBytes
		a.part = kind
	}
	return a.Hold(n)
}

// Text appends to the answer. A fragment may end inside a character that the next fragment completes,
// see sse.Text. Invalid bytes become U+FFFD.
func (a *Assembler) Text(s string) {
	if s == "" || !a.count(partText, len(s)) {
		return
	}
	a.endReasoning()
	a.hasContent = true
	a.emitText(a.text.add(s))
}

func (a *Assembler) emitText(s string) {
	if s != "" {
		a.emit(TextDelta{Text: s})
	}
}

// endPiece emits the replacement for a truncated character.
func (a *Assembler) endPiece() { a.emitText(a.text.rest()) }

// Reasoning appends to the reasoning. A signature that is not empty replaces the previous one; text
// may then be empty.
func (a *Assembler) Reasoning(text, signature string) {
	if text == "" && signature == "" {
		return
	}
	grown := len(text)
	if signature != a.signature { // some codecs repeat the signature with every fragment
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

// EndReasoning closes the current reasoning with a signature, or adds reasoning without visible text.
// Without current reasoning and without a signature it does nothing.
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

// EndText closes the current text with a signature, or adds signed text without visible characters.
// Without a signature it does nothing.
func (a *Assembler) EndText(signature string) {
	if signature == "" || !a.count(partText, len(signature)) {
		return
	}
	a.endReasoning()
	a.endPiece()
	a.emit(TextEnd{Signature: signature})
	a.part = partNone
}

// StartCall opens a tool call and returns its index. If the model decorated the name of a tool, the
// event has the name of the tool.
func (a *Assembler) StartCall(id, name string) int {
	i := len(a.calls)
	if !a.HoldCalls(i+1) || !a.count(partNone, partBytes+len(id)+len(name)) {
		return i
	}
	a.part, a.hasContent = partCall, true
	a.endReasoning()
	a.endPiece()
	name = toolName(name, a.tools)
	a.calls = append(a.calls, pendingCall{id: id, name: name})
	a.emit(ToolCallStart{Index: i, ID: id, Name: name})
	return i
}

// CallArguments appends to the arguments of the call with the index that StartCall returned. It has no
// effect after the call has ended.
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

// EndCall closes a call, with a signature if it has one. Codecs of vendors that mark the end of a call
// must call it to preserve the order of parts. Finish closes all calls that are still open.
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

// Finish closes all open parts and ends the stream with d. It sets Usage.Total and uses the reason of
// End if d.StopReason is empty. It corrects a StopReason that contradicts the calls, because some
// vendors report "stop" after a call.
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
