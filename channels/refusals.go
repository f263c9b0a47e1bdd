package channels

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/outbox"
)

// Refusals classifies a platform's error responses. The zero value uses the status alone.
type Refusals struct {
	// Code extracts the error code and the retry delay from the body of a response. They are "" and 0
	// if absent.
	Code func(body []byte) (code string, wait time.Duration)
	// Retry lists codes that allow a retry with any status.
	Retry []string
	// Permanent lists codes that rule out a retry although the status allows one.
	Permanent []string
}

// AnswerError is an error response of a platform.
type AnswerError struct {
	Status int
	Code   string // the platform's error code, or ""
}

// Error implements error.
func (e *AnswerError) Error() string {
	text := fmt.Sprintf("it answered %d", e.Status)
	if e.Code != "" {
		text += ": " + e.Code
	}
	return text
}

// CodeOf returns the platform's error code in an error of [API.Call], or "".
func CodeOf(err error) string {
	answer := new(AnswerError)
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// classify returns the error of a response, or nil. It is a [*outbox.GoneError] if a retry cannot
// help, and a [*outbox.LaterError] if the platform asks to wait.
func (f Refusals) classify(res *http.Response, body []byte, now time.Time) error {
	refused := outbox.Answered(res.StatusCode, res.Header, now)
	var code string
	var wait time.Duration
	if f.Code != nil {
		code, wait = f.Code(body)
	}
	if refused == nil && code == "" {
		return nil
	}
	err := &AnswerError{Status: res.StatusCode, Code: printableCode(code)}
	if later := new(outbox.LaterError); errors.As(refused, &later) {
		wait = max(wait, later.After)
	}
	switch {
	case slices.Contains(f.Permanent, code), !slices.Contains(f.Retry, code) && permanent(res.StatusCode, code):
		return &outbox.GoneError{Err: err}
	case wait > 0:
		return &outbox.LaterError{After: min(wait, 24*time.Hour), Err: err}
	}
	return err
}

// permanent reports whether a retry would fail again. A platform that responds 200 with an error code
// rejects the message, not the attempt.
func permanent(status int, code string) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4 || status/100 == 2 && code != ""
}

// printableCode sanitizes a code for logs.
func printableCode(code string) string {
	code = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, code)
	return code[:min(len(code), 100)]
}
