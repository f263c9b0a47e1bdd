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
	// ProbeTimeout bounds one probe: opening a log, fencing it, listing it.
	ProbeTimeout = 30 * time.Second
	// journalsAtOnce and probesAtOnce bound the concurrent journals and probes of a sweep.
	journalsAtOnce, probesAtOnce = 8, 32
	// suspectsTimeout is the time after which a sweep starts no further suspect.
	suspectsTimeout = ProbeTimeout
	// SoonAfter is the delay of a sweep after a lost append.
	SoonAfter = time.Second
)

// errSuspectsLeft makes the next sweep continue with the remaining suspects.
var errSuspectsLeft = errors.New("suspects left for the next sweep")

// Options are the dependencies of a Sweeper. All are required.
type Options struct {
	Bucket storage.Bucket
	Logger *slog.Logger
	// Member is this incarnation, which names its journal.
	Member string
	// Every is the interval of sweeps, and the time that one failure to open a log counts.
	Every time.Duration
	// QuarantineAfter is the number of failures, or of crashes that count, for a quarantine.
	QuarantineAfter int
	// Wall is the wall clock.
	Wall func() time.Time
	// IsMember reports whether an incarnation is a member of the newest known view. Passive reports
	// whether this node must not write.
	IsMember func(member string) bool
	Passive  func() bool
	// Shared is set if other nodes stage objects on their way to an owner.
	Shared bool
	// Owns reports whether this node is the owner of a conversation.
	Owns func(conversation.Key) bool
	// Request sends a message to the owner of a conversation, identified by its key.
	Request func(ctx context.Context, id string, m proto.Message) (proto.Message, error)
	// Writes reports whether a writer runs on this node, or is idle.
	Writes func(conversation.Key, storage.Nonce) bool
	// BeforeSweep is called before each sweep.
	BeforeSweep func()
}

// Sweeper recovers the pending work of nodes that are gone, and guards openings. Use New.
type Sweeper struct {
	// Journal is that of this node, Quarantine the result of the last scan, and Timers the
	// conversations that this node suspended.
	Journal    *Journal
	Quarantine *Quarantine
	Timers     *Timers

	o        Options
	unread   unread                    // has its own lock
	gate     gate                      // admits openings and reads
	crashed  atomic.Pointer[time.Time] // when a journal of a crashed node was last found
	marks    marks                     // numbers for the entry IDs of openings and reads
	stored   atomic.Int64              // number of stored expirations, for their names
	soon     chan struct{}             // sweep after SoonAfter
	now      chan struct{}
	probeNow chan struct{}   // probe pending work that stopped here
	strays   map[string]bool // former members with staged objects; owned by the sweep

	sweeps, probes, takenOver atomic.Int64

	mu sync.Mutex
	// answers holds the answered entries of other journals, by member.
	answers map[string]map[storage.JournalEntry]bool
}

// New returns a sweeper with an empty journal. It sends nothing yet.
func New(o Options) *Sweeper {
	w := &Sweeper{
		Journal: NewJournal(o.Bucket, o.Member, o.Logger), Quarantine: newQuarantine(o.QuarantineAfter),
		o: o, soon: make(chan struct{}, 1), now: make(chan struct{}, 1), probeNow: make(chan struct{}, 1),
		answers: map[string]map[storage.JournalEntry]bool{},
	}
	w.Timers = &Timers{sweeper: w}
	return w
}

// Counts returns the number of sweeps, of probes, and of entries taken over from nodes that are gone.
func (w *Sweeper) Counts() (sweeps, probes, takenOver int64) {
	return w.sweeps.Load(), w.probes.Load(), w.takenOver.Load()
}

// Run sweeps until ctx ends: immediately, at every interval, when the members have changed, and soon
// after an activation stepped down or a sweep was incomplete. Requests only advance the next sweep;
// repeated requests do not postpone it.
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
			w.o.Logger.Warn("pending-work sweep failed", "err", err)
			pause = min(retry, pause)
			retry = min(2*retry, w.o.Every)
		}
		next = time.Now().Add(pause)
		t.Reset(pause)
	}
}

// SweepSoon schedules a sweep after SoonAfter.
func (w *Sweeper) SweepSoon() { signal(w.soon) }

// SweepNow schedules a sweep immediately.
func (w *Sweeper) SweepNow() { signal(w.now) }

// ProbeSoon schedules probes of this node's own entries.
func (w *Sweeper) ProbeSoon() { signal(w.probeNow) }

// RunProbes probes the conversations that this node has handed over, so that their new owners
// continue, until ctx ends. Probes are concurrent: a hung owner delays no other.
func (w *Sweeper) RunProbes(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	defer func() { _ = g.Wait() }() // its functions return no errors
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
					w.o.Logger.Info("probe after handover failed; will retry", "err", err)
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

// Sweep probes all entries whose writer no longer runs: in the journals of incarnations that are not
// members, and in this node's own set. Suspects come last.
func (w *Sweeper) Sweep(ctx context.Context) error {
	if w.o.Passive() {
		return nil
	}
	w.sweeps.Add(1)
	s, err := w.scan(ctx)
	errs := []error{err, s.quarantine(ctx), s.takeOver(ctx), s.ownSet(ctx), s.suspects(ctx), s.release(ctx, false), w.sweepStaged(ctx)}
	return errors.Join(errs...)
}

// sweepStaged deletes the staged objects of nodes that are gone.
func (w *Sweeper) sweepStaged(ctx context.Context) error {
	if !w.o.Shared {
		return nil
	}
	if w.o.Passive() {
		return nil
	}
	// A node that is joining may already stage objects, so only those found by two consecutive sweeps
	// are deleted.
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

// unanswered returns the entries of a journal without an answer in earlier sweeps of this node.
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

// dropAnswers drops the answers of deleted journals.
func (w *Sweeper) dropAnswers(refs []storage.JournalRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.answers, func(member string, _ map[storage.JournalEntry]bool) bool {
		return !slices.ContainsFunc(refs, func(ref storage.JournalRef) bool { return ref.Member == member })
	})
}

// ownSet answers the own entries whose writer stepped down.
func (s *scanResult) ownSet(ctx context.Context) error {
	w := s.sweeper
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	for _, e := range w.orphans() {
		switch {
		case w.Quarantine.has(e.Conv):
			w.Journal.Answered(idOf(e))
		case w.Quarantine.Suspects(e.Conv): // handled by suspects
		default:
			g.Go(func() error { return w.probeOwn(ctx, e) })
		}
	}
	return g.Wait()
}

// orphans returns the own entries whose writer does not run here.
func (w *Sweeper) orphans() []storage.JournalEntry {
	return slices.DeleteFunc(w.Journal.Held(), func(e storage.JournalEntry) bool {
		return e.Opening || w.o.Writes(e.Conv, e.Nonce) || !sweepsOwnSet()
	})
}

// probeOwn probes an own entry and removes it from the set.
func (w *Sweeper) probeOwn(ctx context.Context, e storage.JournalEntry) error {
	if err := w.probe(ctx, e); err != nil {
		return err
	}
	w.Journal.Answered(idOf(e))
	return nil
}

// probe sends an entry to its owner and returns nil once it is answered: the writer is fenced, and the
// work is settled or held by a listed writer.
func (w *Sweeper) probe(ctx context.Context, e storage.JournalEntry) error {
	w.probes.Add(1)
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	m, err := w.o.Request(ctx, string(e.Conv), &wire.ProbeRequest{Nonce: string(e.Nonce), Seq: e.Seq})
	if err != nil {
		return fmt.Errorf("probe %s: %w", e.Conv, err)
	}
	reply, ok := m.(*wire.ProbeReply)
	if !ok || reply.GetAnswer() == wire.ProbeReply_UNKNOWN {
		return fmt.Errorf("probe %s: not answered", e.Conv)
	}
	return nil
}
