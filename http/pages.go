package http

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/memory"
)

// errEvicted ends a response to a slow client when memory is needed.
var errEvicted = errors.New("slow reader evicted")

// smallPage is the size in bytes up to which a page is copied into its frame and not accounted.
const smallPage = 4 << 10

// pages accounts for the pages being written to clients. A page shared by many readers counts once.
// Over the bound, pages without progress are evicted first.
type pages struct {
	account  *memory.Account
	patience time.Duration // a reader without progress for this time is slow

	mu   sync.Mutex
	held map[*byte]*heldPage
}

// heldPage is a page being written, keyed by its first byte.
type heldPage struct {
	size    int64
	writers map[*response]struct{}
}

// enter accounts for a page before it is written. The caller calls leave afterwards.
func (p *pages) enter(w *response, page []byte) (leave func(), err error) {
	if len(page) <= smallPage {
		return func() {}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := &page[0]
	if p.held[key] == nil {
		size := int64(len(page))
		if err := p.account.Take(size); err != nil {
			p.evict(size)
			if err := p.account.Take(size); err != nil {
				return nil, err
			}
		}
		if p.held == nil {
			p.held = map[*byte]*heldPage{}
		}
		p.held[key] = &heldPage{size: size, writers: map[*response]struct{}{}}
	}
	h := p.held[key]
	h.writers[w] = struct{}{}
	w.moved.Store(time.Now().UnixNano())
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(h.writers, w); len(h.writers) == 0 {
			p.drop(key, h)
		}
	}, nil
}

// drop removes a page if present. The caller holds mu.
func (p *pages) drop(key *byte, h *heldPage) {
	if p.held[key] == h {
		delete(p.held, key)
		p.account.Add(-h.size)
	}
}

// evict ends the writes of slow pages, slowest first, until n bytes are free. Their bytes are released
// immediately, since a write after its deadline ends at once. The caller holds mu.
func (p *pages) evict(n int64) {
	type slow struct {
		key   *byte
		moved int64
	}
	var found []slow
	limit := time.Now().Add(-p.patience).UnixNano()
	for key, h := range p.held {
		last := int64(0)
		for w := range h.writers {
			last = max(last, w.moved.Load())
		}
		if last <= limit {
			found = append(found, slow{key, last})
		}
	}
	slices.SortFunc(found, func(a, b slow) int { return cmp.Compare(a.moved, b.moved) })
	for _, s := range found {
		if n <= 0 {
			return
		}
		h := p.held[s.key]
		for w := range h.writers {
			w.evict()
		}
		p.drop(s.key, h)
		n -= h.size
	}
}
