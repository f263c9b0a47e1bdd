package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/proc"
)

// ClusterOptions say what RunCluster measures. Program and Self are required.
type ClusterOptions struct {
	// Program is the parley program whose nodes are measured, as "parley serve". Self is
	// the program that has ModelCommand and BucketCommand.
	Program, Self string
	// Bucket is what the nodes share, at an endpoint; nil is the embedded bucket over a
	// folder, served over HTTP by a process of its own. What is below its prefix is the
	// run's own, and is deleted. Nodes get its keys by their environment.
	Bucket *config.Bucket
	// Place names the Bucket in the report.
	Place string
	// Dir is the folder below which a folder of the run's own is used and then
	// removed; "" is the system's temporary folder.
	Dir string
	// Logs is an existing folder for what the nodes log; "" keeps nothing of it.
	Logs string
	// Quick takes small counts.
	Quick bool
	// Percent of the counts are put on as load, 1 to 100; 0 is 100.
	Percent int
	// Only names the scenarios to run, in any order; empty is all of them.
	Only []string
	// Version is put into the report.
	Version string
	// Progress is told what begins, and what requests have failed; nil is nobody.
	Progress io.Writer
}

// valid checks what can be wrong before anything starts.
func (o *ClusterOptions) valid() error {
	if o.Percent < 0 || o.Percent > 100 {
		return fmt.Errorf("%d percent of the counts are not 1 to 100", o.Percent)
	}
	for _, name := range o.Only {
		if names := ClusterNames(); !slices.Contains(names, name) {
			return fmt.Errorf("no scenario of a cluster is named %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	if o.Logs == "" {
		return nil
	}
	if f, err := os.Stat(o.Logs); err != nil {
		return fmt.Errorf("find the folder for logs: %w", err)
	} else if !f.IsDir() {
		return fmt.Errorf("%s, for logs, is no folder", o.Logs)
	}
	return nil
}

// clusterCounts say how much load RunCluster puts on.
type clusterCounts struct {
	// Rounds are kills, Turns the streaming turns under way at each, Beside the
	// requests per second meanwhile.
	Rounds, Turns, Beside int
	// Rate is the requests per second over changes of the members, Conversations what
	// they go to, Steady how long nothing changes before, between and after.
	Rate, Conversations int
	Steady              time.Duration
	// Admissions are those of each way.
	Admissions int
	// Readers are event streams at each of two nodes, Replies what they hear, each of
	// so many Words.
	Readers, Replies, Words int
	// Idle is the number of conversations at rest.
	Idle int
	// Reads are snapshots of each kind.
	Reads int
}

func clusterCountsOf(quick bool, percent int) (clusterCounts, counts) {
	c := clusterCounts{
		Rounds: 8, Turns: 60, Beside: 20, Rate: 200, Conversations: 200, Steady: 5 * time.Second,
		Admissions: 500, Readers: 200, Replies: 2, Words: 240, Idle: 10_000, Reads: 200,
	}
	bounds := counts{
		Warmup: 20, Rest: 35 * time.Second, Loop: 90 * time.Second, Long: 3 * time.Minute,
		Scenario: 6 * time.Minute, Run: 20 * time.Minute,
	}
	if quick {
		c = clusterCounts{
			Rounds: 2, Turns: 30, Beside: 10, Rate: 100, Conversations: 50, Steady: 2 * time.Second,
			Admissions: 100, Readers: 50, Replies: 1, Words: 240, Idle: 500, Reads: 50,
		}
		bounds.Rest, bounds.Loop, bounds.Warmup = 2*time.Second, 20*time.Second, 5
	}
	if percent > 0 && percent < 100 {
		for _, n := range []*int{
			&c.Rounds, &c.Turns, &c.Beside, &c.Rate, &c.Conversations, &c.Admissions, &c.Readers, &c.Replies, &c.Words, &c.Idle, &c.Reads, &bounds.Warmup,
		} {
			*n = max(1, *n*percent/100)
		}
		for _, d := range []*time.Duration{&c.Steady, &bounds.Rest} {
			*d = *d * time.Duration(percent) / 100
		}
	}
	return c, bounds
}

// clusterScenarios lists them in the order they run.
func clusterScenarios(c *clusterRun) []scenario {
	of := func(run func(*clusterRun, context.Context, *Scenario) error) func(context.Context, *runner, *Scenario) error {
		return func(ctx context.Context, _ *runner, out *Scenario) error { return run(c, ctx, out) }
	}
	return []scenario{
		{name: "cluster-failover", what: "from kill -9 of one of three nodes to the first new batch of each turn it ran, at an SSE reader of another node; requests to the living nodes beside",
			target: "p50 ≤ 3,000 ms, max ≤ 6,000 ms, failed 0", run: of((*clusterRun).failover)},
		{name: "cluster-leave", what: "requests at a fixed rate to the ready nodes, from when each was due, while a node joins and another one leaves by SIGTERM",
			target: "200/s: failed 0, attempts consumed 0", run: of((*clusterRun).leave)},
		{name: "cluster-rolling", what: "the same while every node is stopped by SIGTERM and started again in turn",
			target: "failed 0, lost 0, attempts consumed 0", run: of((*clusterRun).rolling)},
		{name: "cluster-admission", what: "POST to a conversation at rest through a node that does not own it, in turn with the same through its owner, 1 in flight",
			target: "p50 ≤ 1.3 × through the owner", run: of((*clusterRun).admission)},
		{name: "cluster-readers", what: "a batch at SSE readers of another node, behind the median of as many readers at the owner",
			target: "p50 ≤ 2 ms", run: of((*clusterRun).readers)},
		{name: "cluster-heads", what: "snapshot of an idle and of a streaming conversation, 1 in flight, at the owner, at another node, and there with strict reads: p50 of each",
			run: of((*clusterRun).heads)},
		{name: "cluster-idle", what: "memory of a node whose conversations have come to rest, above that at its start",
			target: "10,000 conversations: ≤ 40 MB", run: of((*clusterRun).idle)},
	}
}

// ClusterNames returns the names of all scenarios of a cluster, in the order they run.
func ClusterNames() []string {
	var names []string
	for _, s := range clusterScenarios(nil) {
		names = append(names, s.name)
	}
	return names
}

// RunCluster measures clusters of this program's nodes on 127.0.0.1, each scenario one
// of its own below a prefix of its own in the bucket. Its errors are those of Run, and
// a bucket that cannot be emptied.
func RunCluster(ctx context.Context, o ClusterOptions) (_ *Report, err error) {
	if err := o.valid(); err != nil {
		return nil, err
	}
	r, end, err := newRunner(Options{Self: o.Self, Dir: o.Dir, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	r.at = &target{streams: newClient()}
	c := &clusterRun{o: o, runner: r}
	c.n, c.c = clusterCountsOf(o.Quick, o.Percent)
	defer func() { err = errors.Join(err, c.close()) }()
	report := &Report{Machine: thisMachine(), Version: o.Version, Quick: o.Quick}
	if o.Bucket != nil {
		report.Bucket = o.Place
		defer func() { err = errors.Join(err, c.empty(context.WithoutCancel(ctx))) }()
	} else {
		report.Bucket = "the embedded bucket over a folder, served over HTTP on 127.0.0.1"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.c.Run, errTime)
	defer cancel()
	for _, s := range clusterScenarios(c) {
		if len(o.Only) == 0 || slices.Contains(o.Only, s.name) {
			report.Scenarios = append(report.Scenarios, c.run(ctx, s))
		}
	}
	return report, nil
}

// clusterRun is the state of a run of RunCluster.
type clusterRun struct {
	*runner
	o     ClusterOptions
	n     clusterCounts
	store *child // Serves the bucket; nil as long as there is none, and for one of others.
}

// close ends what was started, the bucket last.
func (c *clusterRun) close() error {
	err := c.runner.close()
	if c.store != nil {
		err = errors.Join(err, c.store.end())
	}
	return err
}

// endpoint returns where the nodes find their bucket, and starts it if there is none.
func (c *clusterRun) endpoint(ctx context.Context) (config.Bucket, error) {
	if c.o.Bucket != nil {
		return *c.o.Bucket, nil
	}
	if c.store == nil {
		store, err := c.start(ctx, "bucket", proc.Command{Args: []string{c.o.Self, BucketCommand, "--dir", filepath.Join(c.dir, "bucket")}})
		if err != nil {
			return config.Bucket{}, err
		}
		c.store = store
	}
	at, name, err := parseBucketURL(c.store.url)
	return config.Bucket{Endpoint: at, Name: name}, err
}

// parseBucketURL reads what the process of a bucket prints: http://host:port/name.
func parseBucketURL(s string) (address, name string, err error) {
	rest, ok := strings.CutPrefix(s, "http://")
	address, name, found := strings.Cut(rest, "/")
	if !ok || !found || address == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("the bucket says it is at %.200q", s)
	}
	return address, name, nil
}

// below is a bucket below one more prefix.
func below(b config.Bucket, prefix string) config.Bucket {
	b.Prefix = path.Join(b.Prefix, prefix)
	return b
}

// empty deletes what the run has written into a bucket of others. The nodes have ended.
func (c *clusterRun) empty(ctx context.Context) error {
	bucket, err := c.o.Bucket.Open()
	if err != nil {
		return err
	}
	return removeBelow(ctx, bucket, "")
}

// note tells about something that figures alone do not explain.
func (c *clusterRun) note(format string, args ...any) {
	if c.o.Progress != nil {
		fmt.Fprintf(c.o.Progress, format+"\n", args...) // Nobody depends on it.
	}
}
