package work

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// outputInput is what a model reads on in an output with.
type outputInput struct {
	Call conversation.CallID `json:"call"`
	From int                 `json:"from"`
	Find string              `json:"find"`
}

// outputTool lets a model read on in outputs that it is shown a part of.
func outputTool() providers.Tool {
	schema := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"call"},
		"properties": map[string]any{
			"call": map[string]any{"type": "string", "description": sayReadCall},
			"from": map[string]any{"type": "integer", "minimum": 0, "description": sayReadFrom},
			"find": map[string]any{"type": "string", "description": sayReadFind},
		},
	}
	raw, _ := json.Marshal(schema) // of strings and maps only
	return providers.Tool{Name: conversation.ReadOutputTool, Description: sayReadTool, InputSchema: raw}
}

// outputBytes is how much a model is shown of one output.
func (n *Node) outputBytes(spec string) int {
	model, err := n.o.Providers.Resolve(spec)
	if err != nil {
		return prompt.OutputBytes(0) // its call tells
	}
	return prompt.OutputBytes(model.ContextWindow)
}

// shortened reports whether the model is shown a part of an output.
func (c *modelCall) shortened(blocks []*providers.Block, now []providers.Message) bool {
	return prompt.Shortened(now, c.shown.Output) ||
		slices.ContainsFunc(blocks, func(b *providers.Block) bool { return prompt.Shortened(b.Messages(), c.shown.Output) })
}

// outputs are those of a view, in which one call reads.
type outputs struct {
	node      *Node
	key       conversation.Key
	exchanges []conversation.Exchange
	after     *conversation.Compacted
	archive   *history.Archive // nil for a subagent's
	closed    []*history.Page
}

// outputsOf returns the outputs that the model sees in a view.
func (r *Runner) outputsOf(v *view) *outputs {
	o := &outputs{node: r.node, key: r.o.Key, exchanges: v.exchanges, after: v.shown.After}
	if v.child == "" {
		o.archive, o.closed = r.o.Archive, r.o.Archive.Cut()
	}
	return o
}

// readTimeout bounds the reading of closed history for one call.
const readTimeout = time.Minute

// read returns what a call asks for, as JSON. problem is for the model.
func (o *outputs) read(ctx context.Context, raw json.RawMessage, most int) (out json.RawMessage, problem string, err error) {
	var in outputInput
	if err := json.Unmarshal(raw, &in); err != nil || in.Call == "" || in.From < 0 {
		return nil, sayReadInput, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	t, err := o.find(ctx, in.Call)
	if err != nil {
		return nil, sayReadLater, err
	}
	if t == nil || !t.Settled {
		return nil, fmt.Sprintf(sayReadUnknown, in.Call), nil
	}
	whole := prompt.Output(t)
	if in.From > len(whole) {
		return nil, fmt.Sprintf(sayReadBeyond, len(whole)), nil
	}
	piece, ok := prompt.Piece(whole, in.From, in.Find, most)
	if !ok {
		return nil, fmt.Sprintf(sayReadNowhere, in.From), nil
	}
	out, err = conversation.EncodeJSON(piece)
	return out, "", err
}

// find returns a call by its id, nil if it is not in the view.
func (o *outputs) find(ctx context.Context, id conversation.CallID) (*conversation.ToolCall, error) {
	open, older := prompt.Since(o.exchanges, o.after)
	if t := callIn(open, id); t != nil || !older || o.archive == nil || len(o.closed) == 0 {
		return t, nil
	}
	closed, err := o.archive.Exchanges(ctx, o.closed, o.after, o.exchanges[0].Submission, o.node.ViewBytes)
	if err != nil {
		return nil, err
	}
	return callIn(closed, id), nil
}

func callIn(list []conversation.Exchange, id conversation.CallID) *conversation.ToolCall {
	for _, x := range list {
		for _, t := range x.Turns {
			for _, p := range t.Parts {
				if p.Tool != nil && p.Tool.Call == id {
					return p.Tool
				}
			}
		}
	}
	return nil
}
