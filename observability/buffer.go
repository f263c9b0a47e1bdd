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

// BufferOptions bounds a [Buffer]. Every zero field works.
type BufferOptions struct {
	MaxEvents int // that wait; DefaultQueueEvents if 0
	MaxBytes  int // of those, by Size; DefaultQueueBytes if 0
	// BatchEvents is the most that one Write is given. 0 is what a [Batcher] says, or 1000.
	BatchEvents int
	// Linger is how long the first event of a Write waits for more, unless BatchEvents
	// are there. 0 is what a [Batcher] says, or not at all.
	Linger time.Duration
	// Attempts is how often a Write is tried before its events are dropped, 3 if 0.
	Attempts int
	// Backoff is the pause before the second attempt, doubled before each later one;
	// 200 ms if 0.
	Backoff time.Duration
	// WriteTimeout bounds one attempt, 10 s if 0.
	WriteTimeout time.Duration
	// DrainTimeout bounds the time from the end of Run's context to its return, 5 s if 0;
	// a Write that does not heed its context is given up a second later.
	DrainTimeout time.Duration
	// Logger is told when the sink begins and ceases to fail. Nil discards.
	Logger *slog.Logger
}

// Buffer gives a sink events as best effort: Put never waits, and what the sink does not
// take in time, or at all, is dropped and counted. Put and Counts are safe for
// concurrent use.
//
// What waits is lost when the process dies; nothing of it is counted then.
type Buffer struct {
	sink  Sink
	name  string
	opts  BufferOptions
	queue *Queue
	// given is closed when a Write that does not heed its context is given up.
	given chan struct{}

	outage *outage.Outage
	spare  []Event // for the next Write; of Run's goroutine alone

	mu     sync.Mutex
	counts BufferCounts // without Emitted, Waiting, and what the queue has dropped
	gone   int64        // rejected permanently
}

// BufferCounts says what became of the events that a buffer was given.
// Emitted = Stored + Dropped + Waiting, and those of Rejected that are not written again.
type BufferCounts struct {
	Emitted int64 // given to Put
	Stored  int64 // in a Write that succeeded
	// Dropped were refused because the buffer was full or its Run had ended, or were in
	// Writes that failed to the last attempt; of those the sink may have some.
	Dropped   int64
	DroppedBy map[Type]int64
	// Rejected were refused by the destination of the sink, by reason: permanently, or in a Write
	// that is repeated.
	Rejected Rejections
	Waiting  int64 // for a Write, or in one
	Failures int64 // attempts of a Write that failed
}

// NewBuffer makes a buffer before a sink. Nothing is written until Run is called.
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
		Began: "sink does not take events", Continues: "sink still takes no events", Ended: "sink takes events again",
	}, 0)
	return &Buffer{
		sink: sink, name: name, opts: o, outage: away, queue: q, given: make(chan struct{}),
		counts: BufferCounts{DroppedBy: map[Type]int64{}},
	}
}

// Name returns the name of the sink, "unnamed" for one whose Name does not return.
func (b *Buffer) Name() string { return b.name }

// Put takes the events that fit and drops the others. It never waits.
func (b *Buffer) Put(events ...Event) { b.queue.Put(events...) }

// Counts returns the counts of this moment. The map is the caller's.
func (b *Buffer) Counts() BufferCounts {
	b.mu.Lock()
	c := b.counts
	c.DroppedBy, c.Rejected = maps.Clone(c.DroppedBy), maps.Clone(c.Rejected)
	gone := b.gone
	b.mu.Unlock()
	// Read afterwards, so that nothing is stored that was not emitted.
	q := b.queue.Counts()
	c.Emitted = q.Emitted
	c.Dropped += q.Dropped
	for t, n := range q.DroppedBy {
		c.DroppedBy[t] += n
	}
	c.Waiting = c.Emitted - c.Stored - c.Dropped - gone
	return c
}

// Run writes what is put until the context ends, then what still waits, for
// DrainTimeout at most; the rest is dropped, as is all that is put later. It returns
// nil when all is counted; only a Write that does not heed its context, such as one to a
// pipe that nobody reads, may go on then. It is called once.
func (b *Buffer) Run(ctx context.Context) error {
	// A Write that is on its way when the context ends may go on as long as the drain.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer func() { cancel(); end(); wg.Wait() }()
	wg.Go(func() {
		select {
		case <-ctx.Done():
			drained := !wait(work, b.opts.DrainTimeout)
			cancel()
			if !drained && wait(over, giveUpAfter) {
				close(b.given)
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

// linger waits until there are enough events for a Write, or it is time for one.
func (b *Buffer) linger(ctx context.Context) {
	if b.opts.Linger <= 0 {
		return
	}
	t := time.NewTimer(b.opts.Linger)
	defer t.Stop()
	for !b.queue.filled() {
		select {
		case <-b.queue.full: // Maybe of those that were taken.
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (b *Buffer) take() []Event { return b.queue.take(b.spare, b.opts.BatchEvents) }

// deliver writes the events or drops them. Their slice serves the next, unless a Write
// may still go on.
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

// written is deliver; it reports whether no Write goes on.
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
			over = over && !errors.Is(failed, errGivenUp)
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

// giveUpAfter is how long a Write may go on after its context has ended, when there is
// nothing left but to end.
const giveUpAfter = time.Second

var errGivenUp = errors.New("write events: it went on after its time, and was given up")

// write is one attempt. It is waited for, unless the process is to end and it does not.
func (b *Buffer) write(ctx context.Context, events []Event) error {
	select {
	case err := <-Attempt(ctx, b.sink, events, b.opts.WriteTimeout):
		return err
	case <-b.given:
		return errGivenUp
	}
}

// wait reports whether the time has passed before the context ended.
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
