package openairesponses_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestRecordings sends decoded responses back and compares them with the recorded items.
func TestRecordings(t *testing.T) {
	for slug, codec := range map[string]providers.Codec{
		openairesponses.API: openairesponses.NewCodec(nil), openairesponses.APIAzure: openairesponses.NewCodec(nil),
		openairesponses.APICodex: openairesponses.NewCodec(nil),
	} {
		t.Run(slug, func(t *testing.T) {
			providertest.RunRecordings(t, slug, codec, func(t *testing.T, r providertest.Recorded) {
				if want := output(t, r.Body); len(want) > 0 {
					if diff := cmp.Diff(want, replay(t, r.Events)); diff != "" {
						t.Errorf("items (-vendor +parley):\n%s", diff)
					}
				}
			})
		})
	}
}

// output returns the items of a recorded response in the form that is sent back, without those that
// the vendor would reject.
func output(t *testing.T, body []byte) []any {
	t.Helper()
	var out []any
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		var e struct {
			Type     string
			Item     map[string]any
			Response struct{ Output []map[string]any }
		}
		if !ok || json.Unmarshal(data, &e) != nil || e.Type != "response.output_item.done" {
			continue
		}
		if item := e.Item; item["type"] != "reasoning" || item["encrypted_content"] != nil {
			out = append(out, goesBack(item))
		}
	}
	return out
}

// goesBack reduces an item to the members that are sent back.
func goesBack(item map[string]any) map[string]any {
	for name, v := range item {
		switch name {
		case "type", "role", "phase", "encrypted_content", "summary", "call_id", "name", "arguments":
			if v == nil {
				delete(item, name)
			}
		case "content":
			if parts, _ := v.([]any); len(parts) == 0 {
				delete(item, name)
			} else {
				for _, p := range parts {
					delete(p.(map[string]any), "annotations")
					delete(p.(map[string]any), "logprobs")
				}
			}
		default:
			delete(item, name)
		}
	}
	return item
}

// replay returns the items that replay a response to its model.
func replay(t *testing.T, events []providers.Event) []any {
	t.Helper()
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
	sent := providertest.Encoded(t, openairesponses.NewCodec(nil), m, providers.Request{Messages: []providers.Message{providertest.MessageOf("p/m", events)}}, providers.Options{})
	var body struct{ Input []map[string]any }
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatal(err)
	}
	var out []any
	for _, item := range body.Input {
		if item["type"] != "function_call_output" {
			out = append(out, goesBack(item))
		}
	}
	return out
}
