package clusterrun_test

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
)

const (
	agentName = "worker"
	mount     = "/agents/worker"
	heartbeat = 500 * time.Millisecond // default of a node
	// secret prefixes message texts. It must not appear in a node's log.
	secret = "note=body-"
)

// clusters counts the clusters of this process. Each has its own loopback addresses, so that no node
// takes the port of another that is about to restart.
var clusters atomic.Int32

// cluster holds the nodes, the proxies between them, and their dependencies.
type cluster struct {
	*noderun.Fleet
	subnet  string // first three numbers of the addresses of nodes and proxies
	nodes   []*node
	between [][]*valve // traffic from one node to another, by their numbers
	proxies []*proxy
	bucket  storage.Bucket    // without a proxy
	answers *s3server.Answers // The proxy in front of the bucket; nil for none.
	model   *fakemodel.Model
	ca      *authority
	passed  atomic.Bool                      // The proxy replaces no more answers.
	logf    func(format string, args ...any) // notes for humans; set before the first fault
}

// node is one member, over all its processes.
type node struct {
	*noderun.Node
	peers   string  // host:port at which it listens to nodes.
	callers []*path // by number of the caller, nil for itself
	bucket  *path   // from this node to the bucket

	mu      sync.Mutex
	starved time.Time // end of its last bucket outage
}

// clusterOptions holds the differences between tests.
type clusterOptions struct {
	nodes   int
	strict  bool
	sound   bool          // no faults, so a busy machine must not make a node look crashed
	drain   time.Duration // drain.delay of each node
	answers uint64        // The seed of a proxy that replaces answers of the bucket; 0 for none.
	program func(number int) string
}

// newCluster makes a cluster without starting a node.
func newCluster(t *testing.T, o clusterOptions) *cluster {
	t.Helper()
	place := noderun.NewBucket(t, s3server.Versitygw(t))
	c := &cluster{
		Fleet: noderun.NewFleet(t, noderun.NewClient(answerWithin), liveness), subnet: fmt.Sprintf("127.0.%d", clusters.Add(1)),
		ca: newAuthority(t), model: fakemodel.New(nil),
	}
	var err error
	if c.bucket, _, err = place.Open(); err != nil {
		t.Fatal(err)
	}
	if o.answers != 0 {
		c.answers = s3server.NewAnswers(t, place.Endpoint, o.answers)
		place.Endpoint = c.answers.Endpoint
	}
	vendor := httptest.NewServer(c.model)
	t.Cleanup(vendor.Close)
	for range o.nodes {
		row := []*valve{}
		for range o.nodes {
			row = append(row, newValve())
		}
		c.between = append(c.between, row)
	}
	t.Cleanup(func() {
		for _, p := range c.proxies {
			p.close()
		}
	})
	dir := t.TempDir()
	keys := c.ca.sign(t, "node", clusterName)
	for i := range o.nodes {
		own := noderun.NodeOptions{Program: o.program(i), Config: filepath.Join(dir, fmt.Sprintf("node-%d.yaml", i+1)), Env: place.Env(), Dir: dir, Secret: secret, Stays: o.nodes == 1}
		n := c.add(t, i, place.Endpoint, own)
		proxied := place
		proxied.Endpoint = c.proxies[len(c.proxies)-1].address()
		if o.answers != 0 {
			proxied.Probe(t)
		}
		c.write(t, n, proxied, vendor.URL, keys, o)
	}
	t.Cleanup(c.close)
	return c
}

// add makes a node with its two proxies: one in front of the node, one in front of its bucket.
func (c *cluster) add(t *testing.T, i int, endpoint string, o noderun.NodeOptions) *node {
	t.Helper()
	ip := fmt.Sprintf("%s.%d", c.subnet, 11+i)
	ports, err := proc.FreeAddresses(ip, 3)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{peers: ports[1], bucket: newPath(newValve(), newValve())}
	o.Number, o.HTTP, o.Excused = i, ports[0], func(p *proc.Process) bool { return n.excused(p) || c.gaveUp(p) }
	if !o.Stays {
		o.Admin = ports[2]
	}
	n.Node = c.Add(o)
	for from := range c.between {
		n.callers = append(n.callers, newPath(c.between[from][i], c.between[i][from]))
	}
	before, err := newProxy(fmt.Sprintf("%s.%d:0", c.subnet, 21+i), n.peers, func(caller net.IP) *path {
		for from := range n.callers {
			if from != i && caller.String() == fmt.Sprintf("%s.%d", c.subnet, 11+from) {
				return n.callers[from]
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.proxies = append(c.proxies, before)
	bucket, err := newProxy("127.0.0.1:0", endpoint, func(net.IP) *path { return n.bucket })
	if err != nil {
		t.Fatal(err)
	}
	c.proxies = append(c.proxies, bucket)
	c.nodes = append(c.nodes, n)
	return n
}

// write writes the configuration of a node.
func (c *cluster) write(t *testing.T, n *node, place noderun.Place, vendor string, keys keyPair, o clusterOptions) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\n%s", n.HTTP, place.Config())
	fmt.Fprintf(&b, "providers:\n  fake: {api: openai-completions, baseUrl: %q}\n", vendor+"/v1")
	fmt.Fprintf(&b, "agents:\n  %s:\n    mounts: [%s]\n    model: fake/model\n    instructions: Do what the message sends.\n", agentName, mount)
	b.WriteString("    durability: {maxAttempts: 1000, timeout: 1h}\n    subagents:\n" +
		"      - {name: helper, description: Helps., model: fake/model, instructions: Help.}\n")
	if o.nodes > 1 {
		before := c.proxies[len(c.proxies)-2]
		fmt.Fprintf(&b, "strictReads: %t\nadmin: {listen: %q}\ndrain: {delay: %v}\n", o.strict, n.Admin, o.drain)
		fmt.Fprintf(&b, "cluster:\n  listen: %s\n  advertise: %s\n  heartbeat: %v\n  tls: {ca: %q, cert: %q, key: %q, name: %s}\n",
			n.peers, before.address(), heartbeat, c.ca.file, keys.cert, keys.key, clusterName)
		if o.sound {
			b.WriteString("  suspect: 10s\n  fence: 5s\n")
		}
	}
	if err := os.WriteFile(n.Config, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (n *node) url(id string) string { return "http://" + n.HTTP + mount + "/" + id }

// excused reports whether a process ended because it could not start without its bucket, and logged
// that. An operator would restart it.
func (n *node) excused(p *proc.Process) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return p.ExitCode() == 1 && !p.Served() && n.starved.After(p.Began)
}

// gaveUp reports whether a process exited with an error at its start while answers of the bucket were replaced.
func (c *cluster) gaveUp(p *proc.Process) bool {
	return c.answers != nil && p.ExitCode() == 1 && !p.Served() && !c.passed.Load()
}

// starve blocks the node's path to the bucket, either both directions or the answers only; cut resets
// open connections.
func (n *node) starve(cut, both bool) {
	n.mu.Lock()
	n.starved = time.Now().Add(liveness) // until feed
	n.mu.Unlock()
	if cut {
		n.bucket.set(false)
		return
	}
	n.bucket.up.set(!both)
	n.bucket.down.set(false)
}

// feed ends the outage. Requests in flight may still fail within an answer's time.
func (n *node) feed() {
	n.bucket.set(true)
	n.bucket.up.set(true)
	n.bucket.down.set(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.starved.After(time.Now()) {
		n.starved = time.Now()
	}
}

func (c *cluster) heal() {
	for from, row := range c.between {
		for to, v := range row {
			v.set(true)
			if from != to {
				c.nodes[to].callers[from].set(true)
			}
		}
	}
	for _, n := range c.nodes {
		n.feed()
		n.Signal(syscall.SIGCONT)
	}
}

// close kills all processes and waits.
func (c *cluster) close() {
	c.heal()
	c.Close()
}

// untrustedCallers returns the callers of nodes that are not nodes.
func (c *cluster) untrustedCallers() (all []string) {
	for _, p := range c.proxies {
		all = append(all, p.callers()...)
	}
	return all
}
