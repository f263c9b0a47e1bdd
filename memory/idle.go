package memory

import (
	"container/list"
	"sync"
	"time"
)

// idleWhenTight is how long something stays at most that is idle while half of the node's
// budget is in use: who comes back at once finds it.
const idleWhenTight = time.Second

// Idle is what a node holds only so that something comes sooner: conversations with
// nothing to do, followers without readers. Together they have at most so many bytes. Over
// that those give way that were used least recently, whoever holds them; while half of the
// node's budget is in use, all that were not used for a second.
type Idle struct {
	budget *Budget
	limit  int64

	mu      sync.Mutex
	held    int64
	order   list.List // of *Kept, the one used last in front
	shelves []*Shelf
	soon    *time.Timer // trims once the oldest was not used for long enough
}

// Idle returns the idle part of a budget, of at most limit bytes; 0 or less bounds nothing
// but that. What is kept counts in the accounts of its holders as before.
func (b *Budget) Idle(limit int64) *Idle { return &Idle{budget: b, limit: limit} }

// Shelf is one consumer's part of [Idle].
type Shelf struct {
	idle *Idle

	usage IdleUsage // under the lock of idle
}

// IdleUsage is what one consumer keeps, and how often it had to give something up before
// its time.
type IdleUsage struct {
	Consumer string
	Held     int64 // bytes
	Crowded  int64 // since the idle had more than they may, or the consumer of that
	Tight    int64 // since half of the node's budget was in use
}

// Shelf opens the part of a consumer.
func (i *Idle) Shelf(consumer string) *Shelf {
	s := &Shelf{idle: i, usage: IdleUsage{Consumer: consumer}}
	if i == nil {
		return s
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.shelves = append(i.shelves, s)
	return s
}

// Usage returns what each consumer keeps, in the order they were opened.
func (i *Idle) Usage() []IdleUsage {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]IdleUsage, 0, len(i.shelves))
	for _, s := range i.shelves {
		out = append(out, s.usage)
	}
	return out
}

// Kept is one idle thing. The methods of nil do nothing.
type Kept struct {
	shelf *Shelf
	drop  func()

	since time.Time

	bytes int64         // under the lock of Idle
	place *list.Element // likewise; nil once it was taken or has to give way
}

// Keep puts n bytes on the shelf that were used just now. If they have to give way drop is
// called, once, by whoever calls [Idle.Trim], without a lock held: the holder may have
// taken them meanwhile, and looks.
func (s *Shelf) Keep(n int64, drop func()) *Kept {
	if s.idle == nil {
		return nil
	}
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	k := &Kept{shelf: s, drop: drop, since: time.Now(), bytes: n}
	k.place = s.idle.order.PushFront(k)
	s.add(n)
	return k
}

// Add counts n bytes more, or less, that give way by a rule of their holder's own.
func (s *Shelf) Add(n int64) { s.count(n, 0) }

// Drop counts n bytes less that had to give way by it, being too many.
func (s *Shelf) Drop(n int64) { s.count(-n, 1) }

func (s *Shelf) count(n, dropped int64) {
	if s.idle == nil {
		return
	}
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	s.add(n)
	s.usage.Crowded += dropped
}

// add counts bytes; the lock is held.
func (s *Shelf) add(n int64) {
	s.usage.Held += n
	s.idle.held += n
}

// Add counts n bytes more, or less, of something that is kept.
func (k *Kept) Add(n int64) {
	if k == nil {
		return
	}
	k.shelf.idle.mu.Lock()
	defer k.shelf.idle.mu.Unlock()
	if k.place != nil {
		k.bytes += n
		k.shelf.add(n)
	}
}

// Take ends the keeping: it is used again, or gone.
func (k *Kept) Take() {
	if k == nil {
		return
	}
	k.shelf.idle.mu.Lock()
	defer k.shelf.idle.mu.Unlock()
	k.leave()
}

// leave takes it from its place; the lock is held.
func (k *Kept) leave() {
	if k.place != nil {
		k.shelf.idle.order.Remove(k.place)
		k.shelf.add(-k.bytes)
		k.place = nil
	}
}

// Trim makes what is too much give way. Who keeps something, or is refused room, calls it
// then, without a lock that a drop takes.
func (i *Idle) Trim() {
	for k := i.excess(); k != nil; k = i.excess() {
		k.drop()
	}
}

// excess takes what has to give way next, nil if nothing has to.
func (i *Idle) excess() *Kept {
	if i == nil {
		return nil
	}
	tight := i.budget.tight()
	i.mu.Lock()
	defer i.mu.Unlock()
	crowded := i.limit > 0 && i.held > i.limit
	oldest := i.order.Back()
	if oldest == nil {
		return nil
	}
	k := oldest.Value.(*Kept)
	if !crowded {
		if !tight {
			return nil
		}
		if left := idleWhenTight - time.Since(k.since); left > 0 {
			i.trimIn(left)
			return nil
		}
	}
	k.leave()
	if crowded {
		k.shelf.usage.Crowded++
	} else {
		k.shelf.usage.Tight++
	}
	return k
}

// trimIn trims then, if nobody is about to; the lock is held.
func (i *Idle) trimIn(d time.Duration) {
	if i.soon != nil {
		return
	}
	i.soon = time.AfterFunc(d, func() {
		i.mu.Lock()
		i.soon = nil
		i.mu.Unlock()
		i.Trim()
	})
}
