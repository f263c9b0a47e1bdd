package chaos

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
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
type Report struct {
	// Violation is the first promise that was broken, "" if none was.
	Violation string
	// Trace tells what happened, one line each.
	Trace func() []string
	Shown schedule.Shown
}

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
	agent   *agent.Agent
	job     *agent.Workflow[job, string]
	worked  int            // steps of runs
	bucket  storage.Bucket // without faults
	logs    *storage.Logs  // of bucket
	known   map[conversation.Address]*knownLog

	mu      sync.Mutex
	nodes   [slots]*member // the incarnations, nil before the first
	all     []*member
	views   [slots]view
	oneView bool
	acks    map[string]ack                    // by conversation and key
	late    map[conversation.Address][]string // names that were signalled too late
	uids    map[conversation.Address]conversation.UID
	readers []*reader
	office  office

	moments, messages counter

	deadly deadly
	dying  sync.WaitGroup // who ends an incarnation over it

	shown *schedule.Tally
	turn  [slots]chan struct{} // held by who disturbs a slot
}

// view is what a slot believes about the others.
type view struct {
	alone bool        // it believes to own everything
	blind [slots]bool // it believes these to be gone
}

// member is one incarnation of a slot.
type member struct {
	slot int
	id   string
	node Node
	link *link
	life context.Context // ends when the process dies or has ended
	end  context.CancelFunc
	stop context.CancelFunc // asks for an orderly end
	done chan struct{}      // closed when Run has returned
	err  error              // of Run

	leaving bool // was asked for an orderly end
	gone    bool // is not there any more
	killed  bool
}

// Run runs a schedule. It must be called within a synctest bubble. The error says
// that the schedule could not be run.
func Run(ctx context.Context, opts Options) (*Report, error) {
	w := &world{
		seed: opts.Seed, profile: opts.Profile, opts: opts, trace: schedule.NewTrace(), acks: map[string]ack{}, late: map[conversation.Address][]string{},
		uids: map[conversation.Address]conversation.UID{}, known: map[conversation.Address]*knownLog{}, shown: &schedule.Tally{},
		deadly: deadly{killed: map[string]bool{}},
	}
	for i := range w.turn {
		w.turn[i] = make(chan struct{}, 1)
	}
	w.ledger = newLedger(w.trace, w.shown)
	w.net = newNetwork(w, []float64{0, .1, .3}[opts.Seed%3])
	w.agent, w.job = newAgent(w), newJob(w)
	w.bucket = opts.Store
	w.logs = storage.NewLogs(w.bucket, nil)
	if err := w.busy(ctx); err != nil {
		return nil, err
	}
	w.settle(ctx)
	w.stop()
	w.check(ctx)
	w.shown.AddN(didAck, len(w.acks))
	w.shown.AddN(didBatch, w.ledger.now)
	w.shown.AddN(didClaim, len(w.ledger.claims))
	w.shown.AddN(didTool, len(w.ledger.started))
	return &Report{Violation: w.trace.Violation(), Trace: w.trace.Lines, Shown: w.shown.Shown()}, nil
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
	goAs := func(name string, do func(context.Context)) {
		end := w.profile.busyTime() + schedule.Between(schedule.Draw(w.seed, "end", name), 0, tremble)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(as(ctx, name), end)
			defer cancel()
			do(ctx)
		})
	}
	for c := range w.profile.conversations() {
		client, aborter := fmt.Sprint("client-", c), fmt.Sprint("aborter-", c)
		if w.profile == Journals {
			goAs(client, func(ctx context.Context) { w.courier(ctx, client, address(c)) })
			continue
		}
		ask := w.client
		if w.profile == Waits || w.profile == Posts || w.profile == Runs {
			ask = w.asker
		}
		goAs(client, func(ctx context.Context) { ask(ctx, client, address(c)) })
		goAs(aborter, func(ctx context.Context) { w.aborter(ctx, aborter, address(c)) })
		r := w.newReader(fmt.Sprint("reader-", c), address(c))
		goAs(r.name, r.run)
	}
	for slot := range slots {
		disturb := w.disturb
		if w.profile == Journals {
			disturb = w.haunt
		}
		goAs(fmt.Sprint("slot-", slot), func(ctx context.Context) { disturb(ctx, slot) })
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

// disturb crashes, drains, pauses and misleads one slot.
func (w *world) disturb(ctx context.Context, slot int) {
	rng := w.rng(fmt.Sprint("slot-", slot))
	crashes := []int{0, 1, 3}[schedule.Draw(w.seed, "crashes")%3]
	for schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 200*time.Millisecond, 5*time.Second)) == nil {
		length := schedule.Between(rng.Uint64(), 100*time.Millisecond, 7*time.Second)
		w.turn[slot] <- struct{}{}
		switch n := rng.IntN(10); {
		case n < crashes:
			w.await(ctx, slot, rng)
			w.absence(ctx, slot, rng, length)
		case n == crashes && crashes > 0:
			w.drain(ctx, slot, rng)
			schedule.Sleep(ctx, length)
			w.restart(slot)
		case n < 6:
			w.await(ctx, slot, rng)
			w.pause(slot, true)
			schedule.Sleep(ctx, length)
			w.pause(slot, false)
		case n < 9:
			w.believe(slot, rng)
		}
		<-w.turn[slot]
	}
}

// absence crashes a slot, sometimes another at the same time, and restarts them
// after a while unless ctx ends. Shortcuts may be damaged meanwhile.
func (w *world) absence(ctx context.Context, slot int, rng *rand.Rand, length time.Duration) {
	gone := []int{slot}
	if other := (slot + 1 + rng.IntN(slots-1)) % slots; rng.IntN(3) == 0 {
		select {
		case w.turn[other] <- struct{}{}:
			defer func() { <-w.turn[other] }()
			gone = append(gone, other)
			w.shown.Add(didTwoCrash)
		default:
		}
	}
	for _, slot := range gone {
		w.apart("crash", slot)
		w.crash(slot)
	}
	if w.profile != Journals && rng.IntN(2) == 0 {
		w.damage(context.WithoutCancel(ctx), rng)
	}
	if schedule.Sleep(ctx, length) != nil {
		return
	}
	for _, slot := range gone {
		w.restart(slot)
	}
}

// outages takes the bucket away from all for a while.
func (w *world) outages(ctx context.Context) {
	rng := w.rng("outages")
	for range rng.IntN(3) {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, w.profile.busyTime()/2)) != nil {
			return
		}
		w.shown.Add(didOutage)
		w.net.setOutage([]schedule.Fate{schedule.ErrorBefore, schedule.ErrorAfter, schedule.LostAnswer, schedule.Dropped}[rng.IntN(4)])
		schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 200*time.Millisecond, 6*time.Second))
		w.net.setOutage(schedule.Delivered)
	}
}

// await waits for a bad moment to disturb a slot, but not for long, and returns which
// one has come.
func (w *world) await(ctx context.Context, slot int, rng *rand.Rand) moment {
	m := moment(rng.IntN(int(w.profile.moments())))
	if m == anyTime {
		return m
	}
	l := w.present()[slot].link
	t := time.NewTimer(4 * time.Second)
	defer t.Stop()
	select {
	case <-l.next(m):
		if rng.IntN(2) == 0 { // The node knows by then, and has told somebody.
			schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 100*time.Millisecond))
		}
		return m
	case <-t.C:
	case <-ctx.Done():
	}
	return anyTime
}

// believe changes the view of a slot.
func (w *world) believe(slot int, rng *rand.Rand) {
	v := view{alone: rng.IntN(4) == 0}
	for i := range slots {
		v.blind[i] = i != slot && rng.IntN(4) == 0
	}
	w.mu.Lock()
	w.views[slot] = v
	w.mu.Unlock()
	w.trace.Add(fmt.Sprint("slot-", slot), "believes %+v", v)
}

// owner returns the member that a slot believes to own a conversation.
func (w *world) owner(slot int, conv string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.views[slot]
	if w.oneView {
		v = view{}
	}
	if v.alone {
		return w.nodes[slot].id
	}
	best, id := uint64(0), ""
	for i, m := range w.nodes {
		if m == nil || m.gone || m.leaving || v.blind[i] {
			continue
		}
		if d := schedule.Draw(0, "owner", conv, i); id == "" || d > best {
			best, id = d, m.id
		}
	}
	return id
}
