package openaicompletions

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

// Field names of reasoning. The name that a vendor uses is stored as the signature.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
	fieldReasoningText    = "reasoning_text"
)

var errNoFinish = errors.New("stream ended without a finish_reason")

type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Errors  json.RawMessage `json:"errors"` // gateway errors, instead of choices
	Tier    string          `json:"service_tier"`
}

// reset empties the chunk but keeps the memory of its choices. Decoding into an element keeps its old
// members, so all elements are emptied.
func (c *chunk) reset() {
	choices := c.Choices[:cap(c.Choices)]
	clear(choices)
	*c = chunk{Choices: choices[:0]}
}

type choice struct {
	Delta delta `json:"delta"`
	// Message replaces Delta on servers that do not stream; some servers repeat it at the end.
	Message *delta `json:"message"`
	// Text is sent by text-completion servers.
	Text         json.RawMessage `json:"text"`
	FinishReason string          `json:"finish_reason"`
	Usage        json.RawMessage `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

type delta struct {
	Content          json.RawMessage     `json:"content"`
	Refusal          json.RawMessage     `json:"refusal"`
	ReasoningContent json.RawMessage     `json:"reasoning_content"`
	Reasoning        json.RawMessage     `json:"reasoning"`
	ReasoningText    json.RawMessage     `json:"reasoning_text"`
	ReasoningDetails []detail            `json:"reasoning_details"`
	ToolCalls        sse.Many[callDelta] `json:"tool_calls"`
	FunctionCall     *callFunction       `json:"function_call"` // older servers: the only call
}

type callDelta struct {
	Index    json.RawMessage `json:"index"`
	ID       string          `json:"id"`
	Function callFunction    `json:"function"`
	attached
}

// attached contains members that servers attach to a call and expect back: Gemini's thought
// signatures, directly and through LiteLLM.
type attached struct {
	ExtraContent           json.RawMessage `json:"extra_content,omitempty"`
	ProviderSpecificFields json.RawMessage `json:"provider_specific_fields,omitempty"`
}

// signature returns the attached members as one opaque text, empty for none.
func (at attached) signature() string {
	var members []string
	if sse.Given(at.ExtraContent) {
		members = append(members, `"extra_content":`+string(at.ExtraContent))
	}
	if sse.Given(at.ProviderSpecificFields) {
		members = append(members, `"provider_specific_fields":`+string(at.ProviderSpecificFields))
	}
	if members == nil {
		return ""
	}
	return "{" + strings.Join(members, ",") + "}"
}

// attachedBy decodes a signature. It returns nothing for a signature of another format.
func attachedBy(signature string) (at attached) {
	if !strings.HasPrefix(signature, "{") || json.Unmarshal([]byte(signature), &at) != nil {
		return attached{}
	}
	return at
}

type callFunction struct {
	Name string `json:"name"`
	// Arguments is a string, but some servers send the object itself.
	Arguments json.RawMessage `json:"arguments"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a, json: sse.JSON{Skip: a.Skip("choices", "choices.delta", "choices.message", "choices.delta.function_call")}}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == io.EOF || err == nil && providers.EndMarker(e.Data) {
			return d.finish(err == nil)
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

// decoder is the state of one response.
type decoder struct {
	out   *providers.Assembler
	done  providers.Done
	calls providers.CallFragments
	chunk chunk // reused for every event
	json  sse.JSON
	// details and thoughts belong to the current reasoning, if it has details.
	details  details
	thoughts strings.Builder
	// message is set once a complete message has arrived.
	message bool
}

func (d *decoder) event(e sse.Event) error {
	c := &d.chunk
	c.reset()
	if err := d.json.Decode(e.Data, c); err != nil {
		return providers.UndecodedEvent(e, fmt.Errorf("decode chunk: %w", err))
	}
	switch {
	case sse.Given(c.Error):
		return providers.StreamError(0, c.Error, e.Data)
	case e.Name == "error" || c.Object == "error", len(c.Choices) == 0 && sse.Given(c.Errors) && string(c.Errors) != "[]":
		return providers.StreamError(0, e.Data, e.Data)
	}
	d.done.ResponseID = cmp.Or(d.done.ResponseID, c.ID)
	d.done.ResponseModel = cmp.Or(d.done.ResponseModel, c.Model)
	if c.Tier != "" {
		d.done.PriceFactor = providers.TierFactor(d.out.Model(), c.Tier)
	}
	d.usage(c.Usage)
	if len(c.Choices) == 0 {
		return nil
	}
	// One choice was requested; further choices are ignored.
	return d.choice(&c.Choices[0], e.Data)
}

func (d *decoder) choice(c *choice, raw []byte) error {
	if sse.Given(c.Error) {
		return providers.StreamError(0, c.Error, raw)
	}
	d.usage(c.Usage)
	err := d.delta(&c.Delta)
	if err == nil && !d.out.HasContent() {
		err = d.out.Content(c.Text, d.text, d.think)
	}
	if m := c.Message; err == nil && m != nil && !d.out.HasContent() {
		err, d.message = d.delta(m), true
	}
	if err != nil {
		return providers.EventError(providers.KindProtocol, raw, err)
	}
	return d.out.End(c.FinishReason, "", raw)
}

func (d *decoder) delta(delta *delta) error {
	d.reasoning(delta)
	for _, content := range []json.RawMessage{delta.Content, delta.Refusal} {
		if err := d.out.Content(content, d.text, d.think); err != nil {
			return err
		}
	}
	if f := delta.FunctionCall; f != nil {
		delta.ToolCalls = append(delta.ToolCalls, callDelta{Function: *f})
	}
	for _, t := range delta.ToolCalls {
		d.endDetails()
		f := providers.CallFragment{Index: providers.Number(t.Index), ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments, Signature: t.signature()}
		if err := d.calls.Add(d.out, f); err != nil {
			return err
		}
	}
	return nil
}

// reasoning reads the reasoning of a delta. Details replace the field name as the signature.
func (d *decoder) reasoning(delta *delta) {
	for i := range delta.ReasoningDetails {
		entry := &delta.ReasoningDetails[i]
		entry.Cut = 0
		if !d.out.Hold(len(entry.Text) + len(entry.Summary) + len(entry.Data) + len(entry.Signature) + detailBytes) {
			return
		}
		d.details.add(*entry)
	}
	for _, field := range []struct {
		name string
		raw  json.RawMessage
	}{
		{fieldReasoningContent, delta.ReasoningContent}, {fieldReasoning, delta.Reasoning}, {fieldReasoningText, delta.ReasoningText},
	} {
		if !sse.Given(field.raw) || string(field.raw) == `""` {
			continue
		}
		// Invalid reasoning does not fail the answer.
		if d.out.Content(field.raw, func(s string) { d.thought(s, field.name) }, func(s string) { d.thought(s, field.name) }) != nil {
			d.out.Odd(field.name, "")
			continue
		}
		return
	}
}

// think adds reasoning found in the content.
func (d *decoder) think(text string) { d.thought(text, "") }

func (d *decoder) thought(text, field string) {
	if len(d.details) > 0 {
		d.thoughts.WriteString(text)
		field = ""
	}
	if text != "" {
		d.out.Reasoning(text, field)
	}
}

// detailBytes is the approximate overhead of an entry in addition to its text.
const detailBytes = 128

// endDetails closes reasoning with details before the next part.
func (d *decoder) endDetails() {
	if len(d.details) > 0 {
		d.out.EndReasoning(d.details.sign(d.thoughts.String()))
		d.details = nil
		d.thoughts.Reset()
	}
}

func (d *decoder) text(s string) {
	if s != "" {
		d.endDetails()
		d.calls.Start(d.out)
		d.out.Text(s)
	}
}

// finish handles the marker [DONE] and the clean end of the stream. For a server without finish
// reasons, and for a complete message, the marker alone ends the response.
func (d *decoder) finish(marker bool) error {
	whole := d.message || marker && !d.out.Model().Compat.SupportsFinishReason.Or(true)
	if d.out.Ended() == "" && whole {
		d.done.StopReason = providers.StopStop
	}
	if d.out.Ended() == "" && !whole {
		return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoFinish}
	}
	d.endDetails()
	d.calls.Finish(d.out)
	d.out.Finish(d.done)
	return nil
}

// usage reads the latest counts, which are totals of the response. Vendors report cached prompt tokens
// in different members.
func (d *decoder) usage(raw json.RawMessage) {
	n := d.out.Counts(raw)
	if !n.Given() {
		return
	}
	prompt, output, thought := n.Of("prompt_tokens"), n.Of("completion_tokens"), n.Of("completion_tokens_details", "reasoning_tokens")
	if thought > 0 && n.Of("total_tokens") == prompt+output+thought { // some vendors do not include them in the output
		output += thought
	}
	read := max(n.Of("prompt_tokens_details", "cached_tokens"), n.Of("cached_tokens"), n.Of("prompt_cache_hit_tokens"))
	written := n.Of("prompt_tokens_details", "cache_write_tokens")
	d.done.Usage = providers.Usage{
		Input: max(prompt-read-written, 0), Output: output, CacheRead: read, CacheWrite: written, Reasoning: thought,
	}
	d.done.Billed = n.Amount("cost") // gateways, in US dollars
}
