package googlegenerativeai_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestRecordings sends decoded responses back and compares them with the recorded signed parts and
// calls.
func TestRecordings(t *testing.T) {
	for _, slug := range []string{googlegenerativeai.API, googlegenerativeai.APIVertex} {
		t.Run(slug, func(t *testing.T) {
			providertest.RunRecordings(t, slug, googlegenerativeai.NewCodec(nil), func(t *testing.T, r providertest.Recorded) {
				if json.Valid(r.Body) && r.Status == 200 { // one chunk that was not streamed
					one := new(bytes.Buffer)
					if err := json.Compact(one, r.Body); err != nil {
						t.Fatal(err)
					}
					r.Body = []byte(providertest.Payloads(one.String()))
					r.Events, r.Failure = providertest.Decode(t, googlegenerativeai.NewCodec(nil), string(r.Body))
				}
				if r.Status == 200 && r.Failure != nil {
					t.Errorf("got %v", r.Failure)
				}
				m := providers.Model{Provider: "p", ID: "gemini-2.5-flash", Reasoning: true}
				var sent []any
				if err := json.Unmarshal([]byte(contents(t, m, providertest.MessageOf("p/gemini-2.5-flash", r.Events))), &sent); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(signedParts(t, r.Body), partsOf(sent)); diff != "" {
					t.Errorf("parts (-vendor +parley):\n%s", diff)
				}
			})
		})
	}
}

// signedParts returns the signed parts and calls of a recorded response.
func signedParts(t *testing.T, body []byte) []any {
	t.Helper()
	var out []any
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		var c struct{ Candidates []struct{ Content any } }
		if !ok || json.Unmarshal(data, &c) != nil || len(c.Candidates) == 0 {
			continue
		}
		out = append(out, partsOf([]any{c.Candidates[0].Content})...)
	}
	return out
}

// partsOf returns the signed parts and calls of the model's contents, without ids.
func partsOf(contents []any) (out []any) {
	for _, c := range contents {
		content, _ := c.(map[string]any)
		parts, _ := content["parts"].([]any)
		for _, p := range parts {
			part := p.(map[string]any)
			if call, ok := part["functionCall"].(map[string]any); ok {
				delete(call, "id")
			} else if part["thoughtSignature"] == nil {
				continue
			}
			out = append(out, part)
		}
	}
	return out
}
