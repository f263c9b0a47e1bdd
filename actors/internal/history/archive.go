package history

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
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/actors/internal/summary"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// ErrTooLong is a conversation of which no model can be shown what belongs to its view.
var ErrTooLong = errors.New("the conversation is longer than any model may be shown")

// checkpointTimeout bounds the storing of a checkpoint. One that fails is not
// missed: the next has all that it had.
const checkpointTimeout = 30 * time.Second

// maxEncodedBytes bounds the encoded history that an activation keeps for its next
// model call: about what the largest context windows hold.
const maxEncodedBytes = 4 << 20

// Options are what the archives of a node work with. All but ReadTimeout are required.
type Options struct {
	Logs *storage.Logs
	// Source is what logs are opened from.
	Source follower.Source
	Prompt *prompt.Renderer
	Logger *slog.Logger
	// Turns has long work wait for its turn.
	Turns *memory.Account
	// Writes is charged with the bytes of checkpoints that are due or being stored.
	Writes *memory.Account
	// ReadTimeout bounds each wait for the bucket while a log is read.
	ReadTimeout time.Duration
	// SegmentBatches is how many batches wait until they are put into a segment together,
	// SegmentGrace how long they stay then.
	SegmentBatches int
	SegmentGrace   time.Duration
	// MarkEvents has checkpoints say where events of the beta line are.
	MarkEvents bool
	// Save runs what stores checkpoints, in a context that outlives activations.
	Save func(func(context.Context))
	// Ending reports whether the node is at its end: what is left to do is done when a
	// conversation is used again.
	Ending func() bool
}

// Store is a node's part in what its conversations were. Use New.
type Store struct {
	// PageBytes is about the size of a page of closed history. It is set before use.
	PageBytes int

	o       Options
	garbage *garbage
}

// pageBytes is what docs/architecture.md has.
const pageBytes = 256 << 10

// New returns a store. Nothing is sent yet.
func New(o Options) *Store {
	return &Store{PageBytes: pageBytes, o: o, garbage: newGarbage(o.Logs, o.Logger, o.SegmentGrace)}
}

// Run deletes what segments have replaced, until ctx ends.
func (s *Store) Run(ctx context.Context) { s.garbage.run(ctx) }

// Patient are the logs, with a limit for each wait for the bucket.
func (s *Store) Patient() follower.Source { return follower.Patient(s.o.Source, s.o.ReadTimeout) }

// Archive is what an activation has cut out of its state, and its checkpoints. It
// outlives the activation as long as a checkpoint is being stored.
type Archive struct {
	store *Store
	key   conversation.Key
	log   *slog.Logger

	mu     sync.Mutex
	pages  []*Page // full ones
	tail   *Page   // the one after them, or nil
	due    *Due    // the newest that waits
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
	marking  *marking           // likewise; nil before the first checkpoint, and after an error
	// viewed is the view that pieces were shown in.
	viewed prompt.View
}

// Page is a page in memory, in the bucket, or both.
type Page struct {
	ref    *storage.PageRef // nil until it is stored
	cut    *conversation.HistoryPage
	pieces []*piece // what the model is shown of it; nil while that is in the bucket only
	held   int64    // what is counted of it in history.held
	next   *Page    // the one that has grown from it, which has its pieces; nil if none has
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

func newPage(cut *conversation.HistoryPage) *Page {
	return &Page{cut: cut, pieces: []*piece{{cut: cut}}}
}

// Due is a checkpoint that lacks the references of its pages.
type Due struct {
	storage.Checkpoint
	Address conversation.Address
	Day     string // on which it was taken
	// Closed was cut out of the state for good, after what was cut before.
	Closed []*conversation.HistoryPage

	pages int // how many full ones belong to it
	tail  *conversation.HistoryPage
	held  int64 // bytes charged to Options.Writes
}

// Archive returns that of a conversation, of what was restored, nil if nothing was.
func (s *Store) Archive(key conversation.Key, from *follower.Restored, log *slog.Logger) *Archive {
	a := &Archive{store: s, key: key, log: log, segments: s.o.Logs.Compactor(key)}
	if from == nil {
		return a
	}
	a.newest = from.Checkpoint
	a.indexed, a.day = a.newest.Indexed, a.newest.Indexed
	for _, ref := range from.Checkpoint.Pages {
		a.pages = append(a.pages, &Page{ref: &ref})
	}
	if from.Tail != nil {
		a.tail = newPage(from.Tail)
		a.measure(a.tail)
	}
	return a
}

// Begin makes it that of an activation. day is that of an index entry that is known to be
// stored, "" if none is.
func (a *Archive) Begin(day string, log *slog.Logger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log, a.indexed = log, max(day, a.indexed)
	a.day = a.indexed
}

// maxOpenBytes bounds the closed history that is in memory while a log is read.
const maxOpenBytes = 8 << 20

// Take cuts closed history out of the state of a log that is being read. Beyond
// maxOpenBytes the oldest is stored: a checkpoint that names it follows soon.
func (a *Archive) Take(ctx context.Context, s *conversation.State) error {
	a.Outlive(s)
	a.mu.Lock()
	err := a.cutFrom(s)
	pages := a.pages
	a.mu.Unlock()
	for n, p := range pages {
		if err != nil || a.held.Load() <= maxOpenBytes {
			break
		}
		if p.cut == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, a.store.o.ReadTimeout)
		if _, err = a.storePage(limited, n, p); err == nil {
			a.release(pages[n : n+1])
		}
		cancel()
	}
	return err
}

// Outlive forgets the pages of a life that was deleted.
func (a *Archive) Outlive(s *conversation.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.History() == (conversation.HistoryCounts{}) {
		a.pages, a.tail = nil, nil
		a.held.Store(0)
	}
}

// cutFrom keeps all that is closed in a state. The caller holds mu.
func (a *Archive) cutFrom(s *conversation.State) error {
	for {
		page, err := s.Cut()
		if err != nil || page == nil {
			return err
		}
		a.keep(page)
	}
}

// Cut returns the pages so far, in order. They do not change; what they hold may be
// loaded.
func (a *Archive) Cut() []*Page {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Clone(a.pages)
	if a.tail != nil {
		out = append(out, a.tail)
	}
	return out
}

// measure takes note of what a page has in memory, or the one that has its pieces by now.
// The caller holds mu.
func (a *Archive) measure(p *Page) {
	for p.next != nil {
		p = p.next
	}
	n := int64(p.bytes())
	a.held.Add(n - p.held)
	p.held = n
}

// bytes is how much the page has in memory, in any form.
func (p *Page) bytes() (n int) {
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
func (a *Archive) keep(p *conversation.HistoryPage) {
	next := newPage(p)
	if a.tail != nil {
		next = &Page{cut: a.tail.cut.Join(p), pieces: slices.Concat(a.tail.pieces, next.pieces), held: a.tail.held}
		a.tail.next, a.tail.held = next, 0
	}
	a.tail = next
	a.measure(next)
	if next.cut.Size() >= a.store.PageBytes {
		a.pages, a.tail = append(a.pages, next), nil
	}
}

// Checkpoint stores a checkpoint and its pages in the background, one checkpoint at
// a time; of those that wait the newest is enough.
func (a *Archive) Checkpoint(due *Due) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range due.Closed {
		a.keep(p)
	}
	due.Closed, due.pages = nil, len(a.pages)
	a.discharge(a.due)
	a.due, due.held = due, int64(len(due.State))
	a.store.o.Writes.Add(due.held)
	if a.tail != nil {
		a.due.tail = a.tail.cut
	}
	a.saveInBackground()
}

// discharge gives back the memory of a checkpoint that is stored, has failed or is replaced by a newer one.
func (a *Archive) discharge(due *Due) {
	if due != nil {
		a.store.o.Writes.Add(-due.held)
		due.held = 0
	}
}

// saveInBackground stores what is due, one thing after the other. The caller holds mu.
func (a *Archive) saveInBackground() {
	if a.saving {
		return
	}
	a.saving = true
	a.store.o.Save(func(ctx context.Context) {
		for a.next(ctx) {
		}
	})
}

// next stores what is due and reports whether there was anything.
func (a *Archive) next(saving context.Context) bool {
	a.mu.Lock()
	due, entry := a.due, a.entry
	a.due, a.entry, a.saving = nil, nil, due != nil || entry != nil
	a.mu.Unlock()
	if entry != nil {
		a.index(saving, *entry)
	}
	if due == nil {
		return entry != nil
	}
	defer a.discharge(due)
	ctx, cancel := context.WithTimeout(saving, checkpointTimeout)
	defer cancel()
	if err := a.save(ctx, due); err != nil {
		a.log.Warn("checkpoint is not stored", "offset", due.At.Seq, "err", err)
		return true
	}
	if !a.store.o.Ending() { // what is left to do is done when the conversation is used again
		a.archive(saving, due.At.Seq)
	}
	return true
}

func (a *Archive) save(ctx context.Context, due *Due) error {
	for n, p := range a.Cut()[:due.pages] {
		ref, err := a.storePage(ctx, n, p)
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
	due.Indexed = a.index(ctx, storage.IndexEntry{Address: due.Address, Day: due.Day})
	a.mark(ctx, due)
	if err := a.store.o.Logs.PutCheckpoint(ctx, a.key, &due.Checkpoint, a.newest); err != nil {
		return err
	}
	due.State, due.Tail = nil, nil // what is kept of a checkpoint is small
	a.newest = &due.Checkpoint
	return nil
}

// storePage stores a page unless it is.
func (a *Archive) storePage(ctx context.Context, n int, p *Page) (storage.PageRef, error) {
	a.mu.Lock()
	known := p.ref
	a.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	content, err := conversation.EncodeHistory(p.cut)
	if err != nil {
		return storage.PageRef{}, err
	}
	ref, err := a.store.o.Logs.PutPage(ctx, a.key, n, content)
	if err != nil {
		return ref, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p.ref = &ref
	return ref, nil
}

// Blocks returns what the model is shown of pages in a view, from memory, from
// the bucket, or, if a page is not what it should be, from the log. Next is the
// exchange after them. More than view bytes are [ErrTooLong].
func (a *Archive) Blocks(
	ctx context.Context, pages []*Page, of prompt.View, next conversation.SubmissionID, view int,
) ([]*providers.Block, error) {
	a.view(pages, of)
	var out []*providers.Block
	room := view
	for _, p := range slices.Backward(pages) {
		blocks, first, err := a.page(ctx, p, of, &room)
		var corrupt *storage.CorruptError
		switch {
		case errors.As(err, &corrupt):
			a.log.Warn("page cannot be used, folding the log", "err", err)
			folded, bare, err := a.fold(ctx, of.After, next, view)
			if err == nil && bare > 0 {
				err = ErrTooLong
			}
			if err != nil {
				return nil, err
			}
			if folded, err = a.store.Whole(ctx, a.key, folded, view); err != nil {
				return nil, err
			}
			messages, err := a.store.o.Prompt.Messages(ctx, a.key, folded, of)
			return []*providers.Block{providers.NewBlock(messages)}, err
		case errors.Is(err, ErrTooLong):
			a.release(pages)
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
func (a *Archive) release(pages []*Page) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range pages {
		if p.ref != nil {
			p.pieces, p.cut = nil, nil
			a.measure(p)
		}
	}
}

// page returns what the model is shown of a page, and whether the view begins there. It
// takes that from room, the bytes that the view may still have.
func (a *Archive) page(
	ctx context.Context, p *Page, of prompt.View, room *int,
) (out []*providers.Block, first bool, err error) {
	pieces, err := a.load(ctx, p)
	if err != nil {
		return nil, false, err
	}
	for _, piece := range slices.Backward(pieces) {
		b, err := a.show(ctx, p, piece, of, *room)
		if err != nil {
			return nil, false, err
		}
		if *room -= b.TextBytes(); *room < 0 {
			return nil, false, ErrTooLong
		}
		out = append([]*providers.Block{b}, out...)
		if piece.first {
			return out, true, nil
		}
	}
	return out, false, nil
}

// view forgets what was shown of pages if that was in another view.
func (a *Archive) view(pages []*Page, of prompt.View) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.viewed.Same(of) {
		return
	}
	a.viewed = of
	all := slices.Concat(pages, a.pages) // those that have grown meanwhile too
	if a.tail != nil {
		all = append(all, a.tail)
	}
	for _, p := range all {
		p.pieces = nil // it is read again
		if p.cut != nil {
			p.pieces = []*piece{{cut: p.cut}}
		}
		a.measure(p)
	}
}

// Exchanges returns what pages hold from where a view begins after a compaction, as
// Blocks does. Of those beyond the newest room bytes only their names are there.
func (a *Archive) Exchanges(
	ctx context.Context, pages []*Page, after *conversation.Compacted, next conversation.SubmissionID, room int,
) ([]conversation.Exchange, error) {
	out, err := a.paged(ctx, pages, after, room)
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) {
		return out, err
	}
	a.log.Warn("page cannot be used, folding the log", "err", err)
	folded, _, err := a.fold(ctx, after, next, room)
	if err == nil {
		out = folded
		_, err = a.store.Recent(ctx, a.key, out, room)
	}
	return out, err
}

// paged is Exchanges without the log.
func (a *Archive) paged(ctx context.Context, pages []*Page, after *conversation.Compacted, room int) ([]conversation.Exchange, error) {
	var out []conversation.Exchange
	for _, p := range slices.Backward(pages) {
		a.mu.Lock()
		page, ref := p.cut, p.ref
		a.mu.Unlock()
		if page == nil {
			read, err := follower.History(ctx, a.store.o.Logs, a.key, []storage.PageRef{*ref})
			if err != nil {
				return nil, err
			}
			page = read[0]
		}
		list, err := page.Exchanges()
		if err != nil {
			return nil, &storage.CorruptError{Conv: a.key, Err: err}
		}
		i := firstOf(list, after)
		list = list[max(0, i):len(list):len(list)]
		if room, err = a.store.Recent(ctx, a.key, list, room); err != nil {
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
func (a *Archive) load(ctx context.Context, p *Page) ([]*piece, error) {
	a.mu.Lock()
	pieces, ref := p.pieces, p.ref
	a.mu.Unlock()
	if pieces == nil {
		pages, err := follower.History(ctx, a.store.o.Logs, a.key, []storage.PageRef{*ref})
		if err != nil {
			return nil, err
		}
		pieces = []*piece{{cut: pages[0]}}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.measure(p)
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
func (a *Archive) show(
	ctx context.Context, page *Page, p *piece, of prompt.View, room int,
) (*providers.Block, error) {
	a.mu.Lock()
	cut, shown := p.cut, p.shown
	a.mu.Unlock()
	if shown != nil {
		return shown, nil
	}
	list, err := cut.Exchanges()
	if err != nil {
		return nil, &storage.CorruptError{Conv: a.key, Err: err}
	}
	first := firstOf(list, of.After)
	var exchanges []conversation.Exchange
	for i, x := range list[max(0, first):] {
		if i == 0 && first >= 0 {
			x.Turns = prompt.TurnsSince(x.Turns, of.After.FirstTurn)
		}
		exchanges = append(exchanges, x)
	}
	exchanges, err = a.store.Whole(ctx, a.key, exchanges, room)
	if err != nil {
		return nil, err
	}
	messages, err := a.store.o.Prompt.Messages(ctx, a.key, exchanges, of)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.viewed.Same(of) { // a call that was given up; what is kept is for the next
		return providers.NewBlock(messages), nil
	}
	defer a.measure(page)
	if p.shown == nil {
		p.cut, p.shown, p.first = nil, providers.NewBlock(messages), first >= 0
	}
	return p.shown, nil
}

// Limit forgets the encodings of the newest blocks that are too many to be kept for
// the next call: those of the oldest go on to fit.
func Limit(blocks []*providers.Block) {
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
func (a *Archive) fold(
	ctx context.Context, after *conversation.Compacted, next conversation.SubmissionID, room int,
) (view []conversation.Exchange, bare int, err error) {
	f := &refolded{after: after, room: room}
	state, uncut := conversation.NewState(), 0
	for b, err := range a.store.o.Logs.Batches(ctx, a.key, storage.Start()) {
		if err != nil {
			return nil, 0, err
		}
		if err := a.store.Fold(state, b); err != nil {
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
	last := prompt.Exchanges(state, next)
	if n := slices.IndexFunc(last, func(x conversation.Exchange) bool { return x.Submission == next }); n >= 0 {
		last = last[:n] // It has its room elsewhere.
	}
	f.add(last...)
	view, _ = prompt.Since(f.list, after)
	return view, max(0, f.bare-(len(f.list)-len(view))), nil
}

// refolded is what is kept of exchanges while a log is folded.
type refolded struct {
	after *conversation.Compacted
	room  int
	list  []conversation.Exchange
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
			f.add(x)
		}
	}
}

func (f *refolded) add(list ...conversation.Exchange) {
	for _, x := range list {
		if f.after != nil && x.Submission == f.after.FirstKept {
			f.list, f.bare, f.bytes = nil, 0, 0
		}
		f.list = append(f.list, x)
		f.bytes += summary.Bytes(x)
		for ; f.bytes > f.room && f.bare < len(f.list); f.bare++ {
			x := &f.list[f.bare]
			f.bytes -= summary.Bytes(*x)
			*x = conversation.Exchange{Submission: x.Submission}
		}
	}
}
