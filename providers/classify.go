package providers

import (
	"net/http"
	"strings"
)

// Classify finds the kind of an error a vendor reports. status is the HTTP
// status, or the one the error object names, 0 if it is neither: then that of the code
// counts, see StatusOf. code and message are its words, any of which may be missing.
// Codecs use it for errors inside a stream, too.
func Classify(status int, code, message string) ErrorKind {
	if status == 0 {
		status = StatusOf(code)
	}
	text := strings.ToLower(code + "\n" + message)
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return KindContextOverflow
	case code == codeQuota || containsAny(text, quotaWords) && messageWait(message) == 0 && !containsAny(text, minuteWords):
		return KindQuota
	case status == http.StatusTooManyRequests || containsAny(text, rateLimitWords):
		return KindRateLimit
	case code == codeOverflow || containsAny(text, overflowWords):
		return KindContextOverflow
	case status == http.StatusPaymentRequired:
		return KindQuota
	case containsAny(text, notAuthWords):
		return KindInvalidRequest
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return KindAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500:
		return KindOverloaded
	case status >= 400 && containsAny(text, keyWords):
		return KindAuth
	case status >= 400 && containsAny(text, capacityWords):
		return KindOverloaded
	case status >= 400:
		return KindInvalidRequest
	case containsAny(text, authWords):
		return KindAuth
	case containsAny(text, overloadWords) || containsAny(text, capacityWords):
		return KindOverloaded
	case containsAny(text, invalidWords):
		return KindInvalidRequest
	}
	return KindProtocol
}

// The words are lower case. Vendors have no common code for these conditions,
// so the text has to tell; rate limits are tested before overflow since both
// speak of too many tokens. A quota that comes back within a minute, of which the
// message says when, is a rate limit.
var (
	quotaWords = []string{
		"insufficient_quota", "insufficient balance", "insufficient_balance", "insufficient credits", "billing_hard_limit",
		"usage_limit_reached", "usage_not_included", "gousagelimiterror", "freeusagelimiterror", "monthly usage limit reached",
		"available balance", "out of budget", "quota exceeded", "subscription_sharing_",
		"servicequotaexceeded",
	}
	minuteWords    = []string{"per_minute", "perminute", "per minute"}
	rateLimitWords = []string{"rate limit", "rate_limit", "ratelimit", "too many requests", "throttling", "throttled", "resource_exhausted"}
	overflowWords  = []string{
		"context_length_exceeded", "context length", "context window", "context_window", "maximum context", "context size",
		"prompt is too long", "prompt too long", "input is too long", "input too long", "request_too_large",
		"maximum prompt length", "input token count", "too many tokens", "reduce the length of",
		"maximum allowed input length", "prompt token count of", "exceeded model token limit", "prompt exceeds max length",
		"range of input length should be", "tokens in request more than max tokens allowed", "maximum model length",
		"exceed_context_size", "number of input tokens exceeds",
	}
	notAuthWords  = []string{"your request did not allow prompt caching"}
	keyWords      = []string{"api_key_invalid", "api key not valid", "incorrect api key"}
	authWords     = []string{"invalid_api_key", "authentication_error", "permission_error", "unauthorized", "api_key_invalid", "api key not valid"}
	capacityWords = []string{"slow_down", "server_is_overloaded", "service_tier_capacity_exceeded"}
	replayWords   = []string{"invalid_encrypted_content", "invalid `signature` in `thinking`", "thought signature is not valid", "corrupted thought signature"}
	manyWords     = []string{"too many images", "too many image(s)", "image(s) may be provided", "maximum number of images", "number of images exceeds"}
	overloadWords = []string{"overloaded", "server_error", "internal_error", "internal server error", "service unavailable", "unavailable", "timeout", "timed out"}
	invalidWords  = []string{"invalid_request", "bad_request", "bad request", "not_found"}
)

// StatusOf returns the HTTP status that an error of a code has outside a stream, 0 for a
// code that it does not know.
func StatusOf(code string) int {
	switch code {
	case "invalid_request_error", "invalid_prompt", "validationException", "image_too_large", "image_too_small",
		"image_parse_error", "image_file_too_large", "unsupported_image_media_type", "empty_image_file", "failed_to_download_image",
		"image_file_not_found", "image_content_policy_violation", "data_residency_mismatch", "invalid_encrypted_content":
		return http.StatusBadRequest
	case "authentication_error", "invalid_api_key":
		return http.StatusUnauthorized
	case "billing_error":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error", "rate_limit_exceeded", "throttlingException":
		return http.StatusTooManyRequests
	case "api_error", "server_error", "internalServerException", "modelStreamErrorException", "network_error",
		"tool_use_failed": // the model wrote a call that is none, and may write a better one
		return http.StatusInternalServerError
	case "modelTimeoutException":
		return http.StatusRequestTimeout
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error", "slow_down", "server_is_overloaded", "serviceUnavailableException":
		return http.StatusServiceUnavailable
	}
	if strings.HasPrefix(code, "invalid_image") || strings.HasSuffix(code, "_policy") {
		return http.StatusBadRequest
	}
	return 0
}

// Codes of a vendor that has numbers alone.
const (
	codeQuota    = "1308"
	codeOverflow = "1261"
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
