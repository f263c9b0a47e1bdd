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
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// reset empties the event but keeps the memory of its choices. An element that is
// decoded into keeps what it had, so all are emptied.
func (e *event) reset() {
	choices := e.Choices[:cap(e.Choices)]
	clear(choices)
	*e = event{Choices: choices[:0]}
}

type choice struct {
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   json.RawMessage `json:"content"`
	ToolCalls []callDelta     `json:"tool_calls"`
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == io.EOF || err == nil && string(e.Data) == "[DONE]" {
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

// decoder is the state of one response.
type decoder struct {
	out   *providers.Assembler
	done  providers.Done
	calls providers.CallFragments

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
	switch {
	case sse.Given(e.Error):
		return providers.StreamError(0, e.Error, raw.Data)
	case raw.Name == "error" || e.Object == "error":
		return providers.StreamError(0, raw.Data, raw.Data)
	}
	d.done.ResponseID = cmp.Or(d.done.ResponseID, e.ID)
	d.done.ResponseModel = cmp.Or(d.done.ResponseModel, e.Model)
	if e.Usage != nil {
		d.done.Usage = e.Usage.decode()
	}
	if len(e.Choices) == 0 {
		return nil
	}
	c := &e.Choices[0] // the only one that was asked for
	if err := d.delta(&c.Delta); err != nil {
		return providers.EventError(providers.KindProtocol, raw.Data, err)
	}
	switch c.FinishReason {
	case "":
		return nil
	case "error":
		return providers.StreamError(http.StatusInternalServerError, nil, raw.Data)
	}
	if d.done.StopReason = stopReason(c.FinishReason); d.done.StopReason == "" {
		return providers.EventError(providers.KindProtocol, raw.Data, fmt.Errorf("unknown finish_reason %q", providers.VendorWord(c.FinishReason)))
	}
	return nil
}

func (d *decoder) delta(delta *delta) error {
	if err := d.content(delta.Content, d.out.Text); err != nil {
		return err
	}
	for _, t := range delta.ToolCalls {
		if t.ID == "null" {
			t.ID = ""
		}
		f := providers.CallFragment{Index: t.Index, ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments}
		if err := d.calls.Add(d.out, f); err != nil {
			return err
		}
	}
	return nil
}

// content takes a text, or a list of chunks of it and of thinking. What else stands in a
// list is skipped.
func (d *decoder) content(raw json.RawMessage, say func(string)) error {
	if !sse.Given(raw) {
		return nil
	}
	if raw[0] != '[' {
		var text string
		err := d.inner.Field("content", raw, &text)
		say(text)
		return err
	}
	var chunks []struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if err := d.inner.Field("content", raw, &chunks); err != nil {
		return err
	}
	for _, c := range chunks {
		var err error
		switch c.Type {
		case chunkText:
			err = d.content(c.Text, say)
		case chunkThinking:
			err = d.content(c.Thinking, func(s string) { d.out.Reasoning(s, "") })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stopReason returns the empty reason for one it does not know.
func stopReason(finish string) providers.StopReason {
	switch finish {
	case "stop":
		return providers.StopStop
	case "length", "model_length":
		return providers.StopLength
	case "tool_calls":
		return providers.StopToolUse
	}
	return ""
}

// finish is called at the marker [DONE] and at the clean end of the stream.
func (d *decoder) finish() error {
	if d.done.StopReason == "" {
		return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoFinish}
	}
	d.calls.Finish(d.out)
	d.out.Finish(d.done)
	return nil
}

// usage covers where models put the tokens of the prompt cache.
type usage struct {
	PromptTokens     int64        `json:"prompt_tokens"`
	CompletionTokens int64        `json:"completion_tokens"`
	CachedTokens     int64        `json:"num_cached_tokens"`
	Details          cachedTokens `json:"prompt_tokens_details"`
	Detail           cachedTokens `json:"prompt_token_details"`
}

type cachedTokens struct {
	Tokens    int64 `json:"cached_tokens"`
	NumTokens int64 `json:"num_cached_tokens"`
}

func (u *usage) decode() providers.Usage {
	read := max(u.CachedTokens, u.Details.Tokens, u.Details.NumTokens, u.Detail.Tokens, u.Detail.NumTokens)
	return providers.Usage{Input: max(u.PromptTokens-read, 0), Output: u.CompletionTokens, CacheRead: read}
}
