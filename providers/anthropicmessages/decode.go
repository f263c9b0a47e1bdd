package anthropicmessages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

var (
	errNoStop   = errors.New("stream ended without message_stop")
	errNoReason = errors.New("message_stop without a stop_reason")
)

// event leaves members of some event types undecoded, since an unknown type may use the same names
// differently.
type event struct {
	Type         string          `json:"type"`
	Message      json.RawMessage `json:"message"`
	Index        int             `json:"index"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        json.RawMessage `json:"delta"`
	Usage        json.RawMessage `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

// reset empties the event but keeps the memory of its fields.
func (e *event) reset() {
	*e = event{
		Message: e.Message[:0], ContentBlock: e.ContentBlock[:0], Delta: e.Delta[:0], Usage: e.Usage[:0], Error: e.Error[:0],
	}
}

// message is a response, complete or at its start.
type message struct {
	ID         string            `json:"id"`
	Model      string            `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Usage      json.RawMessage   `json:"usage"`
}

type blockStart struct {
	Text      json.RawMessage `json:"text"`
	Thinking  json.RawMessage `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type delta struct {
	Type        string          `json:"type"`
	Text        json.RawMessage `json:"text"`
	Thinking    json.RawMessage `json:"thinking"`
	Signature   string          `json:"signature"`
	PartialJSON json.RawMessage `json:"partial_json"`
}

// kindOf returns the block type of a delta, "" for an ignored delta.
func kindOf(delta string) string {
	switch delta {
	case "text_delta":
		return blockText
	case "thinking_delta", "signature_delta":
		return blockThinking
	case "input_json_delta":
		return blockToolUse
	}
	return ""
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	skip := sse.JSON{Skip: a.Skip("content_block", "content_block.type", "delta", "delta.type", "content")}
	d := decoder{out: a, open: map[int]*openBlock{}, json: skip, inner: skip}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		switch {
		case err == io.EOF, err == nil && providers.EndMarker(e.Data):
			if a.Ended() == "" {
				return truncated(errNoStop)
			}
			return d.finish() // only message_stop is missing
		case err == nil:
			err = d.event(e)
		}
		if err != nil || d.finished {
			return err
		}
	}
	return nil
}

type decoder struct {
	out      *providers.Assembler
	done     providers.Done
	open     map[int]*openBlock
	thought  *openBlock // the current thinking block
	finished bool

	// reused for every event
	json, inner sse.JSON
	latest      event
	fragment    delta
}

// openBlock is a block between its start and its stop.
type openBlock struct {
	kind string
	// signature is of thinking; it is the whole content of a redacted block.
	signature strings.Builder
	call      int
	// input contains arguments sent with the start, until a fragment replaces them.
	input json.RawMessage
}

func (d *decoder) event(raw sse.Event) error {
	e := &d.latest
	e.reset()
	if err := d.json.Decode(raw.Data, e); err != nil {
		return providers.UndecodedEvent(raw, fmt.Errorf("decode event: %w", err))
	}
	if e.Type == "error" || raw.Name == "error" || sse.Given(e.Error) {
		return vendorError(e.Error, raw.Data)
	}
	var err error
	switch cmp.Or(e.Type, raw.Name) {
	case "message_start":
		err = d.messageStart(e.Message)
	case "content_block_start":
		err = d.start(e.Index, e.ContentBlock)
	case "content_block_delta":
		err = d.delta(e)
	case "content_block_stop":
		d.stop(e.Index)
	case "message_delta":
		return d.messageDelta(e, raw.Data)
	case "message_stop":
		return d.finish()
	case "message":
		return d.message(raw.Data)
	}
	if err != nil {
		return providers.EventError(providers.KindProtocol, raw.Data, err)
	}
	return nil
}

func (d *decoder) messageStart(raw json.RawMessage) error {
	var m message
	if err := d.inner.Field("message", raw, &m); err != nil {
		return err
	}
	d.done.ResponseID, d.done.ResponseModel = m.ID, m.Model
	d.usage(m.Usage)
	return nil
}

// message reads a response that is not streamed.
func (d *decoder) message(raw []byte) error {
	var m message
	err := d.inner.Decode(raw, &m)
	for i := 0; i < len(m.Content) && err == nil; i++ {
		err = d.start(i, m.Content[i])
		d.stop(i)
	}
	if err != nil {
		return providers.EventError(providers.KindProtocol, raw, err)
	}
	d.done.ResponseID, d.done.ResponseModel = m.ID, m.Model
	d.usage(m.Usage)
	if err := d.end(m.StopReason, raw); err != nil {
		return err
	}
	return d.finish()
}

// blockBytes is the approximate overhead of an open block in addition to its text.
const blockBytes = 256

func (d *decoder) start(index int, raw json.RawMessage) error {
	d.stop(index)
	d.endThought()
	var head struct {
		Type string `json:"type"`
	}
	if err := d.inner.Field("content_block", raw, &head); err != nil {
		return err
	}
	o := &openBlock{kind: head.Type}
	d.open[index] = o
	var b blockStart
	switch head.Type {
	case blockText, blockThinking, blockRedacted, blockToolUse:
		if err := d.inner.Field("content_block", raw, &b); err != nil {
			return err
		}
	}
	if !d.out.Hold(blockBytes + len(b.Signature) + len(b.Data) + len(b.Input)) {
		return nil
	}
	switch head.Type {
	case blockText:
		return d.text(b.Text)
	case blockThinking:
		d.thought = o
		o.signature.WriteString(b.Signature)
		return d.think(b.Thinking)
	case blockRedacted:
		d.out.EndReasoning(redacted(b.Data))
	case blockToolUse:
		o.call, o.input = d.out.StartCall(b.ID, b.Name), b.Input
	}
	return nil
}

func (d *decoder) text(raw json.RawMessage) error {
	s, err := sse.Text(raw)
	if s != "" {
		d.endThought()
		d.out.Text(s)
	}
	return err
}

func (d *decoder) think(raw json.RawMessage) error {
	s, err := sse.Text(raw)
	d.out.Reasoning(s, "")
	return err
}

// block returns the block of a delta. Without a start, a block begins with its first delta. A call
// without a start has no name.
func (d *decoder) block(index int, delta string) (*openBlock, error) {
	kind := kindOf(delta)
	if o := d.open[index]; o != nil || kind == "" {
		return o, nil
	}
	begin, err := json.Marshal(map[string]string{"type": kind})
	if err == nil {
		d.out.Odd("delta before its block", "")
		err = d.start(index, begin)
	}
	return d.open[index], err
}

func (d *decoder) delta(e *event) error {
	if o := d.open[e.Index]; o != nil {
		switch o.kind {
		case blockText, blockThinking, blockToolUse:
		default:
			return nil // block of unknown type
		}
	}
	f := &d.fragment
	*f = delta{}
	if err := d.inner.Field("delta", e.Delta, f); err != nil {
		return err
	}
	o, err := d.block(e.Index, f.Type)
	if o == nil || err != nil || o.kind != kindOf(f.Type) {
		return err
	}
	switch {
	case o.kind == blockText:
		return d.text(f.Text)
	case o.kind == blockThinking && o != d.thought: // the block was considered closed
	case f.Type == "thinking_delta":
		return d.think(f.Thinking)
	case f.Type == "signature_delta":
		if d.out.Hold(len(f.Signature)) {
			o.signature.WriteString(f.Signature)
		}
	case o.kind == blockToolUse:
		piece, err := sse.Text(f.PartialJSON)
		if piece != "" {
			o.input = nil
			d.out.CallArguments(o.call, piece)
		}
		return err
	}
	return nil
}

// stop closes a block. A block that is not open is ignored.
func (d *decoder) stop(index int) {
	o := d.open[index]
	if o == nil {
		return
	}
	delete(d.open, index)
	switch {
	case o == d.thought:
		d.endThought()
	case o.kind == blockToolUse:
		if sse.Given(o.input) && string(o.input) != "{}" {
			d.out.CallArguments(o.call, string(o.input))
		}
		d.out.EndCall(o.call, "")
	}
}

// endThought closes thinking before any other output, because its signature does not cover later text.
func (d *decoder) endThought() {
	if d.thought != nil {
		d.out.EndReasoning(d.thought.signature.String())
		d.thought = nil
	}
}

func (d *decoder) messageDelta(e *event, raw []byte) error {
	d.usage(e.Usage)
	var change struct {
		StopReason string `json:"stop_reason"`
	}
	if err := d.inner.Field("delta", e.Delta, &change); err != nil {
		return providers.EventError(providers.KindProtocol, raw, err)
	}
	return d.end(change.StopReason, raw)
}

// end handles a stop_reason. A full window truncates a started answer.
func (d *decoder) end(reason string, raw []byte) error {
	if reason == "model_context_window_exceeded" && d.out.Said() {
		reason = "max_tokens"
	}
	return d.out.End(reason, "", raw)
}

func (d *decoder) finish() error {
	if d.out.Ended() == "" {
		return truncated(errNoReason)
	}
	for _, index := range slices.Sorted(maps.Keys(d.open)) {
		d.stop(index)
	}
	d.endThought()
	d.out.Finish(d.done)
	d.finished = true
	return nil
}

// usage keeps the largest counts: they only grow, and vendors do not repeat all of them in each event.
func (d *decoder) usage(raw json.RawMessage) {
	n, total := d.out.Counts(raw), &d.done.Usage
	d.done.CacheWriteHour = max(d.done.CacheWriteHour, n.Of("cache_creation", "ephemeral_1h_input_tokens"))
	total.Reasoning = max(total.Reasoning, n.Of("output_tokens_details", "thinking_tokens"))
	total.Input = max(total.Input, n.Of("input_tokens"))
	total.Output = max(total.Output, n.Of("output_tokens"))
	total.CacheRead = max(total.CacheRead, n.Of("cache_read_input_tokens"))
	total.CacheWrite = max(total.CacheWrite, n.Of("cache_creation_input_tokens"))
}
