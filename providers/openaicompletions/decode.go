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

// Names reasoning goes by; which one a vendor uses is kept as its signature.
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
	Errors  json.RawMessage `json:"errors"` // of a gateway, in place of choices
	Tier    string          `json:"service_tier"`
}

// reset empties the chunk but keeps the memory of its choices. An element that is
// decoded into keeps what it had, so all are emptied.
func (c *chunk) reset() {
	choices := c.Choices[:cap(c.Choices)]
	clear(choices)
	*c = chunk{Choices: choices[:0]}
}

type choice struct {
	Delta delta `json:"delta"`
	// Message is there in place of Delta where a server does not stream, or again at the end.
	Message *delta `json:"message"`
	// Text is of servers that complete texts.
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
	FunctionCall     *callFunction       `json:"function_call"` // of older servers: the only call
}

type callDelta struct {
	Index    json.RawMessage `json:"index"`
	ID       string          `json:"id"`
	Function callFunction    `json:"function"`
	attached
}

// attached is what servers attach to a call and expect back with it: Gemini's thought signatures, by itself and through
// LiteLLM.
type attached struct {
	ExtraContent           json.RawMessage `json:"extra_content,omitempty"`
	ProviderSpecificFields json.RawMessage `json:"provider_specific_fields,omitempty"`
}

// signature returns what is attached as one opaque text, empty for nothing.
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

// attachedBy returns what a signature has, nothing if another format made it.
func attachedBy(signature string) (at attached) {
	if !strings.HasPrefix(signature, "{") || json.Unmarshal([]byte(signature), &at) != nil {
		return attached{}
	}
	return at
}

type callFunction struct {
	Name string `json:"name"`
	// Arguments is a string, except where a server writes the object itself.
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
	chunk chunk // its memory serves one event after the other
	json  sse.JSON
	// details and thoughts are of the reasoning under way, if it has details.
	details  details
	thoughts strings.Builder
	// message tells that a message came in one piece.
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
	// One choice was asked for; a server that sends more gets the first one read.
	return d.choice(&c.Choices[0], e.Data)
}

func (d *decoder) choice(c *choice, raw []byte) error {
	if sse.Given(c.Error) {
		return providers.StreamError(0, c.Error, raw)
	}
	d.usage(c.Usage)
	err := d.delta(&c.Delta)
	if err == nil && !d.out.Said() {
		err = d.out.Content(c.Text, d.text, d.think)
	}
	if m := c.Message; err == nil && m != nil && !d.out.Said() {
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

// reasoning takes what a delta has of it. With details, which go back in place of it, the
// name of its field does not.
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
		// What is no text here is no loss to the answer.
		if d.out.Content(field.raw, func(s string) { d.thought(s, field.name) }, func(s string) { d.thought(s, field.name) }) != nil {
			d.out.Odd(field.name, "")
			continue
		}
		return
	}
}

// think takes reasoning that stands in the content.
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

// detailBytes is about what an entry takes beside what it says.
const detailBytes = 128

// endDetails closes the reasoning that details came with, before what follows it.
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

// finish is called at the marker [DONE] and at the clean end of the stream. Of a server
// that gives no reasons, the marker alone is the end, and so is that of a message in one piece.
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

// usage takes the latest counts: they are of the whole response so far. Vendors put the
// tokens of the prompt cache into different members.
func (d *decoder) usage(raw json.RawMessage) {
	n := d.out.Counts(raw)
	if !n.Given() {
		return
	}
	prompt, output, thought := n.Of("prompt_tokens"), n.Of("completion_tokens"), n.Of("completion_tokens_details", "reasoning_tokens")
	if thought > 0 && n.Of("total_tokens") == prompt+output+thought { // some count them beside the others
		output += thought
	}
	read := max(n.Of("prompt_tokens_details", "cached_tokens"), n.Of("cached_tokens"), n.Of("prompt_cache_hit_tokens"))
	written := n.Of("prompt_tokens_details", "cache_write_tokens")
	d.done.Usage = providers.Usage{
		Input: max(prompt-read-written, 0), Output: output, CacheRead: read, CacheWrite: written, Reasoning: thought,
	}
	d.done.Billed = n.Amount("cost") // by a gateway, in US dollars
}
