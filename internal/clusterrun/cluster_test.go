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
	heartbeat = 500 * time.Millisecond // The default of a node.
	// secret begins what messages say. No log may have it.
	secret = "note=body-"
)

// clusters counts those of this process. Each has loopback addresses of its own, so that
// none takes the port of a node of another that is about to be started again.
var clusters atomic.Int32

// cluster is nodes, what lies between them, and what they need.
type cluster struct {
	*noderun.Fleet
	subnet  string // The first three numbers of the addresses of nodes and proxies.
	nodes   []*node
	between [][]*valve // What one node says to another, by their numbers.
	proxies []*proxy
	bucket  storage.Bucket    // Not through a proxy.
	answers *s3server.Answers // The proxy in front of the bucket; nil for none.
	model   *fakemodel.Model
	ca      *authority
	passed  atomic.Bool                      // The proxy replaces no more answers.
	logf    func(format string, args ...any) // Notes for a person. Set before anything is broken.
}

// node is one member, over all its processes.
type node struct {
	*noderun.Node
	peers   string  // host:port at which it listens to nodes.
	callers []*path // By the number of who calls, nil for itself.
	bucket  *path   // Its own to the bucket.

	mu      sync.Mutex
	starved time.Time // Until when its bucket was out of reach.
}

// clusterOptions says what differs between tests.
type clusterOptions struct {
	nodes   int
	strict  bool
	sound   bool          // No node is broken, so that a busy machine must not make one look dead.
	drain   time.Duration // drain.delay of each node.
	answers uint64        // The seed of a proxy that replaces answers of the bucket; 0 for none.
	program func(number int) string
}

// newCluster makes a cluster of which no node runs yet.
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

// add makes a node with its two proxies: the one before it, and the one before its
// bucket.
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
	fmt.Fprintf(&b, "agents:\n  %s:\n    mounts: [%s]\n    model: fake/model\n    instructions: Do what the message says.\n", agentName, mount)
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

// url is where a conversation is at the node.
func (n *node) url(id string) string { return "http://" + n.HTTP + mount + "/" + id }

// excused reports whether a process ended because it could not start without its bucket,
// and said so. Whoever runs it tries again.
func (n *node) excused(p *proc.Process) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return p.ExitCode() == 1 && !p.Served() && n.starved.After(p.Began)
}

// gaveUp reports whether a process exited with an error at its start while answers of the bucket were replaced.
func (c *cluster) gaveUp(p *proc.Process) bool {
	return c.answers != nil && p.ExitCode() == 1 && !p.Served() && !c.passed.Load()
}

// starve breaks the node's way to the bucket, in the direction of the answers alone or
// in both; cut resets what is open.
func (n *node) starve(cut, both bool) {
	n.mu.Lock()
	n.starved = time.Now().Add(liveness) // Until it is fed.
	n.mu.Unlock()
	if cut {
		n.bucket.set(false)
		return
	}
	n.bucket.up.set(!both)
	n.bucket.down.set(false)
}

// feed mends it. What was tried before may still fail within an answer's time.
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

// heal mends everything that lies between, and lets everybody go on.
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

// close kills what runs and waits.
func (c *cluster) close() {
	c.heal()
	c.Close()
}

// strangers says who has called a node and is none.
func (c *cluster) strangers() (all []string) {
	for _, p := range c.proxies {
		all = append(all, p.callers()...)
	}
	return all
}
