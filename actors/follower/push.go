package follower

import (
	"iter"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// Offer delivers a batch that its owner made durable and verified. prev is the hash of the batch
// before it, and bytes is the size of its record lines. The records are shared from now on and must
// not be changed. Offer does no I/O and takes constant time. It is ignored if the conversation has no
// follower.
func (s *Set) Offer(key conversation.Key, at storage.Position, prev storage.Hash, records []conversation.Record, bytes int) {
	if f := s.followed(key); f != nil {
		f.offer(batch{at: at, prev: prev, records: records, bytes: bytes})
	}
}

// OfferStored is [Set.Offer] for a stored batch that another node pushed. Only Seq and Prev of its
// header are used. Its lines are decoded when they are folded; if decoding fails, the error is logged
// and the bucket is read. A batch without lines is a claim. Use [Set.Behind] if the lines are not
// available.
func (s *Set) OfferStored(key conversation.Key, b storage.Batch) {
	if f := s.followed(key); f != nil {
		f.offer(batch{at: b.Position(), prev: b.Prev, lines: b.Lines, bytes: len(b.Lines)})
	}
}

// Behind reports that the log has a batch with the number seq. Unless the batch is known, the bucket
// is read: immediately if the follower has readers, otherwise before the next read. Behind does no I/O
// and takes constant time. It is ignored if the conversation has no follower.
func (s *Set) Behind(key conversation.Key, seq int64) {
	if f := s.followed(key); f != nil {
		f.behind(seq)
	}
}

// Recheck reports that pushes may have been lost. A read of the bucket begins after it, as for
// [Set.Behind]. It is ignored if the conversation has no follower.
func (s *Set) Recheck(key conversation.Key) {
	if f := s.followed(key); f != nil {
		s.counts.rechecks.Add(1)
		f.recheck()
	}
}

// Invalidate reports that the log cannot be read from its start. The view must not be served any
// longer, and the log is read again. It is ignored if the conversation has no follower, or if the
// failure is known.
func (s *Set) Invalidate(key conversation.Key) {
	f := s.followed(key)
	if f == nil {
		return
	}
	f.in.Lock()
	defer f.in.Unlock()
	if f.failed != nil {
		return
	}
	f.broken, f.stale = true, true
	if f.load == nil {
		f.repair()
	}
}

// Followed yields the followed conversations, in no order, and the number of the newest batch taken of
// each, or -1. It may miss concurrent changes. The loop body may call the set.
func (s *Set) Followed() iter.Seq2[conversation.Key, int64] {
	return func(yield func(conversation.Key, int64) bool) {
		s.mu.Lock()
		all := make([]*follower, 0, len(s.followers))
		for _, f := range s.followers {
			all = append(all, f)
		}
		s.mu.Unlock()
		for _, f := range all {
			f.in.Lock()
			seq := f.tip.Seq
			f.in.Unlock()
			if !yield(f.key, seq) {
				return
			}
		}
	}
}

// followed returns the follower of a conversation, or nil.
func (s *Set) followed(key conversation.Key) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followers[key]
}

// used reports whether the follower has readers or waiters.
func (s *Set) used(f *follower) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.users > 0
}

func (f *follower) behind(seq int64) {
	f.in.Lock()
	defer f.in.Unlock()
	switch {
	case seq <= f.tip.Seq:
	case f.load != nil:
		f.reported = max(f.reported, seq)
	case !f.stale:
		f.set.counts.gaps.Add(1)
		f.repairIfUsed()
	}
}

func (f *follower) recheck() {
	f.in.Lock()
	defer f.in.Unlock()
	switch {
	case f.load != nil:
		f.requested = true
	case !f.stale:
		f.repairIfUsed()
	}
}

// repairIfUsed calls repair if the follower has readers. Otherwise the next read loads, so that events
// that concern many conversations cost nothing for those without readers. in is held and no load runs.
func (f *follower) repairIfUsed() {
	if f.set.used(f) {
		f.repair()
		return
	}
	f.stale = true
}
