package client

import (
	"context"
	"errors"
	"math"
	"net/url"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// flow is a sequence of items that can be followed.
type flow[T any] struct {
	query   url.Values // query of each read, in addition to its offset
	awaited bool       // it may not exist yet
	decode  func(list []T, b []byte) ([]T, error)
	at      func(T) conversation.Position
}

// found is the result of one read.
type found[T any] struct {
	items    []T
	next     conversation.Offset
	upToDate bool
	closed   bool // nothing follows
}

// follow is the state of one range over a flow.
type follow[T any] struct {
	c     *Conversation
	flow  flow[T]
	yield func(found[T]) bool

	next     conversation.Offset
	last     conversation.Position // Invariant: everything up to it was yielded.
	upToDate bool

	pauses pauses
	moved  bool // the current connection received something
	odd    int  // consecutive invalid responses

	short     int           // consecutive event streams that ended at once
	pollUntil time.Time     // long-polls replace event streams until then
	again     time.Duration // the next such period
}

func newFollow[T any](c *Conversation, of flow[T], after conversation.Offset, yield func(found[T]) bool) *follow[T] {
	return &follow[T]{c: c, flow: of, next: after, last: endOf(after), yield: yield, pauses: c.pauses(), again: c.opts.SSEAgain}
}

// run connects until the call ends.
func (f *follow[T]) run(ctx context.Context) error {
	for {
		f.moved = false
		pause, err := f.connect(ctx)
		switch {
		case over(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if f.moved {
			f.odd = 0
			if err != nil || !pause {
				f.pauses.reset()
			}
		}
		waiting := f.flow.awaited && missing(err)
		switch {
		case err == nil || waiting:
		case !temporary(err):
			return err
		default:
			if odd(err) {
				f.odd++
			}
			if f.odd >= f.c.opts.Tries {
				return err
			}
			if !f.moved {
				f.c.retrying(err)
			}
		}
		if !pause {
			continue
		}
		if err := f.pauses.wait(ctx, err); err != nil {
			return err
		}
	}
}

// connect reads over one connection, by an event stream if possible. It reports whether a pause must
// follow.
func (f *follow[T]) connect(ctx context.Context) (pause bool, err error) {
	if f.c.opts.Live == LiveLongPoll || time.Now().Before(f.pollUntil) {
		return f.poll(ctx)
	}
	began := time.Now()
	opened, err := f.stream(ctx)
	if over(err) || ctx.Err() != nil {
		return false, err
	}
	if f.broken(opened, time.Since(began), err) {
		f.c.opts.Logger.Info("event streams do not work here, long-polls replace them",
			"conversation", f.c.name(), "for", f.again, "err", err)
		f.short, f.pollUntil = 0, time.Now().Add(f.again)
		f.again = min(2*f.again, time.Hour)
		return false, nil
	}
	return true, err
}

// shortStreams is the number of consecutive event streams that end within shortTime before a proxy is
// assumed to break them.
const (
	shortStreams = 3
	shortTime    = time.Second
)

// broken reports whether an event stream ended as behind a proxy that does not support streams:
// another media type, no bytes, or always cut at once.
func (f *follow[T]) broken(opened bool, took time.Duration, err error) bool {
	var silent *silenceError
	switch {
	case errors.Is(err, errNoStream):
		return true
	case errors.As(err, &silent):
		return !f.moved
	case opened && took < shortTime:
		f.short++
	case opened:
		f.short = 0
	}
	return f.short >= shortStreams
}

// take yields the result of a read.
func (f *follow[T]) take(u found[T]) error {
	if u.next < f.next {
		return badAnswer("it ends at %v, before the offset %v", u.next, f.next)
	}
	fresh := u.items[:0]
	for _, item := range u.items {
		if at := f.flow.at(item); at.Compare(f.last) > 0 {
			f.last = at
			fresh = append(fresh, item)
		}
	}
	news := len(fresh) > 0 || u.next != f.next || u.upToDate && !f.upToDate
	f.moved, f.next, f.upToDate = true, u.next, u.upToDate
	if end := endOf(u.next); end.Compare(f.last) > 0 {
		f.last = end
	}
	if u.items = fresh; news && !f.yield(u) {
		return errEnough
	}
	if u.closed {
		return errClosed
	}
	return nil
}

// endOf is the last position of a batch.
func endOf(o conversation.Offset) conversation.Position {
	return conversation.Position{Batch: o, Index: math.MaxInt}
}
