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

// event is one event of the stream. Its object members stay raw until the type is known, because an
// unknown type may give the same names another meaning.
type event struct {
	Type         string          `json:"type"`
	Message      json.RawMessage `json:"message"`
	Index        int             `json:"index"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        json.RawMessage `json:"delta"`
	Usage        json.RawMessage `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

// reset clears the event for reuse and keeps the buffers of its raw members.
func (e *event) reset() {
	*e = event{
		Message: e.Message[:0], ContentBlock: e.ContentBlock[:0], Delta: e.Delta[:0], Usage: e.Usage[:0], Error: e.Error[:0],
	}
}

// message is the response: whole in a message event, without content in message_start.
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

// kindOf returns the type of the block to which a delta of this type belongs, "" for an unknown type.
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

// Decode implements providers.Codec. It decodes the event stream of one response, or one message event
// if the vendor does not stream.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	skip := sse.JSON{Skip: a.Skip("content_block", "content_block.type", "delta", "delta.type", "content")}
	d := decoder{out: a, open: map[int]*openBlock{}, json: skip, inner: skip}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		switch {
		case err == io.EOF, err == nil && providers.EndMarker(e.Data):
			if a.Ended() == "" {
				return truncated(errNoStop)
			}
			return d.finish() // only message_stop is missing: the response is complete
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
	thinking *openBlock // the open thinking block, nil if there is none
	finished bool

	// The fields below are reused for every event. inner decodes members of an event.
	json, inner sse.JSON
	latest      event
	fragment    delta
}

// openBlock is a content block between content_block_start and content_block_stop.
type openBlock struct {
	kind string
	// signature is the signature of a thinking block.
	signature strings.Builder
	call      int // index of the tool call in the Assembler
	// input holds arguments sent in content_block_start. The first delta with arguments replaces them.
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

// message decodes a response that is not streamed.
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

// blockBytes is the approximate memory of an open block without its content, for the limit of a reply.
const blockBytes = 256

func (d *decoder) start(index int, raw json.RawMessage) error {
	d.stop(index)
	d.endThinking()
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
		d.thinking = o
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
		d.endThinking()
		d.out.Text(s)
	}
	return err
}

func (d *decoder) think(raw json.RawMessage) error {
	s, err := sse.Text(raw)
	d.out.Reasoning(s, "")
	return err
}

// block returns the block to which a delta belongs. If content_block_start is missing, the delta
// starts the block; a call started so has no name. block returns nil for a delta of unknown type
// without a block.
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
			return nil // deltas of unknown block types are ignored
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
	case o.kind == blockThinking && o != d.thinking: // a later block has already ended this thinking block
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

// stop ends a block. It ignores an index without an open block.
func (d *decoder) stop(index int) {
	o := d.open[index]
	if o == nil {
		return
	}
	delete(d.open, index)
	switch {
	case o == d.thinking:
		d.endThinking()
	case o.kind == blockToolUse:
		if sse.Given(o.input) && string(o.input) != "{}" {
			d.out.CallArguments(o.call, string(o.input))
		}
		d.out.EndCall(o.call, "")
	}
}

// endThinking ends the open thinking block. It is called before any other output, because a signature
// covers only the thinking before it.
func (d *decoder) endThinking() {
	if d.thinking != nil {
		d.out.EndReasoning(d.thinking.signature.String())
		d.thinking = nil
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

// end records the stop reason. A context window that fills up after the first output counts as
// max_tokens; before it, as an error.
func (d *decoder) end(reason string, raw []byte) error {
	if reason == "model_context_window_exceeded" && d.out.HasContent() {
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
	d.endThinking()
	d.out.Finish(d.done)
	d.finished = true
	return nil
}

// usage merges token counts into the usage of the response. It keeps the maximum of each count: counts
// are cumulative, and not every event has all of them.
func (d *decoder) usage(raw json.RawMessage) {
	n, total := d.out.Counts(raw), &d.done.Usage
	d.done.CacheWriteHour = max(d.done.CacheWriteHour, n.Of("cache_creation", "ephemeral_1h_input_tokens"))
	total.Reasoning = max(total.Reasoning, n.Of("output_tokens_details", "thinking_tokens"))
	total.Input = max(total.Input, n.Of("input_tokens"))
	total.Output = max(total.Output, n.Of("output_tokens"))
	total.CacheRead = max(total.CacheRead, n.Of("cache_read_input_tokens"))
	total.CacheWrite = max(total.CacheWrite, n.Of("cache_creation_input_tokens"))
}
