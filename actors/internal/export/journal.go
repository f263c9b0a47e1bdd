package export

import (
	"context"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors/internal/series"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// journalTimeout bounds the write of one journal, deleteTimeout the deletion of the replaced ones.
	journalTimeout = 30 * time.Second
	deleteTimeout  = 5 * time.Second
	// journalWriters is the number of concurrent journal writes.
	journalWriters = 4
)

// shard is one part of this node's export journal. All fields are guarded by Exporter.mu. Only one
// goroutine writes a shard at a time.
type shard struct {
	series.Series
	number int
	set    map[conversation.Key]*trail
	fresh  int       // entries of set that await a journal
	gone   int       // entries of the newest composed journal that left set
	since  time.Time // when it first differed from the last write, or later
	put    time.Time // start of the newest write
}

func (s *shard) differs() bool { return s.fresh > 0 || s.gone > 0 || s.Behind }

func (x *Exporter) shardOf(t *trail) *shard { return &x.shards[storage.ExportShard(t.key)] }

// isCovered reports whether a landed journal covers all known batches of a conversation, and all later
// ones will until it is exported. The caller holds mu, as for all functions below.
func (x *Exporter) isCovered(t *trail) bool {
	covered := t.covered
	if x.shardOf(t).Landed >= t.n {
		covered = t.noted
	}
	return t.listed && covered >= t.tail
}

// list adds a conversation to the set, and schedules a write unless a composed journal covers it.
func (x *Exporter) list(t *trail) {
	s := x.shardOf(t)
	if !t.listed {
		s.set[t.key] = t
		t.listed, t.n, t.noted, t.covered = true, -1, nothing, nothing
	}
	if t.noted < t.tail && !t.awaits {
		t.awaits, t.asks = true, time.Now()
		s.fresh++
		x.touch(s)
	}
}

// relist lists a conversation like list. It ignores the landed journals, because another node has
// taken them over.
func (x *Exporter) relist(t *trail) {
	t.noted, t.covered = nothing, nothing
	x.list(t)
}

func (x *Exporter) unlist(t *trail) {
	if !t.listed {
		return
	}
	s := x.shardOf(t)
	delete(s.set, t.key)
	if t.awaits {
		s.fresh--
	}
	if t.n >= 0 {
		s.gone++
	}
	t.listed, t.awaits = false, false
	x.touch(s)
}

// touch updates the time since which a shard differs from its journal.
func (x *Exporter) touch(s *shard) {
	switch {
	case !s.differs():
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
		signal(x.dirty)
	}
}

// journalLoop writes due journals until ctx ends.
func (x *Exporter) journalLoop(ctx context.Context) {
	for ctx.Err() == nil {
		due, wait := x.dueShards(false)
		if len(due) == 0 {
			x.await(ctx, x.dirty, wait)
			continue
		}
		x.writeShards(ctx, due)
	}
}

// dueShards returns the shards to write, or the time until one is due; 0 waits for a change.
func (x *Exporter) dueShards(all bool) (due []*shard, wait time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for i := range x.shards {
		s := &x.shards[i]
		if !s.differs() {
			continue
		}
		if now.Sub(s.since) >= x.opts.JournalEvery {
			s.review()
		}
		left := max(s.since.Add(x.opts.JournalEvery).Sub(now), s.put.Add(x.opts.JournalEvery).Sub(now))
		switch {
		case left <= 0 || all:
			due = append(due, s)
		case wait == 0 || left < wait:
			wait = left
		}
	}
	return due, wait
}

// review moves since to the oldest awaiting conversation if there is no other difference, because the
// conversations that caused it may be exported already.
func (s *shard) review() {
	if s.gone > 0 || s.Behind {
		return
	}
	oldest := time.Now()
	for _, t := range s.set {
		if t.awaits && t.asks.Before(oldest) {
			oldest = t.asks
		}
	}
	s.since = oldest
}

// writeShards writes the journals of shards, several concurrently.
func (x *Exporter) writeShards(ctx context.Context, due []*shard) {
	next := make(chan *shard, len(due))
	for _, s := range due {
		next <- s
	}
	close(next)
	var wg sync.WaitGroup
	for i := range min(journalWriters, len(due)) {
		wg.Go(func() {
			w := x.writers[i]
			for s := range next {
				x.writeShard(ctx, w, s)
			}
		})
	}
	wg.Wait()
}

// writeShard stores the set of a shard under its next number and deletes the replaced journals. A
// number with an unknown outcome is abandoned.
func (x *Exporter) writeShard(ctx context.Context, w *storage.JournalWriter, s *shard) {
	j := x.compose(s)
	limited, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	err := w.WriteExport(limited, j)
	x.written(s, j.N, err)
	if err != nil {
		if ctx.Err() == nil {
			x.log.Error("write export journal failed", "shard", s.number, "n", j.N, "err", err)
		}
		return
	}
	x.deleteReplaced(ctx, s, j.N)
}

// deleteReplaced deletes the journals of a shard below n that may exist. The sweep removes leftovers.
func (x *Exporter) deleteReplaced(ctx context.Context, s *shard, n int64) {
	x.mu.Lock()
	keys := s.Replaced(n, x.keyIn(s))
	s.Swept = n
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := storage.DeleteExportJournal(ctx, x.bucket, keys); err != nil {
		x.log.Warn("delete export journal failed", "shard", s.number, "n", n-1, "err", err)
	}
}

// keyIn returns the function from numbers of a shard to keys.
func (x *Exporter) keyIn(s *shard) func(int64) string {
	return func(n int64) string { return storage.ExportJournalKey(x.opts.Member, s.number, n) }
}

func (x *Exporter) compose(s *shard) storage.ExportJournal {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.Next()
	s.put = time.Now()
	s.fresh, s.gone, s.since = 0, 0, time.Time{}
	entries := make([]storage.ExportEntry, 0, len(s.set))
	for _, t := range s.set {
		if s.Landed >= t.n {
			t.covered = t.noted
		}
		t.n, t.noted, t.awaits = s.Newest, t.tail, false
		entries = append(entries, storage.ExportEntry{Conv: t.key, Seq: t.exported})
	}
	return storage.ExportJournal{Member: x.opts.Member, Shard: s.number, Shards: storage.ExportShards, N: s.Newest, Entries: entries}
}

func (x *Exporter) written(s *shard, n int64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.counts.journalFailures++
		s.Abandon()
		x.touch(s)
		return
	}
	x.counts.journals++
	s.Land(n)
	signal(x.moved)
	signal(x.answered)
}

// closeJournals lists all conversations that are not exported, and removes empty journals. It is
// called after everything else has ended.
func (x *Exporter) closeJournals(ctx context.Context) {
	x.mu.Lock()
	for _, t := range x.trails {
		if !t.done() {
			x.list(t)
		}
	}
	var empty []*shard
	for i := range x.shards {
		if s := &x.shards[i]; len(s.set) == 0 {
			s.gone, s.Behind, s.since = 0, false, time.Time{}
			if s.Newest >= 0 {
				empty = append(empty, s)
			}
		}
	}
	x.mu.Unlock()
	due, _ := x.dueShards(true)
	x.writeShards(ctx, due)
	for _, s := range empty {
		x.deleteReplaced(ctx, s, s.Newest+1)
	}
	signal(x.moved)
}
