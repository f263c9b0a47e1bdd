package providers

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/providers/sse"
)

// CallFragment is a piece of a tool call, in formats that send calls in pieces.
type CallFragment struct {
	// Index is the vendor's number of the call, nil if it sends none.
	Index *int
	// ID and Name are empty in pieces without them.
	ID, Name string
	// Arguments are a piece of them as a JSON string, or all of them as they are, or
	// nothing.
	Arguments json.RawMessage
	// Signature is opaque and goes back in ToolCall.Signature; empty for none. The last one counts.
	Signature string
}

// CallFragments assembles the calls of one response: vendors are known to number all calls
// 0, to leave numbers or ids out, to send names in pieces or last. The zero value is ready.
type CallFragments struct{ calls []*fragmentedCall }

type fragmentedCall struct {
	// index is the vendor's, nil if it sends none.
	index    *int
	id, name string
	// started tells that the Assembler knows the call, under the number ours.
	started bool
	ours    int
	// early holds arguments that came before the call was started.
	early strings.Builder
	// argued tells that there are arguments.
	argued bool
	// signature is the vendor's, empty for none.
	signature string
}

// Add hands a piece over to a, once the call has a name and arguments. Its error is of
// arguments that are no JSON.
func (cs *CallFragments) Add(a *Assembler, f CallFragment) error {
	if f.ID == "null" {
		f.ID = ""
	}
	c := cs.find(a, f)
	if !a.HoldCalls(len(cs.calls)) {
		return nil
	}
	c.identify(f)
	if f.Signature != "" && a.Hold(len(f.Signature)) {
		c.signature = f.Signature
	}
	fragment, err := fragmentText(f.Arguments)
	if err != nil {
		return err
	}
	c.argued = c.argued || strings.TrimSpace(fragment) != ""
	switch {
	case c.started:
		a.CallArguments(c.ours, fragment)
	case a.Hold(len(fragment)):
		c.early.WriteString(fragment)
		if c.name != "" && c.argued {
			c.start(a)
		}
	}
	return nil
}

// identify takes the id and the name of a piece. A name may come whole with each piece, in
// pieces, or longer with each piece.
func (c *fragmentedCall) identify(f CallFragment) {
	if c.id == "" {
		c.id = f.ID
	}
	switch {
	case c.started || f.Name == c.name:
	case strings.HasPrefix(f.Name, c.name):
		c.name = f.Name
	default:
		c.name += f.Name
	}
}

func (c *fragmentedCall) start(a *Assembler) {
	c.ours, c.started = a.StartCall(c.id, c.name), true
	a.CallArguments(c.ours, c.early.String())
	c.early.Reset()
}

// Start hands over the calls that have a name, before something else that the response
// shows.
func (cs *CallFragments) Start(a *Assembler) {
	for _, c := range cs.calls {
		if !c.started && c.name != "" {
			c.start(a)
		}
	}
}

// Finish hands over all calls that were not, and ends those with a signature. A call whose name never came is answered as one
// of an unknown tool, and the model can correct it.
func (cs *CallFragments) Finish(a *Assembler) {
	for _, c := range cs.calls {
		if !c.started {
			c.start(a)
		}
		if c.signature != "" {
			a.EndCall(c.ours, c.signature)
		}
	}
}

// find returns the call that a piece belongs to, a new one if there is none. An id that
// differs means another call even under the same index, and so does a name behind arguments
// that are whole. A piece that has neither index nor id belongs to the latest call.
func (cs *CallFragments) find(a *Assembler, f CallFragment) *fragmentedCall {
	for i := len(cs.calls) - 1; i >= 0; i-- {
		c := cs.calls[i]
		switch {
		case f.ID != "" && c.id != "" && f.ID != c.id:
			continue
		case f.Index != nil && c.index != nil:
			if *f.Index != *c.index {
				continue
			}
			if f.ID != "" || f.Name == "" || !c.answered(a, f.Name) {
				return c
			}
		case f.Index != nil || c.index != nil:
			if f.ID != "" && f.ID == c.id || f.Index == nil && f.ID == "" {
				return c
			}
			continue
		case f.ID != "" && f.ID == c.id, f.ID == "" && (f.Name == "" || c.unnamed(a)):
			return c
		default:
			continue
		}
		break // another call under the index of this one
	}
	c := &fragmentedCall{index: f.Index}
	cs.calls = append(cs.calls, c)
	return c
}

// answered reports whether the call is whole, so that a piece with a name begins another one.
// An object without members may stand for arguments that are to come.
func (c *fragmentedCall) answered(a *Assembler, name string) bool {
	if !c.started || c.ours >= len(a.calls) {
		return c.name != name && knownTool(a.tools, c.name) && knownTool(a.tools, name)
	}
	arguments := &a.calls[c.ours].arguments
	return arguments.whole && (name != c.name || !arguments.empty())
}

// unnamed reports whether the name of the call may go on in the next piece.
func (c *fragmentedCall) unnamed(a *Assembler) bool {
	return !c.started && len(a.tools) > 0 && !knownTool(a.tools, c.name)
}

// fragmentText returns a piece of arguments, or arguments that are no text, as text.
func fragmentText(raw json.RawMessage) (string, error) {
	if !sse.Given(raw) {
		return "", nil
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	s, err := sse.Text(raw)
	if err != nil {
		return "", fmt.Errorf("decode arguments: %w", err)
	}
	return s, nil
}
