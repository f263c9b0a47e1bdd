package contain

import (
	"context"
	"iter"
	"time"
)

// streamGrace is how long an iterator may continue after its context has ended or its consumer has
// stopped.
const streamGrace = 5 * time.Second

// Stream returns the values and errors of an author's iterator, which begin returns. Iterator and
// consumer alternate: one runs only while the other waits. Errors are frozen as by [Do]. A panic or a
// missing return is the last error of the sequence. An iterator that continues for 5 s after ctx has
// ended is abandoned, with the cause of ctx as the last error.
func Stream[V any](ctx context.Context, desc string, begin func() iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		s := &stream[V]{items: make(chan item[V]), more: make(chan bool), ended: make(chan struct{})}
		go func() {
			defer close(s.ended)
			s.err = Run(desc, func() error { s.produce(begin()); return nil })
		}()
		if s.consume(ctx, yield) {
			s.wait()
		}
	}
}

type item[V any] struct {
	value V
	err   error
}

// stream passes the values of an iterator from its goroutine to its consumer's.
type stream[V any] struct {
	items chan item[V]
	more  chan bool // has an element when the consumer wants another value; closed when it has stopped
	ended chan struct{}
	err   error // error of the iterator; read after ended is closed
}

func (s *stream[V]) produce(seq iter.Seq2[V, error]) {
	for v, err := range seq {
		if err != nil {
			err = freeze(err)
		}
		select {
		case s.items <- item[V]{v, err}:
		case <-s.more: // closed
			return
		}
		if !<-s.more {
			return
		}
	}
}

// consume passes values to yield. running reports whether the iterator may still run and must be
// waited for.
func (s *stream[V]) consume(ctx context.Context, yield func(V, error) bool) (running bool) {
	defer close(s.more)
	var none V
	over := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case it := <-s.items:
			if !yield(it.value, it.err) {
				return true
			}
			s.more <- true
		case <-s.ended:
			if s.err != nil {
				yield(none, s.err)
			}
			return false
		case <-over:
			over = nil
			t := time.NewTimer(streamGrace)
			defer t.Stop()
			late = t.C
		case <-late:
			yield(none, context.Cause(ctx))
			return false
		}
	}
}

// wait waits until the iterator has ended, at most streamGrace.
func (s *stream[V]) wait() {
	t := time.NewTimer(streamGrace)
	defer t.Stop()
	select {
	case <-s.ended:
	case <-t.C:
	}
}
