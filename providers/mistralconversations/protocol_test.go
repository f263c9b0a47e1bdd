package mistralconversations_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/providertest"
)

// recording contains every kind of output: thinking in lists, alone and with text, text as a string, a
// complete call and one in fragments, padding, a comment, and usage in the last chunk.
var recording = strings.Join([]string{
	`data: {"id":"r1","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
	`data: {"id":"r1","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm, "}]}]},"finish_reason":null}],"p":"abc"}`,
	`: a comment`,
	`data: {"id":"r1","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"néw"}],"closed":true},{"type":"text","text":"Grüße "}]}}]}`,
	`data: {"id":"r1","choices":[{"index":0,"delta":{"content":"😀"}}]}`,
	`data: {"id":"r1","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"id":"gSIMJiOkT","function":{"name":"now","arguments":"{}"}}]}}]}`,
	`data: {"id":"r1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"5K7IOShCC","function":{"name":"add","arguments":"{\"n\":123456789"}}]}}]}`,
	`data: {"id":"r1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"null","function":{"name":"","arguments":"01234567890}"}}]},"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":15}}}`,
	`data: [DONE]`,
}, "\n\n") + "\n\n"

func TestCodecConformance(t *testing.T) {
	end := `"cached_tokens":15}}}`
	providertest.RunCodec(t, providertest.Recording{
		Codec:    mistralconversations.NewCodec(nil),
		Body:     []byte(recording),
		Complete: strings.Index(recording, end) + len(end),
	})
}

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		protocol, model := serve(t, answerByText)
		return providertest.Asking(protocol, model)
	})
}

// serve starts a vendor and returns a protocol and a model that reach it.
func serve(t *testing.T, h http.HandlerFunc) (*providers.HTTP, providers.Model) {
	t.Helper()
	protocol := mistralconversations.New(nil)
	return protocol, providers.Model{
		Provider: "vendor", ID: "m", API: mistralconversations.API, BaseURL: providertest.Serve(t, protocol, h),
		Reasoning: true, Input: []string{providers.InputText, providers.InputImage},
	}
}

// answerByText answers according to the last user message.
func answerByText(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) == 0 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	providertest.Answer(w, r, strings.Trim(string(body.Messages[len(body.Messages)-1].Content), `"`), map[string]string{
		"text":      providertest.Payloads(`{"choices":[{"delta":{"content":"Hello"}}]}`, `{"choices":[{"delta":{"content":" there"},"finish_reason":"stop"}]}`),
		"reasoning": providertest.Payloads(`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}}]}`, `{"choices":[{"delta":{"content":"Yes"},"finish_reason":"stop"}]}`),
		"call":      recording,
		"long":      providertest.Payloads(`{"choices":[{"delta":{"content":"begun"}}]}`),
	})
}

// covers: providers/16, providers/25
func TestRequestOnTheWire(t *testing.T) {
	type seen struct{ method, path, auth, affinity string }
	got := make(chan seen, 1)
	protocol, model := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got <- seen{r.Method, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("X-Affinity")}
		answerByText(w, r)
	})
	call := func() seen {
		o := providers.Options{APIKey: "secret", SessionID: "conv"}
		if _, failure, broken := providertest.Collect(protocol.Stream(t.Context(), model, providertest.Ask("text"), o)); failure != nil || broken != nil {
			t.Fatal(failure, broken)
		}
		return <-got
	}
	if s, want := call(), (seen{"POST", "/v1/chat/completions", "Bearer secret", "conv"}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	model.Headers = map[string]string{"Authorization": "Own scheme", "X-Affinity": "own"}
	if s := call(); s.auth != "Own scheme" || s.affinity != "own" {
		t.Errorf("got %+v, want the model's own headers", s)
	}
}

func TestStatusErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		kind   providers.ErrorKind
	}{
		"bad key":    {401, `{"detail":"Unauthorized"}`, providers.KindAuth},
		"rate limit": {429, `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}`, providers.KindRateLimit},
		"capacity": {429, `{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","code":"3505"}`,
			providers.KindRateLimit},
		"too long": {400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",` +
			`"type":"invalid_request_error","code":"3051"}`, providers.KindContextOverflow},
		"unknown member": {422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","store"],"msg":"Extra inputs are not permitted","input":false}]},` +
			`"type":"invalid_request_error","code":null}`, providers.KindInvalidRequest},
		"order":    {400, `{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","code":"3230"}`, providers.KindInvalidRequest},
		"overload": {503, `upstream`, providers.KindOverloaded},
	} {
		t.Run(name, func(t *testing.T) {
			e := providertest.Refused(t, serve, tt.status, map[string]string{"Mistral-Correlation-Id": "c-7"}, tt.body)
			if e.Kind != tt.kind || e.RequestID != "c-7" {
				t.Errorf("got %+v, want kind %s", e, tt.kind)
			}
		})
	}
}

// TestConnectionBreaks drops the connection after the finish_reason.
func TestConnectionBreaks(t *testing.T) {
	providertest.RunBroken(t, serve, providertest.Payloads(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`))
}

// covers: providers/205
func TestRefusals(t *testing.T) { providertest.RunRefusals(t, serve) }
