package client_test

import (
	"context"
	"io"
	"testing"
	"time"
)

// script is a response body with text at given times. A step without text is silence. After the last
// one there is silence, unless the script ends.
type script struct {
	ctx   context.Context
	steps []step
	end   error // after the last step; nil is silence
	left  string
}

type step struct {
	after time.Duration
	text  string
}

func (s *script) Read(p []byte) (int, error) {
	for s.left == "" {
		if s.ctx.Err() != nil { // a cut connection returns no more data
			return 0, s.ctx.Err()
		}
		wait := time.Duration(1<<62 - 1)
		if len(s.steps) > 0 {
			wait = s.steps[0].after
		} else if s.end != nil {
			return 0, s.end
		}
		select {
		case <-time.After(wait):
			s.left, s.steps = s.steps[0].text, s.steps[1:]
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

func (s *script) Close() error { return nil }

var _ io.ReadCloser = (*script)(nil)

// contextEnd is the error of time-limited observations.
var contextEnd = context.DeadlineExceeded

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
