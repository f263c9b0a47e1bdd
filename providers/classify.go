package providers

import (
	"net/http"
	"strings"
)

// Classify finds the kind of an error a vendor reports. status is the HTTP
// status, or the one the error object names; code and message are its words,
// any of which may be missing. Codecs use it for errors inside a stream, too.
func Classify(status int, code, message string) ErrorKind {
	text := strings.ToLower(code + "\n" + message)
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return KindContextOverflow
	case containsAny(text, quotaWords):
		return KindQuota
	case status == http.StatusTooManyRequests || containsAny(text, rateLimitWords):
		return KindRateLimit
	case containsAny(text, overflowWords):
		return KindContextOverflow
	case status == http.StatusPaymentRequired:
		return KindQuota
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return KindAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500:
		return KindOverloaded
	case status >= 400:
		return KindInvalidRequest
	case containsAny(text, authWords):
		return KindAuth
	case containsAny(text, overloadWords):
		return KindOverloaded
	case containsAny(text, invalidWords):
		return KindInvalidRequest
	}
	return KindProtocol
}

// The words are lower case. Vendors have no common code for these conditions,
// so the text has to tell; rate limits are tested before overflow since both
// speak of too many tokens.
var (
	quotaWords     = []string{"insufficient_quota", "insufficient balance", "insufficient_balance", "insufficient credits", "billing_hard_limit"}
	rateLimitWords = []string{"rate limit", "rate_limit", "ratelimit", "too many requests", "throttling", "throttled", "resource_exhausted"}
	overflowWords  = []string{
		"context_length_exceeded", "context length", "context window", "context_window", "maximum context", "context size",
		"prompt is too long", "prompt too long", "input is too long", "input too long", "request_too_large",
		"maximum prompt length", "input token count", "too many tokens", "reduce the length of",
	}
	authWords     = []string{"invalid_api_key", "authentication_error", "permission_error", "unauthorized"}
	overloadWords = []string{"overloaded", "server_error", "internal_error", "internal server error", "service unavailable", "unavailable", "timeout", "timed out"}
	invalidWords  = []string{"invalid_request", "bad_request", "bad request", "not_found"}
)

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// Overflowed reports a response that shows, without any error, that the request
// did not fit: some vendors cut the prompt silently, others leave no room for
// an answer. It is false for a model whose window is unknown.
func Overflowed(m Model, d Done) bool {
	window, prompt := int64(m.ContextWindow), d.Usage.Input+d.Usage.CacheRead
	if window <= 0 {
		return false
	}
	return prompt > window ||
		d.StopReason == StopLength && d.Usage.Output == 0 && prompt >= window*99/100
}
