package providertest

import (
	"testing"
	"time"

	"github.com/parleyrun/parley/providers"
)

type refusal struct {
	name   string
	status int
	header map[string]string
	body   string
	kind   providers.ErrorKind
	after  time.Duration
}

// refusals are error responses of vendors and gateways that every format may get. Status, code and the
// position of a member decide the classification; quoted text within a message does not.
var refusals = []refusal{
	{"a key in a page", 404, nil, `<html>set your API key: Incorrect API key provided</html>`, providers.KindInvalidRequest, 0},
	{"a key in a message", 404, nil, `{"error":{"message":"No route /v1/incorrect api key. See api_key_invalid."}}`, providers.KindInvalidRequest, 0},
	{"a key in a member that is not read", 418, nil, `{"error":{"message":"m"},"help":"API key not valid"}`, providers.KindInvalidRequest, 0},
	{"a key at another status", 418, nil, `{"error":{"message":"Incorrect API key provided: sk-x."}}`, providers.KindInvalidRequest, 0},
	{"a key in the plain text", 418, nil, `I'm a teapot without an api key not valid here`, providers.KindInvalidRequest, 0},
	{"a key that is refused", 400, nil, `{"error":{"message":"Incorrect API key provided: sk-x."}}`, providers.KindAuth, 0},
	{"a code of the key", 400, nil, `{"error":{"message":"m","code":"invalid_api_key"}}`, providers.KindAuth, 0},
	{"a reason of the key", 400, nil, `{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[{"@type":"x"},{"reason":"API_KEY_INVALID"}]}}`, providers.KindAuth, 0},
	{"a tool named as a limit", 400, nil, `{"error":{"message":"Invalid schema for function 'get_rate_limit': rate limit exceeded is not of type object","type":"invalid_request_error"}}`, providers.KindInvalidRequest, 0},
	{"a tool named as a window", 400, nil, `{"error":{"message":"tools.0.custom.name: 'maximum context length' and get_context_window are taken"}}`, providers.KindInvalidRequest, 0},
	{"a tool named as a quota", 400, nil, `{"detail":"Unknown tool insufficient_quota, out of budget"}`, providers.KindInvalidRequest, 0},
	{"a limit named by a tool of a teapot", 418, nil, `{"error":"throttling_exception is no tool; too many requests is none"}`, providers.KindInvalidRequest, 0},
	{"limit of a minute", 403, nil, `{"error":{"code":403,"message":"Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service 's'.","status":"PERMISSION_DENIED"}}`, providers.KindRateLimit, 0},
	{"limit by reason", 403, nil, `{"error":{"code":403,"message":"m","errors":[{"reason":"rateLimitExceeded"}]}}`, providers.KindRateLimit, 0},
	{"limit by status name", 403, nil, `{"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}`, providers.KindRateLimit, 0},
	{"quota of a day", 403, nil, `{"error":{"message":"Quota exceeded for requests per day","code":403}}`, providers.KindQuota, 0},
	{"no access", 403, nil, `{"error":{"message":"Your plan lacks this; requests per minute, quota exceeded and rate limit are in the docs"}}`, providers.KindAuth, 0},
	{"credits in a code", 401, nil, `{"error":{"type":"CreditsError","message":"m"}}`, providers.KindQuota, 0},
	{"no credits", 400, nil, `{"error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, providers.KindQuota, 0},
	{"list of errors", 400, nil, `{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"messages":[],"result":null}`, providers.KindAuth, 0},
	{"list of errors, no route", 404, nil, `{"success":false,"errors":[{"code":7003,"message":"Could not route to /api key not valid"}]}`, providers.KindInvalidRequest, 0},
	{"list of errors, window", 400, nil, `{"errors":[{"message":"AiError: The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8000).","code":5021}],"success":false}`,
		providers.KindContextOverflow, 0},
	{"behind a gateway", 400, nil, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"m\",\"code\":\"context_length_exceeded\"}}"}}}`,
		providers.KindContextOverflow, 0},
	{"behind a gateway, as text", 400, nil, `{"error":{"message":"BadRequestError: VendorException - {\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}"}}`,
		providers.KindContextOverflow, 0},
	{"answer and output", 400, nil, "{\"error\":{\"message\":\"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again\"}}",
		providers.KindContextOverflow, 0},
	{"text generation", 422, nil, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`\",\"error_type\":\"validation\"}",
		providers.KindContextOverflow, 0},
	{"no shift", 500, nil, `{"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}`, providers.KindContextOverflow, 0},
	{"sum of tokens", 400, nil, `{"message":"max_total_tokens (9000) must be less than or equal to max_seq_len (8192)"}`, providers.KindContextOverflow, 0},
	{"tokens that cannot be", 400, nil, `{"error":{"message":"The number of input tokens (9,000) in the request cannot exceed 8,192."}}`, providers.KindContextOverflow, 0},
	{"prompt tokens", 400, nil, `{"error":{"message":"prompt tokens too long"}}`, providers.KindContextOverflow, 0},
	{"window in plain text", 400, nil, `prompt is too long`, providers.KindContextOverflow, 0},
	{"wait in words", 429, nil, `{"error":{"message":"Requests have exceeded the limit. Please retry after 7 seconds.","code":"429"}}`, providers.KindRateLimit, 7 * time.Second},
	{"wait in the body", 429, nil, `{"error":{"message":"m","retry_after":7}}`, providers.KindRateLimit, 7 * time.Second},
	{"wait next to the error", 429, nil, `{"error":"m","retry_after":"7.5"}`, providers.KindRateLimit, 7500 * time.Millisecond},
	{"wait in another header", 429, map[string]string{"X-Ms-Retry-After-Ms": "250", "Retry-After": "9"}, `{}`, providers.KindRateLimit, 250 * time.Millisecond},
	{"wait with a unit", 503, map[string]string{"Retry-After": "30s"}, `busy`, providers.KindOverloaded, 30 * time.Second},
}

// RunRefusals verifies how a protocol classifies error responses of vendors of all formats.
func RunRefusals[P providers.Protocol](t *testing.T, start Starter[P]) {
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			e := Refused(t, start, tt.status, tt.header, tt.body)
			if e.Kind != tt.kind || e.RetryAfter != tt.after {
				t.Errorf("%d %s: got kind %s, wait %v, want %s, %v", tt.status, tt.body, e.Kind, e.RetryAfter, tt.kind, tt.after)
			}
		})
	}
}
