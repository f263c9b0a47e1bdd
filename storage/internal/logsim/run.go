package logsim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// Options configure a schedule of one log.
type Options struct {
	// Seed determines the schedule.
	Seed uint64
	// Store is an empty bucket that answers at once and without faults.
	Store storage.Bucket
	// Logs returns the logs of a bucket. Small pages and segments cover more.
	Logs func(storage.Bucket) *storage.Logs
	// Corruption corrupts redundant objects. Reads may then return a corresponding error.
	Corruption bool
	// StaleLists is the share of LISTs that hide new objects. The guarantees do not hold then, which
	// shows that consistent LISTs are necessary.
	StaleLists float64
	// Pending is storage.WithPending in a build that has it, nil in others.
	Pending func(ctx context.Context, lines func() []byte) context.Context
}

// Report is the result of a schedule.
type Report struct {
	schedule.Report
	// History records the appends and reads.
	History History
}

// Lacking returns the events that occurred too rarely in this many schedules to verify anything.
func Lacking(s schedule.Counts, schedules int) []string {
	thousandth := map[schedule.Event]int{
		"acknowledged": 8000, "page read": 8000, "range read": 500, "checkpoint read": 1000, "old checkpoint read": 500,
		"segment": 4000, "segments merged": 1000, "batch deleted": 6000, "key taken again": 200, "garbage removed late": 300,
		"fenced": 800, "stale claim refused": 80, "outcome unknown": 80, "crash": 500, "process stood still": 4000, "landed late": 1000,
	}
	for _, f := range schedule.Faults() {
		thousandth["fault: "+schedule.Event(f)] = 300
	}
	return s.Below(thousandth, schedules)
}

// LackingOfCorruption is [Lacking] for schedules with corruption.
func LackingOfCorruption(s schedule.Counts, schedules int) []string {
	return s.Below(map[schedule.Event]int{
		"damaged: batch": 2000, "damaged: segment": 300, "damaged: shortcut": 1000, "damage refused": 1000,
	}, schedules)
}

// world is one running schedule.
type world struct {
	opts  Options
	conv  conversation.Key
	trace *schedule.Trace
	net   *network
	tasks sync.WaitGroup

	mu      sync.Mutex
	acked   map[int64]uint64 // ids of acknowledged batches, by number
	tail    int64            // highest acknowledged number, -1 if none
	seen    map[int64]storage.Batch
	end     int64  // highest number seen, -1 if none
	folds   []fold // in checkpoints
	history []op
	writers atomic.Int64 // running

	padding string // of batches, so that a segment has several frames
}

func newWorld(opts Options) *world {
	return &world{
		opts: opts, conv: conversation.Address{Agent: "a", ID: "log"}.Key(), trace: schedule.NewTrace(),
		acked: map[int64]uint64{}, tail: -1, seen: map[int64]storage.Batch{}, end: -1,
	}
}

// Run runs the log of one conversation: writers, compactors, sweepers and readers over one bucket that
// answers late, twice, or not at all. Processes pause, crash and restart with their knowledge. Run
// must be called within a synctest bubble; it returns when all its goroutines have ended. It checks:
//
//  1. No number is acknowledged twice, and every acknowledged batch is there, at its number
//     and byte for byte, in every read that begins later, and at the end.
//  2. A number never changes its batch, and no reader sees a gap or a broken chain.
//  3. No read reports corruption without corruption.
//  4. A writer that was fenced, or does not know an outcome, sends nothing any more.
//  5. At the end every offset is readable, segments hold everything but the last batch,
//     and the only other objects are pins and that batch.
//  6. Appends and reads are linearizable; see [History.Check].
func Run(ctx context.Context, opts Options) *Report {
	w := newWorld(opts)
	d := schedule.DiceOf(opts.Seed, 0, "character")
	w.net = &network{
		seed: opts.Seed, store: opts.Store, trace: w.trace, late: schedule.Late{Trace: w.trace}, stale: opts.StaleLists,
		folder: storage.FolderOf(w.conv),
		rate:   []float64{0, .03, .1, .25}[d.Uint64()%4],
		pauses: []float64{0, .02, .05}[d.Uint64()%3],
		born:   map[string]int{}, gone: map[string]bool{},
	}
	if d.Uint64()%32 == 0 {
		w.padding = fmt.Sprintf(`,"pad":"%s"`, strings.Repeat("x", 24<<10))
	}
	w.writers.Store(3 + int64(d.Uint64()%5)/3)
	start := func(kind string, n int, run func(*proc, context.Context)) {
		for i := range n {
			p := w.process(fmt.Sprint(kind, i))
			w.tasks.Go(func() { run(p, ctx) })
		}
	}
	start("writer", int(w.writers.Load()), (*proc).write)
	start("compactor", 2+int(d.Uint64()%5)/4, (*proc).compact)
	start("reader", 1+int(d.Uint64()%2), (*proc).follow)
	if opts.Corruption {
		start("vandal", 1, (*proc).spoil)
	}
	w.tasks.Wait()
	w.net.heal()
	w.finish(ctx)
	w.trace.DidN("acknowledged", len(w.acked))
	w.trace.DidN("batch", len(w.seen))
	return &Report{w.trace.Report(), History{w.history}}
}

// proc is a process. Its next operation is a function of the seed, its name and its results so far.
type proc struct {
	*world
	name string
	rng  *schedule.Dice
	link *link
	logs *storage.Logs
	fold fold               // its knowledge
	been []storage.Position // earlier positions
}

func (w *world) process(name string) *proc {
	l := &link{net: w.net, sender: name}
	return &proc{world: w, name: name, rng: schedule.DiceOf(w.opts.Seed, 0, "process", name), link: l, logs: w.opts.Logs(l.bucket()), fold: emptyFold()}
}

// chance returns true once in n times.
func (p *proc) chance(n uint64) bool { return p.rng.Uint64()%n == 0 }

// below returns a number from 0 to n-1.
func (p *proc) below(n int) int { return int(p.rng.Uint64() % uint64(n)) }

// nap waits for a random time, usually short.
func (p *proc) nap(ctx context.Context, limit time.Duration) {
	x := p.rng.Share()
	schedule.Sleep(ctx, 1+time.Duration(x*x*float64(limit)))
}

// withDeadline ends a context after a while, once in n times.
func (p *proc) withDeadline(ctx context.Context, n uint64, from, to time.Duration) (context.Context, context.CancelFunc) {
	if !p.chance(n) {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.rng.Between(from, to))
}
