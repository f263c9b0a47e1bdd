package pending

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// stock is what a sweep has found in the bucket.
type stock struct {
	sweeper *Sweeper
	left    []*leftJournal
	// known says that what is quarantined was listed after the journals were read: only then
	// does it stand for what they say.
	known bool
}

// leftJournal is a journal that its node left behind.
type leftJournal struct {
	ref  storage.JournalRef
	all  []storage.JournalEntry
	open []storage.JournalEntry // of all, that no sweep of this node has had answered
	kept bool                   // by this sweep, whatever is answered
}

// takeStock reads the journals that nodes have left behind, counts over which conversations
// they died, and finds out what is quarantined.
func (w *Sweeper) scan(ctx context.Context) (*stock, error) {
	s := &stock{sweeper: w}
	refs, err := storage.Journals(ctx, w.o.Bucket)
	errs := []error{err, s.read(ctx, refs)}
	if err == nil {
		w.forgetAnswers(refs)
		s.expireSuspects()
		if slices.ContainsFunc(s.left, func(l *leftJournal) bool { return !l.ref.WasPutBack() }) {
			now := time.Now()
			w.crashed.Store(&now)
		}
		w.Quarantine.suspect(s.crashes())
	}
	err = w.loadQuarantine(ctx)
	s.known = err == nil
	return s, errors.Join(append(errs, err)...)
}

// read reads some journals at once. One at a time is as good for a schedule that is repeated.
func (s *stock) read(ctx context.Context, refs []storage.JournalRef) error {
	w := s.sweeper
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(journalsAtOnce)
	for _, ref := range refs {
		if ref.Member == w.Journal.member {
			err := w.Journal.removeStale(ctx, ref.Keys)
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
			continue
		}
		if w.o.IsMember(ref.Member) || !w.sweepsAgain(ref) {
			continue
		}
		l := &leftJournal{ref: ref}
		s.left = append(s.left, l)
		g.Go(func() error {
			j, err := storage.ReadJournal(ctx, w.o.Bucket, ref.Member, ref.N)
			l.kept = err != nil
			l.all, l.open = j.Entries, w.unanswered(ref, j.Entries)
			if err != nil && !errors.Is(err, storage.ErrNotFound) { // else another sweep was faster
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("sweep journal of %s: %w", ref.Member, err))
			}
			return nil
		})
	}
	_ = g.Wait() // What went wrong is in errs.
	s.left = slices.DeleteFunc(s.left, func(l *leftJournal) bool { return l.kept })
	return errors.Join(errs...)
}

// forgive takes what is past for answered: the openings that a journal of somebody who put a
// conversation back repeats. It stays as long as they stand elsewhere.
func (s *stock) expireSuspects() {
	past := map[storage.JournalEntry]*leftJournal{}
	for _, l := range s.left {
		for _, e := range l.all {
			if l.ref.WasPutBack() && e.Opening {
				past[e] = l
			}
		}
	}
	if len(past) == 0 {
		return
	}
	for _, l := range s.left {
		for _, e := range l.all {
			back := past[e]
			if back == nil {
				continue
			}
			s.sweeper.answered(l.ref, e)
			back.kept = back.kept || !l.ref.WasPutBack()
		}
		l.open = s.sweeper.unanswered(l.ref, l.all)
	}
}

// crashes is what the journals report of nodes that crashed while they opened a conversation.
func (s *stock) crashes() map[conversation.Key][]crash {
	out := map[conversation.Key][]crash{}
	for _, l := range s.left {
		for _, e := range l.open {
			if !e.Opening {
				continue
			}
			c := crash{ref: l.ref, entry: e, named: hasMark(e.Nonce, aloneMark), paused: hasMark(e.Nonce, pauseMark)}
			c.counts = c.named && l.listsOnly(e.Conv)
			out[e.Conv] = append(out[e.Conv], weigh(c))
		}
	}
	return out
}

// listsOnly reports whether a node did nothing else when it crashed: whatever is worked on, and
// every opening that takes long, is listed.
func (l *leftJournal) listsOnly(conv conversation.Key) bool {
	return !slices.ContainsFunc(l.all, func(e storage.JournalEntry) bool { return e.Conv != conv })
}

// trial opens the suspects of this node over which nodes have crashed while nothing else was being
// opened, one after the other, for a limited time. Nothing else is under way here yet.
func (s *stock) trial(ctx context.Context) {
	w := s.sweeper
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	for _, key := range w.Quarantine.named() {
		if ctx.Err() != nil || w.o.Passive() {
			return
		}
		if w.Quarantine.Refused(key) != nil || !w.o.Owns(key) {
			continue
		}
		if err := s.suspect(ctx, key, nil); err != nil {
			w.Quarantine.asked(key, false)
			w.o.Logger.Warn("try a suspect before anything else", "conversation", string(key), "err", err)
		}
	}
	if err := s.release(ctx, true); err != nil {
		w.o.Logger.Warn("try what is quarantined", "err", err)
	}
}

// setAside sets aside over what too many nodes have died, and takes what is quarantined for
// answered. What somebody put back is owed all the same.
func (s *stock) quarantine(ctx context.Context) error {
	var errs []error
	a := s.sweeper.Quarantine
	for _, l := range s.left {
		for _, e := range l.open {
			if _, n := a.evidence(e.Conv); n >= a.limit && !a.has(e.Conv) && quarantineBeforeAnswer() {
				errs = append(errs, s.sweeper.quarantine(ctx, e.Conv, fmt.Sprintf("%d nodes crashed while they opened it and did nothing else, %s among them", n, l.ref.Member), n))
			}
		}
	}
	for _, l := range s.left {
		var left []storage.JournalEntry
		for _, e := range l.open {
			switch {
			case a.Refused(e.Conv) == nil:
				left = append(left, e)
			case s.known && (a.has(e.Conv) || !quarantineBeforeAnswer()) && !l.ref.WasPutBack():
				s.sweeper.answered(l.ref, e)
			default:
				l.kept = true // It stays, and nobody is asked for this entry.
			}
		}
		l.open = left
	}
	return errors.Join(errs...)
}

// calm answers the entries of conversations that no node died over, and deletes the journals
// that have no others. An owner that hangs over one journal does not hold up another.
func (s *stock) calm(ctx context.Context) error {
	w := s.sweeper
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(journalsAtOnce)
	for _, l := range s.left {
		if len(l.open) > 0 {
			w.o.Logger.Info("take over conversations", "member", l.ref.Member, "count", len(l.open))
		}
		g.Go(func() error {
			err := w.answer(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			return nil
		})
	}
	_ = g.Wait() // What went wrong is in errs.
	return errors.Join(errs...)
}

// answer answers the calm entries of a journal that its node left behind and then
// deletes exactly the keys up to the number it read. An answer stays true, because
// its writer is fenced: what was answered by an earlier sweep is not asked again
// on account of an entry that nobody can answer.
func (w *Sweeper) answer(ctx context.Context, l *leftJournal) error {
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	var suspects []storage.JournalEntry
	for _, e := range l.open {
		if w.Quarantine.Suspects(e.Conv) && suspectsTakeTurns() {
			suspects = append(suspects, e)
			continue
		}
		g.Go(func() error { return w.answerEntry(ctx, l, e) })
	}
	err := g.Wait()
	if l.open = suspects; err != nil {
		if awaitsAnswers() {
			l.kept = true // to be read again
			return fmt.Errorf("sweep journal of %s: %w", l.ref.Member, err)
		}
	}
	return w.forget(ctx, l)
}

func (w *Sweeper) answerEntry(ctx context.Context, l *leftJournal, e storage.JournalEntry) error {
	if w.covered(e) {
		return nil
	}
	if err := w.probe(ctx, e); err != nil {
		return err
	}
	w.answered(l.ref, e)
	w.takenOver.Add(1)
	return nil
}

// forget deletes a journal that has no open entry.
func (w *Sweeper) forget(ctx context.Context, l *leftJournal) error {
	if l.kept || len(l.open) > 0 {
		return nil
	}
	l.kept = true // It is gone, or the next sweep tries again.
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteJournal(ctx, w.o.Bucket, w.swept(ctx, l.ref))
}

// suspects answers the entries of conversations that nodes died over, one conversation after
// the other. It ends early when the members change, or when it takes long: what others owe
// comes first.
func (s *stock) suspects(ctx context.Context) error {
	w := s.sweeper
	own := slices.DeleteFunc(w.orphans(), func(e storage.JournalEntry) bool {
		return !w.Quarantine.Suspects(e.Conv) || w.Quarantine.Refused(e.Conv) != nil
	})
	entries := slices.Clone(own)
	for _, l := range s.left {
		entries = append(entries, l.open...)
	}
	if len(entries) == 0 {
		return nil
	}
	keys := make([]conversation.Key, len(entries))
	for i, e := range entries {
		keys[i] = e.Conv
	}
	w.Quarantine.order(keys)
	var errs []error
	began := time.Now()
	for i, key := range slices.Compact(keys) {
		if i > 0 && len(w.now) > 0 {
			break
		}
		if time.Since(began) >= suspectsTimeout {
			errs = append(errs, errSuspectsLeft)
			break
		}
		err := s.suspect(ctx, key, own)
		w.Quarantine.asked(key, err == nil)
		errs = append(errs, err)
	}
	for _, l := range s.left {
		errs = append(errs, w.forget(ctx, l))
	}
	return errors.Join(errs...)
}

// suspect answers the entries of one conversation.
// Where one is not answered the others would wait for the same.
func (s *stock) suspect(ctx context.Context, key conversation.Key, own []storage.JournalEntry) error {
	for _, l := range s.left {
		if err := s.answerAll(ctx, l, key); err != nil {
			return err
		}
	}
	for _, e := range own {
		if e.Conv != key {
			continue
		}
		if err := s.sweeper.probeOwn(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// answerAll answers the entries of one conversation in a journal.
func (s *stock) answerAll(ctx context.Context, l *leftJournal, key conversation.Key) (err error) {
	l.open = slices.DeleteFunc(l.open, func(e storage.JournalEntry) bool {
		if e.Conv != key || ctx.Err() != nil || err != nil {
			return false
		}
		if err = s.sweeper.answerEntry(ctx, l, e); err != nil {
			err = fmt.Errorf("sweep journal of %s: %w", l.ref.Member, err)
		}
		return err == nil
	})
	return err
}
