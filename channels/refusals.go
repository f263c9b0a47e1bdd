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

// Refusals is how a platform words that it does not take a message, and which of its codes pass. The zero value goes by
// the status alone.
type Refusals struct {
	// Code returns the code of an error in the body of an answer, "" for none, and how long the platform asks to wait,
	// if the body has it.
	Code func(body []byte) (code string, wait time.Duration)
	// Retry lists the codes after which a later attempt may succeed, whatever the status is.
	Retry []string
	// Permanent lists the codes after which no attempt succeeds, where the status means that one may.
	Permanent []string
}

// AnswerError is an answer by which a platform refuses a call.
type AnswerError struct {
	Status int
	Code   string // the platform's, "" for none
}

// Error implements error.
func (e *AnswerError) Error() string {
	text := fmt.Sprintf("it answered %d", e.Status)
	if e.Code != "" {
		text += ": " + e.Code
	}
	return text
}

// CodeOf returns the platform's code in an error of [API.Call], "" for none.
func CodeOf(err error) string {
	answer := new(AnswerError)
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// classify returns the error of an answer, nil for none: a [*outbox.GoneError] if no other attempt would help, and a
// [*outbox.LaterError] if the platform asks to wait.
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
	err := &AnswerError{Status: res.StatusCode, Code: shownCode(code)}
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

// permanent reports whether a status means that the same call is refused again. A platform that answers 200 with an
// error refuses the message, not the attempt.
func permanent(status int, code string) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4 || status/100 == 2 && code != ""
}

// shownCode returns a code as far as it can stand in a log.
func shownCode(code string) string {
	code = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, code)
	return code[:min(len(code), 100)]
}
