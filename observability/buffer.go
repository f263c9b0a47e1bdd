package observability

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/contain"
	"github.com/parleyrun/parley/internal/outage"
)

// BufferOptions configure a [Buffer]. Zero fields have defaults.
type BufferOptions struct {
	MaxEvents int // maximum waiting; DefaultQueueEvents if 0
	MaxBytes  int // their total Size; DefaultQueueBytes if 0
	// BatchEvents is the maximum number of events per Write. 0 uses the value of a [Batcher], or 1000.
	BatchEvents int
	// Linger is how long the first event of a Write waits for more, up to BatchEvents. 0 uses the
	// value of a [Batcher], or no wait.
	Linger time.Duration
	// Attempts is the number of attempts of a Write before its events are dropped; 0 is 3.
	Attempts int
	// Backoff is the delay before the second attempt. It doubles with each further one. 0 is 200 ms.
	Backoff time.Duration
	// WriteTimeout bounds one attempt; 0 is 10 s.
	WriteTimeout time.Duration
	// DrainTimeout bounds the time from the end of Run's context to its return; 0 is 5 s. A Write that
	// does not heed its context is abandoned a second later.
	DrainTimeout time.Duration
	// Logger logs when the sink starts and stops failing. Nil discards.
	Logger *slog.Logger
}

// Buffer delivers events to a sink with best effort. Put never blocks. Events that the sink does not
// accept in time are dropped and counted. Put and Counts are safe for concurrent use.
//
// A crash of the process loses waiting events and the counts.
type Buffer struct {
	sink  Sink
	name  string
	opts  BufferOptions
	queue *Queue
	// abandoned is closed when a Write that does not heed its context is abandoned.
	abandoned chan struct{}

	outage *outage.Outage
	spare  []Event // for the next Write; of Run's goroutine alone

	mu     sync.Mutex
	counts BufferCounts // without Emitted, Waiting, and the drops of the queue
	gone   int64        // permanently rejected
}

// BufferCounts counts the outcomes of the events of a buffer. Emitted = Stored + Dropped + Waiting +
// the permanently Rejected.
type BufferCounts struct {
	Emitted int64 // passed to Put
	Stored  int64 // in successful Writes
	// Dropped were put while the buffer was full or its Run had ended, or were in Writes whose last
	// attempt failed; the sink may have stored some of those.
	Dropped   int64
	DroppedBy map[Type]int64
	// Rejected were rejected by the destination, by reason: permanently, or in a Write that is
	// retried.
	Rejected Rejections
	Waiting  int64 // waiting for a Write, or in one
	Failures int64 // failed attempts of Writes
}

// NewBuffer returns a buffer for a sink. It writes nothing until Run is called.
func NewBuffer(sink Sink, opts *BufferOptions) *Buffer {
	o := BufferOptions{}
	if opts != nil {
		o = *opts
	}
	events, linger := batchOf(sink)
	o.BatchEvents = cmp.Or(max(o.BatchEvents, 0), max(events, 0), 1000)
	o.Linger = cmp.Or(max(o.Linger, 0), max(linger, 0))
	if o.Attempts <= 0 {
		o.Attempts = 3
	}
	if o.Backoff <= 0 {
		o.Backoff = 200 * time.Millisecond
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 5 * time.Second
	}
	log := slog.New(slog.DiscardHandler)
	if o.Logger != nil {
		log = contain.Logger(o.Logger)
	}
	name, err := NameOf(sink)
	if err != nil {
		name = "unnamed"
	}
	q := NewQueue(o.MaxEvents, o.MaxBytes)
	q.enough = min(o.BatchEvents, q.maxEvents)
	away := outage.New(log.With("sink", name), outage.Lines{
		Began: "sink write failed", Continues: "sink still failing", Ended: "sink recovered",
	}, 0)
	return &Buffer{
		sink: sink, name: name, opts: o, outage: away, queue: q, abandoned: make(chan struct{}),
		counts: BufferCounts{DroppedBy: map[Type]int64{}},
	}
}

// Name returns the name of the sink, or "unnamed" if its Name does not return.
func (b *Buffer) Name() string { return b.name }

// Put queues the events that fit and drops the others. It never blocks.
func (b *Buffer) Put(events ...Event) { b.queue.Put(events...) }

// Counts returns the current counts. The caller owns the map.
func (b *Buffer) Counts() BufferCounts {
	b.mu.Lock()
	c := b.counts
	c.DroppedBy, c.Rejected = maps.Clone(c.DroppedBy), maps.Clone(c.Rejected)
	gone := b.gone
	b.mu.Unlock()
	// Read last, so that Stored never exceeds Emitted.
	q := b.queue.Counts()
	c.Emitted = q.Emitted
	c.Dropped += q.Dropped
	for t, n := range q.DroppedBy {
		c.DroppedBy[t] += n
	}
	c.Waiting = c.Emitted - c.Stored - c.Dropped - gone
	return c
}

// Run writes queued events until the context ends, then the remaining ones for at most DrainTimeout.
// It drops the rest and all later events. It returns nil when all events are counted. Only a Write
// that does not heed its context, such as one to a stalled pipe, may still be running then. Run is
// called once.
func (b *Buffer) Run(ctx context.Context) error {
	// A running Write may continue during the drain.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer func() { cancel(); end(); wg.Wait() }()
	wg.Go(func() {
		select {
		case <-ctx.Done():
			drained := !wait(work, b.opts.DrainTimeout)
			cancel()
			if !drained && wait(over, abandonAfter) {
				close(b.abandoned)
			}
		case <-work.Done():
		}
	})
	for {
		select {
		case <-b.queue.Ready():
			b.linger(ctx)
			b.deliver(work, b.take())
			continue
		case <-ctx.Done():
		}
		b.queue.Close()
		for events := b.take(); events != nil; events = b.take() {
			b.deliver(work, events)
		}
		return nil
	}
}

// linger waits until there are enough events for a Write, or Linger has passed.
func (b *Buffer) linger(ctx context.Context) {
	if b.opts.Linger <= 0 {
		return
	}
	t := time.NewTimer(b.opts.Linger)
	defer t.Stop()
	for !b.queue.filled() {
		select {
		case <-b.queue.full: // It may be stale, of events already taken.
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (b *Buffer) take() []Event { return b.queue.take(b.spare, b.opts.BatchEvents) }

// deliver writes the events or drops them. Their slice is reused, unless a Write may still be running.
func (b *Buffer) deliver(ctx context.Context, events []Event) {
	if len(events) == 0 {
		return
	}
	b.spare = nil
	if b.written(ctx, events) {
		clear(events)
		b.spare = events
	}
}

// written implements deliver; it reports whether no Write is running.
func (b *Buffer) written(ctx context.Context, events []Event) bool {
	over, err := true, ctx.Err()
	for attempt := 0; err == nil && attempt < b.opts.Attempts; attempt++ {
		if attempt > 0 && !wait(ctx, b.opts.Backoff<<min(attempt-1, 10)) {
			break
		}
		failed := b.write(ctx, events)
		b.mu.Lock()
		stored, failed := b.counts.Rejected.Take(failed, len(events))
		if failed == nil {
			b.counts.Stored += int64(stored)
			b.gone += int64(len(events) - stored)
		}
		b.mu.Unlock()
		if failed != nil {
			over = over && !errors.Is(failed, errAbandoned)
			b.fail(failed)
			continue
		}
		b.outage.Succeeded("dropped", b.Counts().Dropped)
		return over
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Dropped += int64(len(events))
	for i := range events {
		b.counts.DroppedBy[events[i].Type]++
	}
	return over
}

func (b *Buffer) fail(err error) {
	b.mu.Lock()
	b.counts.Failures++
	b.mu.Unlock()
	b.outage.Report(err)
}

// abandonAfter is how long a Write may continue after its context has ended during shutdown.
const abandonAfter = time.Second

var errAbandoned = errors.New("write events: sink ignored its deadline")

// write performs one attempt and waits for it, except for a hung one during shutdown.
func (b *Buffer) write(ctx context.Context, events []Event) error {
	select {
	case err := <-Attempt(ctx, b.sink, events, b.opts.WriteTimeout):
		return err
	case <-b.abandoned:
		return errAbandoned
	}
}

// wait reports whether d has passed before the context ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
