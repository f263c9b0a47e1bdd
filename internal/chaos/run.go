package chaos

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// Node is one incarnation of a node as a schedule sees it. It is safe for
// concurrent use.
type Node interface {
	conversation.Dispatcher
	// Reader reads at this node.
	Reader() conversation.Reader
	// Run serves until ctx ends, and returns when all it started has ended.
	Run(ctx context.Context) error
	// Ready is closed once Run takes requests.
	Ready() <-chan struct{}
	// Kill ends all work in memory at once, as the death of the process would.
	Kill()
	// Rest returns how many entries its busy journal has and how many
	// conversations are in memory.
	Rest() (listed, active int)
}

// Site is what a node is built with.
type Site struct {
	// Member is the incarnation's id.
	Member    string
	Bucket    storage.Bucket
	Agents    []*agent.Agent
	Providers *providers.Registry
	Logger    *slog.Logger
	Outbox    outbox.Routes
	// Entropy returns the randomness for one purpose; every call begins anew.
	Entropy func(purpose string) io.Reader
	// Owner returns the member this node believes to own a conversation, "" if it
	// knows none.
	Owner func(conv string) string
	// Message decides the course of a message to a conversation. What names its
	// content; ctx is that of the request it belongs to.
	Message func(ctx context.Context, conv, what string) Course
	// Panicked reports the panic of an actor: each is a violation.
	Panicked func(reason any, stack []byte)
}

// Course is how long a message and its reply are under way, and whether the reply
// gets lost. Messages of a node to itself take their time, too, but lose nothing.
type Course struct {
	There, Back time.Duration
	Lost        bool
}

// Options say what a schedule runs on. All fields are required.
type Options struct {
	// Seed is the schedule, and Profile what it is about: a seed has one of each.
	Seed    uint64
	Profile Profile
	// Store holds the bucket. It answers at once and without faults.
	Store storage.Bucket
	// Build makes a node. It starts nothing.
	Build func(Site) (Node, error)
	// SweepEvery is the time between two sweeps of a node.
	SweepEvery time.Duration
}

// Report is what came of a schedule.
type Report = schedule.Report

const (
	slots = 3
	// quietPeriods bounds the sweep periods after the last fault.
	quietPeriods = 40
	// maxAttempts and maxRetries are what Parley allows a submission, and a model call.
	maxAttempts = 10
	maxRetries  = 3
	// pageReads is how often the bucket is asked for a page of history before a model
	// call fails for the want of it.
	pageReads = 4
)

// world is one schedule under way.
type world struct {
	seed    uint64
	profile Profile
	opts    Options
	trace   *schedule.Trace
	ledger  *ledger
	net     *network
	author  *author
	bucket  storage.Bucket // without faults
	logs    *storage.Logs  // of bucket
	known   map[conversation.Address]*knownLog
	office  office
	readers []*reader

	slots   [slots]slot
	oneView atomic.Bool

	mu      sync.Mutex
	all     []*member
	acks    map[string]ack                    // by conversation and key
	tooLate map[conversation.Address][]string // names that were signalled too late
	uids    map[conversation.Address]conversation.UID

	moments, messages, entropies, incarnations schedule.Counter[string]

	deadly atomic.Bool    // the first conversation ends who opens it
	dying  sync.WaitGroup // who ends an incarnation over it
}

func newWorld(opts Options) *world {
	w := &world{
		seed: opts.Seed, profile: opts.Profile, opts: opts, trace: schedule.NewTrace(), bucket: opts.Store,
		known: map[conversation.Address]*knownLog{}, acks: map[string]ack{}, tooLate: map[conversation.Address][]string{},
		uids:   map[conversation.Address]conversation.UID{},
		office: office{first: map[conversation.Address][]conversation.PostID{}, got: map[conversation.PostID]string{}},
	}
	for i := range w.slots {
		w.slots[i].turn = make(chan struct{}, 1)
	}
	w.ledger = newLedger(w.trace)
	w.author = newAuthor(w)
	w.net = &network{
		world: w, rate: []float64{0, .1, .3}[opts.Seed%3], outage: schedule.Delivered, late: schedule.Late{Trace: w.trace},
	}
	w.logs = storage.NewLogs(w.bucket, nil)
	return w
}

// Run runs a schedule. It must be called within a synctest bubble. The error says
// that the schedule could not be run.
func Run(ctx context.Context, opts Options) (*Report, error) {
	w := newWorld(opts)
	if err := w.busy(ctx); err != nil {
		return nil, err
	}
	w.settle(ctx)
	for _, m := range w.all {
		m.stop()
		<-m.done
		if !m.killed.Load() {
			w.checkEnd(m)
		}
	}
	w.check(ctx)
	w.trace.DidN("acknowledged", len(w.acks))
	w.trace.DidN("batch", w.ledger.now)
	w.trace.DidN("claim", len(w.ledger.claims))
	report := w.trace.Report()
	return &report, nil
}

func (w *world) rng(purpose string) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, schedule.Draw(w.seed, "rng", purpose)))
}

// busy runs clients, readers and faults.
func (w *world) busy(ctx context.Context) error {
	for slot := range slots {
		if err := w.start(slot); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	goAs := func(name string, do func(context.Context, *rand.Rand)) {
		end := w.profile.busyTime() + schedule.Between(schedule.Draw(w.seed, "end", name), 0, tremble)
		rng := w.rng(name)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(as(ctx, name), end)
			defer cancel()
			do(ctx, rng)
		})
	}
	for c := range w.profile.conversations() {
		at, client := address(c), fmt.Sprint("client-", c)
		goAs(client, func(ctx context.Context, rng *rand.Rand) { w.client(ctx, rng, client, at) })
		if w.profile != Journals {
			goAs(fmt.Sprint("aborter-", c), func(ctx context.Context, rng *rand.Rand) { w.aborter(ctx, rng, at) })
			r := &reader{world: w, name: fmt.Sprint("reader-", c), at: at}
			w.readers = append(w.readers, r)
			goAs(r.name, r.run)
		}
	}
	for slot := range slots {
		goAs(fmt.Sprint("slot-", slot), func(ctx context.Context, rng *rand.Rand) { w.disturb(ctx, rng, slot) })
	}
	if w.profile == Journals {
		goAs("sicken", w.sicken)
	} else {
		goAs("outages", w.outages)
	}
	wg.Wait()
	return nil
}

func address(c int) conversation.Address {
	return conversation.Address{Agent: agentName, ID: fmt.Sprint("c", c)}
}
