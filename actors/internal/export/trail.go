package export

import (
	"container/list"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// nothing is a position that covers no batch, not even the start.
const nothing = -2

// trail is how far the events of a conversation are. All fields are guarded by
// Exporter.mu.
//
// Invariant: exported <= taken <= tail; the batches above exported up to taken are in
// pending items, as far as they have events.
type trail struct {
	key      conversation.Key
	src      observability.Source // of what follows taken; without an agent it is not known
	exported int64                // the cursor: the last batch that all sinks have, -1 if none
	taken    int64                // the last batch that was projected
	tail     int64                // the last batch that is known
	pending  int                  // items of it in the fifo
	last     *item                // the newest of them

	open   bool // an activation has it
	unread bool // adopted: its log may go on behind tail
	adopts int  // how often it was adopted: a read that began before proves nothing
	queued bool // to be read, being read, or to be read later
	asked  bool // MayLeave has said no

	// Who takes over from a journal reads the log to its end, so a journal covers the
	// batches that were known when it was composed. It does not cover those that come
	// later: another node that takes this one for dead may have taken it over by then.
	listed  bool      // in the set of its shard
	awaits  bool      // a journal that is still to be composed
	asks    time.Time // since when
	n       int64     // the newest journal that was composed with it, -1 if none
	noted   int64     // the tail then, or nothing
	covered int64     // what landed journals before that one cover, or nothing

	behind  *list.Element // in Exporter.behind
	since   time.Time     // when it fell behind
	damaged int           // attempts to read it that found damage, in a row
	logged  bool          // that it cannot be read was logged
}

// item is the events of one batch, and of those after it that have none.
type item struct {
	t      *trail
	upto   int64 // the batch that they are exported up to
	events []observability.Event
	bytes  int
	came   time.Time // in memory
	born   time.Time // when they began to wait, in memory or in the log
}

// itemBytes is what an item takes besides its events.
const itemBytes = 160

// projected is a batch on its way.
type projected struct {
	src    observability.Source // that holds after it
	events []observability.Event
	bytes  int
}

// project makes the events of a batch, unless somebody has.
func (x *Exporter) project(src observability.Source, b conversation.Batch, made func() []observability.Event) (p projected, err error) {
	defer recovered(&err)
	src = src.After(b)
	if made == nil {
		made = func() []observability.Event { return x.opts.Project(src, b) }
	}
	p = projected{src: src, events: made(), bytes: itemBytes}
	for i := range p.events {
		p.bytes += observability.Size(p.events[i])
	}
	return p, nil
}

// trail returns that of a conversation, a new one if there is none. The caller holds mu,
// as for all below.
func (x *Exporter) trail(key conversation.Key) *trail {
	t := x.trails[key]
	if t == nil {
		t = &trail{key: key, src: observability.Source{Key: key}, exported: -1, taken: -1, tail: -1}
		x.trails[key] = t
	}
	return t
}

// done reports whether all sinks have all batches that are known.
func (t *trail) done() bool { return t.exported >= t.tail && !t.unread }

// take puts the next batch of a conversation in line.
func (x *Exporter) take(t *trail, seq int64, p projected) {
	t.src, t.taken, t.tail = p.src, seq, max(t.tail, seq)
	switch {
	case len(p.events) > 0:
		now := time.Now()
		i := &item{t: t, upto: seq, events: p.events, bytes: p.bytes, came: now, born: now}
		if t.behind != nil {
			i.born = t.since
		}
		t.last = i
		t.pending++
		x.fifo = append(x.fifo, i)
		x.rows += len(i.events)
		x.hold(i.bytes)
		if len(x.fifo) == 1 || x.rows >= x.opts.FlushRows || x.bytes >= x.opts.FlushBytes {
			nudge(x.fill)
		}
	case t.pending > 0:
		t.last.upto = seq
	default:
		t.exported = max(t.exported, seq)
	}
	x.settle(t)
}

// hold counts bytes that events take in memory.
func (x *Exporter) hold(n int) {
	x.bytes += n
	x.opts.Memory.Add(int64(n))
}

// shipped removes the first n items, which all sinks have.
func (x *Exporter) shipped(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, it := range x.fifo[:n] {
		t := it.t
		t.exported = max(t.exported, it.upto)
		if t.pending--; t.pending == 0 {
			t.last = nil
		}
		x.rows -= len(it.events)
		x.hold(-it.bytes)
		x.counts.shipped += int64(len(it.events))
		x.fifo[i] = nil
		x.settle(t)
	}
	x.fifo = x.fifo[n:]
	if len(x.fifo) == 0 {
		x.fifo = nil
	}
	close(x.room)
	x.room = make(chan struct{})
	nudge(x.answered)
}

// settle draws the conclusions of a change to a trail.
func (x *Exporter) settle(t *trail) {
	reads := t.unread || t.taken < t.tail
	switch {
	case reads && t.behind == nil:
		t.since = time.Now()
		t.behind = x.behind.PushBack(t)
	case !reads && t.behind != nil:
		x.behind.Remove(t.behind)
		t.behind = nil
	}
	if !t.done() {
		return
	}
	x.unlist(t)
	if t.asked {
		t.asked = false
		nudge(x.moved)
	}
	// One of which something waits would take the place of the next with its key.
	if !t.open && !t.queued && t.pending == 0 {
		delete(x.trails, t.key)
	}
}

// enqueue has a log read if not all of it is in memory.
func (x *Exporter) enqueue(t *trail) {
	if t.queued || x.ended || !t.unread && t.taken >= t.tail {
		return
	}
	t.queued = true
	x.toRead = append(x.toRead, t)
	nudge(x.readable)
}
