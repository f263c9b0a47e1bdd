package providers

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/providers/sse"
)

// CallFragment is a fragment of a tool call.
type CallFragment struct {
	// Index is the vendor's number of the call, nil if it sends none.
	Index *int
	// ID and Name are empty in fragments without them.
	ID, Name string
	// Arguments is a JSON string with a fragment of the arguments, the complete arguments as a JSON
	// value, or empty.
	Arguments json.RawMessage
	// Signature is opaque and is returned in ToolCall.Signature; empty for none. The last one is used.
	Signature string
}

// CallFragments assembles the calls of one response. Some vendors number all calls 0, omit numbers or
// ids, split names, or send names last. The zero value is ready to use.
type CallFragments struct{ calls []*fragmentedCall }

type fragmentedCall struct {
	// index is the vendor's, nil if it sends none.
	index    *int
	id, name string
	// started is set once the Assembler has the call, under the number ours.
	started bool
	ours    int
	// early buffers arguments that arrive before the call is started.
	early strings.Builder
	// argued is set once there are arguments.
	argued    bool
	signature string
}

// Add passes a fragment to a, once the call has a name and arguments. It returns an error if the
// arguments are not JSON.
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

// identify merges the id and name of a fragment. Vendors send the whole name with each fragment, parts
// of it, or a growing prefix.
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

// Start starts the buffered calls that have a name. Codecs call it before other output of the
// response.
func (cs *CallFragments) Start(a *Assembler) {
	for _, c := range cs.calls {
		if !c.started && c.name != "" {
			c.start(a)
		}
	}
}

// Finish starts all remaining calls and ends those with a signature. A call without a name is reported
// as a call of an unknown tool, so that the model can correct it.
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

// find returns the call of a fragment, or a new call. A different id means another call even under the
// same index. So does a name after complete arguments. A fragment without index and id belongs to the
// latest call.
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
		break // another call under the same index
	}
	c := &fragmentedCall{index: f.Index}
	cs.calls = append(cs.calls, c)
	return c
}

// answered reports whether the call is complete, so that a fragment with a name begins another call.
// An object without members may be a placeholder for arguments that follow.
func (c *fragmentedCall) answered(a *Assembler, name string) bool {
	if !c.started || c.ours >= len(a.calls) {
		return c.name != name && knownTool(a.tools, c.name) && knownTool(a.tools, name)
	}
	arguments := &a.calls[c.ours].arguments
	return arguments.whole && (name != c.name || !arguments.empty())
}

// unnamed reports whether the next fragment may continue the name of the call.
func (c *fragmentedCall) unnamed(a *Assembler) bool {
	return !c.started && len(a.tools) > 0 && !knownTool(a.tools, c.name)
}

// fragmentText returns a fragment of arguments as text. Arguments that are not a JSON string are
// returned verbatim.
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
