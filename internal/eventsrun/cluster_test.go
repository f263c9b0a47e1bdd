package eventsrun_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	// answerWithin bounds one answer. A long-poll is answered within 30 s.
	answerWithin = 45 * time.Second
)

// cluster holds the nodes and their dependencies.
type cluster struct {
	*noderun.Fleet
	t       *testing.T
	dir     string
	program string
	env     []string
	common  string // shared part of the nodes' configuration
	bucket  storage.Bucket
	server  *clickhousetest.Own

	mu    sync.Mutex
	nodes []*node // running
	all   []*node // killed ones included
}

type node struct {
	*noderun.Node
	member string // its incarnation, set once it serves
	memory peak
}

func (n *node) url(id string) string { return "http://" + n.HTTP + mount + "/" + id }

// newCluster makes a cluster without starting a node.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	place := noderun.NewBucket(t, s3server.Versitygw(t))
	bucket, _, err := place.Open()
	if err != nil {
		t.Fatal(err)
	}
	vendor := httptest.NewServer(fakemodel.New(nil))
	t.Cleanup(vendor.Close)
	c := &cluster{
		t: t, dir: t.TempDir(), program: program(t), bucket: storage.Retried(bucket, storage.Retry{}), server: clickhousetest.StartOwn(t),
		Fleet: noderun.NewFleet(t, noderun.NewClient(answerWithin), liveness), env: append(place.Env(), "GOGC="),
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
		if t.Failed() {
			t.Log(c.Tails())
		}
	})
	return c
}

// start starts one more node and waits until it serves.
func (c *cluster) start(ctx context.Context) error {
	c.mu.Lock()
	number := len(c.all)
	c.mu.Unlock()
	host := fmt.Sprintf("127.0.0.%d", 41+number) // No other process uses its ports.
	ports, err := proc.FreeAddresses(host, 3)
	if err != nil {
		return err
	}
	config := filepath.Join(c.dir, fmt.Sprintf("node-%d.yaml", number+1))
	// A busy machine must not make a running node look crashed.
	text := fmt.Sprintf("listen: %s\nadmin: {listen: %q}\ncluster: {listen: %s, suspect: 10s, fence: 5s}\ndrain: {delay: 0s}\n%s", ports[0], ports[1], ports[2], c.common)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	n := &node{Node: c.Add(noderun.NodeOptions{
		Number: number, HTTP: ports[0], Admin: ports[1], Program: c.program, Flags: []string{"--insecure-cluster"}, Config: config, Env: c.env, Dir: c.dir, Stays: true,
	})}
	c.mu.Lock()
	c.all = append(c.all, n)
	c.mu.Unlock()
	n.Want(true)
	if !n.Await(ctx) {
		return errors.New(strings.Join(c.Notes.All(), "\n"))
	}
	m, err := n.scrape(ctx)
	if err != nil {
		return err
	}
	n.member = m.member
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, n)
	return nil
}

func (c *cluster) running() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

func (c *cluster) pick(r *rand.Rand) *node {
	nodes := c.running()
	return nodes[r.IntN(len(nodes))]
}

func (c *cluster) kill(n *node) {
	c.mu.Lock()
	c.nodes = slices.DeleteFunc(c.nodes, func(o *node) bool { return o == n })
	c.mu.Unlock()
	n.Kill()
}

// stop shuts down all nodes and reports their flaws.
func (c *cluster) stop() {
	c.Leave()
	c.Close()
	for _, flaw := range c.Notes.All() {
		c.t.Error(flaw)
	}
}

// until polls until so returns true. The argument what describes the condition for the error.
func until(ctx context.Context, desc string, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, liveness, fmt.Errorf("not within %v", liveness))
	defer cancel()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		if err := noderun.Pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s: %w", desc, err)
		}
	}
}
