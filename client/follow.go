package client

import (
	"context"
	"errors"
	"math"
	"net/url"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// flow is what there is to follow, in items that have a place in an order.
type flow[T any] struct {
	query   url.Values // of a read, beside where it begins
	awaited bool       // it need not be there yet
	decode  func(list []T, b []byte) ([]T, error)
	at      func(T) conversation.Position
}

// found is what one read found.
type found[T any] struct {
	items    []T
	next     conversation.Offset
	upToDate bool
	closed   bool // nothing follows, ever
}

// follow is where one range over a flow stands.
type follow[T any] struct {
	c     *Conversation
	flow  flow[T]
	yield func(found[T]) bool

	next     conversation.Offset
	last     conversation.Position // Invariant: everything up to it was yielded.
	upToDate bool

	pauses pauses
	moved  bool // the connection under way got something
	odd    int  // attempts in a row that an ill server answered

	short     int           // event streams in a row that ended at once
	pollUntil time.Time     // long-polls replace event streams until then
	again     time.Duration // the next such time
}

func newFollow[T any](c *Conversation, of flow[T], after conversation.Offset, yield func(found[T]) bool) *follow[T] {
	return &follow[T]{c: c, flow: of, next: after, last: endOf(after), yield: yield, pauses: c.pauses(), again: c.opts.SSEAgain}
}

// run connects until there is a reason to end.
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

// connect reads over one connection, by an event stream if that works here. It
// reports whether a pause has to follow.
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

// shortStreams is how many event streams in a row have to end within shortTime to
// be taken for the work of something on the way.
const (
	shortStreams = 3
	shortTime    = time.Second
)

// broken reports whether an event stream ended as they do where something on the
// way does not let them through: it is not one, nothing of it came, or it is
// always cut at once.
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

// take yields what a read found.
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
