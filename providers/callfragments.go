package providers

import (
	"cmp"
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
}

// CallFragments assembles the calls of one response: vendors are known to number all calls
// 0, to leave numbers or ids out, and to send the name last. The zero value is ready.
type CallFragments struct{ calls []*fragmentedCall }

type fragmentedCall struct {
	// index is the vendor's, nil if it sends none.
	index    *int
	id, name string
	// started tells that the Assembler knows the call, under the number ours.
	started bool
	ours    int
	// early holds arguments that came before the name.
	early strings.Builder
}

// Add hands a piece over to a, once the name of its call is known. Its error is of
// arguments that are no JSON.
func (cs *CallFragments) Add(a *Assembler, f CallFragment) error {
	c := cs.find(f)
	if !a.HoldCalls(len(cs.calls)) {
		return nil
	}
	c.id, c.name = cmp.Or(c.id, f.ID), cmp.Or(c.name, f.Name)
	fragment, err := argumentText(f.Arguments)
	if err != nil {
		return err
	}
	if !c.started {
		if a.Hold(len(fragment)) {
			c.early.WriteString(fragment)
		}
		if c.name != "" {
			c.start(a)
		}
		return nil
	}
	a.CallArguments(c.ours, fragment)
	return nil
}

func (c *fragmentedCall) start(a *Assembler) {
	c.ours, c.started = a.StartCall(c.id, c.name), true
	a.CallArguments(c.ours, c.early.String())
	c.early.Reset()
}

// Finish hands over calls whose name never came: the caller answers them as unknown tools,
// which the model can mend.
func (cs *CallFragments) Finish(a *Assembler) {
	for _, c := range cs.calls {
		if !c.started {
			c.start(a)
		}
	}
}

// find returns the call a fragment belongs to, a new one if there is none. An
// id that differs means another call even under the same index; a fragment
// that has neither belongs to the latest call.
func (cs *CallFragments) find(f CallFragment) *fragmentedCall {
	for i := len(cs.calls) - 1; i >= 0; i-- {
		c := cs.calls[i]
		switch {
		case f.ID != "" && c.id != "" && f.ID != c.id:
			continue
		case f.Index != nil && c.index != nil:
			if *f.Index == *c.index {
				return c
			}
		case f.Index != nil || c.index != nil:
			if f.ID != "" && f.ID == c.id || f.Index == nil && f.ID == "" {
				return c
			}
		case f.ID != "" && f.ID == c.id || f.ID == "" && f.Name == "":
			return c
		}
	}
	c := &fragmentedCall{index: f.Index}
	cs.calls = append(cs.calls, c)
	return c
}

func argumentText(raw json.RawMessage) (string, error) {
	if !sse.Given(raw) {
		return "", nil
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("decode arguments: %w", err)
	}
	return s, nil
}
