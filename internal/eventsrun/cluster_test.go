package eventsrun_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
)

const (
	agentName = "worker"
	mount     = "/agents/worker"
	database  = "parley"
	// answerWithin bounds one answer. A held request is answered within 30 s.
	answerWithin = 45 * time.Second
	// maxOutput bounds what a failed run shows of a node's output, in bytes.
	maxOutput = 8 << 10
)

// cluster is nodes, and what they need.
type cluster struct {
	t       *testing.T
	dir     string
	program string
	env     []string
	common  string // Of the configuration of every node.
	bucket  storage.Bucket
	server  *clickhousetest.Server
	reaper  *proc.Reaper
	http    *noderun.Client

	mu    sync.Mutex
	nodes []*node // That run.
	all   []*node // Those that were killed included.
}

// node is one process.
type node struct {
	c                 *cluster
	number            int
	http, peers, home string // host:port; home is for health and metrics.
	process           *proc.Process
	member            string // Its incarnation. Set once it serves.
	memory            peak
}

func (n *node) String() string { return fmt.Sprintf("node %d", n.number) }

// url is where a conversation is at the node.
func (n *node) url(id string) string { return "http://" + n.http + mount + "/" + id }

// newCluster makes a cluster of which no node runs yet.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	// A server that this test may kill is its own.
	t.Setenv("PARLEY_TEST_CLICKHOUSE", "")
	place := noderun.NewBucket(t, s3server.Versitygw(t))
	bucket, _, err := place.Open()
	if err != nil {
		t.Fatal(err)
	}
	vendor := httptest.NewServer(fakemodel.New(nil))
	t.Cleanup(vendor.Close)
	c := &cluster{
		t: t, dir: t.TempDir(), program: program(t), bucket: storage.Retried(bucket, storage.Retry{}), server: clickhousetest.Start(t, &clickhousetest.Options{}),
		reaper: proc.ReaperOf(t), http: noderun.NewClient(answerWithin),
		env: append(place.Env(), "GOGC="),
	}
	var b strings.Builder
	b.WriteString(place.Config())
	fmt.Fprintf(&b, "events: {clickhouse: {addresses: [%q], database: %s}}\n", c.server.Addr(), database)
	fmt.Fprintf(&b, "providers:\n  fake: {api: openai-completions, baseUrl: %q}\n", vendor.URL+"/v1")
	fmt.Fprintf(&b, "agents:\n  %s:\n    mounts: [%s]\n    model: fake/model\n    instructions: Do what the message says.\n", agentName, mount)
	b.WriteString("    events: {content: true}\n    durability: {maxAttempts: 1000, timeout: 1h}\n    subagents:\n" +
		"      - {name: helper, description: Helps., model: fake/model, instructions: Help.}\n")
	c.common = b.String()
	t.Cleanup(func() {
		for _, n := range c.all {
			n.process.Kill()
			if t.Failed() {
				t.Logf("%v:\n%s", n, n.process.Tail(maxOutput))
			}
		}
	})
	return c
}

// start starts one more node and waits until it serves.
func (c *cluster) start(ctx context.Context) (*node, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, liveness, fmt.Errorf("a node is not ready within %v", liveness))
	defer cancel()
	c.mu.Lock()
	n := &node{c: c, number: len(c.all) + 1}
	c.mu.Unlock()
	host := fmt.Sprintf("127.0.0.%d", 40+n.number) // Nobody else takes a port of it.
	ports, err := proc.FreeAddresses(host, 3)
	if err != nil {
		return nil, err
	}
	n.http, n.peers, n.home = ports[0], ports[1], ports[2]
	config := filepath.Join(c.dir, fmt.Sprintf("node-%d.yaml", n.number))
	text := fmt.Sprintf("listen: %s\nadmin: {listen: %q}\ncluster: {listen: %s}\n%s", n.http, n.home, n.peers, c.common)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log := filepath.Join(c.dir, fmt.Sprintf("node-%d.log", n.number))
	p, err := c.reaper.Start(proc.Command{
		Args: []string{c.program, "serve", "--quiet", "--insecure-cluster", "--config", config}, Env: c.env, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("start %v: %w", n, err)
	}
	n.process = p
	c.mu.Lock()
	c.all = append(c.all, n)
	c.mu.Unlock()
	if _, err := p.Await(ctx); err != nil {
		return nil, fmt.Errorf("await %v: %w", n, err)
	}
	for !n.serves(ctx) {
		if err := noderun.Pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
	m, err := n.scrape(ctx)
	if err != nil {
		return nil, err
	}
	n.member = m.member
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	return n, nil
}

// serves asks the node whether it takes requests.
func (n *node) serves(ctx context.Context) bool {
	_, err := n.get(ctx, "/readyz")
	return err == nil
}

// get reads what the node says of itself.
func (n *node) get(ctx context.Context, path string) ([]byte, error) {
	body, _, err := n.c.http.Do(ctx, http.MethodGet, "http://"+n.home+path, nil)
	return body, err
}

// running returns the nodes that run.
func (c *cluster) running() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// pick returns a node that runs.
func (c *cluster) pick(r *rand.Rand) *node {
	nodes := c.running()
	return nodes[r.IntN(len(nodes))]
}

// kill kills a node for good.
func (c *cluster) kill(n *node) {
	c.mu.Lock()
	c.nodes = slices.DeleteFunc(c.nodes, func(o *node) bool { return o == n })
	c.mu.Unlock()
	n.process.Kill()
}

// stop ends all nodes in order and says what is wrong with any.
func (c *cluster) stop() {
	nodes := c.running()
	for _, n := range nodes {
		n.process.Signal(syscall.SIGTERM)
	}
	for _, n := range c.all {
		select {
		case <-n.process.Ended():
		case <-time.After(liveness):
			c.t.Errorf("%v does not end", n)
			n.process.Kill()
		}
		if f := n.process.Flaw(); f != "" {
			c.t.Errorf("%v: %s", n, f)
		}
		for _, f := range n.process.Flaws() {
			c.t.Errorf("%v: %s", n, f)
		}
	}
}

// until asks again and again until it is so. What says what is missing, if it is not.
func until(ctx context.Context, what string, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, liveness, fmt.Errorf("not within %v", liveness))
	defer cancel()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		if err := noderun.Pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
	}
}
