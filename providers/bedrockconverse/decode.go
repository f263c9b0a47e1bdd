package bedrockconverse

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/eventstream"
	"github.com/parleyrun/parley/providers/sse"
)

var errNoStop = errors.New("stream ended without messageStop")

// event has the members of all known event types.
type event struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse *toolUse `json:"toolUse"`
	} `json:"start"`
	Delta struct {
		Text    json.RawMessage `json:"text"`
		ToolUse *struct {
			Input json.RawMessage `json:"input"`
		} `json:"toolUse"`
		Reasoning *thoughtDelta `json:"reasoningContent"`
	} `json:"delta"`
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage"`
}

type thoughtDelta struct {
	Text      json.RawMessage `json:"text"`
	Signature string          `json:"signature"`
	Redacted  []byte          `json:"redactedContent"`
}

// answer is a non-streaming response.
type answer struct {
	Output struct {
		Message struct {
			Content []struct {
				Text      json.RawMessage `json:"text"`
				ToolUse   *toolUse        `json:"toolUse"`
				Reasoning *struct {
					thoughtDelta
					Whole *thoughtDelta `json:"reasoningText"`
				} `json:"reasoningContent"`
			} `json:"content"`
		} `json:"message"`
	} `json:"output"`
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a, open: map[int]*openBlock{}, json: sse.JSON{Skip: a.Skip("start", "delta", "output", "output.message", "output.message.content")}}
	body := bufio.NewReaderSize(src, 0)
	if providers.IsDocument(body) {
		return d.whole(body, c.maxMessageBytes)
	}
	messages := eventstream.NewReader(body, &eventstream.Options{MaxMessageBytes: c.maxMessageBytes})
	for !a.Stopped() && !d.finished {
		m, err := messages.Next()
		var format *eventstream.FormatError
		switch {
		case err == io.EOF && a.Ended() != "":
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

// whole reads a non-streaming response.
func (d *decoder) whole(body io.Reader, maxBytes int) error {
	for e, err := range providers.Events(body, maxBytes, d.out) {
		var w answer
		switch {
		case err == io.EOF && (d.out.Ended() != "" || d.out.HasContent()):
			d.done.StopReason = cmp.Or(d.out.Ended(), providers.StopStop)
			d.finish()
			return nil
		case err == io.EOF:
			return &providers.Error{Kind: providers.KindProtocol, Status: http.StatusOK, Err: errNoStop}
		case err == nil:
			err = d.json.Decode(e.Data, &w)
		}
		if err == nil {
			err = d.answer(&w)
		}
		if err != nil {
			return err
		}
		if err := d.messageStop(w.StopReason, e.Data); err != nil {
			return err
		}
	}
	return nil
}

// answer processes a non-streaming response as the equivalent events.
func (d *decoder) answer(w *answer) error {
	for i, c := range w.Output.Message.Content {
		e := event{Index: i}
		e.Start.ToolUse, e.Delta.Text = c.ToolUse, c.Text
		if c.Reasoning != nil {
			e.Delta.Reasoning = cmp.Or(c.Reasoning.Whole, &c.Reasoning.thoughtDelta)
		}
		d.start(&e)
		if err := d.delta(&e); err != nil {
			return providers.EventError(providers.KindProtocol, nil, err)
		}
		d.stop(i)
	}
	d.use(w.Usage)
	return nil
}

type decoder struct {
	out      *providers.Assembler
	json     sse.JSON
	done     providers.Done
	open     map[int]*openBlock
	thought  *openBlock // the current reasoning block
	finished bool
}

// openBlock is a block between its first event and its stop.
type openBlock struct {
	tool bool
	call int // tool block: call index
	// signature is of reasoning; redacted is the whole content of a redacted block.
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
	err := d.json.Decode(m.Payload, &e)
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
		if d.out.Ended() != "" {
			d.finish()
		}
	}
	if err != nil {
		return providers.EventError(providers.KindProtocol, m.Payload, err)
	}
	return nil
}

// blockBytes is the approximate overhead of an open block in addition to its text.
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
	if sse.Given(tool.Input) && !d.out.Stopped() {
		d.out.CallArguments(d.open[e.Index].call, string(tool.Input))
	}
}

func (d *decoder) delta(e *event) error {
	o, delta := d.open[e.Index], &e.Delta
	switch {
	case delta.ToolUse != nil:
		if o == nil || !o.tool { // without a start the name is unknown
			d.out.Odd("delta before its block", "")
			e.Start.ToolUse = &toolUse{}
			d.start(e)
		}
		return d.input(d.open[e.Index], delta.ToolUse.Input)
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
		if o != d.thought { // the block was considered closed
			return nil
		}
		return d.think(o, delta.Reasoning)
	}
	text, err := sse.Text(delta.Text)
	if text != "" {
		d.endThought()
		d.out.Text(text)
	}
	return err
}

// input adds a fragment of arguments, as text or as JSON value.
func (d *decoder) input(o *openBlock, raw json.RawMessage) error {
	if o == nil || d.out.Stopped() {
		return nil
	}
	piece := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		var err error
		if piece, err = sse.Text(raw); err != nil {
			return err
		}
	}
	d.out.CallArguments(o.call, piece)
	return nil
}

func (d *decoder) think(o *openBlock, r *thoughtDelta) error {
	text, err := sse.Text(r.Text)
	if err != nil {
		return err
	}
	d.out.Reasoning(text, "")
	if d.out.Hold(len(r.Signature) + len(r.Redacted)) {
		o.signature.WriteString(r.Signature)
		o.redacted.Write(r.Redacted)
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
	case o.tool:
		d.out.EndCall(o.call, "")
	case o == d.thought:
		d.endThought()
	}
}

// endThought closes reasoning before any other output, because its signature does not cover later
// text.
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

// messageStop handles a stopReason. A full window truncates a started answer.
func (d *decoder) messageStop(reason string, raw []byte) error {
	if reason == "model_context_window_exceeded" && d.out.HasContent() {
		reason = "max_tokens"
	}
	return d.out.End(reason, "", raw)
}

func (d *decoder) use(raw json.RawMessage) {
	n := d.out.Counts(raw)
	d.done.Usage = providers.Usage{
		Input: n.Of("inputTokens"), Output: n.Of("outputTokens"), CacheRead: n.Of("cacheReadInputTokens"), CacheWrite: n.Of("cacheWriteInputTokens"),
	}
	for _, written := range n.List("cacheDetails") {
		if written.Text("ttl") == "1h" {
			d.done.CacheWriteHour += written.Of("inputTokens")
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

// exception reads the exception that ends a stream, or an error in the headers of a message.
func exception(m eventstream.Message) error {
	var message struct {
		Message  string `json:"message"`
		Original int    `json:"originalStatusCode"`
	}
	// Other payloads have no message.
	_ = json.Unmarshal(m.Payload, &message)
	name, status := m.Text(":exception-type"), 0
	if name == "" {
		name, message.Message, status = m.Text(":error-code"), m.Text(":error-message"), http.StatusInternalServerError
	}
	if named := providers.StatusOf(name); named != 0 {
		status = named
	}
	if message.Original >= 400 && message.Original < 600 {
		status = message.Original
	}
	e := providers.EventError(providers.Classify(status, name, message.Message), m.Payload, &providers.VendorError{Code: name, Message: message.Message})
	if status != 0 {
		e.Status = status
	}
	return e
}
