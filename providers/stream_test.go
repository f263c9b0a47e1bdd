package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

func collect(ctx context.Context, produce func(*providers.Assembler) error) (events []providers.Event, failure error) {
	for e, err := range providers.NewStream(ctx, providers.Model{Provider: "p"}, produce) {
		if err != nil {
			failure = err
			continue
		}
		events = append(events, e)
	}
	return events, failure
}

// TestAssemblerEndsPartsInOrder closes parts like a vendor that marks their ends.
func TestAssemblerEndsPartsInOrder(t *testing.T) {
	got, err := collect(t.Context(), func(a *providers.Assembler) error {
		a.EndText("")
		a.EndReasoning("")
		a.Reasoning("r", "")
		a.EndReasoning("r1")
		a.EndReasoning("r2")
		a.Reasoning("s", "")
		a.EndReasoning("")
		first := a.StartCall("c", "f")
		a.CallArguments(first, `{}`)
		a.EndCall(first, "c1")
		a.EndCall(first, "again")
		a.CallArguments(first, "late")
		a.EndReasoning("r3")
		a.Text("t")
		a.EndText("t1")
		a.EndText("t2")
		a.StartCall("d", "f")
		a.Finish(providers.Done{StopReason: providers.StopToolUse})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []providers.Event{
		providers.ReasoningDelta{Text: "r"},
		providers.ReasoningEnd{Signature: "r1"},
		providers.ReasoningEnd{Signature: "r2"},
		providers.ReasoningDelta{Text: "s"},
		providers.ReasoningEnd{},
		providers.ToolCallStart{Index: 0, ID: "c", Name: "f"},
		providers.ToolCallDelta{Index: 0, Arguments: `{}`},
		providers.ToolCallEnd{Index: 0, ID: "c", Name: "f", Arguments: json.RawMessage(`{}`), Signature: "c1"},
		providers.ReasoningEnd{Signature: "r3"},
		providers.TextDelta{Text: "t"},
		providers.TextEnd{Signature: "t1"},
		providers.TextEnd{Signature: "t2"},
		providers.ToolCallStart{Index: 1, ID: "d", Name: "f"},
		providers.ToolCallEnd{Index: 1, ID: "d", Name: "f", Arguments: json.RawMessage(`{}`)},
		providers.Done{StopReason: providers.StopToolUse},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAssemblerOrder(t *testing.T) {
	got, err := collect(t.Context(), func(a *providers.Assembler) error {
		a.Text("")
		a.Reasoning("", "")
		a.Reasoning("r", "")
		a.Reasoning("", "sig")
		first := a.StartCall("c", "f")
		a.CallArguments(first, "")
		a.Reasoning("", "hidden")
		a.Text("t")
		second := a.StartCall("c", "g")
		a.CallArguments(second, `{"n":1.50}`)
		a.CallArguments(first, `{`)
		a.Reasoning("z", "")
		a.Finish(providers.Done{StopReason: providers.StopLength, Usage: providers.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 2, Total: 99}})
		a.Text("late")
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return errors.New("late")
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []providers.Event{
		providers.ReasoningDelta{Text: "r"},
		providers.ReasoningEnd{Signature: "sig"},
		providers.ToolCallStart{Index: 0, ID: "c", Name: "f"},
		providers.ReasoningEnd{Signature: "hidden"},
		providers.TextDelta{Text: "t"},
		providers.ToolCallStart{Index: 1, ID: "c", Name: "g"},
		providers.ToolCallDelta{Index: 1, Arguments: `{"n":1.50}`},
		providers.ToolCallDelta{Index: 0, Arguments: `{`},
		providers.ReasoningDelta{Text: "z"},
		providers.ReasoningEnd{},
		providers.ToolCallEnd{Index: 0, ID: "c", Name: "f", Arguments: json.RawMessage(`"{"`), Malformed: true},
		providers.ToolCallEnd{Index: 1, ID: "c", Name: "g", Arguments: json.RawMessage(`{"n":1.50}`)},
		providers.Done{StopReason: providers.StopLength, Usage: providers.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 2, Total: 10}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStopReasonFollowsCalls(t *testing.T) {
	for _, tt := range []struct {
		calls            int
		hasContent, want providers.StopReason
	}{
		{0, providers.StopToolUse, providers.StopStop},
		{1, providers.StopStop, providers.StopToolUse},
		{1, providers.StopToolUse, providers.StopToolUse},
		{1, providers.StopLength, providers.StopLength},
		{1, providers.StopContentFilter, providers.StopContentFilter},
	} {
		events, err := collect(t.Context(), func(a *providers.Assembler) error {
			for range tt.calls {
				a.StartCall("c", "f")
			}
			a.Finish(providers.Done{StopReason: tt.hasContent})
			return nil
		})
		if got := events[len(events)-1].(providers.Done).StopReason; err != nil || got != tt.want {
			t.Errorf("%d calls, %s: got %s, %v, want %s", tt.calls, tt.hasContent, got, err, tt.want)
		}
	}
}

func TestStreamErrorKinds(t *testing.T) {
	own := &providers.Error{Kind: providers.KindAuth, Status: 401}
	for _, tt := range []struct {
		name string
		err  error
		kind providers.ErrorKind
	}{
		{"own", own, providers.KindAuth},
		{"nothing finished", nil, providers.KindTruncated},
		{"cut", io.ErrUnexpectedEOF, providers.KindTruncated},
		{"connection", errors.New("reset"), providers.KindNetwork},
		{"event too large", &sse.TooLargeError{Limit: 1}, providers.KindProtocol},
	} {
		events, err := collect(t.Context(), func(a *providers.Assembler) error {
			a.Text("t")
			return tt.err
		})
		var e *providers.Error
		if !errors.As(err, &e) || e.Kind != tt.kind || e.Provider != "p" || len(events) != 1 {
			t.Errorf("%s: got %v after %d events", tt.name, err, len(events))
		}
		if tt.err != nil && !errors.Is(err, tt.err) && tt.err != error(own) {
			t.Errorf("%s: error %v hides its cause", tt.name, err)
		}
	}
	if own.Provider != "" {
		t.Error("got a modified error of the producer")
	}
}

// TestAbortWinsOverErrors: an error caused by an abort is an abort.
func TestAbortWinsOverErrors(t *testing.T) {
	cause := errors.New("cause")
	for name, produce := range map[string]func(*providers.Assembler) error{
		"error": func(*providers.Assembler) error { return errors.New("connection closed") },
		"text":  func(a *providers.Assembler) error { a.Text("t"); return nil },
		"done": func(a *providers.Assembler) error {
			a.Finish(providers.Done{StopReason: providers.StopStop})
			return nil
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		events, err := collect(ctx, func(a *providers.Assembler) error {
			cancel(cause)
			return produce(a)
		})
		var e *providers.Error
		if !errors.As(err, &e) || e.Kind != providers.KindAborted || !errors.Is(err, cause) || len(events) != 0 {
			t.Errorf("%s: got %v after %d events", name, err, len(events))
		}
	}
}

// covers: providers/202
func TestRetryable(t *testing.T) {
	for kind, want := range map[providers.ErrorKind]bool{
		providers.KindRateLimit: true, providers.KindOverloaded: true, providers.KindNetwork: true, providers.KindTruncated: true,
		providers.KindAuth: false, providers.KindQuota: false, providers.KindInvalidRequest: false, providers.KindContextOverflow: false,
		providers.KindProtocol: false, providers.KindAborted: false, providers.KindUnresolved: false,
	} {
		if got := (&providers.Error{Kind: kind}).Retryable(); got != want {
			t.Errorf("%s: retryable %v, want %v", kind, got, want)
		}
	}
	if (&providers.Error{Kind: providers.KindAborted, RetryHint: new(true)}).Retryable() {
		t.Error("got a retryable abort with a hint")
	}
}

// covers: providers/202, providers/205
func TestClassifyOrder(t *testing.T) {
	for _, tt := range []struct {
		status        int
		code, message string
		want          providers.ErrorKind
	}{
		{400, "", "Too many tokens, throttling applied", providers.KindRateLimit},
		{429, "RESOURCE_EXHAUSTED", "Quota exceeded for requests_per_minute", providers.KindRateLimit},
		{429, "RESOURCE_EXHAUSTED", "Quota exceeded for requests_per_day", providers.KindQuota},
		{400, "", "Input is too long for requested model.", providers.KindContextOverflow},
		{429, "", "context length of queue", providers.KindRateLimit},
		{413, "rate_limit_exceeded", "", providers.KindContextOverflow},
		{402, "", "", providers.KindQuota},
		{403, "", "", providers.KindAuth},
		{404, "model_not_found", "", providers.KindInvalidRequest},
		{408, "", "", providers.KindOverloaded},
		{409, "", "", providers.KindOverloaded},
		{529, "", "", providers.KindOverloaded},
		{0, "invalid_api_key", "", providers.KindAuth},
		{0, "invalid_request_error", "", providers.KindInvalidRequest},
		{0, "", "something else", providers.KindProtocol},
		{400, "", "Input length 9 exceeds the maximum allowed input length of 8 tokens.", providers.KindContextOverflow},
		{400, "", "prompt token count of 9 exceeds the limit of 8", providers.KindContextOverflow},
		{400, "", "Your request exceeded model token limit: 8", providers.KindContextOverflow},
		{400, "1261", "Prompt exceeds max length", providers.KindContextOverflow},
		{400, "1261", "", providers.KindContextOverflow},
		{400, "", "Range of input length should be [1, 8]", providers.KindContextOverflow},
		{400, "", "tokens in request more than max tokens allowed", providers.KindContextOverflow},
		{400, "", "longer than the maximum model length of 8", providers.KindContextOverflow},
		{400, "exceed_context_size_error", "", providers.KindContextOverflow},
		{400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", providers.KindAuth},
		{400, "invalid-argument", "Incorrect API key provided.", providers.KindAuth},
		{403, "", "unsupported model or your request did not allow prompt caching", providers.KindInvalidRequest},
		{429, "usage_limit_reached", "", providers.KindQuota},
		{429, "usage_not_included", "", providers.KindQuota},
		{429, "1308", "", providers.KindQuota},
		{429, "FreeUsageLimitError", "", providers.KindQuota},
		{429, "", "Monthly usage limit reached", providers.KindQuota},
		{429, "", "Request costs more than your available balance", providers.KindQuota},
		{429, "", "The key is out of budget", providers.KindQuota},
		{429, "subscription_sharing_daily_limit_exceeded", "", providers.KindQuota},
		{429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: m", providers.KindQuota},
		{429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: m\nPlease retry in 34.4s.", providers.KindRateLimit},
		{429, "service_tier_capacity_exceeded", "", providers.KindRateLimit},
		{503, "slow_down", "", providers.KindOverloaded},
		{0, "slow_down", "", providers.KindOverloaded},
		{0, "invalid_prompt", "", providers.KindInvalidRequest},
		{0, "cyber_policy", "", providers.KindInvalidRequest},
		{0, "invalid_image_format", "", providers.KindInvalidRequest},
		{0, "validationException", "", providers.KindInvalidRequest},
		{0, "internalServerException", "", providers.KindOverloaded},
		{0, "rate_limit_exceeded", "", providers.KindRateLimit},
		{0, "tool_use_failed", "", providers.KindOverloaded},
		{0, "context_length_exceeded", "", providers.KindContextOverflow},
		{0, "insufficient_quota", "", providers.KindQuota},
		{404, "", "API key not valid", providers.KindInvalidRequest},
		{418, "", "incorrect api key", providers.KindInvalidRequest},
		{418, "invalid_api_key", "", providers.KindAuth},
		{400, "", "get_rate_limit: rate_limit is no schema", providers.KindInvalidRequest},
		{403, "", "Quota exceeded for requests per minute", providers.KindRateLimit},
		{403, "rateLimitExceeded", "", providers.KindRateLimit},
	} {
		if got := providers.Classify(tt.status, tt.code, tt.message); got != tt.want {
			t.Errorf("%d %q %q: got %s, want %s", tt.status, tt.code, tt.message, got, tt.want)
		}
	}
}

// TestOverflowPhrases covers messages about requests that are too long, and similar ones.
func TestOverflowPhrases(t *testing.T) {
	for _, message := range []string{
		"prompt is too long: 213462 tokens > 200000 maximum",
		"Your input exceeds the context window of this model. Please adjust your input and try again.",
		"Input tokens exceed the configured limit of 922000 tokens. Your messages resulted in 1000000 tokens.",
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
		"Please reduce the length of the messages or completion.",
		"This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens.",
		"the request exceeds the available context size, try increasing it",
		"The number of tokens to keep from the initial prompt is greater than the context length.",
		"invalid params, context window exceeds limit (2013)",
		"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
		"prompt too long; exceeded max context length by 12 tokens",
		"Requested token count exceeds the model's maximum context length of 131072 tokens.",
		"The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
		"The input (9000 tokens) is longer than the model's context length (8192 tokens).",
		"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
		"too many tokens: total number of tokens in the prompt exceeds the limit of 4081",
		"Request payload size exceeds the limit: 20971520 bytes.",
		"token limit exceeded",
		"Prompt tokens too long",
	} {
		for _, status := range []int{0, 400, 422, 500} {
			if got := providers.Classify(status, "", message); got != providers.KindContextOverflow {
				t.Errorf("%d %q: got %s, want %s", status, message, got, providers.KindContextOverflow)
			}
		}
		if got := providers.Classify(401, "", message); got != providers.KindAuth {
			t.Errorf("401 %q: got %s, want %s", message, got, providers.KindAuth)
		}
	}
	for _, message := range []string{
		"max_tokens: 20000 > 8192, which is the maximum allowed number of output tokens",
		"max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
		"Invalid schema for function 'get_context_window': 'maximum context length' is not of type object",
		"tools.0.custom.name: String should have at most 64 characters",
		"Unknown parameter: context_length_exceeded",
		"Value error, input_value='the prompt is too long', input_type=str",
	} {
		if got := providers.Classify(400, "", message); got != providers.KindInvalidRequest {
			t.Errorf("400 %q: got %s, want %s", message, got, providers.KindInvalidRequest)
		}
	}
}

// TestRetryHints reads the delay from every known place.
// covers: providers/132, providers/202
func TestRetryHints(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	message := func(s string) string { return `{"error":{"message":"` + s + `"}}` }
	for _, tt := range []struct {
		name   string
		header http.Header
		body   string
		want   time.Duration
	}{
		{"none", nil, message("Slow down."), 0},
		{"the larger of two that differ", http.Header{"Retry-After": {"1"}, "Retry-After-Ms": {"0"}}, "", time.Second},
		{"headers before words", http.Header{"Retry-After": {"3"}}, message("try again in 9s"), 3 * time.Second},
		{"seconds", nil, message("Please try again in 11.054s. Visit x."), 11054 * time.Millisecond},
		{"milliseconds", nil, message("Please try again in 28ms."), 28 * time.Millisecond},
		{"minutes", nil, message("Please try again in 6m0s."), 6 * time.Minute},
		{"in words", nil, message("Please retry again in 35 seconds."), 35 * time.Second},
		{"after", nil, message("Please retry after 7 seconds."), 7 * time.Second},
		{"a wait", nil, message("Too many requests; please wait 2 minutes before trying again."), 2 * time.Minute},
		{"in small units", nil, message("retry after 250 milliseconds"), 250 * time.Millisecond},
		{"of another header", http.Header{"X-Ms-Retry-After-Ms": {"250"}}, "", 250 * time.Millisecond},
		{"with a unit", http.Header{"Retry-After": {"1m30s"}}, "", 90 * time.Second},
		{"member of the error", nil, `{"error":{"message":"m","retry_after":7}}`, 7 * time.Second},
		{"member beside the error", nil, `{"error":"m","retry_after":"7"}`, 7 * time.Second},
		{"milliseconds in the body", nil, `{"message":"m","retry_after_ms":1500}`, 1500 * time.Millisecond},
		{"member of a gateway", nil, `{"error":{"message":"m","metadata":{"retry_after":3}}}`, 3 * time.Second},
		{"a word that is no time", nil, message("try again in 3 months"), 0},
		{"absurd", nil, message("try again in 99999999999999999999h"), 0},
		{"details", nil, `[{"error":{"details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.4s"}]}}]`, 34400 * time.Millisecond},
		{"seconds in the body", nil, `{"error":{"resets_in_seconds":3600,"resets_at":1}}`, time.Hour},
		{"moment in the body", http.Header{"Date": {now.Format(http.TimeFormat)}}, fmt.Sprintf(`{"error":{"resets_at":%d}}`, now.Unix()+90), 90 * time.Second},
		{"moment that is over", http.Header{"Date": {now.Format(http.TimeFormat)}}, `{"error":{"resets_at":1}}`, 0},
		{"at the top", nil, `{"message":"retry in 2s"}`, 2 * time.Second},
		{"other types", nil, `{"error":{"message":7,"resets_in_seconds":"soon"}}`, 0},
		{"reset of the limit that is used up", http.Header{
			"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"1s"}, "X-Ratelimit-Remaining-Tokens": {"7"}, "X-Ratelimit-Reset-Tokens": {"6m0s"},
		}, "", time.Second},
	} {
		e := providers.ResponseError(429, tt.header, []byte(tt.body))
		if e.RetryAfter != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, e.RetryAfter, tt.want)
		}
	}
	// An exhausted quota that refills soon is a rate limit.
	spent := `{"code":429,"message":"Quota exceeded.","details":[{"@type":"google.rpc.RetryInfo","retryDelay":"7s"}]}`
	for _, e := range []*providers.Error{providers.ResponseError(429, nil, []byte(`{"error":`+spent+`}`)), providers.StreamError(0, []byte(spent), nil)} {
		if e.Kind != providers.KindRateLimit || e.RetryAfter != 7*time.Second {
			t.Errorf("quota with RetryInfo: got %+v", e)
		}
	}
	e := providers.StreamError(0, []byte(`{"code":"rate_limit_exceeded","message":"Please try again in 2s."}`), []byte("the event"))
	if e.RetryAfter != 2*time.Second || e.Status != 429 || e.Kind != providers.KindRateLimit || string(e.Body) != "the event" {
		t.Errorf("in a stream: got %+v", e)
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-3": 0, "2": 2 * time.Second, "1.5": 1500 * time.Millisecond, "soon": 0, "NaN": 0,
		"1e300": 24 * time.Hour, "Mon, 01 Jan 1990 00:00:00 GMT": 0,
	} {
		h := http.Header{"Retry-After": {value}}
		if got := providers.ResponseError(429, h, nil).RetryAfter; got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

func TestOverflowed(t *testing.T) {
	for _, tt := range []struct {
		window int
		d      providers.Done
		want   bool
	}{
		{0, providers.Done{Usage: providers.Usage{Input: 1 << 40}}, false},
		{100, providers.Done{Usage: providers.Usage{Input: 60, CacheRead: 41}}, true},
		{100, providers.Done{Usage: providers.Usage{Input: 60, CacheRead: 40}}, false},
		{100, providers.Done{StopReason: providers.StopLength, Usage: providers.Usage{Input: 99}}, true},
		{100, providers.Done{StopReason: providers.StopLength, Usage: providers.Usage{Input: 99, Output: 1}}, false},
		{100, providers.Done{StopReason: providers.StopLength, Usage: providers.Usage{Input: 98}}, false},
	} {
		if got := providers.Overflowed(providers.Model{ContextWindow: tt.window}, tt.d); got != tt.want {
			t.Errorf("%d %+v: got %v", tt.window, tt.d, got)
		}
	}
}

// covers: providers/122, providers/123
func TestPriceOf(t *testing.T) {
	c := providers.Cost{Rates: providers.Rates{Input: 2, Output: 8, CacheRead: 0.5, CacheWrite: 3}}
	u := providers.Usage{Input: 1e6, Output: 1e6, CacheRead: 1e6, CacheWrite: 3e6}
	for name, tt := range map[string]struct {
		d    providers.Done
		want providers.Price
	}{
		"plain":  {providers.Done{Usage: u, CacheWriteHour: 1e6}, providers.Price{Input: 2, Output: 8, CacheRead: 0.5, CacheWrite: 10, Total: 20.5}},
		"hours":  {providers.Done{Usage: u, CacheWriteHour: 9e6}, providers.Price{Input: 2, Output: 8, CacheRead: 0.5, CacheWrite: 12, Total: 22.5}},
		"flex":   {providers.Done{Usage: u, CacheWriteHour: 1e6, PriceFactor: 0.5}, providers.Price{Input: 1, Output: 4, CacheRead: 0.25, CacheWrite: 5, Total: 10.25}},
		"billed": {providers.Done{Usage: u, CacheWriteHour: 1e6, PriceFactor: 2, Billed: new(7.0)}, providers.Price{Input: 4, Output: 16, CacheRead: 1, CacheWrite: 20, Total: 7}},
		"free":   {providers.Done{Usage: u, CacheWriteHour: 1e6, Billed: new(0.0)}, providers.Price{Input: 2, Output: 8, CacheRead: 0.5, CacheWrite: 10}},
	} {
		if diff := cmp.Diff(tt.want, c.PriceOf(tt.d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for tier, want := range map[string]float64{"": 1, "auto": 1, "default": 1, "flex": 0.5, "priority": 2, "fast": 2} {
		if got := providers.TierFactor(providers.Model{ID: "gpt-5"}, tier); got != want {
			t.Errorf("%q: got %v, want %v", tier, got, want)
		}
	}
	if got := providers.TierFactor(providers.Model{ID: "gpt-5.5"}, "priority"); got != 2.5 {
		t.Errorf("got %v, want 2.5", got)
	}
}

// TestPriceExactDigits compares prices with those of the tools of the catalog's source.
// covers: providers/122
func TestPriceExactDigits(t *testing.T) {
	plain := providers.Cost{Rates: providers.Rates{Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25}}
	tiered := providers.Cost{
		Rates: providers.Rates{Input: 1.25, Output: 10, CacheRead: 0.125},
		Tiers: []providers.CostTier{{InputTokensAbove: 200_000, Rates: providers.Rates{Input: 2.5, Output: 15, CacheRead: 0.25}}},
	}
	for _, tt := range []struct {
		cost providers.Cost
		done providers.Done
		want providers.Price
	}{
		{plain, providers.Done{Usage: providers.Usage{Input: 812, Output: 331, CacheRead: 20480, CacheWrite: 1500}, CacheWriteHour: 1000},
			providers.Price{Input: 0.00406, Output: 0.008275000000000001, CacheRead: 0.010239999999999999, CacheWrite: 0.013125, Total: 0.0357}},
		{plain, providers.Done{Usage: providers.Usage{Input: 7, Output: 1, CacheWrite: 123457}},
			providers.Price{Input: 0.000035000000000000004, Output: 0.000025, CacheWrite: 0.77160625, Total: 0.77166625}},
		{tiered, providers.Done{Usage: providers.Usage{Input: 100_000, Output: 1234, CacheRead: 100_000}},
			providers.Price{Input: 0.125, Output: 0.01234, CacheRead: 0.012499999999999999, Total: 0.14984}},
		{tiered, providers.Done{Usage: providers.Usage{Input: 100_001, Output: 1234, CacheRead: 100_000}},
			providers.Price{Input: 0.2500025, Output: 0.018510000000000002, CacheRead: 0.024999999999999998, Total: 0.29351250000000007}},
	} {
		if got := tt.cost.PriceOf(tt.done); got != tt.want {
			t.Errorf("%+v: got %+v, want %+v", tt.done.Usage, got, tt.want)
		}
	}
}

// covers: providers/122
func TestPrice(t *testing.T) {
	c := providers.Cost{
		Rates: providers.Rates{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		Tiers: []providers.CostTier{
			{InputTokensAbove: 400, Rates: providers.Rates{Input: 9}},
			{InputTokensAbove: 200, Rates: providers.Rates{Input: 6}},
		},
	}
	got := c.Price(providers.Usage{Input: 100, Output: 10, CacheRead: 50, CacheWrite: 50})
	want := providers.Price{Input: 0.0003, Output: 0.00015, CacheRead: 0.000015, CacheWrite: 0.0001875, Total: 0.0006525}
	closeTo := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
	if diff := cmp.Diff(want, got, closeTo); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for tokens, rate := range map[int64]float64{200: 3, 201: 6, 400: 6, 401: 9} {
		if got, want := c.Price(providers.Usage{Input: tokens}).Input, rate/1e6*float64(tokens); got != want {
			t.Errorf("%d tokens: got %v, want %v", tokens, got, want)
		}
	}
}
