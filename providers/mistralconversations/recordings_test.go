package mistralconversations_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestRecordings sends decoded responses back and compares them with the recorded ones.
func TestRecordings(t *testing.T) {
	codec := mistralconversations.NewCodec(nil)
	providertest.RunRecordings(t, mistralconversations.API, codec, func(t *testing.T, r providertest.Recorded) {
		if r.Status >= 400 || r.Events == nil {
			return
		}
		var want, got transcript
		chunks := slices.Collect(bytes.Lines(r.Body))
		if json.Valid(r.Body) {
			chunks = [][]byte{r.Body} // not a stream
		}
		for _, c := range chunks {
			var e struct {
				Choices []struct{ Delta, Message content }
			}
			if json.Unmarshal(bytes.TrimPrefix(c, []byte("data: ")), &e) == nil && len(e.Choices) > 0 {
				want.add(t, e.Choices[0].Delta)
				want.add(t, e.Choices[0].Message)
			}
		}
		m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
		sent := providertest.Encoded(t, codec, m, providers.Request{Messages: []providers.Message{providertest.MessageOf("p/m", r.Events)}}, providers.Options{})
		var body struct{ Messages []content }
		if err := json.Unmarshal([]byte(sent), &body); err != nil {
			t.Fatal(err)
		}
		got.add(t, body.Messages[0])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-vendor +parley):\n%s", diff)
		}
	})
}

// content is the content of a chunk or a message.
type content struct {
	Content   json.RawMessage
	ToolCalls []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// transcript is the concatenated content.
type transcript struct {
	Text, Thinking string
	Calls          []string
}

func (s *transcript) add(t *testing.T, m content) {
	t.Helper()
	for _, c := range m.ToolCalls {
		s.Calls = append(s.Calls, c.ID+" "+c.Function.Name+" "+c.Function.Arguments)
	}
	var text string
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &text) == nil {
		s.Text += text
		return
	}
	var list []struct {
		Text     string
		Thinking []struct{ Text string }
	}
	if err := json.Unmarshal(m.Content, &list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		s.Text += c.Text
		for _, thought := range c.Thinking {
			s.Thinking += thought.Text
		}
	}
}
