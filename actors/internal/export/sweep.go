package export

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

// sweepTimeout bounds the bucket requests of one sweep.
const sweepTimeout = time.Minute

// adoption is a journal of another node whose entries are in the own set.
type adoption struct {
	member string
	shard  int
	n      int64
	keys   []string              // the journal read and older ones, to be deleted
	left   []storage.ExportEntry // entries that may be neither exported nor in a landed own journal
}

// sweepLoop sweeps immediately, at every interval, and on request, until ctx ends.
func (x *Exporter) sweepLoop(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.answered:
			x.finishAdoptions(ctx)
			continue
		case <-x.soon:
		case <-next.C:
		}
		if err := x.sweep(ctx); err != nil && ctx.Err() == nil {
			x.log.Warn("export journal sweep failed", "err", err)
		}
		next.Reset(x.opts.SweepEvery)
	}
}

// sweep adopts the entries of journals of nodes that are gone, and removes own journals that were
// abandoned. Two nodes that do it concurrently ship events twice, which is harmless.
func (x *Exporter) sweep(ctx context.Context) error {
	live, ok := x.opts.Live()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	refs, err := storage.ExportJournals(ctx, x.bucket)
	if err != nil {
		return err
	}
	x.dropAdoptions(refs)
	var errs []error
	for _, ref := range refs {
		switch {
		case ref.Member == x.opts.Member:
			errs = append(errs, x.removeStale(ctx, ref))
		case !slices.Contains(live, ref.Member) && responsible(live, ref) == x.opts.Member:
			errs = append(errs, x.adopt(ctx, ref))
		}
	}
	x.finishAdoptions(ctx)
	return errors.Join(errs...)
}

// responsible returns the member that adopts a journal: the one with the highest hash of both.
func responsible(live []string, ref storage.JournalRef) string {
	var best string
	var most uint64
	for _, m := range live {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\x00%s\x00%d", m, ref.Member, ref.Shard)
		// FNV leaves the high bits of similar inputs similar; mix them.
		score := h.Sum64()
		score = (score ^ score>>33) * 0xff51afd7ed558ccd
		score ^= score >> 33
		if best == "" || score > most || score == most && m > best {
			best, most = m, score
		}
	}
	return best
}

// removeStale deletes own journals older than the newest landed one.
func (x *Exporter) removeStale(ctx context.Context, ref storage.JournalRef) error {
	if ref.Shard >= len(x.shards) {
		return nil
	}
	x.mu.Lock()
	s := &x.shards[ref.Shard]
	old := s.Stale(ref.Keys, x.keyIn(s))
	x.mu.Unlock()
	return storage.DeleteExportJournal(ctx, x.bucket, old)
}

// adopt adds the entries of a journal to the own set.
func (x *Exporter) adopt(ctx context.Context, ref storage.JournalRef) error {
	same := func(a adoption) bool { return a.member == ref.Member && a.shard == ref.Shard }
	if i := slices.IndexFunc(x.adoptions, same); i >= 0 && x.adoptions[i].n == ref.N {
		return nil // already adopted
	}
	j, err := storage.ReadExportJournal(ctx, x.bucket, ref.Member, ref.Shard, ref.N)
	var corrupt *storage.CorruptError
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil // another sweep deleted it
	case errors.As(err, &corrupt):
		if !x.unreadRef[corrupt.Key] {
			x.unreadRef[corrupt.Key] = true
			x.log.Error("export journal corrupt; events may be missing", "err", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("adopt journal of %s: %w", ref.Member, err)
	}
	if len(j.Entries) > 0 {
		x.log.Info("taking over pending exports", "member", ref.Member, "shard", ref.Shard, "count", len(j.Entries))
	}
	for _, e := range j.Entries {
		x.adoptEntry(e)
	}
	x.adoptions = slices.DeleteFunc(x.adoptions, same)
	x.adoptions = append(x.adoptions, adoption{ref.Member, ref.Shard, ref.N, ref.Keys, j.Entries})
	return nil
}

// adoptEntry adds a conversation to the own set. Its log may have batches beyond those known here,
// even if it is open: its activation may be fenced without knowing.
func (x *Exporter) adoptEntry(e storage.ExportEntry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trails[e.Conv]
	if t == nil {
		t = &trail{key: e.Conv, src: observability.Source{Key: e.Conv}, exported: e.Seq, taken: e.Seq, tail: e.Seq}
		x.trails[e.Conv] = t
	}
	t.unread = true
	t.adopts++
	x.relist(t)
	x.settle(t)
	x.enqueue(t)
}

// finishAdoptions deletes the adopted journals that are no longer needed.
func (x *Exporter) finishAdoptions(ctx context.Context) {
	x.adoptions = slices.DeleteFunc(x.adoptions, func(a adoption) bool { return len(a.keys) == 0 })
	for i := range x.adoptions {
		a := &x.adoptions[i]
		for len(a.left) > 0 && x.safe(a.left[len(a.left)-1]) {
			a.left = a.left[:len(a.left)-1]
		}
		if len(a.left) > 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, deleteTimeout)
		err := storage.DeleteExportJournal(limited, x.bucket, a.keys)
		cancel()
		if err != nil {
			x.log.Warn("delete adopted export journal failed", "member", a.member, "shard", a.shard, "n", a.n, "err", err)
			continue // retried by the next signal or sweep
		}
		a.keys = nil
	}
}

// safe reports whether an entry no longer needs the journal it was adopted from. The result is
// permanent.
func (x *Exporter) safe(e storage.ExportEntry) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trails[e.Conv]
	return t == nil || t.done() || x.isCovered(t)
}

// dropAdoptions drops the state of deleted journals.
func (x *Exporter) dropAdoptions(refs []storage.JournalRef) {
	x.adoptions = slices.DeleteFunc(x.adoptions, func(a adoption) bool {
		return !slices.ContainsFunc(refs, func(ref storage.JournalRef) bool { return ref.Member == a.member && ref.Shard == a.shard })
	})
	maps.DeleteFunc(x.unreadRef, func(key string, _ bool) bool {
		return !slices.ContainsFunc(refs, func(ref storage.JournalRef) bool { return slices.Contains(ref.Keys, key) })
	})
}
