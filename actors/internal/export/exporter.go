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

// finalTimeout bounds each of the last attempts: to ship, and to write the journals.
const finalTimeout = 10 * time.Second

// Exporter ships the events of a node. Its guarantees are those of the package.
type Exporter struct {
	logs    *storage.Logs
	bucket  storage.Bucket
	opts    Options
	log     *slog.Logger
	outlets []*outlet

	moved    chan struct{} // answers of MayLeave may have changed
	fill     chan struct{} // a group may be due
	readable chan struct{} // a log is to be read
	dirty    chan struct{} // a journal will be due
	answered chan struct{} // entries that were adopted may be safe
	soon     chan struct{} // somebody asks for a sweep

	mu     sync.Mutex
	ended  bool
	trails map[conversation.Key]*trail
	fifo   []*item // waiting for a group, or in the one under way
	rows   int     // events in fifo
	bytes  int     // their memory
	room   chan struct{}
	toRead []*trail  // in the order they came
	later  []delayed // read again when their time has come, soonest first
	behind list.List // of *trail: not all their batches are in memory, who fell behind first at the front
	shards [storage.ExportShards]shard
	counts counts

	group     *group                   // under way; of the goroutine that ships
	spare     []observability.Event    // for the next group; of that goroutine too
	writers   []*storage.JournalWriter // of the goroutines that write journals
	adoptions []adoption               // of the goroutine that sweeps
	unreadRef map[string]bool
}

// New returns an exporter of the logs of a bucket. Nothing happens until Run.
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

// Open says that an activation has read a log up to tail, and that its checkpoint says
// that the batches up to exported are exported, -1 if none are. The source is the one
// that holds at the tail, zero if the conversation does not exist yet.
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

// Offer says that a batch landed. The source is the one that holds before it or after it.
// Batches of a conversation come in order; what is missing between them is read from the
// log, as is what memory has no room for. Made returns what Options.Project does of the
// batch, for who has use for it, too; nil leaves that to the exporter.
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
	if err != nil || t.taken+1 != seq { // a reader is told of a panic, was faster, or it was given up meanwhile
		x.pass(t, src, seq)
		return
	}
	x.take(t, seq, p)
}

// takes reports whether there is room for a batch that is offered, and nothing missing
// before it.
func (x *Exporter) takes(t *trail, seq int64) bool {
	return seq == t.taken+1 && x.bytes < x.opts.MemoryBytes/4*3 && x.opts.Memory.Full() == nil && !x.ended
}

// pass leaves a batch to be read from the log.
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

// Closed says that the activation of a conversation has ended. Batches of it that are
// known stay to be exported; [Exporter.Cursor] may know nothing of it any more.
func (x *Exporter) Closed(key conversation.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.trails[key]; t != nil {
		t.open = false
		x.settle(t)
	}
}

// Cursor returns the last batch of a conversation whose events all sinks have stored, -1
// if none, for its checkpoint. It is not ok for one that is neither open nor behind.
func (x *Exporter) Cursor(key conversation.Key) (seq int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trails[key]
	if t == nil {
		return 0, false
	}
	return t.exported, true
}

// MayLeave reports whether a conversation may leave the pending-work journal for the sake of its
// events: all that are known here are exported, or it stands in an export journal that
// landed after the last of them was known, and will in all later ones. If not, it will be
// listed unless it is exported before, and [Exporter.Moved] tells when to ask again.
func (x *Exporter) MayLeave(key conversation.Key) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trails[key]
	if t == nil || t.done() || x.stands(t) {
		return true
	}
	t.asked = true
	x.list(t)
	return false
}

// Moved yields after answers of MayLeave may have changed. It is for one receiver.
func (x *Exporter) Moved() <-chan struct{} { return x.moved }

// Emit gives live events to every sink, as best effort: what has no room is dropped and
// counted.
func (x *Exporter) Emit(events ...observability.Event) {
	for _, o := range x.outlets {
		o.live.Put(events...)
	}
}

// SweepSoon asks for a sweep soon, as when the members have changed.
func (x *Exporter) SweepSoon() { nudge(x.soon) }

// Run ships, reads, journals and sweeps until ctx ends. Then it tries once more to ship
// what waits, writes the journals a last time and returns nil, within three times 10 s.
// It runs once. MayLeave answers afterwards too.
func (x *Exporter) Run(ctx context.Context) error {
	// A sink that was given events when ctx ends may still take them.
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

// nudge wakes the receiver of a channel with room for one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

// pause waits and reports whether the context still holds.
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
