package anthropicmessages_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestRecordings sends decoded responses back and compares them with the recorded blocks.
func TestRecordings(t *testing.T) {
	providertest.RunRecordings(t, anthropicmessages.API, anthropicmessages.NewCodec(nil), func(t *testing.T, r providertest.Recorded) {
		var want []string
		for line := range bytes.Lines(r.Body) {
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			var e struct {
				Block struct{ Type, ID, Data string } `json:"content_block"`
			}
			if ok && json.Unmarshal(data, &e) == nil && e.Block.Type != "" {
				want = append(want, e.Block.Type+" "+e.Block.ID+e.Block.Data)
			}
		}
		if len(want) == 0 {
			return
		}
		m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
		sent := encode(t, m, providers.Request{Messages: []providers.Message{providertest.MessageOf("p/m", r.Events)}}, providers.Options{})
		var body struct {
			Messages []struct {
				Content []struct{ Type, ID, Data string }
			}
		}
		if err := json.Unmarshal([]byte(sent), &body); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range body.Messages[0].Content {
			got = append(got, b.Type+" "+b.ID+b.Data)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("blocks (-vendor +parley):\n%s", diff)
		}
	})
}
