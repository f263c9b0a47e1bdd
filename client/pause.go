package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// longestAsked bounds the pause that a server may request.
const longestAsked = time.Minute

// pauses is the backoff between attempts.
type pauses struct{ first, last, next time.Duration }

func (c *Conversation) pauses() pauses {
	return pauses{c.opts.FirstPause, c.opts.LastPause, c.opts.FirstPause}
}

// reset restarts at the first pause.
func (p *pauses) reset() { p.next = p.first }

// wait waits for the next pause; cause is its reason. Pauses are randomized, so that clients that lost
// a server at the same moment do not return together.
func (p *pauses) wait(ctx context.Context, cause error) error {
	d := p.next/2 + rand.N(p.next/2+1)
	p.next = min(2*p.next, p.last)
	var answered *Error
	if errors.As(cause, &answered) {
		d = max(d, min(answered.RetryAfter, longestAsked))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if cause == nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w; the attempt before: %w", ctx.Err(), cause)
	}
}

// repeat retries until success, a permanent error, or the limit of attempts.
func (c *Conversation) repeat(ctx context.Context, try func() error) error {
	p := c.pauses()
	for n := 1; ; n++ {
		err := try()
		if err == nil || ctx.Err() != nil || !temporary(err) || n >= c.opts.Tries {
			return err
		}
		c.retrying(err)
		if err := p.wait(ctx, err); err != nil {
			return err
		}
	}
}
