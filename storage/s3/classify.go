package s3

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parleyrun/parley/storage"
)

// classify converts the outcome of a failed call to the error that Bucket requires. err is minio-go's
// error; it is used only if there was no response.
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
	case c.err != nil, c.status/100 == 2: // In the latter case the body was truncated or invalid.
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

// maxSkew is the measured clock difference from which stores may reject signed requests; their limit
// is 15 minutes.
const maxSkew = 14 * time.Minute

// clockError returns a ClockError if the response is a rejection because of clock skew, nil otherwise.
// Some stores have no code for it.
func (c *call) clockError() error {
	if c.detail.Code == "RequestTimeTooSkewed" || c.status == http.StatusForbidden && c.ahead.Abs() >= maxSkew {
		return &storage.ClockError{Ahead: c.ahead}
	}
	return nil
}

// kindOfAnswer returns the kind for a status and code, nil if the outcome is unknown.
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

// unanswered reports whether a response leaves the outcome unknown or requests a backoff. S3 sends
// some of these with status 400.
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
