package bedrockconverse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/eventstream"
)

var errNoStop = errors.New("stream ended without messageStop")

// event is what the known types of events have, each some of it.
type event struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse *struct {
			ID   string `json:"toolUseId"`
			Name string `json:"name"`
		} `json:"toolUse"`
	} `json:"start"`
	Delta struct {
		Text    string `json:"text"`
		ToolUse *struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		Reasoning *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
			Redacted  []byte `json:"redactedContent"`
		} `json:"reasoningContent"`
	} `json:"delta"`
	StopReason string `json:"stopReason"`
	Usage      usage  `json:"usage"`
}

type usage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Details    []struct {
		TTL   string `json:"ttl"`
		Input int64  `json:"inputTokens"`
	} `json:"cacheDetails"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	messages := eventstream.NewReader(src, &eventstream.Options{MaxMessageBytes: c.maxMessageBytes})
	d := decoder{out: a, open: map[int]*openBlock{}}
	for !a.Stopped() && !d.finished {
		m, err := messages.Next()
		var format *eventstream.FormatError
		switch {
		case err == io.EOF && d.done.StopReason != "":
			d.finish() // only the usage is missing
			return nil
		case err == io.EOF:
			return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoStop}
		case errors.As(err, &format):
			return &providers.Error{Kind: providers.KindProtocol, Status: http.StatusOK, Err: err}
		case err != nil:
			return err
		}
		if m.Text(":message-type") != "event" {
			return exception(m)
		}
		if err := d.event(m); err != nil {
			return err
		}
	}
	return nil
}

// decoder is the state of one response.
type decoder struct {
	out *providers.Assembler
	// done has a StopReason once messageStop was seen.
	done     providers.Done
	open     map[int]*openBlock
	thought  *openBlock // the block of reasoning under way
	finished bool
}

// openBlock is a block between its first event and its stop.
type openBlock struct {
	tool bool
	call int // of a tool
	// signature is of reasoning; redacted is all that there is of a redacted block.
	signature, redacted bytes.Buffer
}

func (d *decoder) event(m eventstream.Message) error {
	kind := m.Text(":event-type")
	switch kind {
	case "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
	default:
		return nil
	}
	var e event
	err := json.Unmarshal(m.Payload, &e)
	if err != nil {
		return providers.EventError(providers.KindProtocol, m.Payload, fmt.Errorf("decode %s: %w", kind, err))
	}
	switch kind {
	case "contentBlockStart":
		d.start(&e)
	case "contentBlockDelta":
		err = d.delta(&e)
	case "contentBlockStop":
		d.stop(e.Index)
	case "messageStop":
		return d.messageStop(e.StopReason, m.Payload)
	case "metadata":
		d.use(e.Usage)
		if d.done.StopReason != "" {
			d.finish()
		}
	}
	if err != nil {
		return providers.EventError(providers.KindProtocol, m.Payload, err)
	}
	return nil
}

// blockBytes is about what an open block takes beside what it says.
const blockBytes = 256

// start opens a call. Other blocks begin with their first delta.
func (d *decoder) start(e *event) {
	d.stop(e.Index)
	tool := e.Start.ToolUse
	if tool == nil || !d.out.Hold(blockBytes) {
		return
	}
	d.endThought()
	d.open[e.Index] = &openBlock{tool: true, call: d.out.StartCall(tool.ID, tool.Name)}
}

func (d *decoder) delta(e *event) error {
	o, delta := d.open[e.Index], &e.Delta
	switch {
	case delta.ToolUse != nil:
		if o == nil || !o.tool {
			return fmt.Errorf("delta of the call in block %d, which is not open", e.Index)
		}
		d.out.CallArguments(o.call, delta.ToolUse.Input)
	case delta.Reasoning != nil:
		if o == nil {
			if !d.out.Hold(blockBytes) {
				return nil
			}
			o = &openBlock{}
			d.open[e.Index] = o
			d.endThought()
			d.thought = o
		}
		if o != d.thought { // it was taken for ended
			return nil
		}
		r := delta.Reasoning
		d.out.Reasoning(r.Text, "")
		if d.out.Hold(len(r.Signature) + len(r.Redacted)) {
			o.signature.WriteString(r.Signature)
			o.redacted.Write(r.Redacted)
		}
	case delta.Text != "":
		d.endThought()
		d.out.Text(delta.Text)
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
	case o.tool:
		d.out.EndCall(o.call, "")
	case o == d.thought:
		d.endThought()
	}
}

// endThought comes before anything else that the response shows: what follows is not of
// the block that its signature is of.
func (d *decoder) endThought() {
	o := d.thought
	if o == nil {
		return
	}
	d.thought = nil
	if o.redacted.Len() > 0 {
		d.out.EndReasoning(redacted(o.redacted.Bytes()))
		return
	}
	d.out.EndReasoning(o.signature.String())
}

func (d *decoder) messageStop(reason string, raw []byte) error {
	d.done.StopReason = stopReason(reason)
	if d.done.StopReason != "" {
		return nil
	}
	err := fmt.Errorf("stopReason %q", providers.VendorWord(reason))
	e := providers.EventError(providers.KindProtocol, raw, err)
	switch reason {
	case "malformed_model_output", "malformed_tool_use": // the model may write a better one
		e.Kind, e.Status = providers.KindOverloaded, http.StatusInternalServerError
	}
	return e
}

// stopReason returns the empty reason for one that is none of a good end.
func stopReason(s string) providers.StopReason {
	switch s {
	case "end_turn", "stop_sequence":
		return providers.StopStop
	case "max_tokens", "model_context_window_exceeded":
		return providers.StopLength
	case "tool_use":
		return providers.StopToolUse
	case "guardrail_intervened", "content_filtered":
		return providers.StopContentFilter
	}
	return ""
}

func (d *decoder) use(u usage) {
	d.done.Usage = providers.Usage{Input: max(u.Input, 0), Output: max(u.Output, 0), CacheRead: max(u.CacheRead, 0), CacheWrite: max(u.CacheWrite, 0)}
	for _, written := range u.Details {
		if written.TTL == "1h" {
			d.done.CacheWriteHour += max(written.Input, 0)
		}
	}
}

func (d *decoder) finish() {
	for _, index := range slices.Sorted(maps.Keys(d.open)) {
		d.stop(index)
	}
	d.endThought()
	d.out.Finish(d.done)
	d.finished = true
}

// exception reads what ends a stream in place of its last event: an exception of the API's,
// or an error beyond it, which has its words in headers.
func exception(m eventstream.Message) error {
	var said struct {
		Message  string `json:"message"`
		Original int    `json:"originalStatusCode"`
	}
	// What is no such object has no message.
	_ = json.Unmarshal(m.Payload, &said)
	name, status := m.Text(":exception-type"), 0
	if name == "" {
		name, said.Message, status = m.Text(":error-code"), m.Text(":error-message"), http.StatusInternalServerError
	}
	if named := providers.StatusOf(name); named != 0 {
		status = named
	}
	if said.Original >= 400 && said.Original < 600 {
		status = said.Original
	}
	e := providers.EventError(providers.Classify(status, name, said.Message), m.Payload, &providers.VendorError{Code: name, Message: said.Message})
	if status != 0 {
		e.Status = status
	}
	return e
}
