package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

type outputInput struct {
	Call conversation.CallID `json:"call"`
	From int                 `json:"from"`
	Find string              `json:"find"`
}

// outputTool returns the tool that reads more of a shortened output.
func outputTool() providers.Tool {
	schema := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"call"},
		"properties": map[string]any{
			"call": map[string]any{"type": "string", "description": textReadCall},
			"from": map[string]any{"type": "integer", "minimum": 0, "description": textReadFrom},
			"find": map[string]any{"type": "string", "description": textReadFind},
		},
	}
	raw, _ := json.Marshal(schema) // cannot fail
	return providers.Tool{Name: conversation.ReadOutputTool, Description: textReadTool, InputSchema: raw}
}

// outputBytes returns how many bytes of one output a model is shown.
func (n *Node) outputBytes(spec string) int {
	model, err := n.o.Providers.Resolve(spec)
	if err != nil {
		return prompt.OutputBytes(0) // the call returns the error
	}
	return prompt.OutputBytes(model.ContextWindow)
}

// shortened reports whether the request has a shortened output.
func (c *modelCall) shortened(blocks []*providers.Block, now []providers.Message) bool {
	return prompt.Shortened(now) || slices.ContainsFunc(blocks, func(b *providers.Block) bool { return prompt.Shortened(b.Messages()) })
}

// outputs are the outputs in a view, for one call that reads in them.
type outputs struct {
	node      *Node
	key       conversation.Key
	exchanges []conversation.Exchange
	after     *conversation.Compacted
	archive   *history.Archive // nil for a subagent
	closed    []*history.Page
}

func (r *Runner) outputsOf(v *view) *outputs {
	o := &outputs{node: r.node, key: r.o.Key, exchanges: v.exchanges, after: v.shown.After}
	if v.child == "" {
		o.archive, o.closed = r.o.Archive, r.o.Archive.Cut()
	}
	return o
}

// readTimeout bounds the reading of closed history for one call.
const readTimeout = time.Minute

// read returns the requested part of an output as JSON. problem is an error text for the model.
func (o *outputs) read(ctx context.Context, raw json.RawMessage, most int) (out json.RawMessage, problem string, err error) {
	var in outputInput
	if err := json.Unmarshal(raw, &in); err != nil || in.Call == "" || in.From < 0 {
		return nil, textReadInput, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	t, err := o.find(ctx, in.Call)
	if err != nil {
		return nil, textReadLater, err
	}
	if t == nil || !t.Settled {
		return nil, fmt.Sprintf(textReadUnknown, in.Call), nil
	}
	w, err := o.window(ctx, t, in, most)
	switch {
	case err != nil && ctx.Err() == nil && !errors.Is(err, storage.ErrUnavailable):
		return nil, textReadLost, err
	case err != nil:
		return nil, textReadLater, err
	}
	if in.From > w.Size {
		return nil, fmt.Sprintf(textReadBeyond, w.Size), nil
	}
	piece, ok := w.Piece(in.From, in.Find, most)
	if !ok {
		return nil, fmt.Sprintf(textReadNowhere, in.From), nil
	}
	out, err = conversation.EncodeJSON(piece)
	return out, "", err
}

// window loads the part of a call's output that is needed to read most bytes of it.
func (o *outputs) window(ctx context.Context, t *conversation.ToolCall, in outputInput, most int) (prompt.Window, error) {
	if t.Stored == nil || t.Failed {
		whole := prompt.Output(t)
		return prompt.Window{Text: whole, Size: len(whole)}, nil
	}
	w := prompt.Window{Size: int(t.Stored.Size)}
	var sizes []int // sizes of the pieces in the window
	for _, p := range t.Stored.Pieces {
		end := w.At + len(w.Text) + int(p.Size)
		if end <= in.From && w.Text == "" {
			w.At = end
			continue
		}
		text, err := o.piece(ctx, p)
		if err != nil {
			return w, err
		}
		w.Text, sizes = w.Text+text, append(sizes, len(text))
		begin := max(in.From-w.At, 0)
		if in.Find != "" {
			found := strings.Index(w.Text[begin:], in.Find)
			for found < 0 && len(w.Text)-sizes[0] >= len(in.Find)+prompt.BeforeFind {
				w.Text, w.At, sizes = w.Text[sizes[0]:], w.At+sizes[0], sizes[1:]
			}
			if found < 0 {
				continue
			}
			begin += found
		}
		if len(w.Text)-begin >= most {
			break
		}
	}
	return w, nil
}

func (o *outputs) piece(ctx context.Context, p conversation.StoredPiece) (string, error) {
	var digest storage.Digest
	if err := digest.UnmarshalText([]byte(p.SHA256)); err != nil {
		return "", fmt.Errorf("read output: %w", err)
	}
	content, err := storage.OpenBlob(ctx, o.node.o.Bucket, o.key, digest, p.Size)
	if err != nil {
		return "", fmt.Errorf("read output: %w", err)
	}
	text, err := io.ReadAll(content)
	if err = errors.Join(err, content.Close()); err != nil {
		return "", fmt.Errorf("read output: %w", err)
	}
	return string(text), nil
}

const (
	// partBytes is the maximum that a model is shown of any output.
	partBytes = 64 << 10
	// storedPiece is the size of one stored piece, in bytes. storesAtOnce bounds concurrent stores on a node,
	// because each output is in memory twice.
	storedPiece  = 1 << 20
	storesAtOnce = 4
)

// storeOutput stores the output of an ended call; [machine.ToolDone] then delivers it again.
func (r *Runner) storeOutput(e machine.StoreOutput) {
	w := r.works[e.Done.Gen]
	if w == nil {
		return // cancelled
	}
	c := &toolCall{node: r.node, options: &r.o, ctx: w.ctx, effect: machine.RunTool{Call: e.Done.Call, Room: e.Room}}
	r.node.o.Outputs.Add(int64(len(e.Done.Output)))
	r.spawn(func() {
		defer r.node.o.Outputs.Add(-int64(len(e.Done.Output)))
		done := e.Done
		out, stored, err := c.store(done.Output)
		if c.ctx.Err() != nil {
			return // cancelled
		}
		if done.Output, done.Stored = out, stored; err != nil {
			done.Failed, done.ErrorText = true, conversation.CutText(err.Error(), conversation.MaxPayloadBytes)
		}
		r.o.Emit(done)
	})
}

// store stores an output that exceeds a record. It returns the shown part and the reference for
// models.
func (c *toolCall) store(raw json.RawMessage) (json.RawMessage, *conversation.StoredOutput, error) {
	if err := conversation.CheckOutput(raw); err != nil {
		return nil, nil, refusal(fmt.Sprintf(textOutputRefused, err))
	}
	select {
	case c.node.storing <- struct{}{}:
		defer func() { <-c.node.storing }()
	case <-c.ctx.Done():
		return nil, nil, c.ctx.Err()
	}
	held := int64(len(raw)) + 2*storedPiece
	c.node.o.Calls.Add(held)
	defer c.node.o.Calls.Add(-held)
	most, out := min(c.node.PartBytes, c.effect.Room/4), &conversation.StoredOutput{}
	var first, last string
	for piece := range prompt.TextPieces(raw, storedPiece) {
		body := storage.Bytes([]byte(piece))
		if err := c.put(body, textOutputLost); err != nil {
			return nil, nil, err
		}
		out.Pieces = append(out.Pieces, conversation.StoredPiece{SHA256: storage.Digest(body.SHA256).String(), Size: body.Size})
		out.Size += body.Size
		if len(first) < most {
			first += piece
		}
		last += piece
		last = last[max(0, len(last)-most):]
	}
	head, tail, shown := prompt.Part(first, last, int(out.Size), most)
	out.Head, out.Tail = head, tail
	raw, err := conversation.EncodeJSON(shown)
	return raw, out, err
}

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
