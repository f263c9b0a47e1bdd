package pending

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// ProbeTimeout bounds one poke: opening a log, fencing it, being listed.
	ProbeTimeout = 30 * time.Second
	// journalsAtOnce and probesAtOnce bound the journals, and the pokes, that a sweep has
	// under way.
	journalsAtOnce, probesAtOnce = 8, 32
	// suspectsTimeout is after how long a sweep begins to ask for no more suspects.
	suspectsTimeout = ProbeTimeout
	// SoonAfter is the pause before a sweep that a lost append asks for.
	SoonAfter = time.Second
)

// errSuspectsLeft says that the next sweep has to go on where one ended.
var errSuspectsLeft = errors.New("conversations that nodes died over are left for the next sweep")

// Options are what a Sweeper works with. All are required.
type Options struct {
	Bucket storage.Bucket
	Logger *slog.Logger
	// Member is this incarnation, which names its journal.
	Member string
	// Every is the time between two sweeps, and how long one failure to open a log counts.
	Every time.Duration
	// QuarantineAfter is after how many failures to open a conversation, or crashes that count, it is quarantined.
	QuarantineAfter int
	// Wall is the wall clock.
	Wall func() time.Time
	// IsMember reports whether an incarnation is a member of the newest known view, Passive
	// whether this node must hold still.
	IsMember func(member string) bool
	Passive  func() bool
	// Shared says that other nodes stage what is on its way to an owner.
	Shared bool
	// Owns reports whether this node is the owner of a conversation.
	Owns func(conversation.Key) bool
	// Request brings a message to the owner of a conversation, named by its key.
	Request func(ctx context.Context, id string, m proto.Message) (proto.Message, error)
	// Writes reports whether a writer runs on this node, or rests.
	Writes func(conversation.Key, storage.Nonce) bool
	// BeforeSweep is called before each sweep.
	BeforeSweep func()
}

// Sweeper sees to it that what nodes owe is found, and knows what nobody may open. Use New.
type Sweeper struct {
	// Journal is that of this node, Asides what the last look at the bucket has found, and
	// Timers what this node has parked.
	Journal    *Journal
	Quarantine *Quarantine
	Timers     *Timers

	o        Options
	unread   unread                    // has a lock of its own
	gate     gate                      // of openings and reads
	crashed  atomic.Pointer[time.Time] // when journals of a crashed node were found last
	marks    marks                     // numbers of openings and reads, for the names of their entries
	stored   atomic.Int64              // objects of past crashes, for their names
	soon     chan struct{}             // a second from now
	now      chan struct{}
	probeNow chan struct{}   // for pending work that stopped here
	strays   map[string]bool // members that are gone and have left staged objects; of the sweep

	sweeps, probes, takenOver atomic.Int64

	mu sync.Mutex
	// answers are the entries of others' journals that were answered, by their member.
	answers map[string]map[storage.JournalEntry]bool
}

// New returns a sweeper whose journal lists nothing. Nothing is sent yet.
func New(o Options) *Sweeper {
	w := &Sweeper{
		Journal: NewJournal(o.Bucket, o.Member, o.Logger), Quarantine: newQuarantine(o.QuarantineAfter),
		o: o, soon: make(chan struct{}, 1), now: make(chan struct{}, 1), probeNow: make(chan struct{}, 1),
		answers: map[string]map[storage.JournalEntry]bool{},
	}
	w.Timers = &Timers{sweeper: w}
	return w
}

// Counts returns how many sweeps there were, how many pokes they have sent, and how many
// entries were taken over from nodes that are gone.
func (w *Sweeper) Counts() (sweeps, probes, takenOver int64) {
	return w.sweeps.Load(), w.probes.Load(), w.takenOver.Load()
}

// Run sweeps at once, every SweepEvery, when the members have changed, and soon
// after an activation of this node stepped down or a sweep left something unanswered,
// until ctx ends. Whoever asks can only bring the next sweep forward: asking without
// end must not put it off.
func (w *Sweeper) Run(ctx context.Context) {
	next, retry := time.Now(), SoonAfter
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.soon:
			if soon := time.Now().Add(SoonAfter); soon.Before(next) {
				next = soon
				t.Reset(SoonAfter)
			}
			continue
		case <-w.now:
		case <-t.C:
		}
		w.o.BeforeSweep()
		pause := w.o.Every
		err := w.Sweep(ctx)
		switch {
		case err == nil:
			retry = SoonAfter
		case ctx.Err() == nil:
			w.o.Logger.Warn("sweep pending-work journals", "err", err)
			pause = min(retry, pause)
			retry = min(2*retry, w.o.Every)
		}
		next = time.Now().Add(pause)
		t.Reset(pause)
	}
}

// SweepSoon makes the next sweep come soon.
func (w *Sweeper) SweepSoon() { nudge(w.soon) }

// SweepNow makes the next sweep come at once.
func (w *Sweeper) SweepNow() { nudge(w.now) }

// ProbeSoon has the entries of this node's own set poked at once.
func (w *Sweeper) ProbeSoon() { nudge(w.probeNow) }

// RunProbes pokes what this node has handed over, so that its new owner goes on with it,
// until ctx ends. It waits for no answer: one owner that hangs holds up no other.
func (w *Sweeper) RunProbes(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	defer func() { _ = g.Wait() }() // Nothing that it runs returns an error.
	var mu sync.Mutex
	under := map[storage.JournalEntry]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.probeNow:
		}
		for _, e := range w.orphans() {
			mu.Lock()
			skip := under[e]
			under[e] = true
			mu.Unlock()
			if skip {
				continue
			}
			g.Go(func() error {
				if err := w.probeOwn(ctx, e); err != nil && ctx.Err() == nil {
					w.o.Logger.Info("poke what was handed over; the next sweep asks again", "err", err)
					w.SweepSoon()
				}
				mu.Lock()
				defer mu.Unlock()
				delete(under, e)
				return nil
			})
		}
	}
}

// Sweep pokes everything that is listed under a writer which no longer runs: in
// the journals of incarnations that are not members, and in this node's own set. Where
// nodes have died over a conversation, it comes after all others.
func (w *Sweeper) Sweep(ctx context.Context) error {
	if w.o.Passive() {
		return nil
	}
	w.sweeps.Add(1)
	s, err := w.scan(ctx)
	errs := []error{err, s.quarantine(ctx), s.calm(ctx), s.ownSet(ctx), s.suspects(ctx), s.release(ctx, false), w.sweepStaged(ctx)}
	return errors.Join(errs...)
}

// sweepStaged deletes what nodes that are gone have left on its way to an owner.
func (w *Sweeper) sweepStaged(ctx context.Context) error {
	if !w.o.Shared {
		return nil
	}
	if w.o.Passive() {
		return nil
	}
	// A node that is about to become a member may be at work already: only what two sweeps
	// in a row find goes.
	before, now := w.strays, map[string]bool{}
	w.strays = now
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteStaged(ctx, w.o.Bucket, func(member string) bool {
		if member == w.Journal.member || w.o.IsMember(member) {
			return false
		}
		now[member] = true
		return before[member]
	})
}

// unanswered returns the entries of a journal that no sweep of this node has had
// answered.
func (w *Sweeper) unanswered(ref storage.JournalRef, entries []storage.JournalEntry) []storage.JournalEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.answers[ref.Member]
	var out []storage.JournalEntry
	for _, e := range entries {
		if !known[e] {
			out = append(out, e)
		}
	}
	return out
}

func (w *Sweeper) answered(ref storage.JournalRef, e storage.JournalEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := ref.Member
	if w.answers[at] == nil {
		w.answers[at] = map[storage.JournalEntry]bool{}
	}
	w.answers[at][e] = true
}

// forgetAnswers drops what was remembered of journals that are gone.
func (w *Sweeper) forgetAnswers(refs []storage.JournalRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.answers, func(member string, _ map[storage.JournalEntry]bool) bool {
		return !slices.ContainsFunc(refs, func(ref storage.JournalRef) bool { return ref.Member == member })
	})
}

// ownSet answers the entries of this node's own set whose writer stepped down.
func (s *stock) ownSet(ctx context.Context) error {
	w := s.sweeper
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	for _, e := range w.orphans() {
		switch {
		case w.Quarantine.has(e.Conv):
			w.Journal.Answered(idOf(e))
		case w.Quarantine.Suspects(e.Conv): // It comes with the suspects.
		default:
			g.Go(func() error { return w.probeOwn(ctx, e) })
		}
	}
	return g.Wait()
}

// orphans returns the entries of this node's own set whose writer does not run here.
func (w *Sweeper) orphans() []storage.JournalEntry {
	return slices.DeleteFunc(w.Journal.Held(), func(e storage.JournalEntry) bool {
		return e.Opening || w.o.Writes(e.Conv, e.Nonce) || !sweepsOwnSet()
	})
}

// probeOwn is poke for an entry of this node's own set, which leaves it then.
func (w *Sweeper) probeOwn(ctx context.Context, e storage.JournalEntry) error {
	if err := w.probe(ctx, e); err != nil {
		return err
	}
	w.Journal.Answered(idOf(e))
	return nil
}

// poke asks the owner about an entry and returns nil once it is answered: its
// writer is fenced, and its work is settled or held by a listed writer.
func (w *Sweeper) probe(ctx context.Context, e storage.JournalEntry) error {
	w.probes.Add(1)
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	m, err := w.o.Request(ctx, string(e.Conv), &wire.ProbeRequest{Nonce: string(e.Nonce), Seq: e.Seq})
	if err != nil {
		return fmt.Errorf("poke %s: %w", e.Conv, err)
	}
	reply, ok := m.(*wire.ProbeReply)
	if !ok || reply.GetAnswer() == wire.ProbeReply_UNKNOWN {
		return fmt.Errorf("poke %s: not answered", e.Conv)
	}
	return nil
}
