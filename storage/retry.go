package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// firstAnswer is the timeout for a store's first answer.
const firstAnswer = 15 * time.Second

// WithFirstAnswer bounds the wait for a store's first answers. Without it, requests would be retried
// until they succeed, even if the configuration is wrong.
func WithFirstAnswer(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, firstAnswer, fmt.Errorf("no usable answer within %v", firstAnswer))
}

// Retry configures the retries of requests. The zero value works.
type Retry struct {
	// Attempt is the timeout of one write attempt, plus one second per MiB sent. 0 is 2 s.
	Attempt time.Duration
	// Read is the timeout of one read attempt. 0 is 10 s.
	Read time.Duration
	// Reads is the number of read attempts before ErrUnavailable. 0 is 4. Reads that decide the
	// outcome of a write are retried until the context ends.
	Reads int
	// Min and Max bound the backoff, which doubles. 0 is 50 ms and 1 s.
	Min, Max time.Duration
	// Jitter returns a number in [0, 1) that shortens a backoff by up to half. It must be safe for
	// concurrent use. If it is nil, the jitter is derived from the bytes sent and the number of the
	// attempt: writers differ from each other, and simulations stay reproducible.
	Jitter func() float64
}

// retry is a Retry with all defaults applied.
type retry struct{ Retry }

func newRetry(r Retry) *retry {
	r.Attempt = orDefault(r.Attempt, 2*time.Second)
	r.Read = orDefault(r.Read, 10*time.Second)
	r.Reads = orDefault(r.Reads, 4)
	r.Min = orDefault(r.Min, 50*time.Millisecond)
	r.Max = max(r.Min, orDefault(r.Max, time.Second))
	return &retry{r}
}

func orDefault[T int | int64 | time.Duration](v, fallback T) T {
	if v <= 0 {
		return fallback
	}
	return v
}

// pause waits before attempt n+1 and reports whether the context is still valid. seed makes the waits
// of different callers differ.
func (r *retry) pause(ctx context.Context, n int, seed []byte) bool {
	d := r.Max
	if n < 30 && r.Min<<n > 0 {
		d = min(d, r.Min<<n)
	}
	d -= time.Duration(r.jitter(n, seed) * float64(d/2))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (r *retry) jitter(n int, seed []byte) float64 {
	if r.Jitter != nil {
		return r.Jitter()
	}
	h := fnv.New64a()
	h.Write(seed)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return float64(h.Sum64()>>11) / (1 << 53)
}

// readRetried calls read until it returns an answer or the attempts are used up.
func readRetried[T any](ctx context.Context, r *retry, read func(context.Context) (T, error)) (T, error) {
	return readWhile(ctx, r, r.Reads, read)
}

// readResolved calls read until it returns an answer or ctx ends.
func readResolved[T any](ctx context.Context, r *retry, read func(context.Context) (T, error)) (T, error) {
	return readWhile(ctx, r, 0, read)
}

func readWhile[T any](ctx context.Context, r *retry, attempts int, read func(context.Context) (T, error)) (T, error) {
	for n := 0; ; n++ {
		attempt, cancel := context.WithTimeout(ctx, r.Read)
		v, err := read(attempt)
		cancel()
		var e *Error
		if err == nil || !errors.As(err, &e) || e.Kind != ErrUnavailable && e.Kind != nil {
			return v, err
		}
		if n+1 == attempts || !r.pause(ctx, n, []byte(e.Key)) {
			return v, err
		}
	}
}

// createResolved stores the body from next under key and retries until the outcome is known. It
// returns nil, ErrExists, or ErrRefused if nothing can have been written. It returns ErrUncertain if
// ctx ends first, or if the bucket rejects a retry after an attempt with an unknown outcome. If ctx
// ends before the first request, the error has no kind.
func createResolved(ctx context.Context, b Bucket, r *retry, key string, next func() Body) error {
	sent := false
	for n := 0; ; n++ {
		body := next()
		timeout := r.Attempt + time.Duration(body.Size>>20)*time.Second
		attempt, cancel := context.WithTimeout(ctx, timeout)
		err := b.Create(attempt, key, body)
		cancel()
		switch kind := kindOf(err); {
		case err == nil, kind == ErrExists, kind == ErrRefused && !sent:
			return err
		case kind == ErrRefused:
			return &Error{Op: "create", Key: key, Kind: ErrUncertain, Err: err}
		case kind != nil:
			sent = true
		}
		if r.pause(ctx, n, body.SHA256[:]) {
			continue
		}
		if !sent {
			return err
		}
		return &Error{Op: "create", Key: key, Kind: ErrUncertain, Err: errors.Join(context.Cause(ctx), err)}
	}
}

// kindOf returns the kind of a bucket's error. An unexpected error counts as an unknown outcome.
func kindOf(err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ErrUncertain
}
