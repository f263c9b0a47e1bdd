package googlegenerativeai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestCodecConformance uses a short response, because its cost is quadratic in the length.
func TestCodecConformance(t *testing.T) {
	body := providertest.Payloads(`{"candidates":[{"content":{"parts":[{"text":"né","thought":true},{"text":"😀","thoughtSignature":"s"}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"n":1}},"thoughtSignature":"s"}]},"finishReason":"STOP"}]}`)
	counts := providertest.Payloads(`{"usageMetadata":{"promptTokenCount":3}}`)
	providertest.RunCodec(t, providertest.Recording{Codec: googlegenerativeai.NewCodec(nil), Body: []byte(body + counts), Complete: len(body) - len("\n\n")})
}

func TestConformance(t *testing.T) {
	for name, protocol := range map[string]func() providers.Protocol{
		googlegenerativeai.API:       func() providers.Protocol { return googlegenerativeai.New(nil) },
		googlegenerativeai.APIVertex: func() providers.Protocol { return googlegenerativeai.NewVertex(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Subject {
				protocol, model := serve(t, protocol(), answerByText)
				return providertest.Asking(protocol, model)
			})
		})
	}
}

// serve starts a vendor and returns a protocol and a model that reach it.
func serve(t *testing.T, protocol providers.Protocol, h http.HandlerFunc) (providers.Protocol, providers.Model) {
	t.Helper()
	m := third
	m.BaseURL = providertest.Serve(t, protocol.(io.Closer), h) + "/v1beta/"
	return protocol, m
}

// serveGemini does the same with the protocol of API.
func serveGemini(t *testing.T, h http.HandlerFunc) (providers.Protocol, providers.Model) {
	t.Helper()
	return serve(t, googlegenerativeai.New(nil), h)
}

// answerByText answers according to the last user message.
func answerByText(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Contents []struct {
			Parts []struct{ Text string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Contents) == 0 || len(body.Contents[len(body.Contents)-1].Parts) == 0 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	parts := body.Contents[len(body.Contents)-1].Parts
	providertest.Answer(w, r, parts[len(parts)-1].Text, map[string]string{
		"text":      providertest.Payloads(chunkOf(textPart("Hello")), chunkOf(textPart(" there"), `,"finishReason":"STOP"`)),
		"reasoning": providertest.Payloads(chunkOf(`{"text":"Hm","thought":true}`), chunkOf(textPart("Yes"), `,"finishReason":"STOP"`)),
		"call":      recording,
		"long":      providertest.Payloads(chunkOf(textPart("begun"))),
	})
}

// request is the request that a vendor received.
type request struct {
	path   string
	header map[string]string
}

// recorder returns a vendor that records the request and answers with a text.
func recorder(got *request) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*got = request{path: r.URL.RequestURI(), header: map[string]string{}}
		for _, name := range []string{"Authorization", "X-Goog-Api-Key", "X-Goog-User-Project", "X-Custom", "Cf-Aig-Authorization"} {
			if v := r.Header.Get(name); v != "" {
				got.header[name] = v
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, providertest.Payloads(chunkOf(textPart("ok"), `,"finishReason":"STOP"`)))
	}
}

// covers: providers/16, providers/25, providers/125
func TestRequestOnTheWire(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*providers.Model)
		o      providers.Options
		path   string
		header map[string]string
	}{
		"key": {nil, providers.Options{APIKey: "secret", SessionID: "conv_1"}, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
			map[string]string{"X-Goog-Api-Key": "secret"}},
		"none":   {nil, providers.Options{}, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", map[string]string{}},
		"bearer": {nil, providers.Options{APIKey: "token", Bearer: true}, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", map[string]string{"Authorization": "Bearer token"}},
		"a gateway's key": {func(m *providers.Model) { m.Provider = "cloudflare-ai-gateway" }, providers.Options{APIKey: "secret"},
			"/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", map[string]string{"Cf-Aig-Authorization": "Bearer secret"}},
		"a collection of its own": {func(m *providers.Model) { m.ID = "tunedModels/my model?" }, providers.Options{},
			"/v1beta/tunedModels/my%20model%3F:streamGenerateContent?alt=sse", map[string]string{}},
		"registered headers win": {func(m *providers.Model) { m.Headers = map[string]string{"X-Goog-Api-Key": "own", "X-Custom": "yes"} },
			providers.Options{APIKey: "secret"}, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", map[string]string{"X-Goog-Api-Key": "own", "X-Custom": "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got request
			protocol, m := serve(t, googlegenerativeai.New(nil), recorder(&got))
			if tt.change != nil {
				tt.change(&m)
			}
			if _, failure, broken := providertest.Collect(protocol.Stream(t.Context(), m, providertest.Ask("x"), tt.o)); failure != nil || broken != nil {
				t.Fatal(failure, broken)
			}
			if diff := cmp.Diff(request{tt.path, tt.header}, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// covers: providers/132
func TestStatusErrors(t *testing.T) {
	object := func(code int, status, message, details string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q,"details":[%s]}}`, code, message, status, details)
	}
	const retry = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"48s"}`
	const spent = "You exceeded your current quota. * Quota exceeded for metric: input_token_count, limit: 1"
	for _, tt := range []struct {
		name       string
		status     int
		body       string
		kind       providers.ErrorKind
		retryAfter time.Duration
	}{
		{"too long", 400, object(400, "INVALID_ARGUMENT", "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).", ""), providers.KindContextOverflow, 0},
		{"bad request", 400, object(400, "INVALID_ARGUMENT", "Unable to submit request because it has an empty text parameter.", ""), providers.KindInvalidRequest, 0},
		{"wrong key", 400, object(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`), providers.KindAuth, 0},
		{"not from there", 400, object(400, "FAILED_PRECONDITION", "User location is not supported for the API use.", ""), providers.KindInvalidRequest, 0},
		{"not allowed", 403, object(403, "PERMISSION_DENIED", "m", ""), providers.KindAuth, 0},
		{"no such model", 404, object(404, "NOT_FOUND", "m", ""), providers.KindInvalidRequest, 0},
		{"rate limit in the message", 429, object(429, "RESOURCE_EXHAUSTED", spent+"\nPlease retry in 48.5s.", ""), providers.KindRateLimit, 48500 * time.Millisecond},
		{"rate limit in the details", 429, object(429, "RESOURCE_EXHAUSTED", spent, retry), providers.KindRateLimit, 48 * time.Second},
		{"rate limit of a minute", 429, object(429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project", ""), providers.KindRateLimit, 0},
		{"in an array", 429, "[" + object(429, "RESOURCE_EXHAUSTED", spent, retry) + "]", providers.KindRateLimit, 48 * time.Second},
		{"quota", 429, object(429, "RESOURCE_EXHAUSTED", spent, ""), providers.KindQuota, 0},
		{"internal", 500, object(500, "INTERNAL", "m", ""), providers.KindOverloaded, 0},
		{"overloaded", 503, object(503, "UNAVAILABLE", "The model is overloaded.", ""), providers.KindOverloaded, 0},
		{"too slow", 504, object(504, "DEADLINE_EXCEEDED", "m", ""), providers.KindOverloaded, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if e := providertest.Refused(t, serveGemini, tt.status, nil, tt.body); e.Kind != tt.kind || e.RetryAfter != tt.retryAfter {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// TestSignatureRefused: rejected signatures are omitted and the call is repeated once.
func TestSignatureRefused(t *testing.T) {
	var bodies []string
	protocol, m := serve(t, googlegenerativeai.New(nil), func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if bodies = append(bodies, string(body)); len(bodies) == 1 {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"code":400,"message":"Thought signature is not valid.","status":"INVALID_ARGUMENT"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, providertest.Payloads(ends("STOP")))
	})
	req := providertest.Ask("x")
	req.Messages = append(req.Messages, assistant(m.Spec(), called("c1", "old")), results(result("c1")))
	if _, e, broken := providertest.Collect(protocol.Stream(t.Context(), m, req, providers.Options{})); e != nil || broken != nil {
		t.Fatal(e, broken)
	}
	if len(bodies) != 2 || !strings.Contains(bodies[0], `"old"`) || strings.Contains(bodies[1], `"old"`) || !strings.Contains(bodies[1], "skip_thought_signature_validator") {
		t.Errorf("got bodies %q", bodies)
	}
}

// covers: providers/205
func TestRefusals(t *testing.T) { providertest.RunRefusals(t, serveGemini) }
