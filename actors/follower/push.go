package follower

import (
	"iter"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// Offer hands over a batch that its owner made durable and verified: its
// position, the hash of the batch before it, its records, which from now on are
// shared and must not be changed, and the size of their lines. It does no I/O and
// takes constant time; it is ignored when nobody follows the conversation.
func (s *Set) Offer(key conversation.Key, at storage.Position, prev storage.Hash, records []conversation.Record, bytes int) {
	if f := s.followed(key); f != nil {
		f.offer(batch{at: at, prev: prev, records: records, bytes: bytes})
	}
}

// OfferStored is [Set.Offer] for a batch as it is stored, pushed by another node. Of
// its header only Seq and Prev matter. Its lines are decoded when they are folded;
// if they cannot be, that is logged and the bucket is read. A batch without lines is
// a claim; say [Set.Behind] of one whose lines are not at hand.
func (s *Set) OfferStored(key conversation.Key, b storage.Batch) {
	if f := s.followed(key); f != nil {
		f.offer(batch{at: b.Position(), prev: b.Prev, lines: b.Lines, bytes: len(b.Lines)})
	}
}

// Behind says that the log of a conversation has a batch of the number seq. Unless
// that is known, the bucket is read: at once if the follower has readers, otherwise
// before the next read. It does no I/O and takes constant time; it is ignored when
// nobody follows the conversation.
func (s *Set) Behind(key conversation.Key, seq int64) {
	if f := s.followed(key); f != nil {
		f.behind(seq)
	}
}

// Recheck says that pushes may have been lost. A read of the bucket begins after it,
// as [Set.Behind] says. It is ignored when nobody follows the conversation.
func (s *Set) Recheck(key conversation.Key) {
	if f := s.followed(key); f != nil {
		s.counts.rechecks.Add(1)
		f.recheck()
	}
}

// Distrust says that the log cannot be read from its start: what is at hand here must not
// be shown any longer. The log is read anew. It is ignored when nobody follows the
// conversation, or when that is known.
func (s *Set) Distrust(key conversation.Key) {
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

// Followed yields the conversations that are followed, in no order, and the number of
// the newest batch of each that was taken, -1 if there is none. What comes and goes
// meanwhile may be missed. The set may be called meanwhile.
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

// followed returns the follower of a conversation, nil if there is none.
func (s *Set) followed(key conversation.Key) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followers[key]
}

// used reports whether somebody reads, or waits to.
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
		f.heard = max(f.heard, seq)
	case !f.stale:
		f.set.counts.gaps.Add(1)
		f.mend()
	}
}

func (f *follower) recheck() {
	f.in.Lock()
	defer f.in.Unlock()
	switch {
	case f.load != nil:
		f.again = true
	case !f.stale:
		f.mend()
	}
}

// mend is repair if somebody reads. Otherwise it is left to the next read, so that
// what concerns many conversations costs nothing for those without readers. in is
// held and no load runs.
func (f *follower) mend() {
	if f.set.used(f) {
		f.repair()
		return
	}
	f.stale = true
}
