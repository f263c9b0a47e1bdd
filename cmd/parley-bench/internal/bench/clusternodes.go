package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/storage"
)

const (
	// Variables in the environment of nodes that hold the keys of their bucket.
	accessKeyEnv, secretKeyEnv = "PARLEY_BENCH_ACCESS_KEY", "PARLEY_BENCH_SECRET_KEY"
	// probeEvery is how often the load balancer asks the nodes whether they are ready.
	probeEvery = 250 * time.Millisecond
)

// nodeSpec is what nodes of a cluster differ in.
type nodeSpec struct {
	weight   int
	strict   bool
	profiled bool
}

// life is a node from a start to its end.
type life struct {
	*child
	place int
	at    *target
	ready atomic.Bool
}

// nodes are a cluster: places, and who holds them. Places are started and ended by
// one goroutine; everything else is safe for concurrent use.
type nodes struct {
	c      *clusterRun
	name   string
	bucket config.Bucket
	logs   *storage.Logs
	specs  []nodeSpec
	lives  []atomic.Pointer[life]
	turn   atomic.Int64
	// killing says that attempts are consumed on purpose: they are not told.
	killing bool
}

// within runs a scenario on a cluster of its own, of which the first places are
// started, and ends it.
func (c *clusterRun) within(ctx context.Context, name string, specs []nodeSpec, started int, run func(ctx context.Context, n *nodes) error) (err error) {
	if _, err := c.modelURL(ctx); err != nil {
		return err
	}
	at, err := c.endpoint(ctx)
	if err != nil {
		return err
	}
	n := &nodes{c: c, name: name, bucket: below(at, name), specs: specs, lives: make([]atomic.Pointer[life], len(specs))}
	bucket, err := n.bucket.Open()
	if err != nil {
		return err
	}
	n.logs = storage.NewLogs(bucket, nil)
	defer func() { err = errors.Join(err, n.close()) }()
	// One first: it says why, if the bucket cannot be used.
	for i := range min(1, started) {
		if err := n.start(ctx, i); err != nil {
			return err
		}
	}
	g, starting := errgroup.WithContext(ctx)
	for i := 1; i < started; i++ {
		g.Go(func() error { return n.start(starting, i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := n.acquainted(ctx); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { n.watch(watching) })
	defer wg.Wait()
	defer stop()
	return run(ctx, n)
}

// equal returns so many nodes without a difference.
func equal(n int) []nodeSpec { return slices.Repeat([]nodeSpec{{weight: 1}}, n) }

// start starts the node of a place and waits until it is ready.
func (n *nodes) start(ctx context.Context, place int) error {
	free, err := proc.FreeAddresses("127.0.0.1", 1)
	if err != nil {
		return err
	}
	admin := free[0]
	spec := n.specs[place]
	bucket := map[string]any{"endpoint": n.bucket.Endpoint, "name": n.bucket.Name, "prefix": n.bucket.Prefix, "secure": n.bucket.Secure}
	if n.bucket.Region != "" {
		bucket["region"] = n.bucket.Region
	}
	var cmd proc.Command
	if n.bucket.AccessKey != "" {
		bucket["accessKeyEnv"], bucket["secretKeyEnv"] = accessKeyEnv, secretKeyEnv
		cmd.Env = []string{accessKeyEnv + "=" + n.bucket.AccessKey, secretKeyEnv + "=" + n.bucket.SecretKey}
	}
	file := filepath.Join(n.c.dir, fmt.Sprintf("%s-%d.yaml", n.name, place))
	model, err := n.c.modelURL(ctx)
	if err != nil {
		return err
	}
	err = writeConf(file, model, map[string]any{
		"bucket": bucket, "strictReads": spec.strict, "admin": observed(admin, spec.profiled),
		"cluster": map[string]any{"listen": "127.0.0.1:0", "weight": spec.weight},
	})
	if err != nil {
		return err
	}
	if n.c.o.Logs != "" {
		cmd.Log, cmd.Append = filepath.Join(n.c.o.Logs, fmt.Sprintf("%s-%d.log", n.name, place)), true
	}
	cmd.Args = []string{n.c.o.Program, "serve", "--quiet", "--insecure-cluster", "--config", file}
	child, err := n.c.runner.start(ctx, "node", cmd)
	if err != nil {
		return err
	}
	child.admin = admin
	l := &life{child: child, place: place}
	if l.at, err = newTarget(child.url, ""); err != nil {
		return errors.Join(err, child.end())
	}
	n.lives[place].Store(l)
	return n.await(ctx, l)
}

// observed is the section of an admin listener, which an older program does not know with
// profiles.
func observed(at string, profiled bool) map[string]any {
	section := map[string]any{"listen": at}
	if profiled {
		section["pprof"] = true
	}
	return section
}

// await waits until a node is ready.
func (n *nodes) await(ctx context.Context, l *life) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("node %d does not get ready", l.place))
	defer cancel()
	for {
		if n.probe(ctx, l); l.ready.Load() {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-l.Ended():
			return fmt.Errorf("node %d ended: %s", l.place, tail(l.Process))
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), tail(l.Process))
		}
	}
}

// probe asks a node whether it is ready.
func (n *nodes) probe(ctx context.Context, l *life) {
	status, _, err := n.ask(ctx, l, "/readyz")
	l.ready.Store(err == nil && status == http.StatusOK)
}

// acquainted waits until every node knows of as many members as there are nodes: one
// that has just joined is ready a moment before the others have heard of it.
func (n *nodes) acquainted(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the nodes do not get to know each other"))
	defer cancel()
	var running []*life
	for i := range n.lives {
		if l := n.lives[i].Load(); l != nil {
			running = append(running, l)
		}
	}
	want := fmt.Sprintf("\nparley_members %d\n", len(running))
	for _, l := range running {
		for {
			_, text, err := n.ask(ctx, l, "/metrics")
			if err == nil && strings.Contains(text, want) {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// ask asks a node's listener for health and metrics.
func (n *nodes) ask(ctx context.Context, l *life, path string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*probeEvery)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.admin+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := n.c.control.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, string(b), err
}

// watch is the load balancer's look at the nodes.
func (n *nodes) watch(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var wg sync.WaitGroup
		for i := range n.lives {
			if l := n.lives[i].Load(); l != nil {
				wg.Go(func() { n.probe(ctx, l) })
			}
		}
		wg.Wait()
	}
}

// pick returns the next ready node other than one, nil if there is none.
func (n *nodes) pick(but *life) *life {
	first := int(n.turn.Add(1))
	for i := range n.lives {
		l := n.lives[(first+i)%len(n.lives)].Load()
		if l != nil && l != but && l.ready.Load() {
			return l
		}
	}
	return nil
}

// at is the node of a place that runs.
func (n *nodes) at(place int) *target { return n.lives[place].Load().at }

// kill ends a node as a power cut would and returns when it did.
func (n *nodes) kill(place int) time.Time {
	l := n.lives[place].Swap(nil)
	l.Kill()
	ended := time.Now()
	l.at.close()
	return ended
}

// leave ends a node by SIGTERM and returns how long that took. The load balancer finds
// out by itself.
func (n *nodes) leave(place int) (time.Duration, error) {
	l := n.lives[place].Load()
	start := time.Now()
	err := l.end()
	n.lives[place].Store(nil)
	l.at.close()
	if err != nil {
		err = fmt.Errorf("node %d: %w", place, err)
	}
	return time.Since(start), err
}

// close ends all nodes.
func (n *nodes) close() error {
	g := &errgroup.Group{}
	for place := range n.lives {
		if n.lives[place].Load() != nil {
			g.Go(func() error {
				_, err := n.leave(place)
				return err
			})
		}
	}
	return g.Wait()
}

// firstLine is the beginning of a text, for a note.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
