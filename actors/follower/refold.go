package follower

import (
	"context"
	"iter"
	"math"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// refoldBytes is the memory charged for reading a log again: objects that are read ahead, and the fold.
const refoldBytes = 16 << 20

// CutEvery is the number of log bytes to fold before closed history is cut out of the state again. It
// keeps a fold from holding the history of a long log.
const CutEvery = 1 << 20

// refold rebuilds closed history from the log, page by page, where no checkpoint has it. It belongs to
// one goroutine, which closes it.
type refold struct {
	key   conversation.Key
	born  conversation.Offset // offset of the batch that created the incarnation
	state *conversation.State
	cut   int // messages cut so far
	uncut int // bytes folded since the last cut that found nothing
	ended bool

	next func() (storage.Batch, error, bool)
	stop func()
	set  *Set
}

func newRefold(ctx context.Context, s *Set, key conversation.Key, born conversation.Offset) *refold {
	r := &refold{key: key, born: born, state: conversation.NewState(), set: s}
	r.next, r.stop = iter.Pull2(s.source.Batches(ctx, key, storage.Start()))
	return r
}

// page returns the history of n closed messages after the first `after` messages of the incarnation.
// Consecutive calls must not go backwards.
func (r *refold) page(after, n int) (out *conversation.HistoryPage, err error) {
	for r.cut < after+n {
		want := after - r.cut // messages to skip
		if want <= 0 {
			want = after + n - r.cut
		}
		page, err := r.take(want)
		switch {
		case err != nil:
			return nil, err
		case r.cut <= after:
		case out == nil:
			out = page
		default:
			out = out.Join(page)
		}
	}
	return out, nil
}

// take returns at most n closed messages.
func (r *refold) take(n int) (*conversation.HistoryPage, error) {
	for {
		if r.uncut >= min(CutEvery, r.set.options.HoldBytes) || r.ended {
			ours, most := r.state.Start() == r.born, n
			if !ours { // skip a deleted incarnation
				most = math.MaxInt
			}
			page, err := r.state.CutUpTo(most)
			switch {
			case err != nil:
				return nil, err
			case page != nil && ours:
				r.cut += page.Counts.Messages
				return page, nil
			case page != nil:
				continue
			case r.ended:
				return nil, &storage.GapError{Conv: r.key, Seq: int64(r.state.Head()) + 1, Next: -1}
			}
			r.uncut = 0
		}
		if err := r.fold(); err != nil {
			return nil, err
		}
	}
}

func (r *refold) fold() error {
	stored, err, ok := r.next()
	if err != nil {
		return err
	}
	if !ok {
		r.ended = true
		return nil
	}
	b, err := decoded(r.set.account, stored)
	if err != nil {
		return err
	}
	if err := r.state.Apply(conversation.Batch{Offset: conversation.Offset(b.at.Seq), Records: b.records}); err != nil {
		return &logError{b.at.Seq, err}
	}
	r.uncut += b.bytes
	return nil
}
