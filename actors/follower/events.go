package follower

import (
	"bytes"
	"context"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/storage"
)

// maxEventBytes bounds a page of events. A page has at least one event.
const maxEventBytes = 1 << 20

// wholeRange is the number of batches per read when a stream is projected to its end. pageRange is the
// number for a page of old events, which needs few.
const (
	wholeRange = 1024
	pageRange  = 32
)

// stream is the event stream of a conversation, projected up to a batch.
//
// Invariant: recent holds the events from first through the last.
type stream struct {
	made   *feed.Projector
	seq    int64 // last projected batch
	marks  feed.Marks
	first  int64
	recent [][]byte
	bytes  int // size of recent
	retain int
}

func (e *stream) apply(b batch) (more bool, err error) {
	err = e.made.Apply(b.records, func(ev feed.Event) {
		e.recent = append(e.recent, ev.JSON)
		e.bytes += len(ev.JSON)
	})
	if err != nil {
		return false, &logError{b.at.Seq, err}
	}
	e.seq = b.at.Seq
	e.marks.Note(e.seq, e.made)
	drop := 0
	for ; e.bytes > e.retain && drop < len(e.recent)-1; drop++ {
		e.bytes -= len(e.recent[drop])
		e.recent[drop] = nil
	}
	e.recent, e.first = e.recent[drop:], e.first+int64(drop)
	return true, nil
}

// weight returns the approximate memory of the stream in bytes.
func (e *stream) weight() int64 {
	if e == nil {
		return 0
	}
	return e.made.Weight() + int64(e.bytes+64*len(e.recent)) + e.marks.Weight()
}

func (e *stream) tail() int64 { return e.made.Next() - 1 }

// EventTail implements [conversation.EventReader].
func (s *Set) EventTail(ctx context.Context, at conversation.Address) (page conversation.EventPage, err error) {
	defer s.answer(at.Key(), &err)
	f, err := s.acquire(at, false)
	if err != nil {
		return page, err
	}
	defer s.release(f)
	v, err := f.openEvents(ctx)
	if err != nil {
		return page, err
	}
	defer f.unlock()
	return conversation.EventPage{
		JSON: s.empty, Next: v.events.tail(), UpToDate: true, Closed: v.events.made.Closed(), Through: v.head(),
	}, nil
}

// Events implements [conversation.EventReader]. A limit below 1 is 1. A page may have fewer events
// than the limit because of their size. Events of deleted incarnations are skipped.
func (s *Set) Events(ctx context.Context, at conversation.Address, after int64, limit int) (page conversation.EventPage, err error) {
	defer s.answer(at.Key(), &err)
	f, err := s.acquire(at, false)
	if err != nil {
		return page, err
	}
	defer s.release(f)
	v, err := f.openEvents(ctx)
	if err != nil {
		return page, err
	}
	e, limit := v.events, max(limit, 1)
	tail, from := e.tail(), max(after+1, e.made.FirstEvent())
	page = conversation.EventPage{JSON: s.empty, Next: after, UpToDate: true, Closed: e.made.Closed(), Through: v.head()}
	switch {
	case from > tail:
		f.unlock()
		return page, nil
	case from >= e.first:
		events := fitting(e.recent[from-e.first:], limit)
		page.JSON = arrayOf(events)
		f.unlock()
		page.Next = from + int64(len(events)) - 1
	default:
		at := place{last: e.seq, created: v.state.Created()}
		at.mark, _ = e.marks.Before(from)
		f.unlock()
		events, err := f.oldEvents(ctx, at, from, limit)
		if err != nil {
			return page, s.explain(f.key, err)
		}
		page.JSON, page.Next = arrayOf(events), from+int64(len(events))-1
	}
	page.UpToDate = page.Next == tail
	return page, nil
}

// fitting returns the first events up to limit and maxEventBytes.
func fitting(events [][]byte, limit int) [][]byte {
	n, bytes := 0, 0
	for n < len(events) && n < limit && (n == 0 || bytes+len(events[n]) <= maxEventBytes) {
		bytes += len(events[n])
		n++
	}
	return events[:n]
}

func arrayOf(events [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(events, []byte{','}), []byte{']'})
}

// openEvents returns the view like open, with its event stream projected.
func (f *follower) openEvents(ctx context.Context) (*view, error) {
	v, err := f.open(ctx, conversation.Start)
	if err != nil || v.events != nil {
		return v, err
	}
	f.unlock()
	f.in.Lock()
	if f.making == nil {
		f.making = make(chan struct{}, 1)
	}
	f.in.Unlock()
	select {
	case f.making <- struct{}{}:
		defer func() { <-f.making }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var made *stream
	for {
		v, err := f.open(ctx, conversation.Start)
		switch {
		case err != nil || v.events != nil:
			return v, err
		case made != nil && made.seq == int64(v.head()):
			v.events = made
			return v, nil
		}
		if made == nil || made.seq > int64(v.head()) { // the view was reset during the projection
			made = newStream(v, f.set.options.RetainBytes)
		}
		head := int64(v.head())
		f.unlock()
		if err := f.readOn(ctx, &made.seq, head, wholeRange, made.apply); err != nil {
			return nil, f.set.explain(f.key, err)
		}
	}
}

// newStream resumes from the newest mark, or starts at the beginning of the log.
func newStream(v *view, retain int) *stream {
	e := &stream{made: new(feed.Projector), seq: -1, marks: v.marks, retain: retain}
	if last, ok := e.marks.Last(); ok {
		if made, err := last.Resume(v.state.Created()); err == nil {
			e.made, e.seq, e.first = made, last.Seq, last.Next
			return e
		}
		e.marks = feed.Marks{}
	}
	return e
}

// readOn reads the batches after *seq, atOnce per read, through last or until apply returns false.
func (f *follower) readOn(ctx context.Context, seq *int64, last, atOnce int64, apply func(batch) (more bool, err error)) error {
	return f.set.reading(ctx, f.key, func() error {
		for more := true; more && *seq < last; {
			stored, err := f.set.source.Range(ctx, f.key, *seq+1, min(last, *seq+atOnce))
			if err == nil && len(stored) == 0 {
				err = &storage.GapError{Conv: f.key, Seq: *seq + 1, Next: -1}
			}
			for i := 0; err == nil && more && i < len(stored); i++ {
				var b batch
				if b, err = f.follows(*seq, stored[i]); err == nil {
					more, err = apply(b)
				}
				if err == nil {
					*seq = b.at.Seq
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// follows decodes the batch after seq.
func (f *follower) follows(seq int64, s storage.Batch) (batch, error) {
	if s.Seq != seq+1 {
		return batch{}, &storage.GapError{Conv: f.key, Seq: seq + 1, Next: -1}
	}
	return decoded(f.set.account, s)
}

// walk is the projection of a reader of old events. The reader's next page continues from it.
type walk struct {
	made *feed.Projector
	seq  int64
	left []feed.Event // projected, not yet read
	held int64        // bytes charged to the follower
}

// place is the mark to project old events from, and the last batch to project.
type place struct {
	mark    feed.Mark // State is nil at the start of the log
	last    int64
	created *conversation.ConversationCreated
}

// next returns the number of the first event that the walk can still return.
func (w *walk) next() int64 {
	if len(w.left) > 0 {
		return w.left[0].Number
	}
	return w.made.Next()
}

// pass drops the events before a number.
func (w *walk) pass(from int64) {
	w.left = slices.Clone(slices.DeleteFunc(w.left, func(e feed.Event) bool { return e.Number < from }))
}

// oldEvents returns existing events from a number on that are not retained. One walk is kept, so that
// a reader that walks the stream projects it once.
func (f *follower) oldEvents(ctx context.Context, at place, from int64, limit int) ([][]byte, error) {
	f.in.Lock()
	w := f.walk
	f.walk = nil
	f.in.Unlock()
	if w == nil || w.next() > from || w.next() < at.mark.Next {
		f.releaseWalk(w)
		w = &walk{made: new(feed.Projector), seq: -1}
		if at.mark.State != nil {
			made, err := at.mark.Resume(at.created)
			if err != nil {
				return nil, &logError{at.mark.Seq, err}
			}
			w.made, w.seq = made, at.mark.Seq
		}
	}
	events, bytes := make([][]byte, 0, limit), 0
	take := func(e feed.Event) { events, bytes = append(events, e.JSON), bytes+len(e.JSON) }
	w.pass(from)
	for _, e := range w.left {
		take(e)
	}
	enough := func() bool { return len(events) >= limit || bytes >= maxEventBytes }
	if !enough() {
		err := f.readOn(ctx, &w.seq, at.last, pageRange, func(b batch) (bool, error) {
			err := w.made.Apply(b.records, func(e feed.Event) {
				if e.Number >= from {
					w.left = append(w.left, e)
					take(e)
				}
			})
			if err != nil {
				err = &logError{b.at.Seq, err}
			}
			return !enough(), err
		})
		if err != nil {
			f.releaseWalk(w)
			return nil, err
		}
	}
	events = fitting(events, limit)
	f.keepWalk(w, from+int64(len(events)))
	return events, nil
}

// keepWalk keeps a walk for the next reader from a number on.
func (f *follower) keepWalk(w *walk, from int64) {
	w.pass(from)
	held := w.made.Weight()
	for _, e := range w.left {
		held += int64(len(e.JSON))
	}
	f.set.hold(f, held-w.held)
	w.held = held
	f.in.Lock()
	other := f.walk
	f.walk = w
	f.in.Unlock()
	f.releaseWalk(other)
}

// releaseWalk releases the memory charged for a walk, which may be nil.
func (f *follower) releaseWalk(w *walk) {
	if w != nil {
		f.set.hold(f, -w.held)
	}
}

// dropWalk drops the kept walk when the log is reset; in is held.
func (f *follower) dropWalk() {
	f.releaseWalk(f.walk)
	f.walk = nil
}

// marksOf returns the event marks of a checkpoint. Without them the stream is projected from the log's
// start.
func (f *follower) marksOf(c *storage.Checkpoint) feed.Marks {
	m, err := feed.ParseMarks(c.Events)
	if err != nil {
		f.set.options.Logger.Warn("event marks unusable", "conversation", string(f.key), "err", err)
	}
	return m
}
