package follower

import (
	"context"
	"iter"
	"math"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// againBytes is the memory charged for reading a log again: objects that are read ahead, and the fold.
const againBytes = 16 << 20

// CutEvery is the number of log bytes to fold before closed history is cut out of the state again. It
// keeps a fold from holding the history of a long log.
const CutEvery = 1 << 20

// refold rebuilds closed history from the log, page by page, where no checkpoint has it. It belongs to
// one goroutine, which closes it.
type again struct {
	key   conversation.Key
	life  conversation.Offset // offset of the batch that created the incarnation
	state *conversation.State
	cut   int // messages cut so far
	uncut int // bytes folded since the last cut that found nothing
	ended bool

	next func() (storage.Batch, error, bool)
	stop func()
	set  *Set
}

func newAgain(ctx context.Context, s *Set, key conversation.Key, life conversation.Offset) *again {
	a := &again{key: key, life: life, state: conversation.NewState(), set: s}
	a.next, a.stop = iter.Pull2(s.source.Batches(ctx, key, storage.Start()))
	return a
}

// page returns the history of n closed messages after the first `after` messages of the incarnation.
// Consecutive calls must not go backwards.
func (a *again) page(after, n int) (out *conversation.HistoryPage, err error) {
	for a.cut < after+n {
		want := after - a.cut // messages to skip
		if want <= 0 {
			want = after + n - a.cut
		}
		page, err := a.take(want)
		switch {
		case err != nil:
			return nil, err
		case a.cut <= after:
		case out == nil:
			out = page
		default:
			out = out.Join(page)
		}
	}
	return out, nil
}

// take returns at most n closed messages.
func (a *again) take(n int) (*conversation.HistoryPage, error) {
	for {
		if a.uncut >= min(CutEvery, a.set.options.HoldBytes) || a.ended {
			ours, most := a.state.Born() == a.life, n
			if !ours { // skip a deleted incarnation
				most = math.MaxInt
			}
			page, err := a.state.CutUpTo(most)
			switch {
			case err != nil:
				return nil, err
			case page != nil && ours:
				a.cut += page.Counts.Messages
				return page, nil
			case page != nil:
				continue
			case a.ended:
				return nil, &storage.GapError{Conv: a.key, Seq: int64(a.state.Head()) + 1, Next: -1}
			}
			a.uncut = 0
		}
		if err := a.fold(); err != nil {
			return nil, err
		}
	}
}

// fold applies the next batch.
func (a *again) fold() error {
	stored, err, ok := a.next()
	if err != nil {
		return err
	}
	if !ok {
		a.ended = true
		return nil
	}
	b, err := decoded(a.set.account, stored)
	if err != nil {
		return err
	}
	if err := a.state.Apply(conversation.Batch{Offset: conversation.Offset(b.at.Seq), Records: b.records}); err != nil {
		return &logError{b.at.Seq, err}
	}
	a.uncut += b.bytes
	return nil
}
