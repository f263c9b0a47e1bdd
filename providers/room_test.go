package providers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// limitCodec sends only the output limit and reads any response as text.
type limitCodec struct{ plainCodec }

// Encode implements providers.Codec.
func (limitCodec) Encode(_ providers.Model, _ providers.Request, o providers.Options) (*providers.Call, error) {
	return &providers.Call{Path: "/", Body: providers.NewBody(strconv.Itoa(o.MaxTokens))}, nil
}

// limited calls a server that rejects limits above most with a message, once for each wanted limit. It
// returns the limits that the server received.
func limited(t *testing.T, m providers.Model, req providers.Request, status, most int, errorText string, wanted ...int) (sent []int, last *providers.Error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		limit, err := strconv.Atoi(string(b))
		if err != nil {
			t.Error(err)
		}
		if sent = append(sent, limit); limit > most {
			message, _ := json.Marshal(errorText)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, message)
		}
	}))
	defer server.Close()
	p := providers.NewHTTP(limitCodec{}, nil)
	defer p.Close()
	m.Provider, m.ID, m.BaseURL = "p", "m", server.URL
	for _, limit := range wanted {
		var broken error
		if _, last, broken = providertest.Collect(p.Stream(t.Context(), m, req, providers.Options{MaxTokens: limit})); broken != nil {
			t.Fatal(broken)
		}
	}
	return sent, last
}

func TestRoomForOutput(t *testing.T) {
	const all = 1 << 30
	long := providertest.Ask(strings.Repeat("abc", 20_000)) // 20,000 tokens
	block := providers.Request{History: []*providers.Block{providers.NewBlock(long.Messages)}, Messages: providertest.Ask("hi").Messages}
	picture := providers.Request{Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{
		providers.Image{MimeType: "image/png", Content: providers.Bytes("png")},
	}}}}
	tools := providers.Request{System: strings.Repeat("abc", 1000), Tools: []providers.Tool{{Description: strings.Repeat("abc", 1000)}}}
	for _, tt := range []struct {
		name   string
		m      providers.Model
		req    providers.Request
		wanted int
		want   int
	}{
		{"a limit as large as the window", providers.Model{ContextWindow: 32768, MaxTokens: 32768}, providertest.Ask("hi!"), 0, 32768 - 1 - 512},
		{"a long prompt", providers.Model{ContextWindow: 32768, MaxTokens: 16384}, long, 0, 32768 - 20_000 - 512},
		{"history", providers.Model{ContextWindow: 32768, MaxTokens: 16384}, block, 0, 32768 - 20_000 - 512},
		{"system and tools", providers.Model{ContextWindow: 32768, MaxTokens: 32768}, tools, 0, 32768 - 2000 - 512},
		{"a picture", providers.Model{ContextWindow: 32768, MaxTokens: 32768, Input: []string{"image"}}, picture, 0, 32768 - 2000 - 512},
		{"a picture that is not shown", providers.Model{ContextWindow: 32768, MaxTokens: 32768}, picture, 0, 32768 - 512},
		{"a limit that fits", providers.Model{ContextWindow: 32768, MaxTokens: 4096}, long, 0, 4096},
		{"the caller's limit", providers.Model{ContextWindow: 32768, MaxTokens: 32768}, long, 20_000, 32768 - 20_000 - 512},
		{"the caller's limit, which fits", providers.Model{ContextWindow: 32768, MaxTokens: 32768}, long, 7, 7},
		{"the caller's limit for a model without one", providers.Model{ContextWindow: 32768}, long, 20_000, 32768 - 20_000 - 512},
		{"a model without a limit", providers.Model{ContextWindow: 32768}, long, 0, 0},
		{"a small window and no limit", providers.Model{ContextWindow: 4096}, providertest.Ask("hi!"), 0, 4096 - 1 - 256},
		{"no window", providers.Model{MaxTokens: 32768}, long, 0, 32768},
		{"a full window", providers.Model{ContextWindow: 16384, MaxTokens: 16384}, long, 0, 1024},
	} {
		sent, failure := limited(t, tt.m, tt.req, 400, all, "", tt.wanted)
		if failure != nil && failure.Kind != providers.KindProtocol || !slices.Equal(sent, []int{tt.want}) {
			t.Errorf("%s: got requests %v, %v, want %d", tt.name, sent, failure, tt.want)
		}
	}
}

// TestServerReportsOutputLimit: an output limit in a server's error lowers the limit, and the call is
// repeated once.
func TestServerReportsOutputLimit(t *testing.T) {
	for _, tt := range []struct {
		name, errorText string
		status          int
		want            int
		once            bool // the limit applies to this request only
	}{
		{"OpenAI", "max_tokens is too large: 64000. This model supports at most 4096 completion tokens, whereas you provided 64000.", 400, 4096, false},
		{"OpenAI's window", "This model's maximum context length is 32768 tokens. However, you requested 64100 tokens (100 in the messages, 64000 in the completion). Please reduce the length of the messages or completion.", 400, 32668, true},
		{"a gateway's window", "This endpoint's maximum context length is 32768 tokens. However, you requested about 64100 tokens (100 of text input, 64000 in the output). Please reduce the length of either one.", 400, 32668, true},
		{"vLLM", "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 32768 tokens and your request has 120 input tokens (64000 > 32768 - 120).", 400, 32648, true},
		{"Anthropic", "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku", 400, 8192, false},
		{"Anthropic's window", "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000, decrease input length or `max_tokens` and try again", 400, 10000, true},
		{"TGI", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 96 `inputs` tokens and 64000 `max_new_tokens`", 422, 4000, true},
		{"Groq", "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model", 400, 8192, false},
		{"Google", "Unable to submit request because it has a maxOutputTokens value of 64000 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.", 400, 8192, false},
		{"Bedrock", "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.", 400, 4095, false},
		{"DeepSeek", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 400, 8192, false},
		{"DashScope", "Range of max_tokens should be [1, 8192]", 400, 8192, false},
	} {
		sent, failure := limited(t, providers.Model{MaxTokens: 64000}, providertest.Ask("hi"), tt.status, tt.want, tt.errorText, 0, 0, 5)
		want := []int{64000, tt.want, tt.want, 5}
		if tt.once {
			want = []int{64000, tt.want, 64000, tt.want, 5}
		}
		if failure != nil && failure.Kind != providers.KindProtocol || !slices.Equal(sent, want) {
			t.Errorf("%s: got requests %v, %v, want %v", tt.name, sent, failure, want)
		}
	}
	for _, tt := range []struct {
		name, errorText string
		status          int
	}{
		{"the prompt alone is too long", "This model's maximum context length is 8192 tokens. However, you requested 72192 tokens (8192 in the messages, 64000 in the completion).", 400},
		{"another number", "tools: at most 128 are supported", 400},
		{"another limit", "max_tokens is fine; n must be at most 99999", 400},
		{"another status", "max_tokens must be at most 4096", 429},
	} {
		sent, failure := limited(t, providers.Model{MaxTokens: 64000}, providertest.Ask("hi"), tt.status, 1, tt.errorText, 0)
		if failure == nil || !slices.Equal(sent, []int{64000}) {
			t.Errorf("%s: got requests %v, %v, want one and its error", tt.name, sent, failure)
		}
	}
	if sent, failure := limited(t, providers.Model{MaxTokens: 64000}, providertest.Ask("hi"), 400, 1, "max_tokens must be at most 4096", 0); failure == nil || len(sent) != 2 {
		t.Errorf("inconsistent server: got requests %v, %v, want two", sent, failure)
	}
}
