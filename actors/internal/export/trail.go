package export

import (
	"container/list"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// nothing is a position that covers no batch, not even the start.
const nothing = -2

// trail is the export state of a conversation. All fields are guarded by Exporter.mu.
//
// Invariant: exported <= taken <= tail. Batches above exported up to taken are in pending items, if
// they have events.
type trail struct {
	key      conversation.Key
	src      observability.Source // source after taken; unknown without an agent
	exported int64                // the cursor: last batch that all sinks have, or -1
	taken    int64                // last projected batch
	tail     int64                // last known batch
	pending  int                  // its items in the fifo
	last     *item                // the newest of them

	open   bool // an activation has it
	unread bool // adopted: its log may have batches beyond tail
	adopts int  // number of adoptions: an earlier read proves nothing
	queued bool // to be read now or later, or being read
	asked  bool // MayLeave returned false

	// A node that takes over a journal reads the logs to their end, so a journal covers the batches
	// known when it was composed. It does not cover later ones, because another node may consider this
	// one crashed and have taken it over by then.
	listed  bool      // in the set of its shard
	awaits  bool      // awaits a journal that is not composed yet
	asks    time.Time // since when
	n       int64     // newest journal composed with it, or -1
	noted   int64     // the tail at that time, or nothing
	covered int64     // covered by landed journals before that one, or nothing

	behind  *list.Element // in Exporter.behind
	since   time.Time     // when it fell behind
	corrupt int           // consecutive reads that found corruption
	logged  bool          // a newer version's log was logged
}

// item holds the events of one batch; batches after it without events belong to it.
type item struct {
	t      *trail
	upto   int64 // cursor after this item
	events []observability.Event
	bytes  int
	came   time.Time // when it came into memory
	born   time.Time // when it began to wait, in memory or in the log
}

// itemBytes is the memory of an item without its events.
const itemBytes = 160

type projected struct {
	src    observability.Source // source after the batch
	events []observability.Event
	bytes  int
}

// project returns the events of a batch, from made if that is not nil.
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

// trail returns the trail of a conversation, a new one if necessary. The caller holds mu, as for all
// functions below.
func (x *Exporter) trail(key conversation.Key) *trail {
	t := x.trails[key]
	if t == nil {
		t = &trail{key: key, src: observability.Source{Key: key}, exported: -1, taken: -1, tail: -1}
		x.trails[key] = t
	}
	return t
}

// done reports whether all sinks have all known batches.
func (t *trail) done() bool { return t.exported >= t.tail && !t.unread }

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
			signal(x.fill)
		}
	case t.pending > 0:
		t.last.upto = seq
	default:
		t.exported = max(t.exported, seq)
	}
	x.settle(t)
}

// hold charges n bytes, which may be negative.
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
	signal(x.answered)
}

// settle updates the state that depends on a changed trail.
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
		signal(x.moved)
	}
	// Items and readers refer to the trail: a new one for the same key would diverge.
	if !t.open && !t.queued && t.pending == 0 {
		delete(x.trails, t.key)
	}
}

// enqueue schedules a read of a log unless all of it is in memory.
func (x *Exporter) enqueue(t *trail) {
	if t.queued || x.ended || !t.unread && t.taken >= t.tail {
		return
	}
	t.queued = true
	x.toRead = append(x.toRead, t)
	signal(x.readable)
}
