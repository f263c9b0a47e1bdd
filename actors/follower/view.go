package follower

import (
	"errors"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/storage"
)

// span is a run of batches, first to last inclusive. It is empty if last is before first.
type span struct {
	first, last conversation.Offset
}

// read is the plan for one read of updates.
type read struct {
	span
	head conversation.Offset         // head of the view at planning time
	id   conversation.ConversationID // incarnation of the span
	cold bool                        // not retained: read from the bucket
	long bool                        // do not encode resets: the history is too long
}

// entry is one retained batch. Records are kept until they are encoded.
type entry struct {
	records []conversation.Record
	page    []byte // page of exactly this batch, encoded on demand
	bytes   int    // size charged to the window
}

// chunks returns the encoded chunks without the array's brackets.
func (e *entry) chunks() []byte { return e.page[1 : len(e.page)-1] }

// view is the fold of a log, with its newest batches and the snapshot in encoded form.
//
// Invariant: window holds the batches from start through the head.
type view struct {
	set    *Set
	state  *conversation.State
	born   conversation.Offset // batch that created the current incarnation
	start  conversation.Offset
	window []entry
	bytes  int   // size of window
	folded int64 // log bytes that the state was folded from

	joined   []byte // last page of several batches
	joinedOf span
	snap     conversation.Page                             // snapshot at the offset Next; empty until needed
	snapped  int                                           // memory of snap in bytes
	refs     map[*conversation.HistoryPage]storage.PageRef // bucket locations of history that is not held
	logged   map[*conversation.HistoryPage]int             // history without a known checkpoint; see [encoding]
	pages    []*conversation.HistoryPage                   // cut out of the state
	kept     int                                           // bytes of pages
	uncut    int                                           // bytes folded since the last cut
	fresh    int                                           // bytes folded since the last call of taken

	marks  feed.Marks // marks of the event stream, from a checkpoint
	events *stream    // projected up to the head; nil until needed
}

func newView(s *Set) *view {
	return &view{set: s, state: conversation.NewState(), snap: conversation.Page{Next: conversation.Start}}
}

// weight returns the approximate memory of the view in bytes.
func (v *view) weight() int64 {
	return v.folded + int64(v.bytes+len(v.joined)+v.snapped) + v.events.weight()
}

// restore replaces the state by one of size bytes and empties the window. pages are attached to it;
// refs locates those that are not held.
func (v *view) restore(
	s *conversation.State, size int64, pages []*conversation.HistoryPage, refs map[*conversation.HistoryPage]storage.PageRef,
) {
	v.state, v.born, v.folded, v.pages, v.refs = s, s.Start(), size, pages, refs
	for _, p := range pages {
		v.kept += p.Bytes()
	}
	v.evict(s.Head() + 1)
}

// cut takes closed history out of a state that is not live yet. Short history stays in memory as
// pages. Longer history is rebuilt from the log on demand.
func (v *view) cut() error {
	before := len(v.pages)
	for {
		page, err := v.state.Cut()
		if err != nil {
			return err
		}
		if page == nil {
			break
		}
		if v.kept+page.Bytes() > v.set.options.HoldBytes {
			if v.logged == nil {
				v.logged = map[*conversation.HistoryPage]int{}
			}
			page = page.Stub()
			v.logged[page] = v.state.History().Messages - page.Counts.Messages
		}
		v.kept += page.Bytes()
		v.pages = append(v.pages, page)
	}
	if v.uncut = 0; len(v.pages) == before {
		return nil
	}
	v.fresh = v.state.Bytes()
	v.folded = int64(v.fresh + v.kept)
	return v.state.Attach(v.pages)
}

func (v *view) head() conversation.Offset { return v.state.Head() }

func (v *view) exists() bool { return v.state.Exists() }

// apply folds the next batch and retains it. A live view encodes it immediately. While a log is read
// from its start, encoding waits for a reader. A batch that needs the state at that batch is not
// retained.
func (v *view) apply(b batch, live bool) error {
	if !live && v.uncut >= min(CutEvery, v.set.options.HoldBytes) {
		if err := v.cut(); err != nil {
			return &logError{b.at.Seq, err}
		}
	}
	before := v.state.Created()
	off := conversation.Offset(b.at.Seq)
	if err := v.state.Apply(conversation.Batch{Offset: off, Records: b.records}); err != nil {
		return &logError{b.at.Seq, err}
	}
	if v.events != nil {
		if _, err := v.events.apply(b); err != nil {
			v.events = nil // readers get the error
		}
	}
	v.folded, v.uncut = v.folded+int64(b.bytes), v.uncut+b.bytes
	v.snap, v.snapped = conversation.Page{Next: conversation.Start}, 0 // outdated
	switch created := v.state.Created(); {
	case created == nil:
		v.evict(off + 1)
		return nil
	case created != before:
		v.born, v.folded, v.uncut = off, int64(b.bytes), b.bytes
		v.refs, v.logged, v.pages, v.kept = nil, nil, nil, 0
		v.evict(off)
	case !live && needsState(b.records):
		v.evict(off + 1)
		return nil
	}
	v.window = append(v.window, entry{records: b.records, bytes: b.bytes})
	v.bytes += b.bytes
	if live {
		switch err := v.encode(&v.window[len(v.window)-1], off); {
		case errors.Is(err, conversation.ErrLeft): // a reset of history that is not in memory
			v.evict(off + 1)
			return nil
		case err != nil:
			return err
		}
	}
	v.fresh += v.window[len(v.window)-1].bytes
	v.trim()
	return nil
}

// taken returns the bytes folded since its last call.
func (v *view) taken() int {
	n := v.fresh
	v.fresh = 0
	return n
}

// needsState reports whether the projection of a batch needs the state at that batch.
func needsState(records []conversation.Record) bool {
	for _, r := range records {
		switch r.(type) {
		case *conversation.ConversationCreated:
			return false
		case *conversation.Compacted, *conversation.StepDropped:
			return true
		}
	}
	return false
}

// evict empties the window; the next retained batch is start.
func (v *view) evict(start conversation.Offset) {
	v.start, v.window, v.bytes = start, nil, 0
}

func (v *view) trim() {
	for v.bytes > v.set.options.RetainBytes && len(v.window) > 1 {
		v.bytes -= v.window[0].bytes
		v.window[0] = entry{}
		v.window = v.window[1:]
		v.start++
	}
	if v.joinedOf.first < v.start {
		v.joined = nil
	}
}

// encode projects and encodes the entry of an offset, once. A batch that needs the state is encoded
// while it is the head.
func (v *view) encode(e *entry, off conversation.Offset) error {
	if e.page != nil {
		return nil
	}
	b := conversation.Batch{Offset: off, Records: e.records}
	page, err := v.set.encodePage(v.id(), b, v.atHead)
	if err != nil {
		return err
	}
	v.bytes += len(page) - e.bytes
	e.page, e.bytes, e.records = page, len(page), nil
	return nil
}

func (v *view) atHead() (*conversation.Snapshot, error) { return v.state.Snapshot(), nil }

func (v *view) id() conversation.ConversationID { return v.state.Created().ConversationID }

// encodePage returns the page of exactly one batch. Its errors are permanent.
func (s *Set) encodePage(id conversation.ConversationID, b conversation.Batch, at func() (*conversation.Snapshot, error)) ([]byte, error) {
	s.counts.encoded.Add(1)
	page, err := conversation.AppendProjection([]byte{'['}, id, b, at)
	if err != nil {
		return nil, &logError{int64(b.Offset), err}
	}
	if len(page) == 1 {
		return s.empty, nil
	}
	return append(page, ']'), nil
}

// snapshot returns the page of the materialized conversation at the head.
func (v *view) snapshot() (conversation.Page, error) {
	if v.snap.Next != v.head() {
		pieces, err := v.state.Snapshot().Pieces()
		page, err := v.encoded(pieces, err)
		if err != nil {
			return conversation.Page{}, err
		}
		v.set.counts.snapshots.Add(1)
		v.snap, v.snapped = page, 0
		for _, p := range pieces { // the JSON has the same length
			v.snapped += len(p.Bytes)
		}
	}
	return v.snap, nil
}

// reset returns the chunk that resets a reader to the head.
func (v *view) reset() (conversation.Page, error) {
	return v.encoded(conversation.ResetPieces(v.state.Snapshot()))
}

func (v *view) encoded(pieces []conversation.Piece, err error) (conversation.Page, error) {
	if err != nil {
		return conversation.Page{}, &logError{int64(v.head()), err}
	}
	e := &encoding{
		set: v.set, key: v.state.Created().Address().Key(), born: v.born, pieces: pieces, refs: v.refs, logged: v.logged,
	}
	return e.page(v.head()), nil
}

// plan chooses the batches for a read of an existing conversation after an offset, at most the head.
func (v *view) plan(after conversation.Offset, limit int) read {
	r := read{head: v.head(), id: v.id()}
	r.first = max(after+1, v.born)
	r.last = r.head
	if int64(limit) < int64(r.head-r.first)+1 {
		r.last = r.first + conversation.Offset(limit) - 1
	}
	if r.first < v.start {
		r.cold = true
		r.last = min(r.last, v.start-1)
		r.long = len(v.refs)+len(v.logged) > 0
	}
	return r
}

func (v *view) page(r read) (conversation.Page, error) {
	page := conversation.Page{JSON: v.set.empty, Next: r.last, UpToDate: r.last == r.head}
	if r.last < r.first {
		return page, nil
	}
	entries := v.window[r.first-v.start : r.last-v.start+1]
	for i := range entries {
		if err := v.encode(&entries[i], r.first+conversation.Offset(i)); err != nil {
			return conversation.Page{}, err
		}
	}
	switch {
	case len(entries) == 1:
		page.JSON = entries[0].page
	case v.joined != nil && v.joinedOf == r.span:
		page.JSON = v.joined
	default:
		page.JSON = join(entries)
		v.joined, v.joinedOf = page.JSON, r.span
	}
	v.trim()
	return page, nil
}

func join(entries []entry) []byte {
	size := 2
	for i := range entries {
		size += len(entries[i].page)
	}
	out := append(make([]byte, 0, size), '[')
	for i := range entries {
		chunks := entries[i].chunks()
		if len(chunks) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, chunks...)
	}
	return append(out, ']')
}
