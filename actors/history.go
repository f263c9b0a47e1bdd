package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// checkpointTimeout bounds the storing of a checkpoint. One that fails is not
// missed: the next has all that it had.
const checkpointTimeout = 30 * time.Second

// maxEncodedBytes bounds the encoded history that an activation keeps for its next
// model call: about what the largest context windows hold.
const maxEncodedBytes = 4 << 20

// maxViewBytes bounds what a model is shown of a conversation, in bytes of text: several
// times what the largest context windows hold. Beyond it nobody is asked.
const maxViewBytes = 16 << 20

// history is what an activation has cut out of its state, and its checkpoints. It
// outlives the activation as long as a checkpoint is being stored.
type history struct {
	rt  *Runtime
	key conversation.Key
	log *slog.Logger

	mu     sync.Mutex
	pages  []*closedPage  // full ones
	tail   *closedPage    // the one after them, or nil
	due    *dueCheckpoint // the newest that waits
	saving bool
	newest *storage.Checkpoint // got or put last
	recent []storage.Batch     // the newest of the log that no segment holds, as far as they are kept
	bytes  int                 // of their lines
	held   atomic.Int64        // bytes of pages in memory, and of what the model was shown of them
	// day is the newest that an index entry was asked for, indexed that of the newest
	// stored one, and entry the one that is due, or nil.
	day, indexed string
	entry        *storage.IndexEntry

	segments *storage.Compactor // belongs to who saves
	// viewed is the compaction that pieces were shown after, nil if none.
	viewed *conversation.Compacted
}

// closedPage is a page in memory, in the bucket, or both.
type closedPage struct {
	ref    *storage.PageRef // nil until it is stored
	cut    *conversation.HistoryPage
	pieces []*piece    // what the model is shown of it; nil while that is in the bucket only
	held   int64       // what is counted of it in history.held
	next   *closedPage // the one that has grown from it, which has its pieces; nil if none has
}

// piece is history that was cut at one time or read at once. A page that grows keeps
// its pieces, so that a turn encodes none of them again.
type piece struct {
	cut   *conversation.HistoryPage // nil once shown is there
	shown *providers.Block
	first bool // it holds where the view begins after a compaction
}

// bytes is how much the model is shown of the piece.
func (p *piece) bytes() int {
	if p.shown == nil {
		return 0
	}
	return p.shown.TextBytes()
}

func newPage(cut *conversation.HistoryPage) *closedPage {
	return &closedPage{cut: cut, pieces: []*piece{{cut: cut}}}
}

// dueCheckpoint is a checkpoint that lacks the references of its pages.
type dueCheckpoint struct {
	storage.Checkpoint
	address conversation.Address
	day     string // on which it was taken
	pages   int    // how many full ones belong to it
	tail    *conversation.HistoryPage
}

// newHistory makes a history of what was restored, nil if nothing was.
func (r *Runtime) newHistory(key conversation.Key, from *follower.Restored, log *slog.Logger) *history {
	h := &history{rt: r, key: key, log: log, segments: r.logs.Compactor(key)}
	if from == nil {
		return h
	}
	h.newest = from.Checkpoint
	h.indexed, h.day = h.newest.Indexed, h.newest.Indexed
	for _, ref := range from.Checkpoint.Pages {
		h.pages = append(h.pages, &closedPage{ref: &ref})
	}
	if from.Tail != nil {
		h.tail = newPage(from.Tail)
		h.measure(h.tail)
	}
	return h
}

// begin makes it that of an activation. day is that of an index entry that is known to be
// stored, "" if none is.
func (h *history) begin(day string, log *slog.Logger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log, h.indexed = log, max(day, h.indexed)
	h.day = h.indexed
}

// maxOpenBytes bounds the closed history that is in memory while a log is read.
const maxOpenBytes = 8 << 20

// take cuts closed history out of the state of a log that is being read. Beyond
// maxOpenBytes the oldest is stored: a checkpoint that names it follows soon.
func (h *history) take(ctx context.Context, s *conversation.State) error {
	h.outlive(s)
	h.mu.Lock()
	err := h.cutFrom(s)
	pages := h.pages
	h.mu.Unlock()
	for n, p := range pages {
		if err != nil || h.held.Load() <= maxOpenBytes {
			break
		}
		if p.cut == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, openTimeout)
		if _, err = h.store(limited, n, p); err == nil {
			h.release(pages[n : n+1])
		}
		cancel()
	}
	return err
}

// outlive forgets the pages of a life that was deleted.
func (h *history) outlive(s *conversation.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.History() == (conversation.HistoryCounts{}) {
		h.pages, h.tail = nil, nil
		h.held.Store(0)
	}
}

// cutFrom keeps all that is closed in a state. The caller holds mu.
func (h *history) cutFrom(s *conversation.State) error {
	for {
		page, err := s.Cut()
		if err != nil || page == nil {
			return err
		}
		h.keep(page)
	}
}

// cut returns the pages so far, in order. They do not change; what they hold may be
// loaded.
func (h *history) cut() []*closedPage {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.pages)
	if h.tail != nil {
		out = append(out, h.tail)
	}
	return out
}

// measure takes note of what a page has in memory, or the one that has its pieces by now.
// The caller holds mu.
func (h *history) measure(p *closedPage) {
	for p.next != nil {
		p = p.next
	}
	n := int64(p.bytes())
	h.held.Add(n - p.held)
	p.held = n
}

// bytes is how much the page has in memory, in any form.
func (p *closedPage) bytes() (n int) {
	if p.cut != nil {
		n += p.cut.Bytes()
	}
	for _, piece := range p.pieces {
		if n += piece.bytes(); piece.cut != nil && piece.cut != p.cut {
			n += piece.cut.Bytes()
		}
	}
	return n
}

// keep takes what was cut out of the state. The caller holds mu.
func (h *history) keep(p *conversation.HistoryPage) {
	next := newPage(p)
	if h.tail != nil {
		next = &closedPage{cut: h.tail.cut.Join(p), pieces: slices.Concat(h.tail.pieces, next.pieces), held: h.tail.held}
		h.tail.next, h.tail.held = next, 0
	}
	h.tail = next
	h.measure(next)
	if next.cut.Size() >= h.rt.pageBytes {
		h.pages, h.tail = append(h.pages, next), nil
	}
}

// checkpoint stores a checkpoint and its pages in the background, one checkpoint at
// a time; of those that wait the newest is enough.
func (h *history) checkpoint(e machine.Checkpoint, due *dueCheckpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range e.Closed {
		h.keep(p)
	}
	due.State, due.pages = e.State, len(h.pages)
	h.due = due
	if h.tail != nil {
		h.due.tail = h.tail.cut
	}
	for _, c := range e.Claims {
		h.due.Claims = append(h.due.Claims, storage.Claim{Seq: int64(c.Seq), Nonce: storage.Nonce(c.Nonce)})
	}
	h.saveInBackground()
}

// saveInBackground stores what is due, one thing after the other. The caller holds mu.
func (h *history) saveInBackground() {
	if h.saving {
		return
	}
	h.saving = true
	h.rt.spawnSave(func(ctx context.Context) {
		for h.next(ctx) {
		}
	})
}

// next stores what is due and reports whether there was anything.
func (h *history) next(saving context.Context) bool {
	h.mu.Lock()
	due, entry := h.due, h.entry
	h.due, h.entry, h.saving = nil, nil, due != nil || entry != nil
	h.mu.Unlock()
	if entry != nil {
		h.index(saving, *entry)
	}
	if due == nil {
		return entry != nil
	}
	ctx, cancel := context.WithTimeout(saving, checkpointTimeout)
	defer cancel()
	if err := h.save(ctx, due); err != nil {
		h.log.Warn("checkpoint is not stored", "offset", due.At.Seq, "err", err)
		return true
	}
	if !h.rt.draining.Load() { // what is left to do is done when the conversation is used again
		h.archive(saving, due.At.Seq)
	}
	return true
}

func (h *history) save(ctx context.Context, due *dueCheckpoint) error {
	for n, p := range h.cut()[:due.pages] {
		ref, err := h.store(ctx, n, p)
		if err != nil {
			return err
		}
		due.Pages = append(due.Pages, ref)
	}
	if due.tail != nil {
		var err error
		if due.Tail, err = conversation.EncodeHistory(due.tail); err != nil {
			return err
		}
	}
	due.Indexed = h.index(ctx, storage.IndexEntry{Address: due.address, Day: due.day})
	if err := h.rt.logs.PutCheckpoint(ctx, h.key, &due.Checkpoint, h.newest); err != nil {
		return err
	}
	due.State, due.Tail = nil, nil // what is kept of a checkpoint is small
	h.newest = &due.Checkpoint
	return nil
}

// store stores a page unless it is.
func (h *history) store(ctx context.Context, n int, p *closedPage) (storage.PageRef, error) {
	h.mu.Lock()
	known := p.ref
	h.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	content, err := conversation.EncodeHistory(p.cut)
	if err != nil {
		return storage.PageRef{}, err
	}
	ref, err := h.rt.logs.PutPage(ctx, h.key, n, content)
	if err != nil {
		return ref, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.ref = &ref
	return ref, nil
}

// blocks returns what the model is shown of pages after a compaction, from memory, from
// the bucket, or, if a page is not what it should be, from the log. next is the
// exchange after them.
func (h *history) blocks(
	ctx context.Context, pages []*closedPage, after *conversation.Compacted, next conversation.SubmissionID,
) ([]*providers.Block, error) {
	h.view(pages, after)
	var out []*providers.Block
	room := h.rt.viewBytes
	for _, p := range slices.Backward(pages) {
		blocks, first, err := h.page(ctx, p, after, &room)
		var corrupt *storage.CorruptError
		switch {
		case errors.As(err, &corrupt):
			h.log.Warn("page cannot be used, folding the log", "err", err)
			folded, bare, err := h.fold(ctx, after, next, h.rt.viewBytes)
			if err == nil && bare > 0 {
				err = errViewTooLong
			}
			if err != nil {
				return nil, err
			}
			if folded, err = h.rt.whole(ctx, h.key, folded, h.rt.viewBytes); err != nil {
				return nil, err
			}
			messages, err := h.rt.messages(h.key, folded)
			return []*providers.Block{providers.NewBlock(messages)}, err
		case errors.Is(err, errViewTooLong):
			h.release(pages)
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("read history: %w", err)
		}
		if out = append(blocks, out...); first {
			break
		}
	}
	return out, nil
}

// release forgets what was shown of pages that are stored.
func (h *history) release(pages []*closedPage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range pages {
		if p.ref != nil {
			p.pieces, p.cut = nil, nil
			h.measure(p)
		}
	}
}

// page returns what the model is shown of a page, and whether the view begins there. It
// takes that from room, the bytes that the view may still have.
func (h *history) page(
	ctx context.Context, p *closedPage, after *conversation.Compacted, room *int,
) (out []*providers.Block, first bool, err error) {
	pieces, err := h.load(ctx, p)
	if err != nil {
		return nil, false, err
	}
	for _, piece := range slices.Backward(pieces) {
		b, err := h.show(ctx, p, piece, after, *room)
		if err != nil {
			return nil, false, err
		}
		if *room -= b.TextBytes(); *room < 0 {
			return nil, false, errViewTooLong
		}
		out = append([]*providers.Block{b}, out...)
		if piece.first {
			return out, true, nil
		}
	}
	return out, false, nil
}

// view forgets what was shown of pages if that was before a compaction.
func (h *history) view(pages []*closedPage, after *conversation.Compacted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewed == after {
		return
	}
	h.viewed = after
	all := slices.Concat(pages, h.pages) // those that have grown meanwhile too
	if h.tail != nil {
		all = append(all, h.tail)
	}
	for _, p := range all {
		p.pieces = nil // it is read again
		if p.cut != nil {
			p.pieces = []*piece{{cut: p.cut}}
		}
		h.measure(p)
	}
}

// exchanges returns what pages hold from where a view begins after a compaction, as
// blocks does. Of those beyond the newest room bytes only their names are there.
func (h *history) exchanges(
	ctx context.Context, pages []*closedPage, after *conversation.Compacted, next conversation.SubmissionID, room int,
) ([]conversation.Exchange, error) {
	out, err := h.paged(ctx, pages, after, room)
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) {
		return out, err
	}
	h.log.Warn("page cannot be used, folding the log", "err", err)
	folded, _, err := h.fold(ctx, after, next, room)
	if err == nil {
		out = exported(folded)
		_, err = h.rt.recent(ctx, h.key, out, room)
	}
	return out, err
}

// paged is exchanges without the log.
func (h *history) paged(ctx context.Context, pages []*closedPage, after *conversation.Compacted, room int) ([]conversation.Exchange, error) {
	var out []conversation.Exchange
	for _, p := range slices.Backward(pages) {
		h.mu.Lock()
		page, ref := p.cut, p.ref
		h.mu.Unlock()
		if page == nil {
			read, err := follower.History(ctx, h.rt.logs, h.key, []storage.PageRef{*ref})
			if err != nil {
				return nil, err
			}
			page = read[0]
		}
		list, err := page.Exchanges()
		if err != nil {
			return nil, &storage.CorruptError{Conv: h.key, Err: err}
		}
		i := firstOf(list, after)
		list = list[max(0, i):len(list):len(list)]
		if room, err = h.rt.recent(ctx, h.key, list, room); err != nil {
			return nil, err
		}
		if out = append(list, out...); i >= 0 {
			break
		}
	}
	return out, nil
}

// firstOf returns where a view begins in a list, -1 if not there.
func firstOf(list []conversation.Exchange, after *conversation.Compacted) int {
	if after == nil {
		return -1
	}
	return slices.IndexFunc(list, func(x conversation.Exchange) bool { return x.Submission == after.FirstKept })
}

// load returns the pieces of a page and keeps them.
func (h *history) load(ctx context.Context, p *closedPage) ([]*piece, error) {
	h.mu.Lock()
	pieces, ref := p.pieces, p.ref
	h.mu.Unlock()
	if pieces == nil {
		pages, err := follower.History(ctx, h.rt.logs, h.key, []storage.PageRef{*ref})
		if err != nil {
			return nil, err
		}
		pieces = []*piece{{cut: pages[0]}}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.measure(p)
	if p.pieces == nil {
		p.pieces = pieces
	}
	if p.ref != nil {
		p.cut = nil
	}
	return p.pieces, nil
}

// show returns what the model is shown of a piece of a page and keeps it. Of deliveries it
// takes at most room bytes.
func (h *history) show(
	ctx context.Context, of *closedPage, p *piece, after *conversation.Compacted, room int,
) (*providers.Block, error) {
	h.mu.Lock()
	cut, shown := p.cut, p.shown
	h.mu.Unlock()
	if shown != nil {
		return shown, nil
	}
	list, err := cut.Exchanges()
	if err != nil {
		return nil, &storage.CorruptError{Conv: h.key, Err: err}
	}
	first := firstOf(list, after)
	var exchanges []exchange
	for i, x := range list[max(0, first):] {
		if i == 0 && first >= 0 {
			x.Steps = stepsSince(x.Steps, after.FirstTurn)
		}
		exchanges = append(exchanges, exchange{x.Submission, x.Delivery, x.Left, x.Steps})
	}
	exchanges, err = h.rt.whole(ctx, h.key, exchanges, room)
	if err != nil {
		return nil, err
	}
	messages, err := h.rt.messages(h.key, exchanges)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewed != after { // a call that was given up; what is kept is for the next
		return providers.NewBlock(messages), nil
	}
	defer h.measure(of)
	if p.shown == nil {
		p.cut, p.shown, p.first = nil, providers.NewBlock(messages), first >= 0
	}
	return p.shown, nil
}

// limit forgets the encodings of the newest blocks that are too many to be kept for
// the next call: those of the oldest go on to fit.
func limit(blocks []*providers.Block) {
	kept := int64(0)
	for _, b := range blocks {
		if kept += b.EncodedBytes(); kept > maxEncodedBytes {
			b.Forget()
		}
	}
}

// fold returns what a view after a compaction has before a submission, all that there
// is if that is not known, from the log alone. Of what is beyond the newest room bytes
// only the names are there; bare counts them.
func (h *history) fold(
	ctx context.Context, after *conversation.Compacted, next conversation.SubmissionID, room int,
) (view []exchange, bare int, err error) {
	f := &refolded{after: after, room: room}
	state, uncut := conversation.NewState(), 0
	for b, err := range h.rt.logs.Batches(ctx, h.key, storage.Start()) {
		if err != nil {
			return nil, 0, err
		}
		if err := foldBatch(h.rt.accounts.conversations, state, b); err != nil {
			return nil, 0, err
		}
		if uncut += len(b.Lines); uncut < follower.CutEvery {
			continue
		}
		uncut = 0
		if err := f.cut(state); err != nil {
			return nil, 0, err
		}
	}
	last := exchangesOf(state, next)
	if n := slices.IndexFunc(last, func(x exchange) bool { return x.submission == next }); n >= 0 {
		last = last[:n] // It has its room elsewhere.
	}
	f.add(last...)
	view, _ = since(f.list, after)
	return view, max(0, f.bare-(len(f.list)-len(view))), nil
}

// refolded is what is kept of exchanges while a log is folded.
type refolded struct {
	after *conversation.Compacted
	room  int
	list  []exchange
	bare  int // of list, from its start: their names alone
	bytes int // of the others
}

// cut takes closed history out of a state.
func (f *refolded) cut(s *conversation.State) error {
	if s.History() == (conversation.HistoryCounts{}) { // of a life that was deleted, if there is any
		f.list, f.bare, f.bytes = nil, 0, 0
	}
	for {
		page, err := s.Cut()
		if err != nil || page == nil {
			return err
		}
		list, err := page.Exchanges()
		if err != nil {
			return err
		}
		for _, x := range list {
			f.add(exchange{x.Submission, x.Delivery, x.Left, x.Steps})
		}
	}
}

func (f *refolded) add(list ...exchange) {
	for _, x := range list {
		if f.after != nil && x.submission == f.after.FirstKept {
			f.list, f.bare, f.bytes = nil, 0, 0
		}
		f.list = append(f.list, x)
		f.bytes += x.bytes()
		for ; f.bytes > f.room && f.bare < len(f.list); f.bare++ {
			x := &f.list[f.bare]
			f.bytes -= x.bytes()
			*x = exchange{submission: x.submission}
		}
	}
}
