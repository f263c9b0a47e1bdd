package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

const (
	// Environment variables of nodes that hold the keys of their bucket.
	accessKeyEnv, secretKeyEnv = "PARLEY_BENCH_ACCESS_KEY", "PARLEY_BENCH_SECRET_KEY"
	// probeEvery is the period of the load balancer's readiness checks.
	probeEvery = 250 * time.Millisecond
)

// member is the part of the configuration that differs between nodes.
type member struct {
	weight           int
	strict, profiled bool
}

func equal(n int) []member { return slices.Repeat([]member{{weight: 1}}, n) }

// ownerPlace, otherPlace and strictPlace are the places of a cluster in which one node owns every
// conversation, because the others have no weight.
const ownerPlace, otherPlace, strictPlace = 0, 1, 2

func oneOwner(profiled bool) []member {
	return []member{ownerPlace: {weight: 1, profiled: profiled}, otherPlace: {}, strictPlace: {strict: true}}
}

// incarnation is one run of a node, from start to end.
type incarnation struct {
	*child
	place int
	ready atomic.Bool
}

// cluster holds the nodes of a scenario by place. One goroutine starts and ends places; all other
// methods are safe for concurrent use.
type cluster struct {
	*job
	bucket  config.Bucket
	logs    *storage.Logs
	members []member
	nodes   []atomic.Pointer[incarnation]
	turn    atomic.Int64
	// killing: attempts are consumed on purpose, so they are not reported.
	killing bool
}

// within runs a scenario on a cluster, of which it starts the first places, and ends the cluster.
func within(members []member, started int, run func(context.Context, *cluster) error) func(context.Context, *job) error {
	return func(ctx context.Context, j *job) (err error) {
		c := &cluster{job: j, members: members, nodes: make([]atomic.Pointer[incarnation], len(members))}
		if _, err := c.modelURL(ctx); err != nil {
			return err
		}
		if c.bucket, err = c.shared(ctx); err != nil {
			return err
		}
		c.bucket.Prefix = path.Join(c.bucket.Prefix, c.Name)
		bucket, err := c.bucket.Open()
		if err != nil {
			return err
		}
		c.logs = storage.NewLogs(bucket, nil)
		defer func() { err = errors.Join(err, c.end()) }()
		// One node first: its error explains an unusable bucket.
		if err := c.begin(ctx, 0); err != nil {
			return err
		}
		g, starting := errgroup.WithContext(ctx)
		for place := 1; place < started; place++ {
			g.Go(func() error { return c.begin(starting, place) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if err := c.acquainted(ctx); err != nil {
			return err
		}
		watching, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { c.watch(watching) })
		defer wg.Wait()
		defer stop()
		return run(ctx, c)
	}
}

// shared returns the bucket of the nodes, and starts its server on first use.
func (r *runner) shared(ctx context.Context) (config.Bucket, error) {
	if r.o.Bucket != nil {
		return *r.o.Bucket, nil
	}
	if err := r.command(ctx, &r.store, BucketCommand, "--dir", filepath.Join(r.dir, "bucket")); err != nil {
		return config.Bucket{}, err
	}
	return bucketAt(r.store.at)
}

// bucketAt parses the URL that a bucket process prints: http://host:port/name.
func bucketAt(at *url.URL) (config.Bucket, error) {
	b := config.Bucket{Endpoint: at.Host, Name: strings.TrimPrefix(at.Path, "/")}
	if at.Scheme != "http" || b.Endpoint == "" || b.Name == "" || strings.Contains(b.Name, "/") {
		return b, fmt.Errorf("parse bucket URL %.200q", at)
	}
	return b, nil
}

// begin starts the node of a place and waits until it is ready.
func (c *cluster) begin(ctx context.Context, place int) error {
	m, b := c.members[place], c.bucket
	bucket := map[string]any{"endpoint": b.Endpoint, "name": b.Name, "prefix": b.Prefix, "secure": b.Secure}
	if b.Region != "" {
		bucket["region"] = b.Region
	}
	s := spec{kind: "node", name: fmt.Sprintf("%s-%d", c.Name, place), observed: true, profiled: m.profiled}
	peers := map[string]any{"listen": "127.0.0.1:0", "weight": m.weight}
	if c.o.few() { // A busy machine must not make a node look crashed.
		peers["suspect"], peers["fence"] = "10s", "5s"
	}
	s.sections = map[string]any{"bucket": bucket, "strictReads": m.strict, "cluster": peers}
	s.command.Args = []string{"--insecure-cluster"}
	if b.AccessKey != "" {
		bucket["accessKeyEnv"], bucket["secretKeyEnv"] = accessKeyEnv, secretKeyEnv
		s.command.Env = []string{accessKeyEnv + "=" + b.AccessKey, secretKeyEnv + "=" + b.SecretKey}
	}
	if c.o.Logs != "" {
		s.command.Log, s.command.Append = filepath.Join(c.o.Logs, s.name+".log"), true
	}
	child, err := c.node(ctx, s)
	if err != nil {
		return err
	}
	l := &incarnation{child: child, place: place}
	c.nodes[place].Store(l)
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("node %d not ready in time", place))
	defer cancel()
	for !l.probe(ctx) {
		if l.HasEnded() {
			return fmt.Errorf("node %d ended: %s", place, tail(l.Process))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %s", err, tail(l.Process))
		}
	}
	return nil
}

func (l *incarnation) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 4*probeEvery)
	defer cancel()
	_, err := l.page(ctx, "/readyz")
	l.ready.Store(err == nil)
	return err == nil
}

func (c *cluster) running() (all []*incarnation) {
	for i := range c.nodes {
		if l := c.nodes[i].Load(); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// acquainted waits until every node knows all members: a new node is ready a moment before the others
// know of it.
func (c *cluster) acquainted(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("nodes did not find each other in time"))
	defer cancel()
	running := c.running()
	for _, l := range running {
		for {
			text, err := l.page(ctx, "/metrics")
			if err == nil && bytes.Contains(text, fmt.Appendf(nil, "\nparley_members %d\n", len(running))) {
				break
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// watch is the readiness loop of the load balancer.
func (c *cluster) watch(ctx context.Context) {
	for pause(ctx, probeEvery) == nil {
		var wg sync.WaitGroup
		for _, l := range c.running() {
			wg.Go(func() { l.probe(ctx) })
		}
		wg.Wait()
	}
}

// pick returns the next ready node other than but, nil if there is none.
func (c *cluster) pick(but *incarnation) *incarnation {
	first := int(c.turn.Add(1))
	for i := range c.nodes {
		l := c.nodes[(first+i)%len(c.nodes)].Load()
		if l != nil && l != but && l.ready.Load() {
			return l
		}
	}
	return nil
}

// next returns any ready node and waits for one: a busy machine may report readiness late.
func (c *cluster) next(ctx context.Context) (*incarnation, error) {
	for {
		if l := c.pick(nil); l != nil {
			return l, nil
		}
		if err := pause(ctx, probeEvery); err != nil {
			return nil, fmt.Errorf("no node is ready: %w", err)
		}
	}
}

func (c *cluster) place(place int) *incarnation { return c.nodes[place].Load() }

// kill ends a node by SIGKILL and returns the time.
func (c *cluster) kill(place int) time.Time {
	l := c.nodes[place].Swap(nil)
	l.Kill()
	ended := time.Now()
	l.close()
	return ended
}

// leave ends a node by SIGTERM and returns the duration of the shutdown. The load balancer is not
// notified.
func (c *cluster) leave(place int) (time.Duration, error) {
	took, err := clocked(c.place(place).end)
	c.nodes[place].Store(nil)
	if err != nil {
		err = fmt.Errorf("node %d: %w", place, err)
	}
	return took, err
}

func (c *cluster) end() error {
	g := &errgroup.Group{}
	for _, l := range c.running() {
		g.Go(func() error {
			_, err := c.leave(l.place)
			return err
		})
	}
	return g.Wait()
}

// steadyTime is the pause before, between and after changes of the members.
var steadyTime = amount[time.Duration]{5 * time.Second, 2 * time.Second}

func leave(ctx context.Context, c *cluster) error {
	return c.loaded(ctx, func(steady func() error) error {
		took, err := clocked(func() error { return c.begin(ctx, 2) })
		if err != nil {
			return err
		}
		c.metric("join", took.Seconds(), "s")
		if err := steady(); err != nil {
			return err
		}
		took, err = c.leave(0)
		c.metric("leave", took.Seconds(), "s")
		return err
	})
}

func rolling(ctx context.Context, c *cluster) error {
	return c.loaded(ctx, func(steady func() error) error {
		var longest time.Duration
		for place := range c.nodes {
			if place > 0 {
				if err := steady(); err != nil {
					return err
				}
			}
			took, err := c.leave(place)
			if err != nil {
				return err
			}
			longest = max(longest, took)
			if err := c.begin(ctx, place); err != nil {
				return err
			}
		}
		c.metric("longest leave", longest.Seconds(), "s")
		return nil
	})
}

// idleMember measures the memory of a member that owns everything, at its start and after many
// conversations.
func idleMember(ctx context.Context, c *cluster) error {
	grown, _, err := c.weigh(ctx, c.place(ownerPlace).child, amount[time.Duration]{35 * time.Second, 2 * time.Second})
	if err != nil {
		return err
	}
	c.metric("at start", float64(c.Memory.RSS-grown.RSS)/1e6, "MB")
	c.metric("above it", float64(grown.RSS)/1e6, "MB")
	c.metric("anonymous above it", float64(grown.Anonymous)/1e6, "MB")
	return nil
}
