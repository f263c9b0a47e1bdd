package outbox

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Answered maps an HTTP response to the result of a delivery: nil for 2xx, a [*GoneError] for 410, a
// [*LaterError] for a Retry-After in seconds or as a date, and another error otherwise.
func Answered(status int, h http.Header, now time.Time) error {
	switch {
	case status/100 == 2:
		return nil
	case status == http.StatusGone:
		return &GoneError{Err: errors.New("target returned status 410")}
	case status/100 == 3:
		return fmt.Errorf("target returned status %d; redirects are not followed", status)
	}
	err := fmt.Errorf("target returned status %d", status)
	if after := retryAfter(h.Get("Retry-After"), now); after > 0 {
		return &LaterError{After: after, Err: err}
	}
	return err
}

// retryAfter parses a Retry-After header. It returns 0 if there is none.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(v); err == nil && n > 0 {
		return time.Duration(min(n, int(24*time.Hour/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
