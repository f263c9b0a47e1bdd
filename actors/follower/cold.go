package follower

import (
	"context"
	"errors"
	"math"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// coldPage answers a read of batches that are not retained. Readers of the same span share one bucket
// read, and its page while it is cached.
func (f *follower) coldPage(ctx context.Context, r read) (conversation.Page, error) {
	f.in.Lock()
	l := f.pages[r.span]
	if l == nil {
		l = &flight{done: make(chan struct{})}
		if f.pages == nil {
			f.pages, f.resets = map[span]*flight{}, &resets{slot: make(chan struct{}, 1)}
		}
		if !f.set.spawn(ctx, f, func(ctx context.Context) { f.readPage(ctx, l, r) }) {
			f.in.Unlock()
			return conversation.Page{}, f.set.unavailable(errStopped)
		}
		f.pages[r.span] = l
	}
	f.in.Unlock()
	if err := f.wait(ctx, l); err != nil {
		return conversation.Page{}, err
	}
	return conversation.Page{JSON: l.page.JSON, Next: l.page.Next, UpToDate: l.page.Next == r.head}, nil
}

func (f *follower) readPage(ctx context.Context, l *flight, r read) {
	f.set.counts.coldPages.Add(1)
	var entries []entry
	err := f.set.reading(ctx, f.key, func() (err error) {
		entries, err = f.readEntries(ctx, r)
		return err
	})
	if err == nil {
		l.page.JSON, l.page.Next = join(entries), r.first+conversation.Offset(len(entries))-1
	} else if l.err = err; !errors.Is(err, errReset) {
		l.err = f.set.explain(f.key, err)
		if permanent(err) {
			f.set.options.Logger.Error("page cannot be read", "conversation", string(f.key), "offset", int64(r.first), "err", err)
			if corrupt(err) {
				f.set.options.Corrupt(f.key)
			}
		}
	}
	f.in.Lock()
	switch {
	case f.pages[r.span] != l: // reset dropped the page during the read
	case l.err == nil:
		f.cachePage(r.span, len(l.page.JSON))
	default:
		delete(f.pages, r.span)
	}
	f.in.Unlock()
	close(l.done)
}

// cachePage caches the page of a finished flight and evicts older pages beyond RetainBytes; in is held.
func (f *follower) cachePage(of span, bytes int) {
	f.shelf = append(f.shelf, of)
	f.shelved += bytes
	f.set.hold(f, int64(bytes))
	for len(f.shelf) > 1 && f.shelved > f.set.options.RetainBytes {
		f.evictPage()
	}
}

// evictPage evicts the oldest page; in is held.
func (f *follower) evictPage() {
	bytes := len(f.pages[f.shelf[0]].page.JSON)
	delete(f.pages, f.shelf[0])
	f.shelf = f.shelf[1:]
	f.shelved -= bytes
	f.set.hold(f, -int64(bytes))
}

// readEntries returns the encoded batches of the span, or the first of them if the source returns
// fewer; at least one.
func (f *follower) readEntries(ctx context.Context, r read) ([]entry, error) {
	stored, err := f.set.source.Range(ctx, f.key, int64(r.first), int64(r.last))
	if err != nil {
		return nil, err
	}
	out := make([]entry, 0, len(stored))
	if len(stored) == 0 {
		return nil, &storage.GapError{Conv: f.key, Seq: int64(r.first), Next: -1}
	}
	for i, b := range stored {
		off := r.first + conversation.Offset(i)
		if b.Seq != int64(off) {
			return nil, &storage.GapError{Conv: f.key, Seq: int64(off), Next: -1}
		}
		d, err := decoded(f.set.account, b)
		stored[i] = storage.Batch{} // release the stored bytes early
		if err != nil {
			return nil, err
		}
		if needsState(d.records) && r.long {
			return nil, errReset
		}
		var page []byte
		if needsState(d.records) {
			page, err = f.resets.page(ctx, f, r.id, off)
		} else {
			page, err = f.set.encodePage(r.id, conversation.Batch{Offset: off, Records: d.records}, nil)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, entry{page: page})
	}
	return out, nil
}

// resets encodes old batches whose projection needs the state at that batch. Such a page takes a fold
// of the log up to the batch. The fold is kept for the next page, and up to RetainBytes of pages, so
// that readers that walk a log fold it about once. The holder of slot owns the fields. slot is a
// channel because it is held during bucket reads, and waiters must be able to leave when their context
// ends.
type resets struct {
	slot  chan struct{}
	state *conversation.State // nil before the first fold and after an error
	at    storage.Position
	pages map[conversation.Offset][]byte
	order []conversation.Offset // keys of pages, oldest first
	bytes int

	folded int64 // log bytes that state was folded from
	held   int64 // bytes charged to the follower
}

// weigh charges the follower for the pages and the fold.
func (c *resets) weigh(f *follower) {
	n := int64(c.bytes)
	if c.state != nil {
		n += c.folded
	}
	f.set.hold(f, n-c.held)
	c.held = n
}

// page returns the page of exactly the batch at off.
func (c *resets) page(ctx context.Context, f *follower, id conversation.ConversationID, off conversation.Offset) ([]byte, error) {
	select {
	case c.slot <- struct{}{}:
		defer func() { <-c.slot }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if page, ok := c.pages[off]; ok {
		return page, nil
	}
	defer c.weigh(f)
	if c.state == nil || c.state.Head() >= off {
		c.state, c.at, c.folded = conversation.NewStateHolding(math.MaxInt), storage.Start(), 0
	}
	page, err := c.fold(ctx, f, id, off)
	if err != nil {
		c.state = nil
		return nil, err
	}
	if c.pages == nil {
		c.pages = map[conversation.Offset][]byte{}
	}
	c.pages[off] = page
	c.order = append(c.order, off)
	c.bytes += len(page)
	for c.bytes > f.set.options.RetainBytes && len(c.order) > 1 {
		c.bytes -= len(c.pages[c.order[0]])
		delete(c.pages, c.order[0])
		c.order = c.order[1:]
	}
	return page, nil
}

// fold folds through the batch at off and encodes it.
func (c *resets) fold(ctx context.Context, f *follower, id conversation.ConversationID, off conversation.Offset) (page []byte, err error) {
	defer contain(&err)
	for stored, err := range f.set.source.Batches(ctx, f.key, c.at) {
		if err != nil {
			return nil, err
		}
		d, err := decoded(f.set.account, stored)
		if err != nil {
			return nil, err
		}
		b := conversation.Batch{Offset: conversation.Offset(d.at.Seq), Records: d.records}
		if err := c.state.Apply(b); err != nil {
			return nil, &logError{d.at.Seq, err}
		}
		c.at, c.folded = d.at, c.folded+int64(d.bytes)
		if b.Offset == off {
			return f.set.encodePage(id, b, func() (*conversation.Snapshot, error) { return c.state.Snapshot(), nil })
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, &storage.GapError{Conv: f.key, Seq: c.at.Seq + 1, Next: -1}
}
