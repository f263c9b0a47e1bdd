package openairesponses_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestCodecConformance uses a short response, because its cost is quadratic in the length.
func TestCodecConformance(t *testing.T) {
	body := named(added(0, `{"type":"reasoning"}`), thoughtDelta(0, 0, "né"), done(0, `{"type":"reasoning","summary":[{"text":"né"}],"encrypted_content":"e"}`),
		added(1, `{"type":"message"}`), textDelta(1, "😀"), done(1, `{"type":"message","phase":"p"}`), added(2, `{"type":"function_call","call_id":"c","name":"f"}`), argumentsDelta(2, `{"n":1`), done(2, `{"type":"function_call","arguments":"{\"n\":1}"}`), completed)
	providertest.RunCodec(t, providertest.Recording{Codec: openairesponses.NewCodec(nil), Body: []byte(body), Complete: len(body) - len("\n\n")})
}

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		protocol, model := serve(t, nil, answerByText)
		return providertest.Asking(protocol, model)
	})
}

// serve starts a vendor and returns a protocol and a model that reach it.
func serve(t *testing.T, protocol providers.Protocol, h http.HandlerFunc) (providers.Protocol, providers.Model) {
	t.Helper()
	if protocol == nil {
		protocol = openairesponses.New(nil)
	}
	return protocol, providers.Model{
		Provider: "vendor", ID: "m", API: openairesponses.API, BaseURL: providertest.Serve(t, protocol.(io.Closer), h) + "/v1/",
		Reasoning: true, Input: []string{providers.InputText, providers.InputImage},
	}
}

// answerByText answers according to the last user message.
func answerByText(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Input []struct {
			Content []struct{ Text string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Input) == 0 || len(body.Input[len(body.Input)-1].Content) == 0 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	content := body.Input[len(body.Input)-1].Content
	providertest.Answer(w, r, content[len(content)-1].Text, map[string]string{
		"text": providertest.Payloads(added(0, `{"type":"message"}`), textDelta(0, "Hello"), textDelta(0, " there"), done(0, `{"type":"message"}`), completed),
		"reasoning": providertest.Payloads(added(0, `{"type":"reasoning"}`), thoughtDelta(0, 0, "Hm"), done(0, `{"type":"reasoning"}`),
			added(1, `{"type":"message"}`), textDelta(1, "Yes"), done(1, `{"type":"message"}`), completed),
		"call": recording,
		"long": providertest.Payloads(added(0, `{"type":"message"}`), textDelta(0, "begun")),
	})
}

// token returns a token that the codex variant accepts.
func token(claims string) string {
	return "head." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sign"
}

const account = `{"https://api.openai.com/auth":{"chatgpt_account_id":"acc_1"}}`

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// request is the request that a vendor received.
type request struct {
	path   string
	header map[string]string
	body   map[string]any
}

// sent makes a call and returns the request, with the named headers only.
func sent(t *testing.T, p providers.Protocol, change func(*providers.Model), req providers.Request, o providers.Options, headers ...string) (request, *providers.Error) {
	t.Helper()
	var got request
	protocol, model := serve(t, p, func(_ http.ResponseWriter, r *http.Request) {
		got = request{path: r.URL.String(), header: map[string]string{}}
		for _, name := range headers {
			if v := r.Header.Get(name); v != "" {
				got.header[name] = v
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&got.body); err != nil {
			t.Error(err)
		}
	})
	if change != nil {
		change(&model)
	}
	_, failure, broken := providertest.Collect(protocol.Stream(t.Context(), model, req, o))
	if broken != nil {
		t.Fatal(broken)
	}
	return got, failure
}

// covers: providers/16, providers/25
func TestRequestOnTheWire(t *testing.T) {
	names := []string{"Authorization", "Cf-Aig-Authorization", "Session-Id", "X-Client-Request-Id", "X-Session-Id", "X-Custom", "Api-Key"}
	o := providers.Options{APIKey: "secret", SessionID: "conv_1"}
	for name, tt := range map[string]struct {
		change func(*providers.Model)
		o      providers.Options
		want   map[string]string
	}{
		"session": {nil, o, map[string]string{"Authorization": "Bearer secret", "Session-Id": "conv_1", "X-Client-Request-Id": "conv_1"}},
		"none":    {nil, providers.Options{}, map[string]string{}},
		"openrouter": {func(m *providers.Model) { m.Compat.SessionAffinityFormat = "openrouter" }, o,
			map[string]string{"Authorization": "Bearer secret", "X-Session-Id": "conv_1"}},
		"no session": {func(m *providers.Model) { m.Compat.SessionAffinityFormat = "openai-nosession" }, o,
			map[string]string{"Authorization": "Bearer secret", "X-Client-Request-Id": "conv_1"}},
		"a gateway's key": {func(m *providers.Model) { m.Provider = "cloudflare-ai-gateway" }, providers.Options{APIKey: "secret"},
			map[string]string{"Cf-Aig-Authorization": "Bearer secret"}},
		"registered headers win": {func(m *providers.Model) {
			m.Headers = map[string]string{"Authorization": "Own", "Session-Id": "own", "X-Custom": "yes"}
		}, o, map[string]string{"Authorization": "Own", "Session-Id": "own", "X-Client-Request-Id": "conv_1", "X-Custom": "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := sent(t, nil, tt.change, providertest.Ask("x"), tt.o, names...)
			if got.path != "/v1/responses" {
				t.Errorf("path %s", got.path)
			}
			if diff := cmp.Diff(tt.want, got.header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

// covers: providers/16, providers/190, providers/191
func TestAzureOnTheWire(t *testing.T) {
	o := providers.Options{APIKey: "secret", SessionID: "conv_1"}
	azure := func(values map[string]string) providers.Protocol {
		return openairesponses.NewAzure(&openairesponses.Options{Getenv: env(values)})
	}
	names := []string{"Authorization", "Session-Id", "X-Client-Request-Id", "Api-Key"}
	got, _ := sent(t, azure(map[string]string{"AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "other=x, m = my-deployment ,bad"}),
		func(m *providers.Model) { m.LongCacheRetention = true }, providertest.Ask("x"), o, names...)
	if diff := cmp.Diff(map[string]string{"Api-Key": "secret"}, got.header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if got.path != "/v1/responses?api-version=v1" || got.body["model"] != "my-deployment" || got.body["prompt_cache_key"] != "conv_1" || got.body["prompt_cache_retention"] != nil {
		t.Errorf("got %s, %v", got.path, got.body)
	}
	got, _ = sent(t, azure(map[string]string{"AZURE_OPENAI_API_VERSION": "2025-04-01-preview"}), nil, providertest.Ask("x"), providers.Options{APIKey: "token", Bearer: true}, names...)
	if got.path != "/v1/responses?api-version=2025-04-01-preview" || got.body["model"] != "m" || got.header["Authorization"] != "Bearer token" {
		t.Errorf("got %+v", got)
	}
	_, failure := sent(t, azure(nil), func(m *providers.Model) { m.BaseURL = "" }, providertest.Ask("x"), o)
	if failure == nil || failure.Kind != providers.KindUnresolved || !errors.Is(failure, openairesponses.ErrNoAzureEndpoint) || failure.Provider != "vendor" {
		t.Errorf("without an endpoint: got %v", failure)
	}
}

// covers: providers/190
func TestAzureEndpoints(t *testing.T) {
	for _, tt := range []struct {
		registered, base, resource, want string
	}{
		{"", "", "res", "https://res.openai.azure.com/openai/v1"},
		{"", "https://x.openai.azure.com/", "res", "https://x.openai.azure.com/openai/v1"},
		{"https://r.example/v1", "https://x.openai.azure.com", "res", "https://r.example/v1"},
		{"https://a.cognitiveservices.azure.com/openai", "", "", "https://a.cognitiveservices.azure.com/openai/v1"},
		{"https://a.services.ai.azure.com/openai/v1/responses?api-version=x", "", "", "https://a.services.ai.azure.com/openai/v1"},
		{"https://a.openai.azure.com/own/path", "", "", "https://a.openai.azure.com/own/path"},
		{"https://openai.azure.com.example/", "", "", "https://openai.azure.com.example/"},
	} {
		getenv := env(map[string]string{"AZURE_OPENAI_BASE_URL": tt.base, "AZURE_OPENAI_RESOURCE_NAME": tt.resource})
		if got, err := openairesponses.AzureEndpoint(tt.registered, getenv); err != nil || got != tt.want {
			t.Errorf("%+v: got %s, %v", tt, got, err)
		}
	}
}

// covers: providers/16, providers/182, providers/193
func TestCodexOnTheWire(t *testing.T) {
	temperature := 0.5
	o := providers.Options{APIKey: token(account), SessionID: "conv_1", ThinkingLevel: "minimal", MaxTokens: 100, Temperature: &temperature}
	req := providertest.Ask("x")
	req.Tools = []providers.Tool{{Name: "now"}}
	names := []string{"Authorization", "Chatgpt-Account-Id", "Openai-Beta", "Originator", "Session-Id", "X-Client-Request-Id", "User-Agent"}
	got, _ := sent(t, openairesponses.NewCodex(nil), func(m *providers.Model) { m.StoreResponses = true }, req, o, names...)
	wantHeader := map[string]string{
		"Authorization": "Bearer " + token(account), "Chatgpt-Account-Id": "acc_1", "Openai-Beta": "responses=experimental", "Originator": "parley",
		"Session-Id": "conv_1", "X-Client-Request-Id": "conv_1", "User-Agent": "parley",
	}
	if diff := cmp.Diff(wantHeader, got.header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{
		"model": "m", "instructions": "You are a helpful assistant.", "stream": true, "store": false,
		"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}],
		"tools": [{"type": "function", "name": "now", "strict": null, "parameters": {"type": "object", "properties": {}}}],
		"tool_choice": "auto", "parallel_tool_calls": true, "include": ["reasoning.encrypted_content"],
		"reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"}, "prompt_cache_key": "conv_1"
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.body); diff != "" || got.path != "/v1/codex/responses" {
		t.Errorf("%s (-want +got):\n%s", got.path, diff)
	}
	req.System = "Be brief."
	got, _ = sent(t, openairesponses.NewCodex(nil), func(m *providers.Model) { m.BaseURL += "codex"; m.Reasoning = false }, req, o)
	if got.path != "/v1/codex/responses" || got.body["instructions"] != "Be brief." || got.body["temperature"] != 0.5 {
		t.Errorf("got %+v", got)
	}
	got, _ = sent(t, openairesponses.NewCodex(nil), func(m *providers.Model) { m.BaseURL += "codex/responses/" }, req, o)
	if got.path != "/v1/codex/responses" {
		t.Errorf("got %+v", got)
	}
}

// covers: providers/192
func TestCodexNeedsAToken(t *testing.T) {
	for _, key := range []string{"", "sk-key", "a.b.c", token(`{}`), token(`{"https://api.openai.com/auth":{}}`), token(`7`), "a.!.c"} {
		_, failure := sent(t, openairesponses.NewCodex(nil), nil, providertest.Ask("x"), providers.Options{APIKey: key})
		if failure == nil || failure.Kind != providers.KindAuth || !errors.Is(failure, openairesponses.ErrNoAccount) {
			t.Errorf("%q: got %v", key, failure)
		}
	}
}

func TestStatusErrors(t *testing.T) {
	for _, tt := range []struct {
		name       string
		status     int
		body       string
		kind       providers.ErrorKind
		retryAfter time.Duration
	}{
		{"too long", 400, `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}`, providers.KindContextOverflow, 0},
		{"orphan", 400, `{"error":{"message":"No tool output found for function call call_1.","type":"invalid_request_error","param":"input"}}`, providers.KindInvalidRequest, 0},
		{"rate limit", 429, `{"error":{"message":"Rate limit reached. Please try again in 1.5s.","code":"rate_limit_exceeded"}}`, providers.KindRateLimit, 1500 * time.Millisecond},
		{"no credit", 429, `{"error":{"message":"pay","code":"insufficient_quota"}}`, providers.KindQuota, 0},
		{"key of azure", 401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key."}}`, providers.KindAuth, 0},
		{"content filter of azure", 400, `{"error":{"code":"content_filter","message":"filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, providers.KindInvalidRequest, 0},
		{"no deployment", 404, `{"error":{"code":"DeploymentNotFound","message":"m"}}`, providers.KindInvalidRequest, 0},
		{"subscription used up", 429, `{"error":{"type":"usage_limit_reached","message":"m","resets_in_seconds":3600}}`, providers.KindQuota, time.Hour},
		{"not in the subscription", 429, `{"error":{"type":"usage_not_included","message":"m"}}`, providers.KindQuota, 0},
		{"detail", 400, `{"detail":"Store must be set to false"}`, providers.KindInvalidRequest, 0},
		{"token expired", 401, `{"detail":"Unauthorized"}`, providers.KindAuth, 0},
		{"overloaded", 503, `{"error":{"code":"server_is_overloaded"}}`, providers.KindOverloaded, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := func(t *testing.T, h http.HandlerFunc) (providers.Protocol, providers.Model) { return serve(t, nil, h) }
			if e := providertest.Refused(t, start, tt.status, nil, tt.body); e.Kind != tt.kind || e.RetryAfter != tt.retryAfter {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// covers: providers/205
func TestRefusals(t *testing.T) {
	providertest.RunRefusals(t, func(t *testing.T, h http.HandlerFunc) (providers.Protocol, providers.Model) { return serve(t, nil, h) })
}
