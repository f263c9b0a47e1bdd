package memory

import (
	"container/list"
	"sync"
	"time"
)

// idleWhenTight is how long an idle entry is kept while half of the node's budget is in use, so that
// an immediate reuse finds it.
const idleWhenTight = time.Second

// Idle bounds the caches of a node: conversations without work, followers without readers. It evicts
// the least recently used entries above its limit, across holders. While half of the node's budget is
// in use, it evicts all entries unused for a second.
type Idle struct {
	budget *Budget
	limit  int64

	mu      sync.Mutex
	held    int64
	order   list.List // elements are *Kept, most recently used first
	shelves []*Shelf
	soon    *time.Timer // trims when the oldest entry has been unused for long enough
}

// Idle returns the idle part of a budget, of at most limit bytes. If limit is 0 or less it has no
// limit of its own. Entries still count in the accounts of their holders.
func (b *Budget) Idle(limit int64) *Idle { return &Idle{budget: b, limit: limit} }

// Shelf is one consumer's part of [Idle].
type Shelf struct {
	idle *Idle

	usage IdleUsage // under the lock of idle
}

// IdleUsage is the usage of one consumer and the number of its early evictions.
type IdleUsage struct {
	Consumer string
	Held     int64 // bytes
	Crowded  int64 // evictions because of the limit of Idle or of the consumer
	Tight    int64 // evictions because half of the node's budget was in use
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

// Usage returns the usage of each consumer, in the order of opening.
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

// Kept is one idle entry. The methods of nil do nothing.
type Kept struct {
	shelf *Shelf
	drop  func()

	since time.Time

	bytes int64         // under the lock of Idle
	place *list.Element // under the lock of Idle; nil once taken or evicted
}

// Keep adds an idle entry of n bytes, used just now. On eviction, [Idle.Trim] calls drop once, without
// a lock held. The holder may have taken the entry concurrently, and must check.
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

// Add adjusts the usage by n bytes that the holder evicts by its own rule.
func (s *Shelf) Add(n int64) { s.count(n, 0) }

// Drop counts an eviction of n bytes by the holder's own limit.
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

// add counts bytes. The caller holds the lock.
func (s *Shelf) add(n int64) {
	s.usage.Held += n
	s.idle.held += n
}

// Add adjusts the size of the entry by n bytes.
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

// Take removes the entry because it is used again or gone.
func (k *Kept) Take() {
	if k == nil {
		return
	}
	k.shelf.idle.mu.Lock()
	defer k.shelf.idle.mu.Unlock()
	k.leave()
}

// leave removes it from the order. The caller holds the lock.
func (k *Kept) leave() {
	if k.place != nil {
		k.shelf.idle.order.Remove(k.place)
		k.shelf.add(-k.bytes)
		k.place = nil
	}
}

// Trim evicts entries above the limits. Callers of Keep, and those rejected for lack of memory, call
// it without any lock that a drop function takes.
func (i *Idle) Trim() {
	for k := i.excess(); k != nil; k = i.excess() {
		k.drop()
	}
}

// excess removes and returns the next entry to evict, nil if there is none.
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

// trimIn schedules a trim unless one is pending. The caller holds the lock.
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
