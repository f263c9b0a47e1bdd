package openairesponses

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

var errNoEnd = errors.New("stream ended without response.completed")

// event has the members of all event types that are read.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  *int            `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	ContentIndex int             `json:"content_index"`
	ItemID       string          `json:"item_id"`
	Object       string          `json:"object"` // non-streaming response
	Item         json.RawMessage `json:"item"`
	Delta        json.RawMessage `json:"delta"`
	Text         json.RawMessage `json:"text"`
	Refusal      json.RawMessage `json:"refusal"`
	Part         json.RawMessage `json:"part"`
	Arguments    json.RawMessage `json:"arguments"`
	Response     json.RawMessage `json:"response"`
	Error        json.RawMessage `json:"error"`
}

// reset empties the event but keeps the memory of its fields.
func (e *event) reset() {
	*e = event{
		Item: e.Item[:0], Delta: e.Delta[:0], Response: e.Response[:0], Error: e.Error[:0],
		Text: e.Text[:0], Refusal: e.Refusal[:0], Part: e.Part[:0], Arguments: e.Arguments[:0],
	}
}

type response struct {
	ID         string            `json:"id"`
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Tier       string            `json:"service_tier"`
	Error      json.RawMessage   `json:"error"`
	Output     []json.RawMessage `json:"output"`
	Usage      json.RawMessage   `json:"usage"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	skip := sse.JSON{Skip: a.Skip("delta", "item", "item.type", "item.content", "item.name", "item.arguments", "response", "response.output")}
	d := decoder{out: a, items: newItems(), json: skip, inner: skip}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == io.EOF {
			return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoEnd}
		}
		if err == nil && !providers.EndMarker(e.Data) {
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
	items    items
	seen     int  // texts and calls so far, see item
	adjacent bool // the latest message ended without a signature
	finished bool

	// reused for every event
	json, inner sse.JSON
	latest      event
}

func (d *decoder) event(raw sse.Event) error {
	e := &d.latest
	e.reset()
	if err := d.json.Decode(raw.Data, e); err != nil {
		return providers.UndecodedEvent(raw, fmt.Errorf("decode event: %w", err))
	}
	if e.Type == "" {
		e.Type = raw.Name
	}
	if e.Type == "" && sse.Given(e.Error) { // gateway error
		e.Type = "error"
	}
	if e.Type == "" && e.Object == "response" {
		e.Type, e.Response = "response.done", append(e.Response[:0], raw.Data...)
	}
	switch e.Type {
	case "error":
		if sse.Given(e.Error) {
			return providers.StreamError(0, e.Error, raw.Data)
		}
		return providers.StreamError(0, raw.Data, raw.Data)
	case "response.completed", "response.done", "response.incomplete", "response.failed":
		return d.end(e, raw.Data)
	}
	if err := d.progress(e); err != nil {
		return providers.EventError(providers.KindProtocol, raw.Data, err)
	}
	return nil
}

// progress handles an event that does not end the response.
func (d *decoder) progress(e *event) error {
	switch e.Type {
	case "response.created", "response.in_progress":
		var r response
		if err := d.inner.Field("response", e.Response, &r); err != nil {
			return err
		}
		d.done.ResponseID, d.done.ResponseModel = r.ID, r.Model
	case "response.output_item.added":
		return d.added(e.OutputIndex, e.Item)
	case "response.output_item.done":
		return d.itemDone(e.OutputIndex, e.Item)
	case "response.function_call_arguments.delta":
		return d.delta(e, e.Delta, itemCall, func(i *item, s string) { d.arguments(i, s) })
	case "response.function_call_arguments.done":
		i := d.itemOf(e, itemCall)
		i.whole = true
		return d.restOfArguments(i, e.Arguments)
	}
	return d.textEvent(e)
}

// textEvent reads deltas of messages and reasoning, and the complete parts that follow them.
func (d *decoder) textEvent(e *event) error {
	text := func(i *item, s string) { d.emitText(i, e.ContentIndex, s) }
	rest := func(i *item, s string) { d.emitText(i, e.ContentIndex, i.unsaid(e.ContentIndex, s)) }
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return d.delta(e, e.Delta, itemMessage, text)
	case "response.output_text.done":
		return d.delta(e, e.Text, itemMessage, rest)
	case "response.refusal.done":
		return d.delta(e, e.Refusal, itemMessage, rest)
	case "response.content_part.done":
		var p partJSON
		if err := d.inner.Field("part", e.Part, &p); err != nil {
			return err
		}
		switch p.Type {
		case "output_text", "text":
			return d.delta(e, p.Text, itemMessage, rest)
		case "refusal":
			return d.delta(e, p.Refusal, itemMessage, rest)
		}
	case "response.reasoning_summary_text.delta":
		return d.delta(e, e.Delta, itemReasoning, func(i *item, s string) { d.think(i, e.SummaryIndex, s) })
	case "response.reasoning_text.delta":
		return d.delta(e, e.Delta, itemReasoning, func(i *item, s string) { d.think(i, e.ContentIndex, s) })
	case "response.reasoning_summary_text.done":
		return d.delta(e, e.Text, itemReasoning, func(i *item, s string) { d.think(i, e.SummaryIndex, i.unsaid(e.SummaryIndex, s)) })
	case "response.reasoning_text.done":
		return d.delta(e, e.Text, itemReasoning, func(i *item, s string) { d.think(i, e.ContentIndex, i.unsaid(e.ContentIndex, s)) })
	}
	return nil
}

// delta passes a delta to its item of the kind.
func (d *decoder) delta(e *event, raw json.RawMessage, kind string, take func(*item, string)) error {
	s, err := sse.Text(raw)
	if err != nil {
		return fmt.Errorf("decode delta: %w", err)
	}
	if s != "" {
		take(d.itemOf(e, kind), s)
	}
	return nil
}

// itemOf returns the item of an event. Without a start event, an item begins with its first delta.
func (d *decoder) itemOf(e *event, kind string) *item {
	i := d.items.find(kind, e.OutputIndex, e.ItemID)
	if i == nil {
		d.out.Odd("delta before its item", "")
		i = d.begin(e.OutputIndex, kind, e.ItemID, "")
		i.early = true
	}
	return i
}

// end handles the last event of a response.
func (d *decoder) end(e *event, raw []byte) error {
	var r response
	if err := d.inner.Field("response", e.Response, &r); err != nil {
		return providers.EventError(providers.KindProtocol, raw, err)
	}
	reason, err := d.stop(e.Type, &r, raw)
	if err != nil {
		return err
	}
	if err := d.rest(r.Output); err != nil {
		return providers.EventError(providers.KindProtocol, raw, err)
	}
	for _, i := range d.items.all {
		if i.kind == itemCall && !i.started {
			d.startCall(i, "")
		}
		if i.kind == itemCall && !i.ended && !i.whole && reason == providers.StopStop {
			return providers.EventError(providers.KindProtocol, raw, errors.New("response ended before a call was complete"))
		}
	}
	d.done.StopReason, d.done.PriceFactor = reason, providers.TierFactor(d.out.Model(), r.Tier)
	d.done.ResponseID, d.done.ResponseModel = cmp.Or(r.ID, d.done.ResponseID), cmp.Or(r.Model, d.done.ResponseModel)
	d.usage(r.Usage)
	d.out.Finish(d.done)
	d.finished = true
	return nil
}

// stop returns the stop reason of a response.
func (d *decoder) stop(eventType string, r *response, raw []byte) (providers.StopReason, error) {
	status := r.Status
	switch status {
	case "completed", "incomplete", "failed", "cancelled", "queued", "in_progress":
	default:
		status = strings.TrimPrefix(eventType, "response.")
	}
	switch status {
	case "completed", "done":
		return providers.StopStop, nil
	case "incomplete":
		reason := ""
		if r.Incomplete != nil {
			reason = r.Incomplete.Reason
		}
		// The answer is incomplete, whatever the reason.
		if err := d.out.End(cmp.Or(reason, status), "", raw); err != nil {
			return "", err
		}
		if end := d.out.Ended(); end == providers.StopContentFilter {
			return end, nil
		}
		return providers.StopLength, nil
	}
	if sse.Given(r.Error) {
		return "", providers.StreamError(0, r.Error, raw)
	}
	return "", providers.EventError(providers.KindProtocol, raw, fmt.Errorf("response ended with status %q", status))
}

// usage reads the token counts. input_tokens includes the whole prompt.
func (d *decoder) usage(raw json.RawMessage) {
	n := d.out.Counts(raw)
	cached, written := n.Of("input_tokens_details", "cached_tokens"), n.Of("input_tokens_details", "cache_write_tokens")
	d.done.Usage = providers.Usage{
		Input: max(n.Of("input_tokens")-cached-written, 0), Output: n.Of("output_tokens"), CacheRead: cached, CacheWrite: written,
		Reasoning: n.Of("output_tokens_details", "reasoning_tokens"),
	}
}
