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
	"github.com/parleyrun/parley/storage"
)

const (
	// pokeTimeout bounds one poke: opening a log, fencing it, being listed.
	pokeTimeout = 30 * time.Second
	// pokesAtOnce bounds the pokes a sweep has under way.
	pokesAtOnce = 32
	// soonAfter is the pause before a sweep that a lost append asks for.
	soonAfter = time.Second
)

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
// the journals of incarnations that are not members, and in this node's own set.
func (r *Runtime) sweep(ctx context.Context) error {
	if r.members.passive() {
		return nil
	}
	r.counts.sweeps.Add(1)
	var errs []error
	refs, err := storage.Journals(ctx, r.bucket)
	if err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, r.sweepJournals(ctx, refs))
	if err == nil {
		r.forgetAnswers(refs)
	}
	errs = append(errs, r.sweepOwnSet(ctx), r.sweepStaged(ctx))
	return errors.Join(errs...)
}

// sweepJournals sweeps some journals at once: an owner that hangs over an entry of one
// must not hold up another. One at a time is as good for a schedule that is repeated.
func (r *Runtime) sweepJournals(ctx context.Context, refs []storage.JournalRef) error {
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(r.journalsAtOnce)
	for _, ref := range refs {
		if ref.Member != r.journal.member && r.members.has(ref.Member) {
			continue
		}
		g.Go(func() error {
			var err error
			if ref.Member == r.journal.member {
				err = r.journal.removeReplaced(ctx, ref.Keys)
			} else {
				err = r.sweepForeign(ctx, ref)
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			return nil
		})
	}
	_ = g.Wait() // What went wrong is in errs.
	return errors.Join(errs...)
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

// sweepForeign answers every entry of a journal that its node left behind and then
// deletes exactly the keys up to the number it read. An answer stays true, because
// its writer is fenced: what was answered by an earlier sweep is not asked again
// on account of an entry that nobody can answer.
func (r *Runtime) sweepForeign(ctx context.Context, ref storage.JournalRef) error {
	if !r.sweepsAgain(ref) {
		return nil
	}
	j, err := storage.ReadJournal(ctx, r.bucket, ref.Member, ref.Shard, ref.N)
	if errors.Is(err, storage.ErrNotFound) {
		return nil // another sweep was faster
	}
	if err != nil {
		return fmt.Errorf("sweep journal of %s: %w", ref.Member, err)
	}
	open := r.unanswered(ref, j.Entries)
	if len(open) > 0 {
		r.log.Info("take over conversations", "member", ref.Member, "count", len(open))
	}
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	for _, e := range open {
		g.Go(func() error {
			if r.covered(e) {
				return nil
			}
			if err := r.poke(ctx, e); err != nil {
				return err
			}
			r.answered(ref, e)
			r.counts.takenOver.Add(1)
			return nil
		})
	}
	if err := g.Wait(); err != nil && awaitsAnswers() {
		return fmt.Errorf("sweep journal of %s: %w", ref.Member, err)
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteJournal(ctx, r.bucket, r.swept(ctx, ref))
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

// sweepOwnSet answers the entries of this node's own set whose writer stepped down.
func (r *Runtime) sweepOwnSet(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	for _, e := range r.orphans() {
		g.Go(func() error { return r.pokeOwn(ctx, e) })
	}
	return g.Wait()
}

// orphans returns the entries of this node's own set whose writer does not run here.
func (r *Runtime) orphans() []storage.JournalEntry {
	return slices.DeleteFunc(r.journal.held(), func(e storage.JournalEntry) bool {
		return r.writes(e.Conv, e.Nonce) || !sweepsOwnSet()
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
