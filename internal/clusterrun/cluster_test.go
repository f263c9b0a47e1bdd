package clusterrun_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
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
	// exitReplaced is the exit code of a node that is not a member any more. Whoever runs
	// it starts it again.
	exitReplaced = 75
	// maxOutput bounds what a failed run shows of a node's output, in bytes.
	maxOutput = 16 << 10
	// secret begins what messages say. No log may have it.
	secret = "note=body-"
)

// clusters counts those of this process. Each has loopback addresses of its own, so that
// none takes the port of a node of another that is about to be started again.
var clusters atomic.Int32

// cluster is nodes, what lies between them, and what they need.
type cluster struct {
	noderun.Notes
	subnet  string // The first three numbers of the addresses of nodes and proxies.
	reaper  *proc.Reaper
	http    *noderun.Client
	nodes   []*node
	between [][]*valve // What one node says to another, by their numbers.
	proxies []*proxy
	bucket  storage.Bucket // Not through a proxy.
	model   *fakemodel.Model
	ca      *authority
	logf    func(format string, args ...any) // Notes for a person. Set before anything is broken.
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// node is one member, over all its processes.
type node struct {
	c       *cluster
	number  int
	ip      string
	http    string // host:port
	peers   string // host:port at which it listens to nodes.
	admin   string
	program string
	config  string
	env     []string
	dir     string
	callers []*path // By the number of who calls, nil for itself.
	bucket  *path   // Its own to the bucket.

	mu       sync.Mutex
	wanted   bool
	changed  chan struct{}
	process  *proc.Process
	lives    int
	replaced int
	starved  time.Time // Until when its bucket was out of reach.
}

// clusterOptions says what differs between tests.
type clusterOptions struct {
	nodes   int
	strict  bool
	program func(number int) string
}

// newCluster makes a cluster of which no node runs yet.
func newCluster(t *testing.T, o clusterOptions) *cluster {
	t.Helper()
	place := noderun.NewBucket(t, s3server.Versitygw(t))
	c := &cluster{
		subnet: fmt.Sprintf("127.0.%d", clusters.Add(1)), reaper: proc.ReaperOf(t), http: noderun.NewClient(answerWithin), ca: newAuthority(t), model: fakemodel.New(nil),
	}
	var err error
	if c.bucket, _, err = place.Open(); err != nil {
		t.Fatal(err)
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
		n := c.add(t, i, place.Endpoint)
		n.dir, n.config, n.program = dir, filepath.Join(dir, fmt.Sprintf("node-%d.yaml", i+1)), o.program(i)
		n.env = place.Env()
		proxied := place
		proxied.Endpoint = c.proxies[len(c.proxies)-1].address()
		n.write(t, proxied, vendor.URL, keys, o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	for _, n := range c.nodes {
		c.wg.Go(func() { n.supervise(ctx) })
	}
	t.Cleanup(c.close)
	return c
}

// add makes a node with its two proxies: the one before it, and the one before its
// bucket.
func (c *cluster) add(t *testing.T, i int, endpoint string) *node {
	t.Helper()
	n := &node{c: c, number: i, ip: fmt.Sprintf("%s.%d", c.subnet, 11+i), changed: make(chan struct{})}
	ports, err := proc.FreeAddresses(n.ip, 3)
	if err != nil {
		t.Fatal(err)
	}
	n.http, n.peers, n.admin = ports[0], ports[1], ports[2]
	for from := range c.between {
		n.callers = append(n.callers, newPath(c.between[from][i], c.between[i][from]))
	}
	n.bucket = newPath(newValve(), newValve())
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
func (n *node) write(t *testing.T, place noderun.Place, vendor string, keys keyPair, o clusterOptions) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\n%s", n.http, place.Config())
	fmt.Fprintf(&b, "providers:\n  fake: {api: openai-completions, baseUrl: %q}\n", vendor+"/v1")
	fmt.Fprintf(&b, "agents:\n  %s:\n    mounts: [%s]\n    model: fake/model\n    instructions: Do what the message says.\n", agentName, mount)
	b.WriteString("    durability: {maxAttempts: 1000, timeout: 1h}\n    subagents:\n" +
		"      - {name: helper, description: Helps., model: fake/model, instructions: Help.}\n")
	if o.nodes > 1 {
		before := n.c.proxies[len(n.c.proxies)-2]
		fmt.Fprintf(&b, "strictReads: %t\nadmin: {listen: %q}\n", o.strict, n.admin)
		fmt.Fprintf(&b, "cluster:\n  listen: %s\n  advertise: %s\n  heartbeat: %v\n  tls: {ca: %q, cert: %q, key: %q, name: %s}\n",
			n.peers, before.address(), heartbeat, n.c.ca.file, keys.cert, keys.key, clusterName)
	}
	if err := os.WriteFile(n.config, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// url is where a conversation is at the node.
func (n *node) url(id string) string { return "http://" + n.http + mount + "/" + id }

// log is the file of what the node prints in one of its lives.
func (n *node) log(life int) string {
	return filepath.Join(n.dir, fmt.Sprintf("node-%d.%d.log", n.number+1, life))
}

func (n *node) String() string { return fmt.Sprintf("node %d", n.number+1) }

// want says whether the node is to run.
func (n *node) want(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = on
	close(n.changed)
	n.changed = make(chan struct{})
}

// running returns the process of the moment, nil for none, and what is closed when
// that may be another.
func (n *node) running() (*proc.Process, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process, n.changed
}

// supervise starts the node whenever it is wanted and does not run, until ctx ends.
// It kills what runs then.
func (n *node) supervise(ctx context.Context) {
	for {
		n.mu.Lock()
		wanted, changed := n.wanted, n.changed
		n.mu.Unlock()
		if !wanted {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		n.mu.Lock()
		n.lives++
		log := n.log(n.lives)
		n.mu.Unlock()
		p, err := n.c.reaper.Start(proc.Command{Args: []string{n.program, "serve", "--quiet", "--config", n.config}, Env: n.env, Log: log})
		if err != nil {
			n.c.Fail("start %v: %v", n, err)
			return
		}
		n.now(p)
		select {
		case <-p.Ended():
		case <-ctx.Done():
			p.Kill()
		}
		n.now(nil)
		if !n.judge(p) || noderun.Pause(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

func (n *node) now(p *proc.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = p
	close(n.changed)
	n.changed = make(chan struct{})
}

// judge looks at a process that has ended. It reports whether to start another.
func (n *node) judge(p *proc.Process) bool {
	flaw := p.Flaw()
	n.mu.Lock()
	if p.ExitCode() == exitReplaced {
		n.replaced++
		flaw = ""
	}
	// Without its bucket a node cannot start, and says so. Whoever runs it tries again.
	if p.ExitCode() == 1 && !p.Served() && n.starved.After(p.Began) {
		flaw = ""
	}
	n.mu.Unlock()
	for _, f := range p.Flaws(secret) {
		n.c.Fail("%v: %s", n, f)
	}
	if flaw != "" {
		n.c.Fail("%v: %s\n%s", n, flaw, p.Tail(maxOutput))
	}
	return flaw == ""
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

// replacements is how often the node has ended because it was no member any more.
func (n *node) replacements() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replaced
}

// signal sends a signal to the process of the moment.
func (n *node) signal(s syscall.Signal) {
	if p, _ := n.running(); p != nil {
		p.Signal(s)
	}
}

// kill kills the node, which is not started again until it is wanted.
func (n *node) kill() {
	n.want(false)
	if p, _ := n.running(); p != nil {
		p.Kill()
	}
}

// leave ends the node in order and waits for it.
func (n *node) leave() {
	n.want(false)
	p, _ := n.running()
	if p == nil {
		return
	}
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended():
	case <-time.After(liveness):
		p.Quit()
		n.c.Fail("%v does not end in order", n)
	}
}

// await waits until the node serves, and reports whether it does.
func (n *node) await(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, liveness)
	defer cancel()
	for {
		p, changed := n.running()
		var ready <-chan struct{}
		if p != nil {
			ready = p.Ready()
		}
		select {
		case <-ready:
			if n.admitted(ctx) {
				return true
			}
			if !n.c.Any() && noderun.Pause(ctx, 20*time.Millisecond) == nil {
				continue
			}
		case <-changed:
			continue
		case <-time.After(100 * time.Millisecond):
			if !n.c.Any() {
				continue
			}
			return false
		case <-ctx.Done():
		}
		n.c.Fail("%v is not ready: %v", n, context.Cause(ctx))
		return false
	}
}

// admitted asks the node whether it takes requests.
func (n *node) admitted(ctx context.Context) bool {
	if len(n.c.nodes) == 1 {
		return true
	}
	_, _, err := n.c.http.Do(ctx, http.MethodGet, "http://"+n.admin+"/readyz", nil)
	return err == nil
}

// start starts all nodes and waits until they serve.
func (c *cluster) start(ctx context.Context) bool {
	for _, n := range c.nodes {
		n.want(true)
	}
	return c.await(ctx)
}

func (c *cluster) await(ctx context.Context) bool {
	for _, n := range c.nodes {
		if !n.await(ctx) {
			return false
		}
	}
	return true
}

// replacements is how many processes have ended because they were no members.
func (c *cluster) replacements() (sum int) {
	for _, n := range c.nodes {
		sum += n.replacements()
	}
	return sum
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
		n.signal(syscall.SIGCONT)
	}
}

// close kills what runs and waits.
func (c *cluster) close() {
	c.heal()
	c.cancel()
	c.wg.Wait()
}

// strangers says who has called a node and is none.
func (c *cluster) strangers() (all []string) {
	for _, p := range c.proxies {
		all = append(all, p.callers()...)
	}
	return all
}

// tails are the ends of the logs of the processes of the moment, and of those before.
func (c *cluster) tails() string {
	var b strings.Builder
	for _, n := range c.nodes {
		n.mu.Lock()
		lives := n.lives
		n.mu.Unlock()
		for life := max(1, lives-1); life <= lives; life++ {
			out, err := os.ReadFile(n.log(life))
			if err != nil {
				continue // It never ran.
			}
			fmt.Fprintf(&b, "--- %v, life %d\n%s\n", n, life, out[max(0, len(out)-maxOutput):])
		}
	}
	return b.String()
}
