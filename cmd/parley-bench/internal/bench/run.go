package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/storage"
)

// Reasons of a timeout; the report has them in place of metrics.
var (
	errTime = errors.New("time limit of the run exceeded")
	errSlow = errors.New("time limit of the scenario exceeded")
)

// Run measures a suite. It returns an error for wrong options, missing space for the data, children
// that do not end, and data in a bucket that cannot be removed. A failed scenario is part of the
// report, and so are scenarios that ctx or the time limit prevent.
func Run(ctx context.Context, s *Suite, o Options) (_ *Report, err error) {
	if err := o.valid(s); err != nil {
		return nil, err
	}
	r := &runner{o: o, limits: s.boundsOf(&o), control: newClient(), prefix: "bench-"}
	if o.Progress == nil {
		r.o.Progress = io.Discard
	}
	// External servers and buckets keep the data of earlier runs.
	name := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	if o.Bucket != nil {
		r.o.Bucket = new(*o.Bucket)
		r.o.Bucket.Prefix = path.Join(o.Bucket.Prefix, name)
	}
	if o.Against != "" {
		r.prefix = name + "-"
		if r.at, err = newTarget(o.Against, o.Token); err != nil {
			return nil, err
		}
	}
	if r.dir, err = os.MkdirTemp(o.Dir, "parley-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if r.reaper, err = proc.StartReaper(); err != nil {
		return nil, err
	}
	// Clean up after Ctrl-C, too.
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	report := &Report{Machine: thisMachine(), Version: o.Version, Against: o.Against, ClickHouse: o.ClickHouse, Quick: o.Quick, Bucket: s.bucket}
	if o.Bucket != nil {
		report.Bucket = o.Bucket.Place()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.run, errTime)
	defer cancel()
	for _, s := range s.scenarios {
		if r.wants(s) {
			report.Scenarios = append(report.Scenarios, r.run(ctx, s)...)
		}
	}
	return report, nil
}

// runner is the state of a run. It starts processes on first use.
type runner struct {
	o      Options
	limits bounds
	dir    string
	prefix string // prefix of the id of every conversation

	reaper  *proc.Reaper
	model   *child
	server  *child       // nil before its start, and for a foreign server
	store   *child       // serves the bucket of a cluster; nil before its start, and for an external bucket
	at      *target      // of the server
	control *http.Client // for requests that are not timed

	rawPut float64 // p50 in milliseconds; 0 if it was not measured.
	pool   []string
	long   *long
}

// wants reports whether a scenario can run and is selected.
func (r *runner) wants(s scenario) bool {
	if r.o.Against != "" && (s.ownServer || s.ownModel && r.o.Model == "") {
		return false
	}
	return len(r.o.Only) == 0 || slices.Contains(r.o.Only, s.name) || s.always
}

// close ends all children, the bucket last, and deletes the objects written into an external bucket. A
// killed server has ended already.
func (r *runner) close(ctx context.Context) (err error) {
	err = errors.Join(r.server.end(), r.model.end(), r.store.end(), r.reaper.Close())
	if r.at != nil {
		r.at.close()
	}
	r.control.CloseIdleConnections()
	if r.o.Bucket == nil {
		return err
	}
	bucket, failed := r.o.Bucket.Open()
	if failed == nil {
		failed = empty(ctx, bucket)
	}
	return errors.Join(err, failed)
}

// Bounds of the deletion of objects.
const (
	removeTimeout = 2 * time.Minute
	removeAtOnce  = 16
)

// empty deletes all objects of a bucket below its prefix.
func empty(ctx context.Context, bucket storage.Bucket) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(removeAtOnce)
	page, q := storage.ListPage{More: true}, storage.ListQuery{}
	for page.More {
		var err error
		if page, err = bucket.List(ctx, q); err != nil {
			return errors.Join(fmt.Errorf("delete written objects: %w", err), g.Wait())
		}
		for _, k := range page.Keys {
			g.Go(func() error { return bucket.Delete(ctx, k.Key) })
			q.After = k.Key
		}
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("delete written objects: %w", err)
	}
	return nil
}

// job is a running scenario, and its row in the report.
type job struct {
	*runner
	*Scenario
	raw *Scenario // the row of the raw PUTs; its own row if there is none
	n   int       // number of operations, or of its other unit
	ids []string  // warm conversations
}

// id returns the warm conversations in turn.
func (j *job) id(i int) string { return j.ids[i%len(j.ids)] }

// run runs a scenario. An error is in its rows in place of metrics.
func (r *runner) run(ctx context.Context, s scenario) []Scenario {
	rows := s.rows()
	for _, row := range rows {
		fmt.Fprintf(r.o.Progress, "%s: %s\n", row.Name, row.Description) // Progress is best effort.
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.scenario, errSlow)
	defer cancel()
	j := &job{runner: r, Scenario: &rows[len(rows)-1], raw: &rows[0], n: s.n.of(&r.o)}
	err := context.Cause(ctx)
	if err == nil && s.warm.full > 0 {
		j.ids, err = r.warm(ctx, s.warm.of(&r.o))
	}
	if err == nil && s.long {
		err = r.grow(ctx)
	}
	if err == nil {
		err = s.run(ctx, j)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		rows = s.rows()
		for i := range rows {
			rows[i].Error = err.Error()
		}
		return rows
	}
	if j.Memory == nil {
		j.Memory = r.server.memory()
	}
	for i := range rows {
		if row := &rows[i]; s.rate && row.Seconds > 0 {
			row.PerSecond = float64(row.Samples) / row.Seconds
		}
	}
	if s.ratio && r.rawPut > 0 && j.Latency != nil {
		j.ToRawPut = j.Latency.P50 / r.rawPut
	}
	return rows
}

// operation runs the i-th operation of a loop and returns its duration.
type operation func(ctx context.Context, i int) (time.Duration, error)

// loop runs op n times, inFlight of them concurrently, and returns the durations in order. A loop that
// exceeds its bound stops early; it is an error if no operation has ended by then.
func loop(ctx context.Context, bound time.Duration, inFlight, n int, op operation) ([]time.Duration, error) {
	end := time.Now().Add(bound)
	samples := make([]time.Duration, n)
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range inFlight {
		g.Go(func() error {
			for time.Now().Before(end) {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				took, err := op(ctx, i)
				if err != nil {
					return err
				}
				samples[i] = took
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// Every index handed out was also run.
	done := min(int(next.Load()), n)
	if done == 0 && n > 0 {
		return nil, errors.New("no operation ended within the time limit")
	}
	return samples[:done], nil
}

func (j *job) timed(ctx context.Context, bound time.Duration, inFlight int, op operation) error {
	samples, err := loop(ctx, bound, inFlight, j.n, op)
	if err == nil {
		j.take(samples)
	}
	return err
}

// measure times n operations with their costs, after warmUps unmeasured ones that precede them in the
// numbering.
func (j *job) measure(ctx context.Context, inFlight, warmUps int, op operation) error {
	if _, err := loop(ctx, j.limits.loop, inFlight, warmUps, op); err != nil {
		return err
	}
	return j.costs(ctx, func() error {
		return j.timed(ctx, j.limits.loop, inFlight, func(ctx context.Context, i int) (time.Duration, error) { return op(ctx, warmUps+i) })
	})
}

// costs adds the duration of run and the processor time of all processes to the scenario, and sets the
// server's memory after it.
func (j *job) costs(ctx context.Context, run func() error) (failed error) {
	if j.o.Profiles != "" && j.server != nil {
		end, err := j.server.profile(ctx, filepath.Join(j.o.Profiles, j.Name))
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, end(context.WithoutCancel(ctx))) }()
	}
	_, failed = j.metered(map[**float64]int{&j.ServerCPU: j.server.pid(), &j.ModelCPU: j.model.pid(), &j.GeneratorCPU: os.Getpid()}, run)
	j.Memory = j.server.memory()
	return failed
}

// pause sleeps, or returns the cause of the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func clocked(do func() error) (time.Duration, error) {
	start := time.Now()
	err := do()
	return time.Since(start), err
}
