package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// LogOptions say where RunLog measures, and how much. The zero value works.
type LogOptions struct {
	// Bucket is measured in place of a folder; Place names it in the report. What is
	// written there stands in conversations of the run's own, and is deleted.
	Bucket storage.Bucket
	Place  string
	// Dir is the folder below which a folder of the run's own is measured and then
	// removed; "" is the system's temporary folder. It says nothing beside a Bucket.
	Dir string
	// Quick takes small counts.
	Quick bool
	// Percent of the counts are put on as load, 1 to 100; 0 is 100.
	Percent int
	// Version is put into the report.
	Version string
	// Progress is told what begins; nil is nobody.
	Progress io.Writer
}

// logCounts say how much load RunLog puts on.
type logCounts struct {
	// Warmup are operations that are not measured, Pairs those that are, one of each
	// side at a time.
	Warmup, Pairs int
	// Crowd writers store InRound objects in each of Rounds, one side after the other.
	Crowd, Rounds, InRound int
	// StreamBytes are streamed at most.
	StreamBytes int

	// Loop bounds the time of a comparison, Stream that of the stream.
	Loop, Stream time.Duration
}

func logCountsOf(quick bool, percent int) logCounts {
	c := logCounts{Warmup: 50, Pairs: 4000, Crowd: 64, Rounds: 30, InRound: 2000, StreamBytes: 1 << 30, Loop: 30 * time.Second, Stream: 5 * time.Second}
	if quick {
		c = logCounts{Warmup: 20, Pairs: 1000, Crowd: 64, Rounds: 10, InRound: 1000, StreamBytes: 200 << 20, Loop: 8 * time.Second, Stream: 2 * time.Second}
	}
	if percent > 0 && percent < 100 {
		for _, n := range []*int{&c.Warmup, &c.Pairs, &c.Rounds, &c.InRound, &c.StreamBytes} {
			*n = max(1, *n*percent/100)
		}
	}
	return c
}

// logPart is what is measured together; run fills in its rows.
type logPart struct {
	rows []Scenario
	run  func(ctx context.Context, r *logRun, rows []Scenario) error
}

// logParts lists them in the order they run.
func logParts() []logPart {
	const pace = "p50 ≤ 1.15 × raw PUT"
	return []logPart{
		{rows: []Scenario{
			{Name: "raw-1k", What: "conditional PUT of the object of a batch of 1 KiB, 1 in flight, in turn with append-1k"},
			{Name: "append-1k", What: "append of a record line of 1 KiB, 1 in flight", Target: pace},
		}, run: pairs(1 << 10)},
		{rows: []Scenario{
			{Name: "raw-8k", What: "conditional PUT of the object of a batch of 8 KiB, 1 in flight, in turn with append-8k"},
			{Name: "append-8k", What: "append of a record line of 8 KiB, 1 in flight", Target: pace},
		}, run: pairs(8 << 10)},
		{rows: []Scenario{
			{Name: "raw-64", What: "conditional PUTs of the object of a batch of 1 KiB, 64 writers, in turn with append-64"},
			{Name: "append-64", What: "appends of 1 KiB in 64 conversations, one in flight in each", Target: "rate ≥ 0.9 × raw PUT"},
		}, run: crowds(1 << 10)},
		{rows: []Scenario{
			{Name: "stream", What: "records of 120 bytes in one conversation; what came meanwhile is the next append", Target: "in a folder: ≥ 50 MB/s"},
		}, run: saturated},
	}
}

// LogNames returns the names of the rows of RunLog, in the order they run.
func LogNames() []string {
	var names []string
	for _, p := range logParts() {
		for _, s := range p.rows {
			names = append(names, s.Name)
		}
	}
	return names
}

// RunLog compares the log with raw conditional PUTs through the same client into the
// same bucket, one after the other in one run, so that what disturbs one disturbs the
// other. Its errors are wrong options, no place for the data, and data that cannot be
// removed; what fails or is left out is reported.
func RunLog(ctx context.Context, o LogOptions) (_ *Report, err error) {
	if o.Percent < 0 || o.Percent > 100 {
		return nil, fmt.Errorf("%d percent of the counts are not 1 to 100", o.Percent)
	}
	r := &logRun{bucket: o.Bucket, id: rand.Text(), c: logCountsOf(o.Quick, o.Percent)}
	report := &Report{Machine: thisMachine(), Version: o.Version, Bucket: o.Place, Quick: o.Quick}
	if o.Bucket == nil {
		dir, err := os.MkdirTemp(o.Dir, "parley-bench-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for the data: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		store, err := local.Open(dir, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		r.bucket = store
		report.Bucket = "a folder"
	} else {
		// Also after Ctrl-C nothing is left.
		defer func() { err = errors.Join(err, r.remove(context.WithoutCancel(ctx))) }()
	}
	r.logs = storage.NewLogs(r.bucket, nil)
	for _, p := range logParts() {
		for _, s := range p.rows {
			if o.Progress != nil {
				fmt.Fprintf(o.Progress, "%s: %s\n", s.Name, s.What) // Nobody depends on it.
			}
		}
		report.Scenarios = append(report.Scenarios, r.run(ctx, p)...)
	}
	return report, nil
}

// logRun is the state of a run of RunLog.
type logRun struct {
	bucket storage.Bucket
	logs   *storage.Logs
	c      logCounts
	id     string             // Of this run, in the name of every conversation.
	convs  []conversation.Key // Those written to.
}

func (r *logRun) run(ctx context.Context, p logPart) []Scenario {
	rows := append([]Scenario(nil), p.rows...)
	err := context.Cause(ctx)
	if err == nil {
		err = p.run(ctx, r, rows)
	}
	if err == nil {
		return rows
	}
	for i, s := range p.rows {
		rows[i] = Scenario{Name: s.Name, What: s.What, Target: s.Target, Error: err.Error()}
	}
	return rows
}

// conv returns a conversation of this run's own.
func (r *logRun) conv() conversation.Key {
	key := conversation.Address{Agent: "parley-bench", ID: fmt.Sprintf("%s-%d", r.id, len(r.convs))}.Key()
	r.convs = append(r.convs, key)
	return key
}

// Bounds of the removal of what was written.
const (
	removeTimeout = 2 * time.Minute
	removeAtOnce  = 16
)

// remove deletes everything of the run's own conversations.
func (r *logRun) remove(ctx context.Context) error {
	var prefixes []string
	for _, conv := range r.convs {
		prefixes = append(prefixes, path.Dir(storage.LogKey(conv, 0))+"/")
	}
	return removeBelow(ctx, r.bucket, prefixes...)
}

// removeBelow deletes everything below some prefixes.
func removeBelow(ctx context.Context, bucket storage.Bucket, prefixes ...string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(removeAtOnce)
	for _, prefix := range prefixes {
		q := storage.ListQuery{Prefix: prefix}
		for more := true; more; {
			page, err := bucket.List(ctx, q)
			if err != nil {
				return errors.Join(fmt.Errorf("remove what was written: %w", err), g.Wait())
			}
			for _, k := range page.Keys {
				g.Go(func() error { return bucket.Delete(ctx, k.Key) })
				q.After = k.Key
			}
			more = page.More
		}
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("remove what was written: %w", err)
	}
	return nil
}

// logSide is one writer of a comparison: it stores a payload as the next object of
// its conversation. It belongs to one goroutine at a time.
type logSide func(ctx context.Context, p payload) error

// raw returns a writer of objects as they are.
func (r *logRun) raw() logSide {
	conv, seq := r.conv(), int64(0)
	return func(ctx context.Context, p payload) error {
		key := storage.LogKey(conv, seq)
		seq++
		return r.bucket.Create(ctx, key, storage.Bytes(p.object))
	}
}

// own returns a writer of batches.
func (r *logRun) own() logSide {
	w := r.writer()
	return func(ctx context.Context, p payload) error {
		_, err := w.Append(ctx, p.lines, conversation.TimeOf(time.Now()))
		return err
	}
}

// writer returns the writer of a conversation of its own.
func (r *logRun) writer() *storage.Writer {
	conv := r.conv()
	return r.logs.Writer(conv, storage.Nonce(fmt.Sprintf("%s-%d", r.id, len(r.convs))), storage.Start(), 1)
}

// timed returns how long a writer takes.
func (s logSide) timed(ctx context.Context, p payload) (time.Duration, error) {
	start := time.Now()
	err := s(ctx, p)
	return time.Since(start), err
}

// inTurn returns the order of the two sides in a round. Each is first as often as the
// other, so that neither pays for what the other leaves behind.
func inTurn(round int) [2]int { return [2]int{round % 2, 1 - round%2} }

// pairs times an operation of each side in turn.
func pairs(size int) func(context.Context, *logRun, []Scenario) error {
	return func(ctx context.Context, r *logRun, rows []Scenario) error {
		pool, err := payloads(size)
		if err != nil {
			return err
		}
		sides := [2]logSide{r.raw(), r.own()}
		var samples [2][]time.Duration
		end := time.Now().Add(r.c.Loop)
		for i := range r.c.Warmup + r.c.Pairs {
			if i > r.c.Warmup && time.Now().After(end) {
				break
			}
			for _, k := range inTurn(i) {
				took, err := sides[k].timed(ctx, pool[i%len(pool)])
				if err != nil {
					return err
				}
				if i >= r.c.Warmup {
					samples[k] = append(samples[k], took)
				}
			}
		}
		for k := range rows {
			rows[k].take(samples[k])
		}
		rows[0].figure("object", objectBytes(pool), "bytes")
		rows[1].ToRawPut = rows[1].Latency.P50 / rows[0].Latency.P50
		return nil
	}
}

// crowds times rounds of many writers at once, of each side in turn.
func crowds(size int) func(context.Context, *logRun, []Scenario) error {
	return func(ctx context.Context, r *logRun, rows []Scenario) error {
		pool, err := payloads(size)
		if err != nil {
			return err
		}
		var sides [2][]logSide
		for range r.c.Crowd {
			sides[0], sides[1] = append(sides[0], r.raw()), append(sides[1], r.own())
		}
		var samples [2][]time.Duration
		var cpu [2]*float64
		var ratios []float64 // Of the rates, a round each.
		// Every writer's first object is a warm-up: of a log it is the claim.
		for k := range sides {
			if _, err := crowd(ctx, sides[k], pool, r.c.Crowd*2); err != nil {
				return err
			}
		}
		end := time.Now().Add(r.c.Loop)
		for i := range r.c.Rounds {
			if i > 0 && time.Now().After(end) {
				break
			}
			var rates [2]float64
			for _, k := range inTurn(i) {
				before, start := ownUsage(), time.Now()
				took, err := crowd(ctx, sides[k], pool, r.c.InRound)
				if err != nil {
					return err
				}
				seconds := time.Since(start).Seconds()
				rows[k].Seconds += seconds
				rates[k] = float64(len(took)) / seconds
				addCPU(&cpu[k], before, ownUsage())
				samples[k] = append(samples[k], took...)
			}
			ratios = append(ratios, rates[1]/rates[0])
		}
		for k := range rows {
			rows[k].rated(samples[k])
			if cpu[k] != nil {
				rows[k].figure("CPU per 1,000", *cpu[k]*1e6/float64(len(samples[k])), "ms")
			}
		}
		rows[0].figure("object", objectBytes(pool), "bytes")
		// The median: what disturbs a single round decides nothing.
		slices.Sort(ratios)
		rows[1].figure("rate to raw PUT", ratios[len(ratios)/2], "×")
		return nil
	}
}

// crowd stores n payloads, each writer one at a time, and returns what each took. At
// least one is stored by every writer.
func crowd(ctx context.Context, writers []logSide, pool []payload, n int) ([]time.Duration, error) {
	samples := make([][]time.Duration, len(writers))
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for i, w := range writers {
		g.Go(func() error {
			for first := true; ; first = false {
				k := next.Add(1)
				if k > int64(n) && !first {
					return nil
				}
				took, err := w.timed(ctx, pool[int(k)%len(pool)])
				if err != nil {
					return err
				}
				samples[i] = append(samples[i], took)
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var all []time.Duration
	for _, s := range samples {
		all = append(all, s...)
	}
	return all, nil
}

// ownUsage is what this process has used; nil is not known.
func ownUsage() *usage {
	u, err := usageOf(os.Getpid())
	if err != nil {
		return nil
	}
	return &u
}
