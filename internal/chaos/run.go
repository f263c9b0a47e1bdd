package chaos

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
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

// Node is one incarnation of a node. It is safe for concurrent use.
type Node interface {
	conversation.Dispatcher
	// Reader reads at this node.
	Reader() conversation.Reader
	// Run serves until ctx ends, and returns when all its goroutines have returned.
	Run(ctx context.Context) error
	// Ready is closed once Run takes requests.
	Ready() <-chan struct{}
	// Kill ends all work in memory at once, like a process crash.
	Kill()
	// Pending returns the number of entries in its pending-work journal and of conversations in memory.
	Pending() (listed, active int)
}

// Site is the environment of a node.
type Site struct {
	// Member is the incarnation's id.
	Member    string
	Bucket    storage.Bucket
	Agents    []*agent.Agent
	Providers *providers.Registry
	Logger    *slog.Logger
	Outbox    outbox.Routes
	// Entropy returns the random stream for one purpose; every call starts the stream anew.
	Entropy func(purpose string) io.Reader
	// Owner returns the member this node believes to own a conversation, "" if it
	// knows none.
	Owner func(conv string) string
	// Message decides the course of a message to a conversation. The argument what identifies its
	// content; ctx is that of the request it belongs to.
	Message func(ctx context.Context, conv, desc string) Course
	// Panicked reports the panic of an actor, which is a violation.
	Panicked func(reason any, stack []byte)
}

// Course is the delay of a message and of its reply, and whether the reply gets lost. Messages of a
// node to itself are delayed, too, but never lost.
type Course struct {
	There, Back time.Duration
	Lost        bool
}

// Options configure a schedule. All fields are required.
type Options struct {
	// Seed selects the schedule, and Profile its subject.
	Seed    uint64
	Profile Profile
	// Store holds the bucket. It answers at once and without faults.
	Store storage.Bucket
	// Build makes a node. It starts nothing.
	Build func(Site) (Node, error)
	// SweepEvery is the sweep period of a node.
	SweepEvery time.Duration
}

const (
	slots = 3
	// quietPeriods limits the number of sweep periods after the last fault.
	quietPeriods = 40
	// maxAttempts and maxRetries are Parley's limits for a submission, and for a model call.
	maxAttempts = 10
	maxRetries  = 3
	// pageReads is the number of tries to read a page of history before a model call fails.
	pageReads = 4
)

// world is the state of one schedule.
type world struct {
	Options
	trace   *schedule.Trace
	ledger  *ledger
	net     *network
	author  *author
	logs    *storage.Logs // of the store
	known   map[conversation.Address]*knownLog
	readers []*reader

	addresses   []conversation.Address
	callers     int           // the first callers addresses have clients
	pendingTime time.Duration // duration of clients and faults
	strikes     []moment      // moments that faults wait for

	slots   [slots]slot
	oneView atomic.Bool

	mu      sync.Mutex
	all     []*member
	acks    map[string]ack                    // by conversation and key
	tooLate map[conversation.Address][]string // names signalled too late
	uids    map[conversation.Address]conversation.UID
	posts   []outbox.Post // as received by the office, which outlives nodes

	moments, messages, entropies, incarnations, aborts schedule.Counter[string]

	deadly atomic.Bool    // opening the first conversation crashes the process
	deaths sync.WaitGroup // goroutines that end an incarnation for this reason
}

func newWorld(opts Options) *world {
	w := &world{
		Options: opts, trace: schedule.NewTrace(), known: map[conversation.Address]*knownLog{}, acks: map[string]ack{}, tooLate: map[conversation.Address][]string{},
		uids: map[conversation.Address]conversation.UID{}, pendingTime: 15 * time.Second,
		strikes: []moment{anyTime, claimLands, batchLands, journalLands},
	}
	conversations := 3
	if w.Profile == Journals {
		conversations, w.pendingTime, w.strikes = 6, 12*time.Second, append(w.strikes, receiptSeen, sweepReads)
	}
	w.callers = conversations
	if w.Profile == Trees {
		w.callers, conversations = treeRoots, treeRoots+3
	}
	for c := range conversations {
		w.addresses = append(w.addresses, address(c))
	}
	for i := range w.slots {
		w.slots[i].turn = make(chan struct{}, 1)
	}
	w.ledger = newLedger(w.trace)
	w.author = newAuthor(w)
	w.net = &network{world: w, late: schedule.Late{Trace: w.trace}}
	w.net.conditions.Store(&conditions{[]float64{0, .1, .3}[opts.Seed%3], schedule.Delivered})
	w.logs = storage.NewLogs(w.Store, nil)
	return w
}

// Run runs a schedule. It must be called within a synctest bubble. An error means that the schedule
// could not be run.
func Run(ctx context.Context, opts Options) (*schedule.Report, error) {
	w := newWorld(opts)
	if err := w.busy(ctx); err != nil {
		return nil, err
	}
	w.settle(ctx)
	for _, m := range w.all {
		m.stop()
		<-m.done
		w.checkEnd(m)
	}
	w.check(ctx)
	w.trace.DidN("acknowledged", len(w.acks))
	w.trace.DidN("batch", w.ledger.now)
	w.trace.DidN("claim", len(w.ledger.claims))
	report := w.trace.Report()
	return &report, nil
}

func (w *world) rng(purpose string) *rand.Rand {
	return rand.New(rand.NewPCG(w.Seed, schedule.Draw(w.Seed, "rng", purpose)))
}

func (w *world) busy(ctx context.Context) error {
	for slot := range slots {
		if err := w.start(slot); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	goAs := func(name string, do func(context.Context, *rand.Rand)) {
		end := w.pendingTime + schedule.Between(schedule.Draw(w.Seed, "end", name), 0, tremble)
		rng := w.rng(name)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(as(ctx, name), end)
			defer cancel()
			do(ctx, rng)
		})
	}
	for c, at := range w.addresses[:w.callers] {
		client := fmt.Sprint("client-", c)
		goAs(client, func(ctx context.Context, rng *rand.Rand) { w.client(ctx, rng, client, at) })
		if w.Profile != Journals {
			goAs(fmt.Sprint("aborter-", c), func(ctx context.Context, rng *rand.Rand) { w.aborter(ctx, rng, at) })
			r := &reader{world: w, name: fmt.Sprint("reader-", c), at: at}
			w.readers = append(w.readers, r)
			goAs(r.name, r.run)
		}
	}
	for slot := range slots {
		goAs(fmt.Sprint("slot-", slot), func(ctx context.Context, rng *rand.Rand) { w.disturb(ctx, rng, slot) })
	}
	if w.Profile == Journals {
		goAs("sicken", w.makeDeadly)
	} else {
		goAs("outages", w.outages)
	}
	wg.Wait()
	return nil
}

func address(c int) conversation.Address {
	return conversation.Address{Agent: agentName, ID: fmt.Sprint("c", c)}
}

// Profile selects the requests and the faults of a schedule.
type Profile int

const (
	// Everything uses every feature of nodes, under faults of every kind.
	Everything Profile = iota
	// Journals has short submissions, few for each conversation, and no later requests that would load
	// a conversation again. Faults hit the journals and the claims. Nodes crash, stall and disagree at
	// the points where only a journal keeps the promise: when it has landed, when a 202 is sent, and
	// during a sweep.
	Journals
	// Waits has calls that wait for signals, and clients that signal, under the faults of Everything.
	Waits
	// Posts is Waits with posts by calls and by settlements, to an office that fails now and then.
	Posts
	// Runs is Waits where most calls start a run of a workflow and wait for it. Runs may start child
	// runs.
	Runs
	// Trees has tools that dispatch to a few conversations, whose tools dispatch again, and aborts of
	// these trees.
	Trees
)

func (p Profile) rate(base float64, o op) float64 {
	if p != Journals || base == 0 {
		return base
	}
	switch base = .05 + base/2; {
	case o.writes() && strings.HasPrefix(o.key, journalRoot):
		return 2 * base
	case o.method == http.MethodPut:
		return base
	}
	return base / 4
}

// Lacking returns the events that the schedules of a profile have counted too rarely to verify
// anything.
func (p Profile) Lacking(s schedule.Counts, schedules int) []string {
	out := s.Below(p.wanted(), schedules)
	if n := s[quarantineHealthy]; n > 0 {
		out = append(out, fmt.Sprintf("no conversation %s: %d", quarantineHealthy, n))
	}
	return out
}

// quarantineHealthy must not occur: nodes crashed for another reason while they opened the
// conversation.
const quarantineHealthy = "quarantined without cause"

func wantEach[S ~string](out schedule.Counts, n int, desc string, names []S) {
	for _, name := range names {
		out[desc+string(name)] = n
	}
}

// wanted returns the minimum number of each event in a thousand schedules.
func (p Profile) wanted() (out schedule.Counts) {
	switch p {
	case Everything:
		out = schedule.Counts{
			"acknowledged": 2500, "batch": 10000, "claim": 3000, "model call": 3000, "tool call": 2000, "page read": 2000, "page read again": 300,
			"conflict refused": 20, "wrong uid refused": 30, "creation refused": 10, "precheck": 200, "precheck knew the key": 20,
			"asked again at the end": 2000, "attachment read": 100, "image seen by a model": 100, "abort": 100, "abort without effect": 100,
			"settled completed": 1000, "settled failed": 100, "settled aborted": 100,
			"vendor asked to wait": 10, "step dropped": 100, "tool failed": 300, "output stored": 20, "data written": 500,
			"snapshot compared": 300, "read cancelled": 500, "checkpoint read": 500, "history page read": 50, "cache corrupted": 100, "corrupt cache read": 30,
			"crash": 500, "two crashes at once": 30, "drain": 100, "crash in a drain": 20, "outage": 100, "landed late": 500,
			"segment": 1000, "batch deleted": 4000, "key taken again": 1,
		}
		wantEach(out, 300, "fault: ", schedule.Faults())
		wantEach(out, 50, "model ", append(passing(), refused))
		wantEach(out, 50, "hook ", hookModes())
	case Journals:
		out = schedule.Counts{
			"acknowledged": 5000, "batch": 10000, "claim": 5000, "model call": 5000, "probe": 3000, "journal swept": 3000,
			"crash": 1000, "two crashes at once": 100, "landed late": 500, "settled completed": 5000,
			"crashed by a conversation": 100, "quarantined": 20,
		}
		wantEach(out, 100, "journal PUT ", schedule.Faults())
		wantEach(out, 50, "journal DELETE ", schedule.Faults())
		wantEach(out, 100, "fault when ", []moment{claimLands, batchLands, journalLands, receiptSeen, sweepReads})
	case Trees:
		out = schedule.Counts{
			"acknowledged": 3000, "batch": 20000, "claim": 2500, "model call": 4000, "crash": 500, "drain": 200, "outage": 300, "landed late": 500,
			"settled completed": 2000, "settled failed": 100, "settled aborted": 500, "tree member": 2000, "tree member aborted": 200,
			"abort": 200, "abort without effect": 100, "abort reached members": 50, "dispatch refused by an abort": 10,
			"dispatch refused by a budget": 100, "tree cost compared": 2000, "last cost lost": 5,
		}
	default:
		out = schedule.Counts{
			"acknowledged": 3000, "batch": 10000, "claim": 2000, "model call": 2000, "crash": 500, "drain": 100, "outage": 100, "landed late": 500,
			"settled completed": 1500, "wait ended by signal": 500, "wait ended by timeout": 100, "signal kept": 300, "signal too late": 100,
			"suspended at the end": 100, "reply received": 100,
		}
		for event := range out {
			out[event] /= map[Profile]int{Waits: 1, Posts: 2, Runs: 4}[p]
		}
	}
	switch p {
	case Posts:
		out["posted"], out["attempt to post failed"], out["posted again"] = 3000, 500, 200
	case Runs:
		out["run completed"], out["run failed"] = 1000, 100
	}
	return out
}
