package anthropicmessages_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// recording contains every kind of output: two thinking blocks and a redacted one, non-ASCII text, an
// unknown block and event, two calls, pings, a comment, and an event without a name.
var recording = strings.Join([]string{
	named("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":3,"cache_read_input_tokens":15,"output_tokens":1}}}`),
	named("ping", `{"type":"ping"}`),
	named("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, "}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"néw"}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`),
	named("content_block_stop", `{"type":"content_block_stop","index":0}`),
	`: a comment`,
	named("content_block_start", `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`),
	`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüße 😀"}}`,
	named("content_block_stop", `{"type":"content_block_stop","index":1}`),
	named("content_block_start", `{"type":"content_block_start","index":2,"content_block":{"type":"hologram","text":7}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":7}}`),
	named("content_block_stop", `{"type":"content_block_stop","index":2}`),
	named("weather", `{"type":"weather","message":"rain","usage":"none"}`),
	named("content_block_start", `{"type":"content_block_start","index":3,"content_block":{"type":"redacted_thinking","data":"cmVk"}}`),
	named("content_block_stop", `{"type":"content_block_stop","index":3}`),
	named("content_block_start", `{"type":"content_block_start","index":4,"content_block":{"type":"thinking","thinking":"","signature":""}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":4,"delta":{"type":"thinking_delta","thinking":"so"}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":4,"delta":{"type":"signature_delta","signature":"c28="}}`),
	named("content_block_stop", `{"type":"content_block_stop","index":4}`),
	named("content_block_start", `{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_0","name":"add","input":{}}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":""}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"n\":123456789"}}`),
	named("content_block_delta", `{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"01234567890}"}}`),
	named("content_block_stop", `{"type":"content_block_stop","index":5}`),
	named("content_block_start", `{"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"toolu_1","name":"now","input":{}}}`),
	named("content_block_stop", `{"type":"content_block_stop","index":6}`),
	named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}`),
	named("message_stop", `{"type":"message_stop"}`),
}, "\n\n") + "\n\n"

func named(name, data string) string { return "event: " + name + "\ndata: " + data }

func TestCodecConformance(t *testing.T) {
	end := `"usage":{"output_tokens":9}}`
	providertest.RunCodec(t, providertest.Recording{
		Codec:    anthropicmessages.NewCodec(nil),
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
	protocol := anthropicmessages.New(nil)
	return protocol, providers.Model{
		Provider: "vendor", ID: "m", API: anthropicmessages.API, BaseURL: providertest.Serve(t, protocol, h) + "/",
		Reasoning: true, Input: []string{providers.InputText, providers.InputImage},
	}
}

// answerByText answers according to the last user message.
func answerByText(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []struct {
			Content []struct{ Text string } `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) == 0 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	content := body.Messages[len(body.Messages)-1].Content
	providertest.Answer(w, r, content[len(content)-1].Text, map[string]string{
		"text": providertest.Payloads(textStart, textDelta("Hello"), textDelta(" there"), messageEnd("end_turn"), messageStop),
		"reasoning": providertest.Payloads(`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"Hm"}}`,
			textStart, textDelta("Yes"), messageEnd("end_turn"), messageStop),
		"call": recording,
		"long": providertest.Payloads(textStart, textDelta("begun")),
	})
}

// covers: providers/16, providers/25
func TestRequestOnTheWire(t *testing.T) {
	type seen struct{ method, path, key, version, custom, contentType string }
	got := make(chan seen, 1)
	protocol, model := serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		got <- seen{r.Method, r.URL.String(), h.Get("X-Api-Key"), h.Get("Anthropic-Version"), h.Get("X-Custom"), h.Get("Content-Type")}
		answerByText(w, r)
	})
	model.Headers = map[string]string{"X-Custom": "yes"}
	for range protocol.Stream(t.Context(), model, providertest.Ask("text"), providers.Options{APIKey: "secret"}) {
	}
	want := seen{"POST", "/v1/messages", "secret", "2023-06-01", "yes", "application/json"}
	if s := <-got; s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	model.Headers = map[string]string{"X-Api-Key": "own", "Anthropic-Version": "later"}
	for range protocol.Stream(t.Context(), model, providertest.Ask("text"), providers.Options{APIKey: "secret"}) {
	}
	if s := <-got; s.key != "own" || s.version != "later" {
		t.Errorf("got %+v, want the model's own headers", s)
	}
}

func TestStatusErrors(t *testing.T) {
	tests := []struct {
		name       string
		status     int
		header     map[string]string
		body       string
		kind       providers.ErrorKind
		retryable  bool
		retryAfter time.Duration
	}{
		{"rate limit", 429, map[string]string{"Retry-After": "7"}, vendorError("rate_limit_error", "slow down"), providers.KindRateLimit, true, 7 * time.Second},
		{"overloaded", 529, nil, vendorError("overloaded_error", "Overloaded"), providers.KindOverloaded, true, 0},
		{"bad key", 401, nil, vendorError("authentication_error", "invalid x-api-key"), providers.KindAuth, false, 0},
		{"no credit", 402, nil, vendorError("billing_error", "pay"), providers.KindQuota, false, 0},
		{"too long", 400, nil, vendorError("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), providers.KindContextOverflow, false, 0},
		{"too large", 413, nil, vendorError("request_too_large", "too large"), providers.KindContextOverflow, false, 0},
		{"bad request", 400, nil, vendorError("invalid_request_error", "max_tokens: field required"), providers.KindInvalidRequest, false, 0},
		{"retry header true", 400, map[string]string{"X-Should-Retry": "true"}, `{}`, providers.KindInvalidRequest, true, 0},
		{"retry header false", 500, map[string]string{"X-Should-Retry": "false"}, `{}`, providers.KindOverloaded, false, 0},
		{"redirect", 307, map[string]string{"Location": "http://127.0.0.1:1/"}, ``, providers.KindProtocol, false, 0},
		{"error as success", 200, map[string]string{"Content-Type": "application/json"}, vendorError("overloaded_error", "m"), providers.KindOverloaded, true, 0},
		{"no stream", 200, map[string]string{"Content-Type": "application/json"}, `{"type":"message","content":[]}`, providers.KindProtocol, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := providertest.Refused(t, serve, tt.status, tt.header, tt.body)
			if e.Kind != tt.kind || e.Retryable() != tt.retryable || e.RetryAfter != tt.retryAfter {
				t.Errorf("got %+v, retryable %v", e, e.Retryable())
			}
		})
	}
}

// TestConnectionBreaks drops the connection after the stop_reason. The answer looks complete, but its
// end is missing.
func TestConnectionBreaks(t *testing.T) {
	providertest.RunBroken(t, serve, providertest.Payloads(textStart, textDelta("a"), messageEnd("end_turn")))
}

// covers: providers/205
func TestRefusals(t *testing.T) { providertest.RunRefusals(t, serve) }
