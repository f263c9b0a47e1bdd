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

// event leaves open what only some types of events have, since an unknown type
// may use the same names for other things.
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

type messageStart struct {
	ID    string `json:"id"`
	Model string `json:"model"`
	Usage usage  `json:"usage"`
}

type blockStart struct {
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a, open: map[int]*openBlock{}}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == io.EOF {
			return truncated(errNoStop)
		}
		if err == nil {
			err = d.event(e)
		}
		if err != nil || d.finished {
			return err
		}
	}
	return nil
}

// decoder is the state of one response.
type decoder struct {
	out      *providers.Assembler
	done     providers.Done
	open     map[int]*openBlock
	thought  *openBlock // the block of thinking under way
	finished bool

	// Their memory serves one event after the other.
	json, inner sse.JSON
	latest      event
	fragment    delta
}

// openBlock is a block between its start and its stop.
type openBlock struct {
	kind string
	// signature is of thinking; of a redacted block it is all there is.
	signature strings.Builder
	call      int
	// input holds arguments that came with the start, until a fragment
	// supersedes them.
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
		err = d.start(e)
	case "content_block_delta":
		err = d.delta(e)
	case "content_block_stop":
		d.stop(e.Index)
	case "message_delta":
		err = d.messageDelta(e)
	case "message_stop":
		return d.finish()
	}
	if err != nil {
		return providers.EventError(providers.KindProtocol, raw.Data, err)
	}
	return nil
}

func (d *decoder) messageStart(raw json.RawMessage) error {
	var m messageStart
	if err := d.inner.Field("message", raw, &m); err != nil {
		return err
	}
	d.done.ResponseID, d.done.ResponseModel = m.ID, m.Model
	m.Usage.addTo(&d.done)
	return nil
}

// blockBytes is about what an open block takes beside what it says.
const blockBytes = 256

func (d *decoder) start(e *event) error {
	d.stop(e.Index)
	d.endThought()
	var head struct {
		Type string `json:"type"`
	}
	if err := d.inner.Field("content_block", e.ContentBlock, &head); err != nil {
		return err
	}
	o := &openBlock{kind: head.Type}
	d.open[e.Index] = o
	var b blockStart
	switch head.Type {
	case blockText, blockThinking, blockRedacted, blockToolUse:
		if err := d.inner.Field("content_block", e.ContentBlock, &b); err != nil {
			return err
		}
	}
	if !d.out.Hold(blockBytes + len(b.Signature) + len(b.Data) + len(b.Input)) {
		return nil
	}
	switch head.Type {
	case blockText:
		d.out.Text(b.Text)
	case blockThinking:
		d.thought = o
		o.signature.WriteString(b.Signature)
		d.out.Reasoning(b.Thinking, "")
	case blockRedacted:
		d.out.EndReasoning(redacted(b.Data))
	case blockToolUse:
		o.call, o.input = d.out.StartCall(b.ID, b.Name), b.Input
	}
	return nil
}

func (d *decoder) delta(e *event) error {
	o := d.open[e.Index]
	if o == nil {
		return fmt.Errorf("delta of block %d, which is not open", e.Index)
	}
	switch o.kind {
	case blockText, blockThinking, blockToolUse:
	default:
		return nil
	}
	f := &d.fragment
	*f = delta{}
	if err := d.inner.Field("delta", e.Delta, f); err != nil {
		return err
	}
	switch {
	case o.kind == blockText && f.Type == "text_delta":
		d.endThought()
		d.out.Text(f.Text)
	case o.kind == blockThinking && o != d.thought: // it was taken for ended
	case o.kind == blockThinking && f.Type == "thinking_delta":
		d.out.Reasoning(f.Thinking, "")
	case o.kind == blockThinking && f.Type == "signature_delta":
		if d.out.Hold(len(f.Signature)) {
			o.signature.WriteString(f.Signature)
		}
	case o.kind == blockToolUse && f.Type == "input_json_delta":
		if f.PartialJSON != "" {
			o.input = nil
			d.out.CallArguments(o.call, f.PartialJSON)
		}
	}
	return nil
}

// stop closes a block; one that is not open is no harm.
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

// endThought comes before anything else that the response shows: what follows is not of
// the block that its signature is of.
func (d *decoder) endThought() {
	if d.thought != nil {
		d.out.EndReasoning(d.thought.signature.String())
		d.thought = nil
	}
}

func (d *decoder) messageDelta(e *event) error {
	var u usage
	if err := d.inner.Field("usage", e.Usage, &u); err != nil {
		return err
	}
	u.addTo(&d.done)
	var change struct {
		StopReason string `json:"stop_reason"`
	}
	if err := d.inner.Field("delta", e.Delta, &change); err != nil {
		return err
	}
	if change.StopReason == "" {
		return nil
	}
	if d.done.StopReason = stopReason(change.StopReason); d.done.StopReason == "" {
		return fmt.Errorf("unknown stop_reason %q", providers.VendorWord(change.StopReason))
	}
	return nil
}

// stopReason returns the empty reason for one it does not know.
func stopReason(s string) providers.StopReason {
	switch s {
	case "end_turn", "stop_sequence", "pause_turn":
		return providers.StopStop
	case "max_tokens", "model_context_window_exceeded":
		return providers.StopLength
	case "tool_use":
		return providers.StopToolUse
	case "refusal", "sensitive":
		return providers.StopContentFilter
	}
	return ""
}

func (d *decoder) finish() error {
	if d.done.StopReason == "" {
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

// usage counts what the response has used so far.
type usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Written    struct {
		Hour int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Details struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// addTo keeps the largest counts: they only grow, and vendors leave out of one
// event what they said in another.
func (u usage) addTo(d *providers.Done) {
	total := &d.Usage
	d.CacheWriteHour = max(d.CacheWriteHour, u.Written.Hour)
	total.Reasoning = max(total.Reasoning, u.Details.Thinking)
	total.Input = max(total.Input, u.Input)
	total.Output = max(total.Output, u.Output)
	total.CacheRead = max(total.CacheRead, u.CacheRead)
	total.CacheWrite = max(total.CacheWrite, u.CacheWrite)
}
