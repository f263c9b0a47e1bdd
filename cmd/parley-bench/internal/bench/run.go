package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/internal/proc"
)

// Causes of an end by time; the report has them in place of figures.
var (
	errTime = errors.New("the time of the run is over")
	errSlow = errors.New("the time of the scenario is over")
)

// Run measures. Its errors are wrong options, no place for the data, and children
// that do not end; a scenario that fails is reported, and so are all that ctx or
// the bound on time leave out.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.valid(); err != nil {
		return nil, err
	}
	r, end, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	r.c = countsOf(o.Quick, o.Percent)
	if o.Against != "" {
		// The server keeps what earlier runs have left there.
		r.prefix = fmt.Sprintf("bench-%d-", time.Now().UnixNano())
	} else {
		r.prefix = "bench-"
	}
	if r.at, err = newTarget(o.Against, o.Token); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, r.c.Run, errTime)
	defer cancel()
	report := &Report{Machine: thisMachine(), Version: o.Version, Against: o.Against, ClickHouse: o.ClickHouse, Quick: o.Quick}
	for _, s := range scenarios() {
		if r.wants(s) {
			report.Scenarios = append(report.Scenarios, r.run(ctx, s))
		}
	}
	return report, nil
}

// runner is the state of a run. What it starts is started when it is first needed.
type runner struct {
	o      Options
	c      counts
	dir    string
	prefix string // Of every conversation.

	reaper   *proc.Reaper
	children atomic.Int64 // That were started.
	model    *child
	server   *child // Nil as long as there is none, and for a foreign one.
	at       *target
	control  *http.Client // For the model's own routes.

	rawPut float64 // p50 in milliseconds; 0 if it was not measured.
	pool   []string
	long   *long
}

// newRunner makes a folder for the data below that of the options. The function that it
// returns removes the folder, after the processes that still run.
func newRunner(o Options) (_ *runner, end func() error, err error) {
	dir, err := os.MkdirTemp(o.Dir, "parley-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for the data: %w", err)
	}
	reaper, err := proc.StartReaper()
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() error { return errors.Join(reaper.Close(), os.RemoveAll(dir)) }
	return &runner{o: o, dir: dir, reaper: reaper, control: newClient()}, end, nil
}

// wants reports whether a scenario can be run and is asked for.
func (r *runner) wants(s scenario) bool {
	if r.o.Against != "" && (s.needs == ownServer || s.needs == ownModel && r.o.Model == "") {
		return false
	}
	return len(r.o.Only) == 0 || slices.Contains(r.o.Only, s.name) || s.always
}

func (r *runner) run(ctx context.Context, s scenario) Scenario {
	out := Scenario{Name: s.name, What: s.what, Target: s.target}
	if r.o.Progress != nil {
		fmt.Fprintf(r.o.Progress, "%s: %s\n", s.name, s.what) // Nobody depends on it.
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.c.Scenario, errSlow)
	defer cancel()
	err := context.Cause(ctx)
	if err == nil {
		err = s.run(ctx, r, &out)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Scenario{Name: s.name, What: s.what, Target: s.target, Error: err.Error()}
	}
	if u := r.server.known(); u != nil && out.Memory == nil {
		out.Memory = &u.memory
	}
	if s.ratio && r.rawPut > 0 && out.Latency != nil {
		out.ToRawPut = out.Latency.P50 / r.rawPut
	}
	return out
}

// close ends what was started. A server that was killed is gone already.
func (r *runner) close() error {
	var errs []error
	for _, c := range []*child{r.server, r.model} {
		if c != nil {
			errs = append(errs, c.end())
		}
	}
	r.at.close()
	r.control.CloseIdleConnections()
	return errors.Join(errs...)
}

// modelURL starts the model if there is none.
func (r *runner) modelURL(ctx context.Context) (string, error) {
	if r.o.Against != "" {
		return strings.TrimRight(r.o.Model, "/"), nil
	}
	if r.model == nil {
		c, err := r.start(ctx, "model", proc.Command{Args: []string{r.o.Self, ModelCommand, "--listen", "127.0.0.1:0"}})
		if err != nil {
			return "", err
		}
		r.model = c
	}
	return r.model.url, nil
}

// fresh starts a server over a folder below dir. Only where it is asked for its profiles
// it has an admin listener, so that older programs can be measured in all else.
func (r *runner) fresh(ctx context.Context, folder string, profiled bool) (*child, error) {
	model, err := r.modelURL(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, folder+".yaml")
	sections := map[string]any{"bucket": map[string]any{"dir": filepath.Join(r.dir, folder)}}
	if r.o.ClickHouse != "" {
		sections["events"] = map[string]any{"clickhouse": map[string]any{"addresses": []string{r.o.ClickHouse}, "database": "parley_bench"}}
	}
	admin := ""
	if profiled {
		free, err := proc.FreeAddresses("127.0.0.1", 1)
		if err != nil {
			return nil, err
		}
		admin = free[0]
		sections["admin"] = observed(admin, true)
	}
	if err := writeConf(file, model, sections); err != nil {
		return nil, err
	}
	c, err := r.start(ctx, "server", proc.Command{Args: []string{r.o.Program, "serve", "--quiet", "--config", file}})
	if err == nil {
		c.admin = admin
	}
	return c, err
}

// agentName is the agent of the run's own servers.
const agentName = "bench"

// writeConf writes the configuration of a server: sections, and the agent with its
// model.
func writeConf(file, model string, sections map[string]any) error {
	all := map[string]any{
		"listen": "127.0.0.1:0",
		"providers": map[string]any{"bench": map[string]any{
			"api": "openai-completions", "baseUrl": model + "/v1", "contextWindow": 1_000_000_000, "maxTokens": 1_000_000,
		}},
		"agents": map[string]any{agentName: map[string]any{"mounts": []string{"/agents/" + agentName}, "model": "bench/fake"}},
	}
	maps.Copy(all, sections)
	// JSON is yaml, with every name quoted as it has to be.
	conf, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, conf, 0o600)
}

// serve makes sure that there is a server to measure.
func (r *runner) serve(ctx context.Context) error {
	if r.o.Against != "" || r.server != nil {
		return nil
	}
	c, err := r.fresh(ctx, "main", r.o.Profiles != "")
	if err != nil {
		return err
	}
	r.server = c
	return r.at.move(c.url)
}

// loop runs op n times, some of them at once, and returns what it says each took,
// in order. Loops that exceed their time stop early.
func (r *runner) loop(ctx context.Context, inFlight, n int, op func(ctx context.Context, i int) (time.Duration, error)) ([]time.Duration, error) {
	return r.bounded(ctx, r.c.Loop, inFlight, n, op)
}

func (r *runner) bounded(ctx context.Context, bound time.Duration, inFlight, n int, op func(ctx context.Context, i int) (time.Duration, error)) ([]time.Duration, error) {
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
	// Every number that was given out was also carried out.
	done := min(int(next.Load()), n)
	if done == 0 {
		return nil, errors.New("there was no time for a single operation")
	}
	return samples[:done], nil
}

// timed is loop with what it costs.
func (r *runner) timed(ctx context.Context, out *Scenario, inFlight, n int, op func(ctx context.Context, i int) (time.Duration, error)) (samples []time.Duration, err error) {
	err = r.costs(ctx, out, func() error {
		samples, err = r.loop(ctx, inFlight, n, op)
		return err
	})
	return samples, err
}

// costs adds the time of what run does, and the processor time of all processes, to
// a scenario, and sets the server's memory after it. Without a scenario it only
// runs.
func (r *runner) costs(ctx context.Context, out *Scenario, run func() error) (failed error) {
	if out == nil {
		return run()
	}
	if r.o.Profiles != "" && r.server != nil {
		end, err := r.server.profile(ctx, filepath.Join(r.o.Profiles, out.Name))
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, end(context.WithoutCancel(ctx))) }()
	}
	before := r.usages()
	start := time.Now()
	if err := run(); err != nil {
		return err
	}
	out.Seconds += time.Since(start).Seconds()
	after := r.usages()
	addCPU(&out.ServerCPU, before.server, after.server)
	addCPU(&out.ModelCPU, before.model, after.model)
	addCPU(&out.GeneratorCPU, before.generator, after.generator)
	if after.server != nil {
		out.Memory = &after.server.memory
	}
	return nil
}

// usages are what the three processes have used; nil is not known.
type usages struct{ server, model, generator *usage }

func (r *runner) usages() usages {
	u := usages{server: r.server.known(), model: r.model.known()}
	if own, err := usageOf(os.Getpid()); err == nil {
		u.generator = &own
	}
	return u
}

// addCPU adds the processor time between two looks, in seconds, if both are known.
func addCPU(sum **float64, before, after *usage) {
	if before == nil || after == nil {
		return
	}
	if *sum == nil {
		*sum = new(float64)
	}
	**sum += (after.cpu - before.cpu).Seconds()
}

// take fills in a distribution without a rate: that of operations with waits in
// between would say nothing.
func (s *Scenario) take(samples []time.Duration) {
	s.Samples = len(samples)
	s.Latency = new(NewLatency(samples))
}

// rated is take with the rate of operations that follow one another.
func (s *Scenario) rated(samples []time.Duration) {
	s.take(samples)
	if s.Seconds > 0 {
		s.PerSecond = float64(len(samples)) / s.Seconds
	}
}

// ask calls a route of the model itself.
func (r *runner) ask(ctx context.Context, method, path string, body []byte, status int) ([]byte, error) {
	at, err := r.modelURL(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, at+path, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	resp, err := r.control.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the model: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("the model answered %s %s with %d: %.200s", method, path, resp.StatusCode, b)
	}
	return b, err
}

// release opens a gate of the model.
func (r *runner) release(ctx context.Context, gate string) error {
	_, err := r.ask(ctx, http.MethodPost, "/release/"+gate, nil, http.StatusNoContent)
	return err
}
