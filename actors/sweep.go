package actors

import (
	"context"
	"errors"
	"fmt"
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

// sweepLoop sweeps at once, every SweepEvery, and soon after an activation of
// this node stepped down, until ctx ends.
func (r *Runtime) sweepLoop(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.sweepSoon:
			t.Reset(soonAfter)
			continue
		case <-t.C:
		}
		if err := r.sweep(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("sweep busy journals", "err", err)
		}
		t.Reset(r.opts.SweepEvery)
	}
}

// askSweep makes the next sweep come soon.
func (r *Runtime) askSweep() {
	select {
	case r.sweepSoon <- struct{}{}:
	default:
	}
}

// sweep pokes everything that is listed under a writer which no longer runs: in
// the journals of incarnations that are not members, and in this node's own set.
func (r *Runtime) sweep(ctx context.Context) error {
	var errs []error
	refs, err := storage.Journals(ctx, r.bucket)
	if err != nil {
		errs = append(errs, err)
	}
	for _, ref := range refs {
		if ref.Member == r.journal.member {
			continue
		}
		errs = append(errs, r.sweepForeign(ctx, ref))
	}
	return errors.Join(append(errs, r.sweepOwnSet(ctx))...)
}

// sweepForeign answers every entry of a journal that its node left behind and then
// deletes exactly the keys up to the number it read.
func (r *Runtime) sweepForeign(ctx context.Context, ref storage.JournalRef) error {
	j, err := storage.ReadJournal(ctx, r.bucket, ref.Member, ref.Shard, ref.N)
	if errors.Is(err, storage.ErrNotFound) {
		return nil // another sweep was faster
	}
	if err != nil {
		return fmt.Errorf("sweep journal of %s: %w", ref.Member, err)
	}
	if len(j.Entries) > 0 {
		r.log.Info("take over conversations", "member", ref.Member, "count", len(j.Entries))
	}
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	for _, e := range j.Entries {
		g.Go(func() error { return r.poke(ctx, e) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("sweep journal of %s: %w", ref.Member, err)
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteJournal(ctx, r.bucket, ref.Keys)
}

// sweepOwnSet answers the entries of this node's own set whose writer stepped down.
func (r *Runtime) sweepOwnSet(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	for _, e := range r.journal.held() {
		if r.writes(e.Conv, e.Nonce) || !sweepsOwnSet() {
			continue
		}
		g.Go(func() error {
			if err := r.poke(ctx, e); err != nil {
				return err
			}
			r.journal.answered(entryID{e.Conv, e.Nonce})
			return nil
		})
	}
	return g.Wait()
}

// poke asks the owner about an entry and returns nil once it is answered: its
// writer is fenced, and its work is settled or held by a listed writer.
func (r *Runtime) poke(ctx context.Context, e storage.JournalEntry) error {
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
