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

// event has the members of all types of events that are read.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  *int            `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	ContentIndex int             `json:"content_index"`
	Item         json.RawMessage `json:"item"`
	Delta        json.RawMessage `json:"delta"`
	Arguments    string          `json:"arguments"`
	Response     json.RawMessage `json:"response"`
	Error        json.RawMessage `json:"error"`
}

// reset empties the event but keeps the memory of its fields.
func (e *event) reset() {
	*e = event{Item: e.Item[:0], Delta: e.Delta[:0], Response: e.Response[:0], Error: e.Error[:0]}
}

type response struct {
	ID         string            `json:"id"`
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Tier       string            `json:"service_tier"`
	Error      json.RawMessage   `json:"error"`
	Output     []json.RawMessage `json:"output"`
	Usage      *usage            `json:"usage"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a, items: map[int]*item{}}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == io.EOF {
			return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoEnd}
		}
		if err == nil && string(e.Data) != "[DONE]" {
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
	items    map[int]*item // by index
	last     *item         // the latest that is open
	seen     int           // texts and calls so far, see item
	adjacent bool          // the latest message has ended without a signature
	finished bool

	// Their memory serves one event after the other.
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
	if e.Type == "" && sse.Given(e.Error) { // of a gateway
		e.Type = "error"
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

// progress reads an event that does not end the response.
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
	case "response.output_text.delta", "response.refusal.delta":
		return d.delta(e, itemMessage, d.text)
	case "response.reasoning_summary_text.delta":
		return d.delta(e, itemReasoning, func(i *item, s string) { d.think(i, e.SummaryIndex, s) })
	case "response.reasoning_text.delta":
		return d.delta(e, itemReasoning, func(i *item, s string) { d.think(i, e.ContentIndex, s) })
	case "response.function_call_arguments.delta":
		return d.delta(e, itemCall, d.arguments)
	case "response.function_call_arguments.done":
		if i := d.find(e.OutputIndex); i != nil && i.kind == itemCall {
			d.restOfArguments(i, e.Arguments)
		}
	}
	return nil
}

// delta hands a piece to the item that it belongs to, if that is of a kind.
func (d *decoder) delta(e *event, kind string, take func(*item, string)) error {
	var s string
	if err := d.inner.Field("delta", e.Delta, &s); err != nil {
		return err
	}
	i := d.find(e.OutputIndex)
	switch {
	case i == nil:
		return fmt.Errorf("%s of an item that is not open", e.Type)
	case i.kind == kind:
		take(i, s)
	}
	return nil
}

// end reads the last event of a response.
func (d *decoder) end(e *event, raw []byte) error {
	var r response
	if err := d.inner.Field("response", e.Response, &r); err != nil {
		return providers.EventError(providers.KindProtocol, raw, err)
	}
	reason, err := d.stop(e.Type, &r, raw)
	if err != nil {
		return err
	}
	for n, item := range r.Output { // of servers that tell all in the end
		if d.items[n] == nil {
			if err := d.itemDone(&n, item); err != nil {
				return providers.EventError(providers.KindProtocol, raw, err)
			}
		}
	}
	for _, i := range d.items {
		if i.kind == itemCall && !i.ended && reason == providers.StopStop {
			return providers.EventError(providers.KindProtocol, raw, errors.New("a call was not done when the response was"))
		}
	}
	d.done.StopReason, d.done.PriceFactor = reason, providers.TierFactor(d.out.Model(), r.Tier)
	d.done.ResponseID, d.done.ResponseModel = cmp.Or(r.ID, d.done.ResponseID), cmp.Or(r.Model, d.done.ResponseModel)
	if r.Usage != nil {
		d.done.Usage = r.Usage.decode()
	}
	d.out.Finish(d.done)
	d.finished = true
	return nil
}

// stop tells how a response has ended.
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
		switch reason {
		case "max_output_tokens":
			return providers.StopLength, nil
		case "content_filter":
			return providers.StopContentFilter, nil
		}
		return "", providers.EventError(providers.KindProtocol, raw, fmt.Errorf("incomplete for the unknown reason %q", providers.VendorWord(reason)))
	}
	if sse.Given(r.Error) {
		return "", providers.StreamError(0, r.Error, raw)
	}
	return "", providers.EventError(providers.KindProtocol, raw, fmt.Errorf("the response ended as %q", status))
}

// usage counts what the response has used. Input has all of the prompt.
type usage struct {
	Input        int64 `json:"input_tokens"`
	Output       int64 `json:"output_tokens"`
	InputDetails struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (u *usage) decode() providers.Usage {
	in := u.InputDetails
	return providers.Usage{
		Input: max(u.Input-in.Cached-in.Written, 0), Output: max(u.Output, 0), CacheRead: max(in.Cached, 0), CacheWrite: max(in.Written, 0),
		Reasoning: max(u.OutputDetails.Reasoning, 0),
	}
}
