package openaicompletions_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// recording contains every kind of output: reasoning, text, two calls with interleaved fragments,
// "error": null, a comment, and usage after the finish.
var recording = strings.Join([]string{
	`data: {"id":"r1","model":"m-1","error":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
	`data: {"id":"r1","choices":[{"delta":{"reasoning_content":"Hm, "}}]}`,
	`data: {"id":"r1","choices":[{"delta":{"reasoning_content":"néw"}}]}`,
	`: a comment`,
	`data: {"id":"r1","choices":[{"delta":{"content":"Grüße 😀"}}]}`,
	`data: {"id":"r1","choices":[{"delta":{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"add","arguments":""}}]}}]}`,
	`data: {"id":"r1","choices":[{"delta":{"tool_calls":[{"index":1,"id":"c1","type":"function","function":{"name":"now","arguments":""}}]}}]}`,
	`data: {"id":"r1","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\":123456789"}}]}}]}`,
	`data: {"id":"r1","choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}},{"index":0,"function":{"arguments":"01234567890}"}}]}}]}`,
	`data: {"id":"r1","choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
	`data: {"id":"r1","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":15},"completion_tokens_details":{"reasoning_tokens":4}}}`,
	`data: [DONE]`,
}, "\n\n") + "\n\n"

func TestCodecConformance(t *testing.T) {
	finish := `"finish_reason":"tool_calls"}]}`
	providertest.RunCodec(t, providertest.Recording{
		Codec:    openaicompletions.NewCodec(nil),
		Body:     []byte(recording),
		Complete: strings.Index(recording, finish) + len(finish),
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
	protocol := openaicompletions.New(nil)
	return protocol, providers.Model{
		Provider: "vendor", ID: "m", API: openaicompletions.API, BaseURL: providertest.Serve(t, protocol, h) + "/v1/",
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
		"reasoning": providertest.Payloads(`{"choices":[{"delta":{"reasoning":"Hm"}}]}`, `{"choices":[{"delta":{"content":"Yes"},"finish_reason":"stop"}]}`),
		"call":      recording,
		"long":      providertest.Payloads(`{"choices":[{"delta":{"content":"begun"}}]}`),
	})
}

// covers: providers/16, providers/25
func TestRequestOnTheWire(t *testing.T) {
	type seen struct{ method, path, auth, custom, contentType string }
	got := make(chan seen, 1)
	protocol, model := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got <- seen{r.Method, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("X-Custom"), r.Header.Get("Content-Type")}
		answerByText(w, r)
	})
	model.Headers = map[string]string{"X-Custom": "yes"}
	for range protocol.Stream(t.Context(), model, providertest.Ask("text"), providers.Options{APIKey: "secret"}) {
	}
	want := seen{"POST", "/v1/chat/completions", "Bearer secret", "yes", "application/json"}
	if s := <-got; s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	model.Headers = map[string]string{"Authorization": "Own scheme"}
	for range protocol.Stream(t.Context(), model, providertest.Ask("text"), providers.Options{APIKey: "secret"}) {
	}
	if s := <-got; s.auth != "Own scheme" {
		t.Errorf("got authorization %q, want the model's own header", s.auth)
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
		{"rate limit", 429, map[string]string{"Retry-After": "7"}, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, providers.KindRateLimit, true, 7 * time.Second},
		{"milliseconds win", 429, map[string]string{"Retry-After": "7", "Retry-After-Ms": "250"}, ``, providers.KindRateLimit, true, 250 * time.Millisecond},
		{"date", 503, map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:28:10 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, `busy`, providers.KindOverloaded, true, 10 * time.Second},
		{"no credit", 429, nil, `{"error":{"message":"pay","code":"insufficient_quota"}}`, providers.KindQuota, false, 0},
		{"bad key", 401, nil, `{"error":{"message":"bad key","code":"invalid_api_key"}}`, providers.KindAuth, false, 0},
		{"too long", 400, nil, `{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}`, providers.KindContextOverflow, false, 0},
		{"too large", 413, nil, `<html>`, providers.KindContextOverflow, false, 0},
		{"bad request", 400, nil, `{"error":"no"}`, providers.KindInvalidRequest, false, 0},
		{"retry header true", 400, map[string]string{"X-Should-Retry": "true"}, `{}`, providers.KindInvalidRequest, true, 0},
		{"retry header false", 500, map[string]string{"X-Should-Retry": "false"}, `{}`, providers.KindOverloaded, false, 0},
		{"redirect", 307, map[string]string{"Location": "http://127.0.0.1:1/"}, ``, providers.KindProtocol, false, 0},
		{"error as success", 200, map[string]string{"Content-Type": "application/json"}, `{"error":{"message":"m","type":"server_error"}}`, providers.KindOverloaded, true, 0},
		{"no stream", 200, map[string]string{"Content-Type": "application/json"}, `{"choices":[]}`, providers.KindProtocol, false, 0},
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

func TestLargeErrorBodyIsBounded(t *testing.T) {
	protocol, model := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, strings.Repeat("x", 2*providers.MaxErrorBody))
	})
	_, e, _ := providertest.Collect(protocol.Stream(t.Context(), model, providertest.Ask("x"), providers.Options{}))
	if e == nil || len(e.Body) != providers.MaxErrorBody {
		t.Errorf("got %v with %d bytes of body, want %d", e, len(e.Body), providers.MaxErrorBody)
	}
}

func TestConnectionErrors(t *testing.T) {
	closed, model := serve(t, answerByText)
	ok := model
	tests := []struct {
		name   string
		change func(*providers.Model)
		key    string
		kind   providers.ErrorKind
	}{
		{"connection refused", func(m *providers.Model) { m.BaseURL = "http://127.0.0.1:1" }, "", providers.KindNetwork},
		{"no host", func(m *providers.Model) { m.BaseURL = "/v1" }, "", providers.KindInvalidRequest},
		{"no url", func(m *providers.Model) { m.BaseURL = "http://{location}/" }, "", providers.KindInvalidRequest},
		{"key over two lines", func(*providers.Model) {}, "a\nb", providers.KindInvalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := ok
			tt.change(&m)
			_, e, broken := providertest.Collect(closed.Stream(t.Context(), m, providertest.Ask("text"), providers.Options{APIKey: tt.key}))
			if broken != nil || e == nil || e.Kind != tt.kind {
				t.Fatalf("got %v, %v, want kind %s", e, broken, tt.kind)
			}
			if tt.key != "" && strings.Contains(e.Error(), tt.key) {
				t.Errorf("error %v contains the key", e)
			}
		})
	}
}

// TestConnectionBreaks drops the connection after a chunk.
func TestConnectionBreaks(t *testing.T) {
	providertest.RunBroken(t, serve, providertest.Payloads(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`))
}

// covers: providers/205
func TestRefusals(t *testing.T) { providertest.RunRefusals(t, serve) }
