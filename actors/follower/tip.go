package follower

import (
	"context"

	"github.com/parleyrun/parley/conversation"
)

// inquiry is one call of [Options.Tip] that readers share. tip and known are set before done is
// closed.
type inquiry struct {
	done  chan struct{}
	n     int64 // number among the follower's flights and inquiries
	tip   conversation.Offset
	known bool
}

// remote reports whether other nodes may write batches that are not offered here.
func (s *Set) remote() bool { return s.options.Strict || s.options.Tip != nil }

// mustConfirm reports whether a read must confirm the head of the log.
func (s *Set) mustConfirm(ctx context.Context) bool {
	return s.remote() && !conversation.IsTailing(ctx)
}

// ask returns the head as reported by an inquiry numbered after began. It returns known = false
// without asking if the view does not reach need, because only the bucket can answer then.
func (f *follower) ask(ctx context.Context, began int64, need conversation.Offset) (tip conversation.Offset, known bool, err error) {
	if f.set.options.Strict {
		return 0, false, nil
	}
	for {
		f.in.Lock()
		if f.tip.Seq < max(int64(need), 0) {
			f.in.Unlock()
			return 0, false, nil
		}
		if f.asking == nil && !f.inquire(ctx) {
			f.in.Unlock()
			return 0, false, f.set.unavailable(errStopped)
		}
		q := f.asking
		f.in.Unlock()
		select {
		case <-q.done:
		case <-ctx.Done():
			return 0, false, ctx.Err()
		}
		if q.n > began {
			return q.tip, q.known, nil
		}
	}
}

// inquire starts an inquiry unless the set is closed; in is held and no inquiry runs.
func (f *follower) inquire(ctx context.Context) bool {
	q := &inquiry{done: make(chan struct{}), n: f.flights.Add(1)}
	ok := f.set.spawn(ctx, f, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, f.set.options.TipTimeout)
		defer cancel()
		f.set.counts.tips.Add(1)
		seq, known := f.set.options.Tip(ctx, f.key)
		if !known {
			f.set.counts.unknown.Add(1)
		}
		q.tip, q.known = conversation.Offset(seq), known
		f.in.Lock()
		f.asking = nil
		f.in.Unlock()
		close(q.done)
	})
	if ok {
		f.asking = q
	}
	return ok
}
