package mistralconversations

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

var errNoFinish = errors.New("stream ended without a finish_reason")

type event struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// reset empties the event but keeps the memory of its choices. Decoding into an element keeps its old
// members, so all elements are emptied.
func (e *event) reset() {
	choices := e.Choices[:cap(e.Choices)]
	clear(choices)
	*e = event{Choices: choices[:0]}
}

type choice struct {
	Delta delta `json:"delta"`
	// Message replaces Delta on servers that do not stream.
	Message      *delta `json:"message"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   json.RawMessage     `json:"content"`
	ToolCalls sse.Many[callDelta] `json:"tool_calls"`
}

type callDelta struct {
	Index    json.RawMessage `json:"index"`
	ID       string          `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a, json: sse.JSON{Skip: a.Skip("choices", "choices.delta", "choices.message")}}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == io.EOF || err == nil && providers.EndMarker(e.Data) {
			return d.finish()
		}
		if err == nil {
			err = d.event(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type decoder struct {
	out   *providers.Assembler
	done  providers.Done
	calls providers.CallFragments
	// message is set once a complete message has arrived.
	message bool

	// reused for every event
	json   sse.JSON
	latest event
}

func (d *decoder) event(raw sse.Event) error {
	e := &d.latest
	e.reset()
	if err := d.json.Decode(raw.Data, e); err != nil {
		return providers.UndecodedEvent(raw, fmt.Errorf("decode event: %w", err))
	}
	switch {
	case sse.Given(e.Error):
		return providers.StreamError(0, e.Error, raw.Data)
	case raw.Name == "error" || e.Object == "error":
		return providers.StreamError(0, raw.Data, raw.Data)
	}
	d.done.ResponseID = cmp.Or(d.done.ResponseID, e.ID)
	d.done.ResponseModel = cmp.Or(d.done.ResponseModel, e.Model)
	d.usage(e.Usage)
	if len(e.Choices) == 0 {
		return nil
	}
	c := &e.Choices[0] // one choice was requested
	err := d.delta(&c.Delta)
	if err == nil && c.Message != nil && !d.out.HasContent() {
		err, d.message = d.delta(c.Message), true
	}
	if err != nil {
		return providers.EventError(providers.KindProtocol, raw.Data, err)
	}
	return d.out.End(c.FinishReason, "", raw.Data)
}

func (d *decoder) delta(delta *delta) error {
	emit := func(s string) {
		d.calls.Start(d.out)
		d.out.Text(s)
	}
	if err := d.out.Content(delta.Content, emit, func(s string) { d.out.Reasoning(s, "") }); err != nil {
		return err
	}
	for _, t := range delta.ToolCalls {
		f := providers.CallFragment{Index: providers.Number(t.Index), ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments}
		if err := d.calls.Add(d.out, f); err != nil {
			return err
		}
	}
	return nil
}

// finish handles the marker [DONE] and the clean end of the stream.
func (d *decoder) finish() error {
	switch {
	case d.out.Ended() != "":
	case d.message:
		d.done.StopReason = providers.StopStop
	default:
		return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoFinish}
	}
	d.calls.Finish(d.out)
	d.out.Finish(d.done)
	return nil
}

// usage reads the latest counts. Models report cached prompt tokens in different members.
func (d *decoder) usage(raw json.RawMessage) {
	n := d.out.Counts(raw)
	if !n.Given() {
		return
	}
	read := n.Of("num_cached_tokens")
	for _, details := range []string{"prompt_tokens_details", "prompt_token_details"} {
		read = max(read, n.Of(details, "cached_tokens"), n.Of(details, "num_cached_tokens"))
	}
	d.done.Usage = providers.Usage{Input: max(n.Of("prompt_tokens")-read, 0), Output: n.Of("completion_tokens"), CacheRead: read}
}
