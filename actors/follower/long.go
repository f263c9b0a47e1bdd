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

// errReset makes a read of old batches return a reset to the head. The batches contain a reset
// themselves, and the history to repeat is long.
var errReset = errors.New("reset of a long history")

// pages reads closed history. Short history is held in memory. Otherwise the pages stay in the bucket,
// and refs locates them.
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

// encoding is the source of a page of pieces. It is immutable and independent of the follower.
type encoding struct {
	set    *Set
	key    conversation.Key
	born   conversation.Offset // offset of the batch that created the incarnation
	pieces []conversation.Piece
	refs   map[*conversation.HistoryPage]storage.PageRef
	logged map[*conversation.HistoryPage]int // message counts before the pages that only the log has
}

// folds reports whether writing the encoding needs a fold of the log.
func (e *encoding) folds() bool {
	return slices.ContainsFunc(e.pieces, func(p conversation.Piece) bool {
		_, ok := e.logged[p.Page]
		return ok
	})
}

// whole returns the encoding if all of it is in memory and short enough to be held.
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

func (e *encoding) page(next conversation.Offset) conversation.Page {
	page := conversation.Page{Next: next, UpToDate: true}
	var ok bool
	if page.JSON, ok = e.whole(); !ok {
		page.Long = e.write
	}
	return page
}

// write writes the encoding and reads the pieces that are not in memory on the way, one at a time. If
// memory for that is short, it fails before it writes anything. Memory is reserved only here because
// many readers may hold the same page, and some write it late.
func (e *encoding) write(ctx context.Context, w io.Writer) (err error) {
	defer e.set.answer(e.key, &err)
	wr := &writing{encoding: e, w: w}
	if e.folds() {
		leave, err := e.set.readAgain()
		if err != nil {
			return err
		}
		defer leave()
		wr.refold = newRefold(ctx, e.set, e.key, e.born)
		defer wr.refold.stop()
	}
	for _, p := range e.pieces {
		if err := wr.piece(ctx, p); err != nil {
			return e.set.explain(e.key, err)
		}
	}
	return nil
}

// readAgain reserves the memory to read a log again while a response is written. The account has its
// own bound, so that slow clients leave memory for followers. If needed it evicts followers without
// readers from the node's budget. The caller releases the memory with leave.
func (s *Set) readAgain() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.rereads.Used()+refoldBytes <= s.rereadBytes && !s.rereads.Room(refoldBytes) && s.dropIdle() {
	}
	if err := s.rereads.Take(refoldBytes); err != nil {
		e := conversation.Unavailable(retryAfter, err)
		e.Details = fmt.Sprintf("The history has to be read from the log while it is sent, for which there is no memory right now: %v. Retry after the time given.", err)
		return nil, e
	}
	return func() { s.rereads.Add(-refoldBytes) }, nil
}

// writing is an encoding being written.
type writing struct {
	*encoding
	w      io.Writer
	refold *refold // nil if no fold is needed
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

// left reads a message that is stored only in the log.
func (e *encoding) left(ctx context.Context, l *conversation.Left) ([]byte, error) {
	adm, err := Admitted(ctx, e.set.source, e.set.account, e.key, l)
	if err != nil {
		return nil, err
	}
	return adm.EncodeMessage()
}

// messages reads a page from the bucket, or rebuilds it from the log.
func (e *writing) messages(ctx context.Context, stub *conversation.HistoryPage) ([]conversation.Piece, error) {
	if first, ok := e.logged[stub]; ok {
		page, err := e.refold.page(first, stub.Counts.Messages)
		if err != nil {
			return nil, err
		}
		return page.Pieces(), nil
	}
	ref, ok := e.refs[stub]
	if !ok {
		return nil, errors.New("page without checkpoint")
	}
	pages, err := History(ctx, e.set.source, e.key, []storage.PageRef{ref})
	if err != nil {
		return nil, err
	}
	return pages[0].Pieces(), nil
}
