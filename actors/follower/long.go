package follower

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// errReset says that a read of old batches is answered by a reset to the head: they hold
// one themselves, and the history that it would have to repeat is long.
var errReset = errors.New("what was asked for is a reset of a long history")

// pages reads closed history. While all of it is short the pages are held; otherwise they
// stay in the bucket, and refs says where.
func (s *Set) pages(ctx context.Context, source Source, key conversation.Key, list []storage.PageRef) (
	pages []*conversation.HistoryPage, refs map[*conversation.HistoryPage]storage.PageRef, err error,
) {
	size := 0
	for i, ref := range list {
		read, err := History(ctx, source, key, list[i:i+1])
		if err != nil {
			return nil, nil, err
		}
		if pages = append(pages, read[0]); refs != nil {
			pages[i] = read[0].Stub()
			refs[pages[i]] = ref
			continue
		}
		if size += read[0].Size(); size > s.options.HoldBytes {
			refs = map[*conversation.HistoryPage]storage.PageRef{}
			for n, p := range pages {
				pages[n] = p.Stub()
				refs[pages[n]] = list[n]
			}
		}
	}
	return pages, refs, nil
}

// encoding is what a page of pieces is written from. It belongs to nobody and does not
// change.
type encoding struct {
	set    *Set
	key    conversation.Key
	life   conversation.Offset // of the batch that created what is encoded
	pieces []conversation.Piece
	refs   map[*conversation.HistoryPage]storage.PageRef
	logged map[*conversation.HistoryPage]int // how many messages come before those that the log alone has
}

// folds reports whether the log has to be folded again to write the encoding.
func (e *encoding) folds() bool {
	return slices.ContainsFunc(e.pieces, func(p conversation.Piece) bool {
		_, ok := e.logged[p.Page]
		return ok
	})
}

// whole returns the encoding if it is all in memory and short enough to be held.
func (e *encoding) whole() ([]byte, bool) {
	size := 0
	for _, p := range e.pieces {
		if size += len(p.Bytes); p.Bytes == nil || size > e.set.options.HoldBytes {
			return nil, false
		}
	}
	out := make([]byte, 0, size)
	for _, p := range e.pieces {
		out = append(out, p.Bytes...)
	}
	return out, true
}

// page returns a page of the encoding.
func (e *encoding) page(next conversation.Offset) conversation.Page {
	page := conversation.Page{Next: next, UpToDate: true}
	var ok bool
	if page.JSON, ok = e.whole(); !ok {
		page.Long = e.write
	}
	return page
}

// write writes the encoding and reads on the way what is not in memory, one piece at a
// time. While there is no memory for that it fails before it has written anything: only
// here, because many readers may have the same page, and some of them late.
func (e *encoding) write(ctx context.Context, w io.Writer) (err error) {
	defer e.set.answer(e.key, &err)
	wr := &writing{encoding: e, w: w}
	if e.folds() {
		leave, err := e.set.readAgain()
		if err != nil {
			return err
		}
		defer leave()
		wr.again = newAgain(ctx, e.set, e.key, e.life)
		defer wr.again.stop()
	}
	for _, p := range e.pieces {
		if err := wr.piece(ctx, p); err != nil {
			return e.set.explain(e.key, err)
		}
	}
	return nil
}

// readAgain takes the memory to read a log again while something is written. It has a bound
// of its own, so that clients who take their time leave followers what they have; of the
// node's memory it may need that of followers without readers. The caller gives it back.
func (s *Set) readAgain() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.rereads.Used()+againBytes <= s.rereadBytes && !s.rereads.Room(againBytes) && s.dropIdle() {
	}
	if err := s.rereads.Take(againBytes); err != nil {
		e := conversation.Unavailable(retryAfter, err)
		e.Details = fmt.Sprintf("The history has to be read from the log while it is sent, for which there is no memory right now: %v. Retry after the time given.", err)
		return nil, e
	}
	return func() { s.rereads.Add(-againBytes) }, nil
}

// writing is an encoding being written.
type writing struct {
	*encoding
	w     io.Writer
	again *again // nil if nothing has to be folded
}

func (e *writing) piece(ctx context.Context, p conversation.Piece) error {
	switch {
	case p.Left != nil:
		b, err := e.left(ctx, p.Left)
		if err != nil {
			return err
		}
		_, err = e.w.Write(b)
		return err
	case p.Page != nil:
		inner, err := e.messages(ctx, p.Page)
		for _, x := range inner {
			if err == nil {
				err = e.piece(ctx, x)
			}
		}
		return err
	}
	_, err := e.w.Write(p.Bytes)
	return err
}

// left reads a message that was left to the log.
func (e *encoding) left(ctx context.Context, l *conversation.Left) ([]byte, error) {
	adm, err := Admitted(ctx, e.set.source, e.set.account, e.key, l)
	if err != nil {
		return nil, err
	}
	return adm.EncodeMessage()
}

// messages reads a page that stays in the bucket, or makes it of the log.
func (e *writing) messages(ctx context.Context, stub *conversation.HistoryPage) ([]conversation.Piece, error) {
	if first, ok := e.logged[stub]; ok {
		page, err := e.again.page(first, stub.Counts.Messages)
		if err != nil {
			return nil, err
		}
		return page.Pieces(), nil
	}
	ref, ok := e.refs[stub]
	if !ok {
		return nil, errors.New("page of no checkpoint")
	}
	pages, err := History(ctx, e.set.source, e.key, []storage.PageRef{ref})
	if err != nil {
		return nil, err
	}
	return pages[0].Pieces(), nil
}
