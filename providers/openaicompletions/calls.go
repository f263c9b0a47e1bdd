package openaicompletions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

// calls assembles the tool calls of one response.
type calls []*call

type call struct {
	// index is the vendor's, nil if it sends none.
	index    *int
	id, name string
	// started tells that out knows the call, under the number ours.
	started bool
	ours    int
	// early holds arguments that came before the name.
	early strings.Builder
}

func (cs *calls) add(out *providers.Assembler, d callDelta) error {
	c := cs.find(d)
	if !out.HoldCalls(len(*cs)) {
		return nil
	}
	c.id, c.name = cmp.Or(c.id, d.ID), cmp.Or(c.name, d.Function.Name)
	fragment, err := argumentText(d.Function.Arguments)
	if err != nil {
		return err
	}
	if !c.started {
		if out.Hold(len(fragment)) {
			c.early.WriteString(fragment)
		}
		if c.name != "" {
			c.start(out)
		}
		return nil
	}
	out.CallArguments(c.ours, fragment)
	return nil
}

func (c *call) start(out *providers.Assembler) {
	c.ours, c.started = out.StartCall(c.id, c.name), true
	out.CallArguments(c.ours, c.early.String())
	c.early.Reset()
}

// startNameless hands over calls whose name never came: the caller answers
// them as unknown tools, which the model can mend.
func (cs calls) startNameless(out *providers.Assembler) {
	for _, c := range cs {
		if !c.started {
			c.start(out)
		}
	}
}

// find returns the call a fragment belongs to, a new one if there is none. An
// id that differs means another call even under the same index; a fragment
// that has neither belongs to the latest call.
func (cs *calls) find(d callDelta) *call {
	for i := len(*cs) - 1; i >= 0; i-- {
		c := (*cs)[i]
		switch {
		case d.ID != "" && c.id != "" && d.ID != c.id:
			continue
		case d.Index != nil && c.index != nil:
			if *d.Index == *c.index {
				return c
			}
		case d.Index != nil || c.index != nil:
			if d.ID != "" && d.ID == c.id || d.Index == nil && d.ID == "" {
				return c
			}
		case d.ID != "" && d.ID == c.id || d.ID == "" && d.Function.Name == "":
			return c
		}
	}
	c := &call{index: d.Index}
	*cs = append(*cs, c)
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
