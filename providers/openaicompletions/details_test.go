package openaicompletions_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestRecordings decodes recorded responses. The suite checks their validity.
func TestRecordings(t *testing.T) {
	providertest.RunRecordings(t, openaicompletions.API, openaicompletions.NewCodec(nil), func(t *testing.T, r providertest.Recorded) {
		for _, p := range providertest.MessageOf("p/m", r.Events).Parts {
			t.Logf("%T %.200v", p, p)
		}
		if n := len(r.Events); n > 0 {
			t.Logf("%+v", r.Events[n-1])
		}
	})
}

// TestDetailsRoundTrip sends a gateway's reasoning details back: fragments joined, otherwise
// unchanged.
// covers: providers/199
func TestDetailsRoundTrip(t *testing.T) {
	piece := func(reasoning, details string) string {
		return `{"choices":[{"delta":{"content":"","reasoning":` + reasoning + `,"reasoning_details":[` + details + `]}}]}`
	}
	const finish = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	for _, tt := range []struct {
		name     string
		payloads []string
		shown    string
		want     string
	}{
		{"text and its signature", []string{
			piece(`"Hm, "`, `{"type":"reasoning.text","text":"Hm, ","format":"f","index":0}`),
			piece(`"so"`, `{"type":"reasoning.text","text":"so","format":"f","index":0}`),
			piece(`null`, `{"type":"reasoning.text","signature":"sig","format":"f","index":0}`),
			`{"choices":[{"delta":{"content":"a"}}]}`,
		}, "Hm, so", `[{"type":"reasoning.text","format":"f","index":0,"text":"Hm, so","signature":"sig"}]`},
		{"encrypted beside calls", []string{
			piece(`null`, `{"type":"reasoning.encrypted","data":"xyz","format":"f","id":"c1","index":0}`),
			`{"choices":[{"delta":{"content":"a"}}]}`,
			piece(`null`, `{"type":"reasoning.encrypted","data":"more","index":1}`),
		}, "", `[{"type":"reasoning.encrypted","data":"xyz","format":"f","id":"c1","index":0},{"type":"reasoning.encrypted","data":"more","index":1}]`},
		{"a summary beside a text", []string{
			piece(`"S"`, `{"type":"reasoning.summary","summary":"S","index":0}`), piece(`"T"`, `{"type":"reasoning.text","text":"T","index":1}`),
			`{"choices":[{"delta":{"content":"a"}}]}`,
		}, "ST", `[{"type":"reasoning.summary","summary":"S","index":0},{"type":"reasoning.text","text":"T","index":1}]`},
		{"other words than are shown", []string{
			piece(`"shown"`, `{"type":"reasoning.text","text":"kept","index":0}`), `{"choices":[{"delta":{"content":"a"}}]}`,
		}, "shown", `[{"type":"reasoning.text","text":"kept","index":0}]`},
		{"two that were signed", []string{
			piece(`"a"`, `{"type":"reasoning.text","text":"a","signature":"1","index":0}`), piece(`"b"`, `{"type":"reasoning.text","text":"b","signature":"2","index":0}`),
			`{"choices":[{"delta":{"content":"a"}}]}`,
		}, "ab", `[{"type":"reasoning.text","text":"a","signature":"1","index":0},{"type":"reasoning.text","text":"b","signature":"2","index":0}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, failure := read(t, nil, append(tt.payloads, finish)...)
			if failure != nil {
				t.Fatal(failure)
			}
			reply, shown := providertest.MessageOf("p/m", events), ""
			for _, p := range reply.Parts {
				if r, ok := p.(providers.Reasoning); ok {
					shown += r.Text
				}
			}
			var body struct {
				Messages []struct {
					Reasoning string
					Details   json.RawMessage `json:"reasoning_details"`
				}
			}
			m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
			sent := providertest.Encoded(t, openaicompletions.NewCodec(nil), m, providers.Request{Messages: []providers.Message{reply}}, providers.Options{})
			if err := json.Unmarshal([]byte(sent), &body); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(providertest.Canonical(t, tt.want), providertest.Canonical(t, string(body.Messages[0].Details))); diff != "" || shown != tt.shown {
				t.Errorf("shown %q, want %q; (-want +got):\n%s", shown, tt.shown, diff)
			}
			if body.Messages[0].Reasoning != "" {
				t.Error("got the reasoning twice")
			}
		})
	}
}

func TestBrokenDetails(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
	for _, signature := range []string{"[", `[{"cut":9}]`, `[{"cut":-1}]`, `[7]`} {
		req := providers.Request{Messages: []providers.Message{{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
			providers.Reasoning{Text: "hm", Signature: signature}, providers.Text{Text: "a"},
		}}}}
		want := providertest.Canonical(t, `[{"role":"assistant","content":"a"}]`)
		var body struct{ Messages json.RawMessage }
		if err := json.Unmarshal([]byte(providertest.Encoded(t, openaicompletions.NewCodec(nil), m, req, providers.Options{})), &body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, providertest.Canonical(t, string(body.Messages))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", signature, diff)
		}
	}
}

// FuzzSignatures decodes signatures of arbitrary format.
func FuzzSignatures(f *testing.F) {
	providertest.FuzzSignatures(f, openaicompletions.NewCodec(nil), []string{"reasoning", `[{"type":"reasoning.text","index":0,"cut":2}]`, `[{"type":"reasoning.summary","id":{},"cut":1}]`})
}
