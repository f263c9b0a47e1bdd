package outbox

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Answered is what an answer over HTTP means for a post: nil for 2xx, a [*GoneError] for 410, a
// [*LaterError] for what has a Retry-After, in seconds or as a date, and another error else.
func Answered(status int, h http.Header, now time.Time) error {
	switch {
	case status/100 == 2:
		return nil
	case status == http.StatusGone:
		return &GoneError{Err: errors.New("it answered 410")}
	case status/100 == 3:
		return fmt.Errorf("it answered %d, and redirects are not followed", status)
	}
	err := fmt.Errorf("it answered %d", status)
	if after := retryAfter(h.Get("Retry-After"), now); after > 0 {
		return &LaterError{After: after, Err: err}
	}
	return err
}

// retryAfter reads a Retry-After header, 0 if there is none.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(v); err == nil && n > 0 {
		return time.Duration(min(n, int(24*time.Hour/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
