package logsim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// Options say what a schedule of one log runs on.
type Options struct {
	// Seed is the schedule.
	Seed uint64
	// Store is an empty bucket that answers at once and without faults.
	Store storage.Bucket
	// Logs returns the logs in a bucket. Small pages and segments show more.
	Logs func(storage.Bucket) *storage.Logs
	// Damage spoils objects that others stand in for. Reads may then end with an error
	// that says so.
	Damage bool
	// StaleLists is the share of LISTs that hide what is new. The rules of the log do not
	// hold then: it shows that they need what they say they need.
	StaleLists float64
	// Pending is storage.WithPending in a build that has it, nil in others.
	Pending func(ctx context.Context, lines func() []byte) context.Context
}

// Report is what came of a schedule of one log.
type Report struct {
	// Violation is the first promise that was broken, "" if none was.
	Violation string
	// Trace tells what happened, one line each.
	Trace func() []string
	Shown schedule.Shown
	// History is what was appended and read.
	History History
}

// What schedules are meant to bring about.
const (
	didAck       schedule.Deed = "acknowledged"
	didBatch     schedule.Deed = "batch"
	didRead      schedule.Deed = "page read"
	didRestore   schedule.Deed = "checkpoint read"
	didCrash     schedule.Deed = "crash"
	didLate      schedule.Deed = "landed late"
	didSegment   schedule.Deed = "segment"
	didDelete    schedule.Deed = "batch deleted"
	didOrphan    schedule.Deed = "key taken again"
	didFault     schedule.Deed = "fault: "
	didFence     schedule.Deed = "fenced"
	didStale     schedule.Deed = "stale claim refused"
	didUncertain schedule.Deed = "outcome unknown"
	didRange     schedule.Deed = "range read"
	didMerge     schedule.Deed = "segments merged"
	didPause     schedule.Deed = "process stood still"
	didOldHead   schedule.Deed = "old checkpoint read"
	didSpoil     schedule.Deed = "damaged: "
	didRefuse    schedule.Deed = "damage refused"
	didGrace     schedule.Deed = "garbage removed late"
)

// Lacking returns what so many schedules have shown too rarely to prove anything.
func Lacking(s schedule.Shown, schedules int) []string {
	thousandth := map[schedule.Deed]int{
		didAck: 8000, didRead: 8000, didRange: 500, didRestore: 1000, didOldHead: 500,
		didSegment: 4000, didMerge: 1000, didDelete: 6000, didOrphan: 200, didGrace: 300,
		didFence: 800, didStale: 80, didUncertain: 80, didCrash: 500, didPause: 4000, didLate: 1000,
	}
	for _, f := range schedule.Faults() {
		thousandth[didFault+schedule.Deed(f.String())] = 300
	}
	return s.Below(thousandth, schedules)
}

// LackingOfDamage is Lacking for schedules with damage.
func LackingOfDamage(s schedule.Shown, schedules int) []string {
	return s.Below(map[schedule.Deed]int{
		didSpoil + "batch": 2000, didSpoil + "segment": 300, didSpoil + "shortcut": 1000, didRefuse: 1000,
	}, schedules)
}

// world is one schedule under way.
type world struct {
	seed  uint64
	opts  Options
	conv  conversation.Key
	trace *schedule.Trace
	shown *schedule.Tally
	net   *network
	tasks sync.WaitGroup

	mu      sync.Mutex
	acked   map[int64]uint64 // id of what was acknowledged, by number
	tail    int64            // highest number that was acknowledged, -1 if none
	seen    map[int64]storage.Batch
	end     int64 // highest number that was seen, -1 if none
	said    []saidFold
	history []op
	writers int // that have not ended

	padding string // of batches, so that a segment has several frames
}

// Run runs one conversation's log: writers, compactors, sweepers and readers over one
// bucket that answers late, twice, or not at all, and who stand still, crash and come
// back with what they knew. It must be called within a synctest bubble, and returns when
// everything it started has ended. What is checked:
//
//  1. No number is acknowledged twice, and what was acknowledged is there, at its number
//     and byte for byte, in every read that begins later, and at the end.
//  2. No reader sees a number stand for something else than anybody saw before, nor a hole,
//     nor a batch that does not follow the one before.
//  3. No read says that the log is damaged, unless it is.
//  4. A writer that was fenced, or does not know an outcome, sends nothing any more.
//  5. At the end every offset can be read, segments hold everything but the last batch,
//     and what lies beside them are pins and that one.
//  6. Appends and reads are linearizable; see [History.Check].
func Run(ctx context.Context, opts Options) *Report {
	w := &world{
		seed: opts.Seed, opts: opts, conv: conversation.Address{Agent: "a", ID: "log"}.Key(), trace: schedule.NewTrace(),
		shown: &schedule.Tally{}, acked: map[int64]uint64{}, tail: -1, seen: map[int64]storage.Batch{}, end: -1,
	}
	d := schedule.DiceOf(w.seed, 0, "character")
	w.net = &network{
		seed: w.seed, store: opts.Store, trace: w.trace, shown: w.shown, stale: opts.StaleLists,
		folder: string(w.conv[:2]) + "/" + string(w.conv) + "/",
		rate:   []float64{0, .03, .1, .25}[d.Uint64()%4],
		pauses: []float64{0, .02, .05}[d.Uint64()%3],
		born:   map[string]int{}, gone: map[string]bool{},
	}
	if d.Uint64()%32 == 0 {
		w.padding = fmt.Sprintf(`,"pad":"%s"`, strings.Repeat("x", 24<<10))
	}
	w.writers = 3 + int(d.Uint64()%5)/3
	start := func(kind string, n int, run func(*proc, context.Context)) {
		for i := range n {
			w.start(ctx, kind, i, run)
		}
	}
	start("writer", w.writers, (*proc).write)
	start("compactor", 2+int(d.Uint64()%5)/4, (*proc).compact)
	start("reader", 1+int(d.Uint64()%2), (*proc).follow)
	if opts.Damage {
		start("vandal", 1, (*proc).spoil)
	}
	w.tasks.Wait()
	w.net.heal()
	w.finish(ctx)
	w.shown.AddN(didAck, len(w.acked))
	w.shown.AddN(didBatch, len(w.seen))
	return &Report{Violation: w.trace.Violation(), Trace: w.trace.Lines, Shown: w.shown.Shown(), History: History{w.history}}
}

// start lets a process do its work.
func (w *world) start(ctx context.Context, kind string, n int, run func(*proc, context.Context)) {
	p := w.process(fmt.Sprint(kind, n))
	w.tasks.Go(func() { run(p, ctx) })
}

// proc is a process: what it does next is a function of the seed, its name and what it
// has met.
type proc struct {
	*world
	name string
	rng  *schedule.Dice
	link *link
	logs *storage.Logs
	fold fold               // what it knows
	been []storage.Position // where it was
}

func (w *world) process(name string) *proc {
	link := w.net.link(name)
	return &proc{world: w, name: name, rng: schedule.DiceOf(w.seed, 0, "process", name), link: link, logs: w.opts.Logs(link), fold: emptyFold()}
}

// chance is true once in n times.
func (p *proc) chance(n uint64) bool { return p.rng.Uint64()%n == 0 }

// below returns a number from 0 to n-1.
func (p *proc) below(n int) int { return int(p.rng.Uint64() % uint64(n)) }

// nap lets a time pass that is mostly short.
func (p *proc) nap(ctx context.Context, limit time.Duration) {
	x := p.rng.Share()
	schedule.Sleep(ctx, 1+time.Duration(x*x*float64(limit)))
}

// busy reports whether a writer is still there.
func (w *world) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writers > 0
}

// follow is a reader. It reads again and again, from the start, from where it was, from a
// checkpoint, or a part.
func (p *proc) follow(ctx context.Context) {
	for p.busy() {
		p.nap(ctx, 20*time.Second)
		at := storage.Start()
		if n := len(p.been); n > 0 {
			at = p.been[p.below(n)]
		}
		switch p.below(6) {
		case 0:
			p.read(ctx, "from the start", storage.Start(), p.logs.Batches(ctx, p.conv, storage.Start()), nil)
		case 1:
			p.read(ctx, "from where it was", at, p.logs.Batches(ctx, p.conv, at), nil)
		case 2:
			if at.Seq >= 0 {
				p.read(ctx, "again", at, p.logs.Resume(ctx, p.conv, at), nil)
			}
		case 3:
			p.restore(ctx)
		case 4:
			p.tailOn(ctx)
		case 5:
			if at.Seq >= 0 {
				p.part(ctx, at.Seq)
			}
		}
	}
}

// tailOn reads on where it was last.
func (p *proc) tailOn(ctx context.Context) {
	for range 2 {
		at := storage.Start()
		if n := len(p.been); n > 0 {
			at = p.been[n-1]
		}
		p.read(ctx, "on", at, p.logs.Batches(ctx, p.conv, at), nil)
		p.nap(ctx, 2*time.Second)
	}
}

// compact is a compactor. Removing what it has replaced is left to a sweeper, which may
// come late or never.
func (p *proc) compact(ctx context.Context) {
	c := p.logs.Compactor(p.conv)
	for p.busy() {
		p.nap(ctx, 9*time.Second)
		if p.chance(6) {
			c = p.logs.Compactor(p.conv)
		}
		tail, err := p.logs.Tail(ctx, p.conv, c.Covered())
		if err != nil {
			p.refused("tail", err)
			continue
		}
		if tail <= c.Covered()+1 && !p.chance(4) {
			continue
		}
		if p.chance(4) {
			p.nap(ctx, 8*time.Second)
		}
		p.compactTo(ctx, c, tail, nil)
	}
}

func (p *proc) compactTo(ctx context.Context, c *storage.Compactor, upTo int64, recent []storage.Batch) {
	garbage, err := c.Compact(ctx, upTo, recent, 1+p.below(3))
	if err != nil {
		p.refused("compact", err)
	}
	if len(garbage) == 0 {
		return
	}
	w, name := p.world, fmt.Sprint(p.name, "-sweeper", p.rng.Uint64()%1000)
	grace := time.Duration(0)
	switch p.below(8) {
	case 0:
		return // It has crashed; another one will find it.
	case 1, 2:
		grace = p.rng.Between(0, 3*time.Second)
	case 3:
		grace = p.rng.Between(0, 40*time.Second)
		w.shown.Add(didGrace)
	}
	w.tasks.Go(func() {
		s := w.process(name)
		schedule.Sleep(ctx, 1+grace)
		if err := s.logs.Remove(ctx, w.conv, garbage); err != nil {
			s.refused("remove", err)
		}
	})
}

// refused looks at an error of something that may be done again.
func (p *proc) refused(what string, err error) {
	p.trace.Add(p.name, "%s: %s", what, ending(err))
	switch {
	case storage.Damaged(err) && p.opts.Damage:
		p.shown.Add(didRefuse)
	case storage.Damaged(err):
		p.trace.Violate(p.name, "%s: %v", what, err)
	}
}
