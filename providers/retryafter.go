package providers

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter keeps arithmetic on absurd headers from overflowing. The caller
// has its own, much lower cap.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads how long to wait: retry-after-ms, or Retry-After in seconds
// or as a date, which counts from the server's own date if it sends one.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return boundedWait(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return boundedWait(s * float64(time.Second))
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return boundedWait(float64(at.Sub(now)))
}

func boundedWait(ns float64) time.Duration {
	switch {
	case ns >= float64(maxRetryAfter):
		return maxRetryAfter
	case ns > 0:
		return time.Duration(ns)
	}
	return 0
}

func retryHint(h http.Header) *bool {
	if hint, err := strconv.ParseBool(h.Get("X-Should-Retry")); err == nil {
		return &hint
	}
	return nil
}
