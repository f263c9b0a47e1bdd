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

// ErrTooLong reports that a conversation's view exceeds the limit for any model.
var ErrTooLong = errors.New("conversation exceeds the view limit")

// checkpointTimeout bounds the storing of a checkpoint. A failed one is replaced by the next, which
// includes its content.
const checkpointTimeout = 30 * time.Second

// maxEncodedBytes bounds the encoded history that an activation keeps for its next model call. It is
// about the size of the largest context windows.
const maxEncodedBytes = 4 << 20

// Options configures a Store. All fields except ReadTimeout are required.
type Options struct {
	Logs *storage.Logs
	// Source opens logs.
	Source follower.Source
	Prompt *prompt.Renderer
	Logger *slog.Logger
	// Turns limits concurrent work on long batches.
	Turns *memory.Account
	// Writes is charged with the bytes of checkpoints that are due or being stored.
	Writes *memory.Account
	// ReadTimeout bounds each wait for the bucket while a log is read.
	ReadTimeout time.Duration
	// SegmentBatches is how many batches are compacted into one segment. SegmentGrace is how long the
	// replaced batches stay.
	SegmentBatches int
	SegmentGrace   time.Duration
	// MarkEvents adds positions in the event stream of the beta line to checkpoints.
	MarkEvents bool
	// Save runs a function that stores checkpoints, with a context that outlives activations.
	Save func(func(context.Context))
	// Ending reports whether the node shuts down. The remaining work is then done when the
	// conversation is next used.
	Ending func() bool
}

// Store manages the history of a node's conversations. Use New.
type Store struct {
	// PageBytes is the approximate size of a page of closed history. It is set before use.
	PageBytes int

	o       Options
	garbage *garbage
}

// pageBytes is the page size of docs/architecture.md.
const pageBytes = 256 << 10

// New returns a store. It sends no request.
func New(o Options) *Store {
	return &Store{PageBytes: pageBytes, o: o, garbage: newGarbage(o.Logs, o.Logger, o.SegmentGrace)}
}

// Run deletes batches replaced by segments, until ctx ends.
func (s *Store) Run(ctx context.Context) { s.garbage.run(ctx) }

// Patient returns the source of logs with a time limit for each wait for the bucket.
func (s *Store) Patient() follower.Source { return follower.WithTimeout(s.o.Source, s.o.ReadTimeout) }

// Archive holds the closed history of one conversation and stores its checkpoints. It outlives the
// activation while a checkpoint is being stored.
type Archive struct {
	store *Store
	key   conversation.Key
	log   *slog.Logger

	mu     sync.Mutex
	pages  []*Page // full pages
	tail   *Page   // the page after them, or nil
	due    *Due    // the newest queued checkpoint
	saving bool
	newest *storage.Checkpoint // the newest checkpoint read or stored
	recent []storage.Batch     // the newest batches that no segment holds, up to maxRecentBytes
	bytes  int                 // bytes of the lines in recent
	held   atomic.Int64        // bytes of pages in memory, including rendered text
	// day is the newest day with a requested index entry, indexed that of the newest stored entry.
	// entry is the queued one, or nil.
	day, indexed string
	entry        *storage.IndexEntry

	segments *storage.Compactor // used by the saving goroutine only
	marking  *marking           // used by the saving goroutine only; nil before the first checkpoint and after an error
	// viewed is the view in which pieces were rendered.
	viewed prompt.View
}

// Page is a page in memory, in the bucket, or both.
type Page struct {
	ref    *storage.PageRef // nil until it is stored
	cut    *conversation.HistoryPage
	pieces []*piece // rendered content; nil if it is only in the bucket
	held   int64    // its share of Archive.held
	next   *Page    // the larger page that took over its pieces, or nil
}

// piece is history that was cut at one time or read at once. A growing page keeps its pieces, so that
// none is encoded twice.
type piece struct {
	cut   *conversation.HistoryPage // nil once rendered
	shown *providers.Block
	first bool // the view begins in it after a compaction
}

func (p *piece) bytes() int {
	if p.shown == nil {
		return 0
	}
	return p.shown.TextBytes()
}

func newPage(cut *conversation.HistoryPage) *Page {
	return &Page{cut: cut, pieces: []*piece{{cut: cut}}}
}

// Due is a checkpoint without the references of its pages.
type Due struct {
	storage.Checkpoint
	Address conversation.Address
	Day     string // day of the checkpoint
	// Closed was permanently cut out of the state, after the earlier pages.
	Closed []*conversation.HistoryPage

	pages int // number of its full pages
	tail  *conversation.HistoryPage
	held  int64 // bytes charged to Options.Writes
}

// Archive returns the archive of a conversation from restored content, or an empty one if from is nil.
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

// Begin attaches the archive to an activation. day is the day of a stored index entry, "" if none is
// known.
func (a *Archive) Begin(day string, log *slog.Logger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log, a.indexed = log, max(day, a.indexed)
	a.day = a.indexed
}

const maxOpenBytes = 8 << 20

// Take cuts closed history out of the state of a log that is being read. Beyond maxOpenBytes it stores
// the oldest pages; a checkpoint that names them follows soon.
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

// Outlive drops the pages of a deleted incarnation.
func (a *Archive) Outlive(s *conversation.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.History() == (conversation.HistoryCounts{}) {
		a.pages, a.tail = nil, nil
		a.held.Store(0)
	}
}

func (a *Archive) cutFrom(s *conversation.State) error {
	for {
		page, err := s.Cut()
		if err != nil || page == nil {
			return err
		}
		a.keep(page)
	}
}

// Cut returns the pages in order. They are immutable, but their content may be loaded.
func (a *Archive) Cut() []*Page {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Clone(a.pages)
	if a.tail != nil {
		out = append(out, a.tail)
	}
	return out
}

// measure updates the memory count of a page, or of the page that took over its pieces. The caller
// holds mu.
func (a *Archive) measure(p *Page) {
	for p.next != nil {
		p = p.next
	}
	n := int64(p.bytes())
	a.held.Add(n - p.held)
	p.held = n
}

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

// keep adds a page cut out of the state. The caller holds mu.
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

// Checkpoint stores a checkpoint and its pages in the background, one checkpoint at a time. A newer
// one replaces a queued one.
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

// saveInBackground stores the queued objects one after the other. The caller holds mu.
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

// next stores the queued objects and reports whether there were any.
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
		a.log.Warn("store checkpoint failed", "offset", due.At.Seq, "err", err)
		return true
	}
	if !a.store.o.Ending() { // otherwise the next use of the conversation compacts
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
	due.State, due.Tail = nil, nil // free the large fields
	a.newest = &due.Checkpoint
	return nil
}

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

// Blocks renders pages for the model in a view: from memory, from the bucket, or from the log if a
// page is corrupt. next is the exchange after them. It returns [ErrTooLong] for more than view bytes.
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
			a.log.Warn("corrupt page, folding the log", "err", err)
			folded, idsOnly, err := a.fold(ctx, of.After, next, view)
			if err == nil && idsOnly > 0 {
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

// release drops the in-memory content of stored pages.
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

// page renders a page and reports whether the view begins there. It subtracts the size from room, the
// bytes left for the view.
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

// view drops the rendered pages of another view.
func (a *Archive) view(pages []*Page, of prompt.View) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.viewed.Same(of) {
		return
	}
	a.viewed = of
	all := slices.Concat(pages, a.pages) // including pages that have grown since
	if a.tail != nil {
		all = append(all, a.tail)
	}
	for _, p := range all {
		p.pieces = nil // read again from the bucket
		if p.cut != nil {
			p.pieces = []*piece{{cut: p.cut}}
		}
		a.measure(p)
	}
}

// Exchanges returns the exchanges of pages from the beginning of the view after a compaction. It falls
// back to the log like Blocks. Exchanges beyond the newest room bytes have only their ids.
func (a *Archive) Exchanges(
	ctx context.Context, pages []*Page, after *conversation.Compacted, next conversation.SubmissionID, room int,
) ([]conversation.Exchange, error) {
	out, err := a.paged(ctx, pages, after, room)
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) {
		return out, err
	}
	a.log.Warn("corrupt page, folding the log", "err", err)
	folded, _, err := a.fold(ctx, after, next, room)
	if err == nil {
		out = folded
		_, err = a.store.Recent(ctx, a.key, out, room)
	}
	return out, err
}

// paged returns the exchanges in pages like Exchanges, without the fallback to the log.
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

func firstOf(list []conversation.Exchange, after *conversation.Compacted) int {
	if after == nil {
		return -1
	}
	return slices.IndexFunc(list, func(x conversation.Exchange) bool { return x.Submission == after.FirstKept })
}

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

// show renders a piece of a page and caches the result. Its deliveries may take at most room bytes.
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
	if !a.viewed.Same(of) { // a cancelled call; the cache belongs to the next one
		return providers.NewBlock(messages), nil
	}
	defer a.measure(page)
	if p.shown == nil {
		p.cut, p.shown, p.first = nil, providers.NewBlock(messages), first >= 0
	}
	return p.shown, nil
}

// Limit drops the encodings of the newest blocks beyond maxEncodedBytes. The oldest stay, because they
// remain a prefix of the next call.
func Limit(blocks []*providers.Block) {
	kept := int64(0)
	for _, b := range blocks {
		if kept += b.EncodedBytes(); kept > maxEncodedBytes {
			b.Evict()
		}
	}
}

// fold returns the exchanges of a view before the submission next, from the log alone. If next is
// unknown, it returns all of them. Exchanges beyond the newest room bytes have only their ids; idsOnly
// counts them.
func (a *Archive) fold(
	ctx context.Context, after *conversation.Compacted, next conversation.SubmissionID, room int,
) (view []conversation.Exchange, idsOnly int, err error) {
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
		last = last[:n] // next and later exchanges are not part of the result
	}
	f.add(last...)
	view, _ = prompt.Since(f.list, after)
	return view, max(0, f.idsOnly-(len(f.list)-len(view))), nil
}

// refolded collects exchanges while a log is folded.
type refolded struct {
	after   *conversation.Compacted
	room    int
	list    []conversation.Exchange
	idsOnly int // number of exchanges at the start of list with only their ids
	bytes   int // size of the other exchanges
}

func (f *refolded) cut(s *conversation.State) error {
	if s.History() == (conversation.HistoryCounts{}) { // drop exchanges of a deleted incarnation
		f.list, f.idsOnly, f.bytes = nil, 0, 0
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
			f.list, f.idsOnly, f.bytes = nil, 0, 0
		}
		f.list = append(f.list, x)
		f.bytes += summary.Bytes(x)
		for ; f.bytes > f.room && f.idsOnly < len(f.list); f.idsOnly++ {
			x := &f.list[f.idsOnly]
			f.bytes -= summary.Bytes(*x)
			*x = conversation.Exchange{Submission: x.Submission}
		}
	}
}
