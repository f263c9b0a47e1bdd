package export

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors/internal/series"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

// finalTimeout bounds each of the last attempts: shipping, and writing the journals.
const finalTimeout = 10 * time.Second

// Exporter ships the events of a node. The package comment has its guarantees.
type Exporter struct {
	logs    *storage.Logs
	bucket  storage.Bucket
	opts    Options
	log     *slog.Logger
	outlets []*outlet

	moved    chan struct{} // results of MayLeave may have changed
	fill     chan struct{} // a group may be due
	readable chan struct{} // a log must be read
	dirty    chan struct{} // a journal will be due
	answered chan struct{} // adopted entries may be safe
	soon     chan struct{} // a sweep is requested

	mu     sync.Mutex
	ended  bool
	trails map[conversation.Key]*trail
	fifo   []*item // waiting for a group, or in the current one
	rows   int     // events in fifo
	bytes  int     // size of fifo
	room   chan struct{}
	toRead []*trail  // in order of arrival
	later  []delayed // to be read again, soonest first
	behind list.List // elements are *trail whose batches are not all in memory, oldest first
	shards [storage.ExportShards]shard
	counts counts

	group     *group                   // current group; owned by shipLoop
	spare     []observability.Event    // slice for the next group; owned by shipLoop
	writers   []*storage.JournalWriter // owned by the goroutines that write journals
	adoptions []adoption               // owned by sweepLoop
	unreadRef map[string]bool
}

// New returns an exporter of the logs of a bucket. It does nothing until Run.
func New(logs *storage.Logs, bucket storage.Bucket, opts *Options) (*Exporter, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	x := &Exporter{
		logs: logs, bucket: bucket, opts: o, log: o.Logger,
		moved: make(chan struct{}, 1), fill: make(chan struct{}, 1), readable: make(chan struct{}, 1),
		dirty: make(chan struct{}, 1), answered: make(chan struct{}, 1), soon: make(chan struct{}, 1),
		trails: map[conversation.Key]*trail{}, room: make(chan struct{}), unreadRef: map[string]bool{},
	}
	for i := range x.shards {
		x.shards[i] = shard{number: i, set: map[conversation.Key]*trail{}, Series: series.Begin()}
	}
	for range journalWriters {
		x.writers = append(x.writers, storage.NewJournalWriter(bucket))
	}
	for _, s := range o.Sinks {
		x.outlets = append(x.outlets, newOutlet(s, &x.opts))
	}
	return x, nil
}

// Open reports that an activation has read a log up to tail, and that its checkpoint has the cursor
// exported, or -1. src is the source at the tail, zero if the conversation does not exist yet.
func (x *Exporter) Open(key conversation.Key, src observability.Source, exported, tail int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trail(key)
	t.open = true
	t.exported = max(t.exported, exported)
	t.taken = max(t.taken, t.exported)
	t.tail = max(t.tail, tail)
	if src.Agent != "" {
		src.Key = key
		t.src = src
	}
	x.settle(t)
	x.enqueue(t)
}

// Offer reports a landed batch. src is the source before or after it. Batches of a conversation are
// offered in order. Missing batches, and batches without room in memory, are read from the log. made
// returns the result of Options.Project for the batch, if the caller uses it as well; nil makes the
// exporter call it.
func (x *Exporter) Offer(key conversation.Key, src observability.Source, b conversation.Batch, made func() []observability.Event) {
	seq := int64(b.Offset)
	src.Key = key
	x.mu.Lock()
	t := x.trail(key)
	t.open = true
	if !x.takes(t, seq) {
		x.pass(t, src, seq)
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	p, err := x.project(src, b, made)
	x.mu.Lock()
	defer x.mu.Unlock()
	t = x.trail(key)
	if err != nil || t.taken+1 != seq { // a panic, which the reader reports; or a reader took the batch; or the log was skipped
		x.pass(t, src, seq)
		return
	}
	x.take(t, seq, p)
}

// takes reports whether there is room for an offered batch, and no batch is missing before it.
func (x *Exporter) takes(t *trail, seq int64) bool {
	return seq == t.taken+1 && x.bytes < x.opts.MemoryBytes/4*3 && x.opts.Memory.Full() == nil && !x.ended
}

// pass leaves a batch to the reader of the log.
func (x *Exporter) pass(t *trail, src observability.Source, seq int64) {
	if seq <= t.taken {
		return
	}
	if t.src.Agent == "" {
		t.src = src
	}
	t.tail = max(t.tail, seq)
	x.settle(t)
	x.enqueue(t)
}

// Closed reports the end of a conversation's activation. Its known batches are still exported. After
// that [Exporter.Cursor] may not know the conversation any more.
func (x *Exporter) Closed(key conversation.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.trails[key]; t != nil {
		t.open = false
		x.settle(t)
	}
}

// Cursor returns the last batch of a conversation whose events all sinks have stored, or -1, for its
// checkpoint. ok is false for a conversation that is neither open nor behind.
func (x *Exporter) Cursor(key conversation.Key) (seq int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trails[key]
	if t == nil {
		return 0, false
	}
	return t.exported, true
}

// MayLeave reports whether a conversation's events allow it to leave the pending-work journal: all
// known ones are exported, or it is in an export journal that landed after the last of them was known,
// and in all later ones. Otherwise it will be listed unless it is exported before; [Exporter.Moved]
// signals when to ask again.
func (x *Exporter) MayLeave(key conversation.Key) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trails[key]
	if t == nil || t.done() || x.isCovered(t) {
		return true
	}
	t.asked = true
	x.list(t)
	return false
}

// Moved receives a signal after results of MayLeave may have changed. It is for one receiver.
func (x *Exporter) Moved() <-chan struct{} { return x.moved }

// Emit sends live events to every sink, best effort: events beyond the bound are dropped and counted.
func (x *Exporter) Emit(events ...observability.Event) {
	for _, o := range x.outlets {
		o.live.Put(events...)
	}
}

// SweepSoon requests a sweep, for example when the members have changed.
func (x *Exporter) SweepSoon() { signal(x.soon) }

// Run ships, reads, writes journals and sweeps until ctx ends. Then it tries once more to ship waiting
// events, writes the journals a last time and returns nil, within three times 10 s. It runs once.
// MayLeave works afterwards, too.
func (x *Exporter) Run(ctx context.Context) error {
	// Writes of live events that began before the end of ctx may finish.
	var live sync.WaitGroup
	for _, o := range x.outlets {
		live.Go(func() { _ = o.live.Run(ctx) }) // It returns nil.
	}
	var loops sync.WaitGroup
	loops.Go(func() { x.shipLoop(ctx) })
	loops.Go(func() { x.journalLoop(ctx) })
	loops.Go(func() { x.sweepLoop(ctx) })
	for range x.opts.Readers {
		loops.Go(func() { x.readLoop(ctx) })
	}
	<-ctx.Done()
	loops.Wait()
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	live.Wait()

	base := context.WithoutCancel(ctx)
	final, cancel := context.WithTimeout(base, finalTimeout)
	x.shipRest(final)
	cancel()
	final, cancel = context.WithTimeout(base, finalTimeout)
	defer cancel()
	x.closeJournals(final)
	return nil
}

// signal sends on a channel with capacity 1, unless a signal is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is pending
	}
}

// pause sleeps for d and reports whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
