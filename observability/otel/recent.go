package otel

import "container/list"

// recent is an LRU cache of at most max values. It is not safe for concurrent use.
type recent[K comparable, V any] struct {
	max     int
	entries map[K]*list.Element
	order   *list.List // elements are entry[K, V], most recently used first
	evicted func(V)    // may be nil
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](limit int, evicted func(V)) *recent[K, V] {
	return &recent[K, V]{max: limit, entries: map[K]*list.Element{}, order: list.New(), evicted: evicted}
}

// at returns the value of a key, or the zero value.
func (r *recent[K, V]) at(key K) V {
	el, ok := r.entries[key]
	if !ok {
		var none V
		return none
	}
	r.order.MoveToFront(el)
	return el.Value.(entry[K, V]).value
}

// put sets the value of a key and evicts the least recently used one.
func (r *recent[K, V]) put(key K, value V) {
	if el, ok := r.entries[key]; ok {
		el.Value = entry[K, V]{key, value}
		r.order.MoveToFront(el)
		return
	}
	r.entries[key] = r.order.PushFront(entry[K, V]{key, value})
	if r.order.Len() <= r.max {
		return
	}
	last := r.order.Remove(r.order.Back()).(entry[K, V])
	delete(r.entries, last.key)
	if r.evicted != nil {
		r.evicted(last.value)
	}
}
