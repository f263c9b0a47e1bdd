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
	Usage   *usage          `json:"usage"`
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
	Delta        delta           `json:"delta"`
	FinishReason string          `json:"finish_reason"`
	Usage        *usage          `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

type delta struct {
	Content          string      `json:"content"`
	Refusal          string      `json:"refusal"`
	ReasoningContent string      `json:"reasoning_content"`
	Reasoning        string      `json:"reasoning"`
	ReasoningText    string      `json:"reasoning_text"`
	ReasoningDetails []detail    `json:"reasoning_details"`
	ToolCalls        []callDelta `json:"tool_calls"`
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name string `json:"name"`
		// Arguments is a string, except where a server writes the object itself.
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == io.EOF || err == nil && string(e.Data) == "[DONE]" {
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
	d.reasoning(&c.Delta)
	d.text(c.Delta.Content)
	d.text(c.Delta.Refusal)
	for _, t := range c.Delta.ToolCalls {
		d.endDetails()
		f := providers.CallFragment{Index: t.Index, ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments}
		if err := d.calls.Add(d.out, f); err != nil {
			return providers.EventError(providers.KindProtocol, raw, err)
		}
	}
	if c.FinishReason == "" {
		return nil
	}
	if c.FinishReason == "network_error" || c.FinishReason == "error" {
		return providers.StreamError(http.StatusInternalServerError, nil, raw)
	}
	if d.done.StopReason = stopReason(c.FinishReason); d.done.StopReason == "" {
		return providers.EventError(providers.KindProtocol, raw, fmt.Errorf("unknown finish_reason %q", providers.VendorWord(c.FinishReason)))
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
	text, field := delta.ReasoningContent, fieldReasoningContent
	switch {
	case text != "":
	case delta.Reasoning != "":
		text, field = delta.Reasoning, fieldReasoning
	case delta.ReasoningText != "":
		text, field = delta.ReasoningText, fieldReasoningText
	}
	if text == "" {
		return
	}
	if len(d.details) > 0 {
		d.thoughts.WriteString(text)
		d.out.Reasoning(text, "")
		return
	}
	d.out.Reasoning(text, field)
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
		d.out.Text(s)
	}
}

// stopReason returns the empty reason for one it does not know.
func stopReason(finish string) providers.StopReason {
	switch finish {
	case "stop", "eos", "end":
		return providers.StopStop
	case "length":
		return providers.StopLength
	case "tool_calls", "function_call":
		return providers.StopToolUse
	case "content_filter":
		return providers.StopContentFilter
	}
	return ""
}

// finish is called at the marker [DONE] and at the clean end of the stream. Of a server
// that gives no reasons, the marker alone is the end.
func (d *decoder) finish(marker bool) error {
	if d.done.StopReason == "" && marker && !d.out.Model().Compat.SupportsFinishReason.Or(true) {
		d.done.StopReason = providers.StopStop
	}
	if d.done.StopReason == "" {
		return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoFinish}
	}
	d.endDetails()
	d.calls.Finish(d.out)
	d.out.Finish(d.done)
	return nil
}

// usage covers where the vendors put the tokens of the prompt cache.
type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	// Cost is what a gateway has billed, in US dollars.
	Cost                *float64 `json:"cost"`
	CachedTokens        int64    `json:"cached_tokens"`
	CacheHitTokens      int64    `json:"prompt_cache_hit_tokens"`
	PromptTokensDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// usage takes the latest counts: they are of the whole response so far.
func (d *decoder) usage(u *usage) {
	if u != nil {
		d.done.Usage, d.done.Billed = u.decode(), u.Cost
	}
}

func (u *usage) decode() providers.Usage {
	output, thought := u.CompletionTokens, u.CompletionTokensDetails.ReasoningTokens
	if thought > 0 && u.TotalTokens == u.PromptTokens+output+thought { // some count them beside the others
		output += thought
	}
	read := max(u.PromptTokensDetails.CachedTokens, u.CachedTokens, u.CacheHitTokens)
	written := u.PromptTokensDetails.CacheWriteTokens
	return providers.Usage{
		Input:      max(u.PromptTokens-read-written, 0),
		Output:     output,
		CacheRead:  read,
		CacheWrite: written,
		Reasoning:  thought,
	}
}
