package s3

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parleyrun/parley/storage"
)

// classify turns the outcome of a call that did not succeed into the error the
// seam promises. err is what minio-go made of it; it counts only where no answer
// says more.
func (c *call) classify(op, key string, err error) error {
	e := &storage.Error{Op: op, Key: key, Status: c.status, Err: err}
	reads := op == storage.OpGet || op == storage.OpOpen || op == storage.OpList
	noAnswer := storage.ErrUncertain
	if reads {
		noAnswer = storage.ErrUnavailable
	}
	if c.err != nil {
		e.Err = c.err
	}
	switch {
	case c.parent.Err() != nil && !c.sent:
		e.Err = context.Cause(c.parent)
	case !c.sent: // minio-go rejected the arguments.
		e.Kind = storage.ErrRefused
	case c.err != nil, c.status/100 == 2: // The body of the latter was cut off, or is not what it should be.
		e.Kind = noAnswer
		if answer, ok := errors.AsType[*storage.AnswerError](e.Err); ok {
			e.Code = answer.Code
		}
	default:
		e.Code, e.Err = c.detail.Code, nil
		if c.detail.Message != "" {
			e.Err = errors.New(c.detail.Message)
		}
		if skewed := c.clockError(); skewed != nil {
			e.Err = skewed
		}
		e.Kind = kindOfAnswer(op, c.status, e.Code)
		if e.Kind == nil {
			e.Kind = noAnswer
		}
	}
	return e
}

// maxSkew is how far apart clocks are, as measured to the second, where stores begin to
// refuse what is signed: at 15 minutes.
const maxSkew = 14 * time.Minute

// clockError says that the answer is a refusal because of the clock, or is nil. Some
// stores give no code of their own for it.
func (c *call) clockError() error {
	if c.detail.Code == "RequestTimeTooSkewed" || c.status == http.StatusForbidden && c.ahead.Abs() >= maxSkew {
		return &storage.ClockError{Ahead: c.ahead}
	}
	return nil
}

// kindOfAnswer is the table. Nil means the answer does not say what happened.
func kindOfAnswer(op string, status int, code string) error {
	switch {
	case unanswered(status, code):
		return nil
	case status == http.StatusPreconditionFailed && op == storage.OpCreate:
		return storage.ErrExists
	case status == http.StatusConflict && (op == storage.OpCreate || op == storage.OpPut || op == storage.OpDelete):
		return storage.ErrConflict
	case status == http.StatusNotFound && code != "NoSuchBucket" && (op == storage.OpGet || op == storage.OpOpen || op == storage.OpDelete):
		return storage.ErrNotFound
	default:
		return storage.ErrRefused
	}
}

// unanswered reports whether an answer leaves open what happened, or asks to be
// spared for a while. S3 reports some of these with status 400.
func unanswered(status int, code string) bool {
	switch code {
	case "RequestTimeout", "SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException",
		"RequestThrottled", "RequestLimitExceeded", "InternalError", "ServiceUnavailable":
		return true
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, 499:
		return true
	}
	return status >= 500
}
