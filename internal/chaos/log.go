package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// LogOptions say what a schedule of one log runs on.
type LogOptions struct {
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

// LogReport is what came of a schedule of one log.
type LogReport struct {
	// Violation is the first promise that was broken, "" if none was.
	Violation string
	// Trace tells what happened, one line each.
	Trace func() []string
	Shown Shown
	// History is what was appended and read.
	History LogHistory
}

// Deeds of the schedules of one log.
const (
	didFence     deed = "fenced"
	didStale     deed = "stale claim refused"
	didUncertain deed = "outcome unknown"
	didRange     deed = "range read"
	didMerge     deed = "segments merged"
	didPause     deed = "process stood still"
	didOldHead   deed = "old checkpoint read"
	didSpoil     deed = "damaged: "
	didRefuse    deed = "damage refused"
	didGrace     deed = "garbage removed late"
)

// LackingOfLog returns what so many schedules of [RunLog] have shown too rarely to prove
// anything.
func (s Shown) LackingOfLog(schedules int) []string {
	thousandth := map[deed]int{
		didAck: 8000, didRead: 8000, didRange: 500, didRestore: 1000, didOldHead: 500,
		didSegment: 4000, didMerge: 1000, didDelete: 6000, didOrphan: 200, didGrace: 300,
		didFence: 800, didStale: 80, didUncertain: 80, didCrash: 500, didPause: 4000, didLate: 1000,
	}
	for f := delivered + 1; f < fates; f++ {
		thousandth[didFault+deed(f.String())] = 300
	}
	return s.below(thousandth, schedules)
}

// LackingOfDamage is LackingOfLog for schedules with damage.
func (s Shown) LackingOfDamage(schedules int) []string {
	return s.below(map[deed]int{
		didSpoil + "batch": 2000, didSpoil + "segment": 300, didSpoil + "shortcut": 1000, didRefuse: 1000,
	}, schedules)
}

func (s Shown) below(thousandth map[deed]int, schedules int) []string {
	var out []string
	for what, n := range thousandth {
		if want := max(1, schedules*n/1000); s[string(what)] < want {
			out = append(out, fmt.Sprintf("%s %d, want %d", what, s[string(what)], want))
		}
	}
	slices.Sort(out)
	return out
}

// logWorld is one schedule under way.
type logWorld struct {
	seed  uint64
	opts  LogOptions
	conv  conversation.Key
	trace *trace
	shown *tally
	net   *logNet
	tasks sync.WaitGroup

	mu      sync.Mutex
	acked   map[int64]uint64 // id of what was acknowledged, by number
	tail    int64            // highest number that was acknowledged, -1 if none
	seen    map[int64]storage.Batch
	end     int64 // highest number that was seen, -1 if none
	said    []saidFold
	history []logOp
	writers int // that have not ended

	padding string // of batches, so that a segment has several frames
}

// RunLog runs one conversation's log: writers, compactors, sweepers and readers over one
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
//  6. Appends and reads are linearizable; see [LogHistory.Check].
func RunLog(ctx context.Context, opts LogOptions) *LogReport {
	w := &logWorld{
		seed: opts.Seed, opts: opts, conv: conversation.Address{Agent: "a", ID: "log"}.Key(), trace: newTrace(),
		shown: &tally{n: Shown{}}, acked: map[int64]uint64{}, tail: -1, seen: map[int64]storage.Batch{}, end: -1,
	}
	d := diceOf(w.seed, 0, "character")
	w.net = &logNet{
		seed: w.seed, store: opts.Store, trace: w.trace, shown: w.shown, stale: opts.StaleLists,
		folder: string(w.conv[:2]) + "/" + string(w.conv) + "/",
		rate:   []float64{0, .03, .1, .25}[d.Uint64()%4],
		pauses: []float64{0, .02, .05}[d.Uint64()%3],
		late:   map[*lateWrite]struct{}{}, born: map[string]int{}, gone: map[string]bool{},
	}
	if d.Uint64()%32 == 0 {
		w.padding = fmt.Sprintf(`,"pad":"%s"`, strings.Repeat("x", 24<<10))
	}
	w.writers = 3 + int(d.Uint64()%5)/3
	start := func(kind string, n int, run func(*logProc, context.Context)) {
		for i := range n {
			w.start(ctx, kind, i, run)
		}
	}
	start("writer", w.writers, (*logProc).write)
	start("compactor", 2+int(d.Uint64()%5)/4, (*logProc).compact)
	start("reader", 1+int(d.Uint64()%2), (*logProc).follow)
	if opts.Damage {
		start("vandal", 1, (*logProc).spoil)
	}
	w.tasks.Wait()
	w.net.heal()
	w.finish(ctx)
	w.shown.addN(didAck, len(w.acked))
	w.shown.addN(didBatch, len(w.seen))
	return &LogReport{Violation: w.trace.violation(), Trace: w.trace.lines, Shown: w.shown.n, History: LogHistory{w.history}}
}

// start lets a process do its work.
func (w *logWorld) start(ctx context.Context, kind string, n int, run func(*logProc, context.Context)) {
	p := w.process(fmt.Sprint(kind, n))
	w.tasks.Go(func() { run(p, ctx) })
}

// logProc is a process: what it does next is a function of the seed, its name and what it
// has met.
type logProc struct {
	*logWorld
	name string
	rng  *dice
	link *logLink
	logs *storage.Logs
	fold logFold            // what it knows
	been []storage.Position // where it was
}

func (w *logWorld) process(name string) *logProc {
	link := w.net.link(name)
	return &logProc{logWorld: w, name: name, rng: diceOf(w.seed, 0, "process", name), link: link, logs: w.opts.Logs(link), fold: emptyFold()}
}

// chance is true once in n times.
func (p *logProc) chance(n uint64) bool { return p.rng.Uint64()%n == 0 }

// below returns a number from 0 to n-1.
func (p *logProc) below(n int) int { return int(p.rng.Uint64() % uint64(n)) }

// nap lets a time pass that is mostly short.
func (p *logProc) nap(ctx context.Context, limit time.Duration) {
	x := p.rng.share()
	sleep(ctx, 1+time.Duration(x*x*float64(limit)))
}

// busy reports whether a writer is still there.
func (w *logWorld) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writers > 0
}

// follow is a reader. It reads again and again, from the start, from where it was, from a
// checkpoint, or a part.
func (p *logProc) follow(ctx context.Context) {
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
func (p *logProc) tailOn(ctx context.Context) {
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
func (p *logProc) compact(ctx context.Context) {
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

func (p *logProc) compactTo(ctx context.Context, c *storage.Compactor, upTo int64, recent []storage.Batch) {
	garbage, err := c.Compact(ctx, upTo, recent, 1+p.below(3))
	if err != nil {
		p.refused("compact", err)
	}
	if len(garbage) == 0 {
		return
	}
	w, name := p.logWorld, fmt.Sprint(p.name, "-sweeper", p.rng.Uint64()%1000)
	grace := time.Duration(0)
	switch p.below(8) {
	case 0:
		return // It has crashed; another one will find it.
	case 1, 2:
		grace = p.rng.between(0, 3*time.Second)
	case 3:
		grace = p.rng.between(0, 40*time.Second)
		w.shown.add(didGrace)
	}
	w.tasks.Go(func() {
		s := w.process(name)
		sleep(ctx, 1+grace)
		if err := s.logs.Remove(ctx, w.conv, garbage); err != nil {
			s.refused("remove", err)
		}
	})
}

// refused looks at an error of something that may be done again.
func (p *logProc) refused(what string, err error) {
	p.trace.add(p.name, "%s: %s", what, ending(err))
	switch {
	case storage.Damaged(err) && p.opts.Damage:
		p.shown.add(didRefuse)
	case storage.Damaged(err):
		p.trace.violate(p.name, "%s: %v", what, err)
	}
}
