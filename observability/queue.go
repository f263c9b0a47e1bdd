package observability

import (
	"maps"
	"sync"
)

// Bounds of a [Queue] that was given none.
const (
	DefaultQueueEvents = 65_536
	DefaultQueueBytes  = 32 << 20
)

// blockEvents is how many events a queue makes room for at a time, so that growing
// never copies what waits.
const blockEvents = 256

// Queue is a bounded FIFO of events between those who make them, who must never wait,
// and one who takes them away. What does not fit is refused and counted; what waits is
// never given up for something newer. It is safe for concurrent use.
//
// Invariant: Emitted = Taken + Dropped + Waiting, at any moment.
type Queue struct {
	maxEvents, maxBytes int
	ready               chan struct{}

	mu     sync.Mutex
	blocks []*block
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

// QueueCounts says what became of the events that a queue was given.
type QueueCounts struct {
	Emitted int64 // given to Put
	Taken   int64 // returned by Take
	Dropped int64 // refused by Put
	// DroppedBy has the types of which any were refused.
	DroppedBy map[Type]int64
	Waiting   int // not taken yet
	Bytes     int // the Size of those
}

// NewQueue makes a queue that holds at most maxEvents events of at most maxBytes bytes
// by [Size]. A bound that is not positive is [DefaultQueueEvents] or
// [DefaultQueueBytes].
func NewQueue(maxEvents, maxBytes int) *Queue {
	if maxEvents <= 0 {
		maxEvents = DefaultQueueEvents
	}
	if maxBytes <= 0 {
		maxBytes = DefaultQueueBytes
	}
	return &Queue{
		maxEvents: maxEvents, maxBytes: maxBytes, ready: make(chan struct{}, 1),
		counts: QueueCounts{DroppedBy: map[Type]int64{}},
	}
}

// Put appends the events that fit and drops the others. It never waits for Take.
func (q *Queue) Put(events ...Event) {
	if len(events) == 0 {
		return
	}
	q.mu.Lock()
	for i := range events {
		q.put(&events[i])
	}
	waiting := q.counts.Waiting > 0
	q.mu.Unlock()
	if waiting {
		q.wake()
	}
}

func (q *Queue) put(e *Event) {
	q.counts.Emitted++
	size := Size(*e)
	if q.closed || q.counts.Waiting >= q.maxEvents || size > q.maxBytes-q.bytes {
		q.counts.Dropped++
		q.counts.DroppedBy[e.Type]++
		return
	}
	if n := len(q.blocks); n == 0 || len(q.blocks[n-1].events) == blockEvents {
		// A queue that is taken from in time holds one small block.
		room := min(blockEvents, q.maxEvents)
		q.blocks = append(q.blocks, &block{events: make([]Event, 0, room), sizes: make([]int, 0, room)})
	}
	b := q.blocks[len(q.blocks)-1]
	b.events, b.sizes = append(b.events, *e), append(b.sizes, size)
	q.counts.Waiting++
	q.bytes += size
}

// Take removes and returns the oldest events, at most limit of them, or all if limit is
// not positive. It returns nil if none wait. The slice is the caller's.
func (q *Queue) Take(limit int) []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.counts.Waiting
	if limit > 0 {
		n = min(n, limit)
	}
	if n == 0 {
		return nil
	}
	out := make([]Event, 0, n)
	for len(out) < n {
		b := q.blocks[0]
		end := min(len(b.events), b.first+n-len(out))
		out = append(out, b.events[b.first:end]...)
		for i := b.first; i < end; i++ {
			b.events[i] = Event{} // what was taken is no longer held here
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
		q.wake()
	}
	return out
}

// drop gives up the first block, all of which was taken. The last one is used again.
func (q *Queue) drop() {
	if b := q.blocks[0]; len(q.blocks) == 1 {
		b.first, b.events, b.sizes = 0, b.events[:0], b.sizes[:0]
		return
	}
	q.blocks[0] = nil
	q.blocks = q.blocks[1:]
}

// Ready returns a channel that yields when events may be waiting. It is for one
// receiver, who calls Take then, and waits again if that gives nothing.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

func (q *Queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default: // the receiver will see what waits
	}
}

// Close makes every later Put drop its events. What waits can still be taken.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Counts returns the counts of this moment. The map is the caller's.
func (q *Queue) Counts() QueueCounts {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.counts
	c.DroppedBy = maps.Clone(c.DroppedBy)
	c.Bytes = q.bytes
	return c
}
