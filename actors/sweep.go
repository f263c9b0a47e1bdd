package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// pokeTimeout bounds one poke: opening a log, fencing it, being listed.
	pokeTimeout = 30 * time.Second
	// pokesAtOnce bounds the pokes a sweep has under way.
	pokesAtOnce = 32
	// suspectsTimeout is after how long a sweep begins to ask for no more suspects.
	suspectsTimeout = pokeTimeout
	// soonAfter is the pause before a sweep that a lost append asks for.
	soonAfter = time.Second
)

// errSuspectsLeft says that the next sweep has to go on where one ended.
var errSuspectsLeft = errors.New("conversations that nodes died over are left for the next sweep")

// sweepLoop sweeps at once, every SweepEvery, when the members have changed, and soon
// after an activation of this node stepped down or a sweep left something unanswered,
// until ctx ends. Whoever asks can only bring the next sweep forward: asking without
// end must not put it off.
func (r *Runtime) sweepLoop(ctx context.Context) {
	next, retry := time.Now(), soonAfter
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.sweepSoon:
			if soon := time.Now().Add(soonAfter); soon.Before(next) {
				next = soon
				t.Reset(soonAfter)
			}
			continue
		case <-r.sweepNow:
		case <-t.C:
		}
		r.resting.expire()
		pause := r.opts.SweepEvery
		err := r.sweep(ctx)
		switch {
		case err == nil:
			retry = soonAfter
		case ctx.Err() == nil:
			r.log.Warn("sweep busy journals", "err", err)
			pause = min(retry, pause)
			retry = min(2*retry, r.opts.SweepEvery)
		}
		next = time.Now().Add(pause)
		t.Reset(pause)
	}
}

// askSweep makes the next sweep come soon.
func (r *Runtime) askSweep() { nudge(r.sweepSoon) }

// askPokes has the entries of this node's own set poked at once.
func (r *Runtime) askPokes() { nudge(r.pokeNow) }

// pokeLoop pokes what this node has handed over, so that its new owner goes on with it,
// until ctx ends. It waits for no answer: one owner that hangs holds up no other.
func (r *Runtime) pokeLoop(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	defer func() { _ = g.Wait() }() // Nothing that it runs returns an error.
	var mu sync.Mutex
	under := map[storage.JournalEntry]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.pokeNow:
		}
		for _, e := range r.orphans() {
			mu.Lock()
			skip := under[e]
			under[e] = true
			mu.Unlock()
			if skip {
				continue
			}
			g.Go(func() error {
				if err := r.pokeOwn(ctx, e); err != nil && ctx.Err() == nil {
					r.log.Info("poke what was handed over; the next sweep asks again", "err", err)
					r.askSweep()
				}
				mu.Lock()
				defer mu.Unlock()
				delete(under, e)
				return nil
			})
		}
	}
}

// sweep pokes everything that is listed under a writer which no longer runs: in
// the journals of incarnations that are not members, and in this node's own set. Where
// nodes have died over a conversation, it comes after all others.
func (r *Runtime) sweep(ctx context.Context) error {
	if r.members.passive() {
		return nil
	}
	r.counts.sweeps.Add(1)
	s, err := r.takeStock(ctx)
	errs := []error{err, s.setAside(ctx), s.calm(ctx), s.ownSet(ctx), s.suspects(ctx), r.sweepStaged(ctx)}
	return errors.Join(errs...)
}

// stock is what a sweep has found in the bucket.
type stock struct {
	rt   *Runtime
	left []*leftJournal
	// known says that what is set aside was listed after the journals were read: only then
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
// they died, and finds out what is set aside.
func (r *Runtime) takeStock(ctx context.Context) (*stock, error) {
	s := &stock{rt: r}
	refs, err := storage.Journals(ctx, r.bucket)
	errs := []error{err, s.read(ctx, refs)}
	if err == nil {
		r.forgetAnswers(refs)
		s.forgive()
		r.aside.suspect(s.deaths())
	}
	err = r.lookAside(ctx)
	s.known = err == nil
	return s, errors.Join(append(errs, err)...)
}

// read reads some journals at once. One at a time is as good for a schedule that is repeated.
func (s *stock) read(ctx context.Context, refs []storage.JournalRef) error {
	r := s.rt
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(r.journalsAtOnce)
	for _, ref := range refs {
		if ref.Member == r.journal.member {
			err := r.journal.removeReplaced(ctx, ref.Keys)
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
			continue
		}
		if r.members.has(ref.Member) || !r.sweepsAgain(ref) {
			continue
		}
		l := &leftJournal{ref: ref}
		s.left = append(s.left, l)
		g.Go(func() error {
			j, err := storage.ReadJournal(ctx, r.bucket, ref.Member, ref.Shard, ref.N)
			l.kept = err != nil
			l.all, l.open = j.Entries, r.unanswered(ref, j.Entries)
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
func (s *stock) forgive() {
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
			s.rt.answered(l.ref, e)
			back.kept = back.kept || !l.ref.WasPutBack()
		}
		l.open = s.rt.unanswered(l.ref, l.all)
	}
}

// deaths is what the journals say of nodes that died while they opened a conversation.
func (s *stock) deaths() map[conversation.Key][]death {
	out := map[conversation.Key][]death{}
	for _, l := range s.left {
		for _, e := range l.open {
			if e.Opening {
				out[e.Conv] = append(out[e.Conv], death{l.ref, e})
			}
		}
	}
	return out
}

// setAside sets aside over what too many nodes have died, and takes what is set aside for
// answered. What somebody put back is owed all the same.
func (s *stock) setAside(ctx context.Context) error {
	var errs []error
	a := s.rt.aside
	for _, l := range s.left {
		for _, e := range l.open {
			if n := a.died(e.Conv); n >= a.limit && !a.has(e.Conv) && asideBeforeAnswer() {
				errs = append(errs, s.rt.setAside(ctx, e.Conv, fmt.Sprintf("%d nodes died while they opened it, %s the last that was looked at", n, l.ref.Member), n))
			}
		}
	}
	for _, l := range s.left {
		var left []storage.JournalEntry
		for _, e := range l.open {
			switch {
			case a.refused(e.Conv) == nil:
				left = append(left, e)
			case s.known && (a.has(e.Conv) || !asideBeforeAnswer()) && !l.ref.WasPutBack():
				s.rt.answered(l.ref, e)
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
	r := s.rt
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(r.journalsAtOnce)
	for _, l := range s.left {
		if len(l.open) > 0 {
			r.log.Info("take over conversations", "member", l.ref.Member, "count", len(l.open))
		}
		g.Go(func() error {
			err := r.answer(ctx, l)
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
func (r *Runtime) answer(ctx context.Context, l *leftJournal) error {
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	var suspects []storage.JournalEntry
	for _, e := range l.open {
		if r.aside.suspects(e.Conv) && suspectsTakeTurns() {
			suspects = append(suspects, e)
			continue
		}
		g.Go(func() error { return r.answerEntry(ctx, l, e) })
	}
	err := g.Wait()
	if l.open = suspects; err != nil {
		if awaitsAnswers() {
			l.kept = true // to be read again
			return fmt.Errorf("sweep journal of %s: %w", l.ref.Member, err)
		}
	}
	return r.forget(ctx, l)
}

func (r *Runtime) answerEntry(ctx context.Context, l *leftJournal, e storage.JournalEntry) error {
	if r.covered(e) {
		return nil
	}
	if err := r.poke(ctx, e); err != nil {
		return err
	}
	r.answered(l.ref, e)
	r.counts.takenOver.Add(1)
	return nil
}

// forget deletes a journal that has no open entry.
func (r *Runtime) forget(ctx context.Context, l *leftJournal) error {
	if l.kept || len(l.open) > 0 {
		return nil
	}
	l.kept = true // It is gone, or the next sweep tries again.
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteJournal(ctx, r.bucket, r.swept(ctx, l.ref))
}

// suspects answers the entries of conversations that nodes died over, one conversation after
// the other. It ends early when the members change, or when it takes long: what others owe
// comes first.
func (s *stock) suspects(ctx context.Context) error {
	r := s.rt
	own := slices.DeleteFunc(r.orphans(), func(e storage.JournalEntry) bool {
		return !r.aside.suspects(e.Conv) || r.aside.refused(e.Conv) != nil
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
	r.aside.order(keys)
	var errs []error
	began := time.Now()
	for i, key := range slices.Compact(keys) {
		if i > 0 && len(r.sweepNow) > 0 {
			break
		}
		if time.Since(began) >= suspectsTimeout {
			errs = append(errs, errSuspectsLeft)
			break
		}
		err := s.suspect(ctx, key, own)
		r.aside.asked(key, err == nil)
		errs = append(errs, err)
	}
	for _, l := range s.left {
		errs = append(errs, r.forget(ctx, l))
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
		if err := s.rt.pokeOwn(ctx, e); err != nil {
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
		if err = s.rt.answerEntry(ctx, l, e); err != nil {
			err = fmt.Errorf("sweep journal of %s: %w", l.ref.Member, err)
		}
		return err == nil
	})
	return err
}

// sweepStaged deletes what nodes that are gone have left on its way to an owner.
func (r *Runtime) sweepStaged(ctx context.Context) error {
	if r.peers == nil {
		return nil
	}
	if r.members.passive() {
		return nil
	}
	// A node that is about to become a member may be at work already: only what two sweeps
	// in a row find goes.
	before, now := r.strays, map[string]bool{}
	r.strays = now
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteStaged(ctx, r.bucket, func(member string) bool {
		if member == r.journal.member || r.members.has(member) {
			return false
		}
		now[member] = true
		return before[member]
	})
}

// shard names the journals of one shard of one member.
type shard struct {
	member string
	number int
}

// unanswered returns the entries of a journal that no sweep of this node has had
// answered.
func (r *Runtime) unanswered(ref storage.JournalRef, entries []storage.JournalEntry) []storage.JournalEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.answers[shard{ref.Member, ref.Shard}]
	var out []storage.JournalEntry
	for _, e := range entries {
		if !known[e] {
			out = append(out, e)
		}
	}
	return out
}

func (r *Runtime) answered(ref storage.JournalRef, e storage.JournalEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := shard{ref.Member, ref.Shard}
	if r.answers[at] == nil {
		r.answers[at] = map[storage.JournalEntry]bool{}
	}
	r.answers[at][e] = true
}

// forgetAnswers drops what was remembered of journals that are gone.
func (r *Runtime) forgetAnswers(refs []storage.JournalRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.answers, func(at shard, _ map[storage.JournalEntry]bool) bool {
		return !slices.ContainsFunc(refs, func(ref storage.JournalRef) bool {
			return at == shard{ref.Member, ref.Shard}
		})
	})
}

// ownSet answers the entries of this node's own set whose writer stepped down.
func (s *stock) ownSet(ctx context.Context) error {
	r := s.rt
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	for _, e := range r.orphans() {
		switch {
		case r.aside.has(e.Conv):
			r.journal.answered(entryID{e.Conv, e.Nonce})
		case r.aside.suspects(e.Conv): // It comes with the suspects.
		default:
			g.Go(func() error { return r.pokeOwn(ctx, e) })
		}
	}
	return g.Wait()
}

// orphans returns the entries of this node's own set whose writer does not run here.
func (r *Runtime) orphans() []storage.JournalEntry {
	return slices.DeleteFunc(r.journal.held(), func(e storage.JournalEntry) bool {
		return e.Opening || r.writes(e.Conv, e.Nonce) || !sweepsOwnSet()
	})
}

// pokeOwn is poke for an entry of this node's own set, which leaves it then.
func (r *Runtime) pokeOwn(ctx context.Context, e storage.JournalEntry) error {
	if err := r.poke(ctx, e); err != nil {
		return err
	}
	r.journal.answered(entryID{e.Conv, e.Nonce})
	return nil
}

// poke asks the owner about an entry and returns nil once it is answered: its
// writer is fenced, and its work is settled or held by a listed writer.
func (r *Runtime) poke(ctx context.Context, e storage.JournalEntry) error {
	r.counts.pokes.Add(1)
	ctx, cancel := context.WithTimeout(ctx, pokeTimeout)
	defer cancel()
	m, err := r.host.Request(ctx, string(e.Conv), &wire.PokeRequest{Nonce: string(e.Nonce), Seq: e.Seq})
	if err != nil {
		return fmt.Errorf("poke %s: %w", e.Conv, err)
	}
	reply, ok := m.(*wire.PokeReply)
	if !ok || reply.GetAnswer() == wire.PokeReply_UNKNOWN {
		return fmt.Errorf("poke %s: not answered", e.Conv)
	}
	return nil
}
