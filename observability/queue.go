package observability

import (
	"maps"
	"slices"
	"sync"
)

// Default limits of a [Queue].
const (
	DefaultQueueEvents = 65_536
	DefaultQueueBytes  = 32 << 20
)

const (
	// blockEvents is the number of events allocated at a time, so that growing never copies waiting
	// events.
	blockEvents = 256
	// spareBlocks is the number of empty blocks kept for reuse.
	spareBlocks = 32
)

// Queue is a bounded FIFO of events from producers that must never block to one consumer. Events that
// do not fit are dropped and counted; waiting events are never dropped for newer ones. It is safe for
// concurrent use.
//
// Invariant: Emitted = Taken + Dropped + Waiting, at any time.
type Queue struct {
	maxEvents, maxBytes int
	ready               chan struct{}
	enough              int           // events, see many
	full                chan struct{} // receives a value when there are many

	mu     sync.Mutex
	blocks []*block
	spare  []*block
	bytes  int
	closed bool
	counts QueueCounts
}

// block holds events in the order of their Put; those before first were taken.
type block struct {
	first  int
	events []Event
	sizes  []int
}

// QueueCounts counts the outcomes of the events of a queue.
type QueueCounts struct {
	Emitted int64 // passed to Put
	Taken   int64 // returned by Take
	Dropped int64 // dropped by Put
	// DroppedBy counts the dropped events by type.
	DroppedBy map[Type]int64
	Waiting   int // not taken yet
	Bytes     int // total Size of the waiting events
}

// NewQueue returns a queue of at most maxEvents events and maxBytes bytes by [Size]. A limit that is
// not positive is [DefaultQueueEvents] or [DefaultQueueBytes].
func NewQueue(maxEvents, maxBytes int) *Queue {
	if maxEvents <= 0 {
		maxEvents = DefaultQueueEvents
	}
	if maxBytes <= 0 {
		maxBytes = DefaultQueueBytes
	}
	return &Queue{
		maxEvents: maxEvents, maxBytes: maxBytes, enough: maxEvents, ready: make(chan struct{}, 1), full: make(chan struct{}, 1),
		counts: QueueCounts{DroppedBy: map[Type]int64{}},
	}
}

// Put appends the events that fit and drops the others. It never blocks.
func (q *Queue) Put(events ...Event) {
	if len(events) == 0 {
		return
	}
	q.mu.Lock()
	for i := range events {
		q.put(&events[i])
	}
	waiting, many := q.counts.Waiting, q.many()
	q.mu.Unlock()
	if waiting > 0 {
		signal(q.ready)
	}
	if many {
		signal(q.full)
	}
}

// many reports whether a lingering consumer should take now: enough events wait, or the queue is
// nearly full.
func (q *Queue) many() bool { return q.counts.Waiting >= q.enough || q.bytes > q.maxBytes/2 }

func (q *Queue) put(e *Event) {
	q.counts.Emitted++
	size := Size(*e)
	if q.closed || q.counts.Waiting >= q.maxEvents || size > q.maxBytes-q.bytes {
		q.counts.Dropped++
		q.counts.DroppedBy[e.Type]++
		return
	}
	if n := len(q.blocks); n == 0 || len(q.blocks[n-1].events) == blockEvents {
		q.blocks = append(q.blocks, q.newBlock())
	}
	b := q.blocks[len(q.blocks)-1]
	b.events, b.sizes = append(b.events, *e), append(b.sizes, size)
	q.counts.Waiting++
	q.bytes += size
}

// newBlock returns an empty block. A queue with a fast consumer holds one small block.
func (q *Queue) newBlock() *block {
	if n := len(q.spare) - 1; n >= 0 {
		b := q.spare[n]
		q.spare = q.spare[:n]
		return b
	}
	room := min(blockEvents, q.maxEvents)
	return &block{events: make([]Event, 0, room), sizes: make([]int, 0, room)}
}

// Take removes and returns the oldest events, at most limit, or all if limit is not positive. It
// returns nil if none wait. The caller owns the slice.
func (q *Queue) Take(limit int) []Event { return q.take(nil, limit) }

// take is Take with a reusable slice.
func (q *Queue) take(into []Event, limit int) []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.counts.Waiting
	if limit > 0 {
		n = min(n, limit)
	}
	if n == 0 {
		return nil
	}
	out := slices.Grow(into[:0], n)
	for len(out) < n {
		b := q.blocks[0]
		end := min(len(b.events), b.first+n-len(out))
		out = append(out, b.events[b.first:end]...)
		for i := b.first; i < end; i++ {
			b.events[i] = Event{} // release the memory of the event
			q.bytes -= b.sizes[i]
		}
		b.first = end
		if b.first == len(b.events) {
			q.drop()
		}
	}
	q.counts.Taken += int64(n)
	q.counts.Waiting -= n
	if q.counts.Waiting > 0 {
		signal(q.ready)
	}
	return out
}

// drop removes the first block, all of which was taken.
func (q *Queue) drop() {
	b := q.blocks[0]
	b.first, b.events, b.sizes = 0, b.events[:0], b.sizes[:0]
	q.blocks[0] = nil
	if q.blocks = q.blocks[1:]; len(q.spare) < spareBlocks {
		q.spare = append(q.spare, b)
	}
}

// Ready returns a channel that receives a value when events may be waiting. It is for one receiver,
// which calls Take then, and waits again if that returns nothing.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// filled is many with the lock.
func (q *Queue) filled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.many()
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // a value is pending already
	}
}

// Close makes every later Put drop its events. Waiting events can still be taken.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Counts returns the current counts. The caller owns the map.
func (q *Queue) Counts() QueueCounts {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.counts
	c.DroppedBy = maps.Clone(c.DroppedBy)
	c.Bytes = q.bytes
	return c
}
