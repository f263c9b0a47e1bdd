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

// scanResult holds the journals that a sweep found in the bucket.
type scanResult struct {
	sweeper *Sweeper
	left    []*leftJournal
	// known is set if the quarantine was listed after the journals were read. Only then does it cover
	// their entries.
	known bool
}

// leftJournal is the journal of a node that is gone.
type leftJournal struct {
	ref  storage.JournalRef
	all  []storage.JournalEntry
	open []storage.JournalEntry // entries without an answer in earlier sweeps of this node
	kept bool                   // not to be deleted by this sweep
}

// scan reads the journals of nodes that are gone, counts crashes per conversation, and lists the
// quarantined conversations.
func (w *Sweeper) scan(ctx context.Context) (*scanResult, error) {
	s := &scanResult{sweeper: w}
	refs, err := storage.Journals(ctx, w.o.Bucket)
	errs := []error{err, s.read(ctx, refs)}
	if err == nil {
		w.dropAnswers(refs)
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

// read reads journals concurrently. The order does not matter.
func (s *scanResult) read(ctx context.Context, refs []storage.JournalRef) error {
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
			if err != nil && !errors.Is(err, storage.ErrNotFound) { // else another sweep deleted it
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("sweep journal of %s: %w", ref.Member, err))
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	s.left = slices.DeleteFunc(s.left, func(l *leftJournal) bool { return l.kept })
	return errors.Join(errs...)
}

// expireSuspects marks expired openings as answered: those repeated in the journal of a release. That
// journal stays as long as another journal lists them.
func (s *scanResult) expireSuspects() {
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

// crashes returns the crashes per conversation that the journals report.
func (s *scanResult) crashes() map[conversation.Key][]crash {
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

// listsOnly reports whether the node had no other work when it crashed. All work and all slow openings
// are listed.
func (l *leftJournal) listsOnly(conv conversation.Key) bool {
	return !slices.ContainsFunc(l.all, func(e storage.JournalEntry) bool { return e.Conv != conv })
}

// trial opens this node's suspects with named crashes, one after the other, for a limited time. The
// node has no other work yet.
func (s *scanResult) trial(ctx context.Context) {
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
			w.Quarantine.probed(key, false)
			w.o.Logger.Warn("trial of suspect failed", "conversation", string(key), "err", err)
		}
	}
	if err := s.release(ctx, true); err != nil {
		w.o.Logger.Warn("trial of quarantined conversations failed", "err", err)
	}
}

// quarantine quarantines conversations that too many nodes crashed over, and marks entries of
// quarantined conversations as answered. Entries of a release stay pending.
func (s *scanResult) quarantine(ctx context.Context) error {
	var errs []error
	a := s.sweeper.Quarantine
	for _, l := range s.left {
		for _, e := range l.open {
			if _, n := a.evidence(e.Conv); n >= a.limit && !a.has(e.Conv) && quarantineBeforeAnswer() {
				errs = append(errs, s.sweeper.quarantine(ctx, e.Conv, fmt.Sprintf("%d nodes crashed while they opened it with no other work, including %s", n, l.ref.Member), n))
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
				l.kept = true // keep the journal, without probing this entry
			}
		}
		l.open = left
	}
	return errors.Join(errs...)
}

// takeOver answers the entries of conversations that are no suspects, and deletes the journals without
// other entries. Journals are independent: a hung owner delays only one.
func (s *scanResult) takeOver(ctx context.Context) error {
	w := s.sweeper
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(journalsAtOnce)
	for _, l := range s.left {
		if len(l.open) > 0 {
			w.o.Logger.Info("taking over conversations", "member", l.ref.Member, "count", len(l.open))
		}
		g.Go(func() error {
			err := w.answer(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	return errors.Join(errs...)
}

// answer answers the entries of a journal that are no suspects, and then deletes exactly the keys up
// to the number it read. An answer stays valid because the writer is fenced. Entries answered in an
// earlier sweep are not probed again because of one entry that cannot be answered.
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
			l.kept = true // read it again next time
			return fmt.Errorf("sweep journal of %s: %w", l.ref.Member, err)
		}
	}
	return w.discard(ctx, l)
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

// discard deletes a journal without open entries.
func (w *Sweeper) discard(ctx context.Context, l *leftJournal) error {
	if l.kept || len(l.open) > 0 {
		return nil
	}
	l.kept = true // On failure the next sweep retries.
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteJournal(ctx, w.o.Bucket, w.swept(ctx, l.ref))
}

// suspects answers the entries of suspects, one conversation after the other. It ends early when the
// members change, or after suspectsTimeout, because other pending work comes first.
func (s *scanResult) suspects(ctx context.Context) error {
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
		w.Quarantine.probed(key, err == nil)
		errs = append(errs, err)
	}
	for _, l := range s.left {
		errs = append(errs, w.discard(ctx, l))
	}
	return errors.Join(errs...)
}

// suspect answers the entries of one conversation. It stops at the first failure, because the others
// would wait for the same.
func (s *scanResult) suspect(ctx context.Context, key conversation.Key, own []storage.JournalEntry) error {
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
func (s *scanResult) answerAll(ctx context.Context, l *leftJournal, key conversation.Key) (err error) {
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
