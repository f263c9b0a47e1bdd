package providers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestRejectedReasoningIsOmitted: a call whose replayed reasoning is rejected is repeated without it,
// once.
// covers: providers/174
func TestRejectedReasoningIsOmitted(t *testing.T) {
	for _, tt := range []struct {
		name, refusal string
		always        bool
		asked         int
	}{
		{"once", `{"error":{"code":"invalid_encrypted_content","message":"m"}}`, false, 2},
		{"again", `{"error":{"code":"invalid_encrypted_content","message":"m"}}`, true, 2},
		{"of thinking", "{\"error\":{\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}", false, 2},
		{"for another reason", `{"error":{"message":"no"}}`, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked++; asked == 1 || tt.always {
					http.Error(w, tt.refusal, http.StatusBadRequest)
				}
			}))
			defer server.Close()
			codec := &replaying{}
			p := providers.NewHTTP(codec, nil)
			defer p.Close()
			m := providers.Model{Provider: "p", ID: "m", BaseURL: server.URL}
			assistantMessage := providers.Message{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
				providers.Reasoning{Signature: "s"}, providers.Text{Text: "t", Signature: "s"},
			}}
			req := providers.Request{History: []*providers.Block{providers.NewBlock([]providers.Message{assistantMessage})}, Messages: []providers.Message{assistantMessage}}
			_, failure, broken := providertest.Collect(p.Stream(t.Context(), m, req, providers.Options{}))
			if broken != nil || (failure != nil) != tt.always || asked != tt.asked {
				t.Errorf("got %v, %v after %d requests", failure, broken, asked)
			}
			if got, want := fmt.Sprint(codec.sent), fmt.Sprint([]int{4, 0}[:tt.asked]); got != want {
				t.Errorf("sent %s signed parts, want %s", got, want)
			}
		})
	}
}

// replaying counts the signed parts of requests.
type replaying struct {
	plainCodec
	sent []int
}

// Encode implements providers.Codec.
func (r *replaying) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	count := func(messages []providers.Message) (n int) {
		for _, msg := range messages {
			for _, p := range msg.Parts {
				switch p := p.(type) {
				case providers.Reasoning:
					n++
				case providers.Text:
					n += len(p.Signature)
				}
			}
		}
		return n
	}
	n := count(req.Messages)
	for _, b := range req.History {
		kept, err := providers.EncodeBlock(b, m, func(int) bool { return true }, func(messages []providers.Message) (int, int64, error) {
			return count(messages), 0, nil
		})
		if err != nil {
			return nil, err
		}
		n += kept
	}
	r.sent = append(r.sent, n)
	return r.plainCodec.Encode(m, providers.Request{}, o)
}
