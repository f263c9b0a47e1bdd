package http

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/memory"
)

// errEvicted ends an answer whose client was slow while others needed the memory.
var errEvicted = errors.New("a slow reader made room for others")

// smallPage is up to which size, in bytes, a page counts for nothing and is copied into
// the frame it travels in.
const smallPage = 4 << 10

// pages counts the pages that are being written to clients. Readers of one conversation
// share a page, so that it counts once, however many do not take it. When there is no
// room for another, those nobody has taken a piece of for a while go first.
type pages struct {
	account  *memory.Account
	patience time.Duration // a reader that takes nothing for so long is slow

	mu   sync.Mutex
	held map[*byte]*heldPage
}

// heldPage is a page that somebody is writing. Its key is its first byte.
type heldPage struct {
	size    int64
	writers map[*response]struct{}
}

// enter counts a page that is about to be written. The caller calls leave when it was.
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

// drop forgets a page, unless that was done. mu is held.
func (p *pages) drop(key *byte, h *heldPage) {
	if p.held[key] == h {
		delete(p.held, key)
		p.account.Add(-h.size)
	}
}

// evict ends the writing of slow pages, the slowest first, until n bytes are free. They
// count no more from then on: a write whose deadline is over ends at once. mu is held.
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
