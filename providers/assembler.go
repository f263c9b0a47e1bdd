package providers

import (
	"context"
	"encoding/json"
	"iter"
)

// NewStream turns produce into a stream that keeps the package's guarantees:
// Codecs through NewHTTP and other Protocols share it. Each iteration calls
// produce once, on the goroutine that ranges. produce feeds the Assembler until
// it has called Finish or meets an error, and should return early once
// Assembler.Stopped. An error that is not an *Error is read as a failure of the
// connection; returning nil without Finish is a truncated stream.
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
		err := ctx.Err()
		if err == nil {
			err = produce(a)
		}
		switch {
		case left || a.finished && !a.stopped:
		case ctx.Err() != nil:
			yield(nil, &Error{Kind: KindAborted, Provider: m.Provider, Err: context.Cause(ctx)})
		case err != nil:
			yield(nil, asError(m.Provider, err))
		default:
			yield(nil, &Error{Kind: KindTruncated, Provider: m.Provider, Err: errNoTerminal})
		}
	}
}

// Assembler turns the fragments of one vendor response into well-ordered
// Events. It belongs to one stream and one goroutine. Once Stopped, or after
// Finish, calls do nothing.
type Assembler struct {
	yield     func(Event) bool
	stopped   bool
	finished  bool
	reasoning bool
	signature string
	calls     []pendingCall
}

type pendingCall struct {
	id, name  string
	arguments []byte
}

// NewAssembler returns an Assembler that passes events to yield until that
// returns false.
func NewAssembler(yield func(Event) bool) *Assembler { return &Assembler{yield: yield} }

// Stopped reports that nobody takes further events.
func (a *Assembler) Stopped() bool { return a.stopped }

// Text appends to the answer.
func (a *Assembler) Text(s string) {
	if s == "" {
		return
	}
	a.endReasoning()
	a.emit(TextDelta{Text: s})
}

// Reasoning appends to the reasoning. A signature that is not empty replaces
// the one so far; text may be empty then.
func (a *Assembler) Reasoning(text, signature string) {
	if text == "" && signature == "" {
		return
	}
	a.reasoning = true
	if signature != "" {
		a.signature = signature
	}
	if text != "" {
		a.emit(ReasoningDelta{Text: text})
	}
}

// StartCall opens a tool call and returns its index.
func (a *Assembler) StartCall(id, name string) int {
	a.endReasoning()
	i := len(a.calls)
	a.calls = append(a.calls, pendingCall{id: id, name: name})
	a.emit(ToolCallStart{Index: i, ID: id, Name: name})
	return i
}

// CallArguments appends to the arguments of the call StartCall returned index for.
func (a *Assembler) CallArguments(index int, fragment string) {
	if fragment == "" {
		return
	}
	a.calls[index].arguments = append(a.calls[index].arguments, fragment...)
	a.emit(ToolCallDelta{Index: index, Arguments: fragment})
}

// Finish closes everything open and ends the stream with d, whose Usage.Total
// and, where it contradicts the calls, StopReason it corrects. Vendors are
// known to say "stop" after a call.
func (a *Assembler) Finish(d Done) {
	a.endReasoning()
	for i, c := range a.calls {
		arguments, malformed := callArguments(c.arguments)
		a.emit(ToolCallEnd{Index: i, ID: c.id, Name: c.name, Arguments: arguments, Malformed: malformed})
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
		a.emit(ReasoningEnd{Signature: a.signature})
		a.reasoning, a.signature = false, ""
	}
}

func (a *Assembler) emit(e Event) {
	if !a.stopped && !a.finished {
		a.stopped = !a.yield(e)
	}
}

func callArguments(written []byte) (arguments json.RawMessage, malformed bool) {
	if len(written) == 0 {
		return json.RawMessage("{}"), false
	}
	if json.Valid(written) {
		return written, false
	}
	quoted, err := json.Marshal(string(written))
	if err != nil {
		panic("providers: a string has no JSON form: " + err.Error())
	}
	return quoted, true
}
