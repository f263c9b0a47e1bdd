package bedrockconverse_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/eventstream"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestRecordings sends decoded responses back and compares them with the recorded blocks.
func TestRecordings(t *testing.T) {
	providertest.RunRecordings(t, bedrockconverse.API, newCodec(), func(t *testing.T, r providertest.Recorded) {
		want := blocksOf(r.Body)
		if r.Failure != nil || len(want) == 0 {
			return
		}
		m := providers.Model{Provider: "p", ID: "claude", Reasoning: true}
		sent := encode(t, m, providers.Request{Messages: []providers.Message{providertest.MessageOf("p/claude", r.Events)}}, providers.Options{})
		var body struct {
			Messages []struct{ Content []map[string]any }
		}
		if err := json.Unmarshal([]byte(sent), &body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, body.Messages[0].Content); diff != "" {
			t.Errorf("blocks (-vendor +parley):\n%s", diff)
		}
	})
}

// blocksOf joins the events of a stream to blocks in the format of history.
func blocksOf(body []byte) (blocks []map[string]any) {
	type object = map[string]any
	inputs := map[int]string{}
	r := eventstream.NewReader(bytes.NewReader(body), nil)
	for m, err := r.Next(); err == nil; m, err = r.Next() {
		var e struct {
			Index        int `json:"contentBlockIndex"`
			Start, Delta object
		}
		if json.Unmarshal(m.Payload, &e) != nil || e.Start == nil && e.Delta == nil {
			continue
		}
		for len(blocks) <= e.Index {
			blocks = append(blocks, object{})
		}
		b := blocks[e.Index]
		if tool, ok := e.Start["toolUse"].(object); ok {
			tool["input"] = object{}
			b["toolUse"] = tool
		}
		for member, v := range e.Delta {
			switch v := v.(type) {
			case string:
				before, _ := b[member].(string)
				b[member] = before + v
			case object:
				if input, ok := v["input"].(string); ok {
					inputs[e.Index] += input
					var whole object
					_ = json.Unmarshal([]byte(inputs[e.Index]), &whole)
					b["toolUse"].(object)["input"] = whole
				} else if content, ok := v["redactedContent"]; ok {
					b[member] = object{"redactedContent": content}
				} else {
					joinReasoning(b, v)
				}
			}
		}
	}
	return blocks
}

// joinReasoning appends a fragment of reasoning to its block.
func joinReasoning(b, piece map[string]any) {
	whole, ok := b["reasoningContent"].(map[string]any)
	if !ok {
		whole = map[string]any{"reasoningText": map[string]any{"text": "", "signature": ""}}
		b["reasoningContent"] = whole
	}
	text := whole["reasoningText"].(map[string]any)
	for member, v := range piece {
		text[member] = text[member].(string) + v.(string)
	}
}
