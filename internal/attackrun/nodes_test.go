package attackrun_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
)

const (
	// memoryBytes is what the operator allows a node.
	memoryBytes = 512 << 20
	// token is what clients have to send.
	token = "token-of-the-attack"
	// exitReplaced is the exit code of a node that is not a member any more. Whoever runs
	// it starts it again.
	exitReplaced = 75
	// maxOutput bounds what a failed run shows of a node's output, in bytes.
	maxOutput = 8 << 10
)

// site is the nodes and what they need.
type site struct {
	noderun.Notes
	program string
	dir     string
	env     []string
	reaper  *proc.Reaper
	client  *noderun.Client // For what nodes say of themselves.
	nodes   []*node
	models  string           // host:port of those that never end.
	store   *s3server.Server // Nil for a folder.
	place   noderun.Place
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// node is one member over all its processes.
type node struct {
	*site
	number      int
	http, admin string
	config      string

	mu      sync.Mutex
	process *proc.Process // Nil while none runs.
	asked   bool          // The process of the moment is to end.
	lives   int
	peak    int64 // The most memory that a process of it had, in bytes.
}

func (n *node) String() string { return fmt.Sprintf("node %d", n.number+1) }

// newSite makes one node over a folder, or several over an endpoint. None runs yet.
func newSite(t *testing.T, nodes int) *site {
	t.Helper()
	s := &site{program: program(t), dir: t.TempDir(), env: []string{"ATTACK_TOKEN=" + token, "GOGC="}, reaper: proc.ReaperOf(t)}
	if *keepFlag != "" {
		s.dir = *keepFlag
	}
	s.client = noderun.NewClient(time.Second)
	t.Cleanup(s.client.Close)
	vendor := newVendor(t)
	s.place = noderun.Place{Dir: filepath.Join(t.TempDir(), "data")}
	if nodes > 1 {
		s.store = s3server.Versitygw(t)
		s.place = noderun.NewBucket(t, s.store)
	}
	s.env = append(s.env, s.place.Env()...)
	ports, err := proc.FreeAddresses("127.0.0.1", 3*nodes+1)
	if err != nil {
		t.Fatal(err)
	}
	s.models = ports[3*nodes]
	for i := range nodes {
		n := &node{site: s, number: i, http: ports[3*i], admin: ports[3*i+1], config: filepath.Join(s.dir, fmt.Sprintf("node-%d.yaml", i+1))}
		conf := fmt.Sprintf("listen: %s\n%sauth: {bearerEnv: ATTACK_TOKEN}\nadmin: {listen: %q}\nlimits: {memoryBytes: %d}\n", n.http, s.place.Config(), n.admin, memoryBytes)
		if nodes > 1 {
			conf += fmt.Sprintf("cluster: {listen: %q}\n", ports[3*i+2])
		}
		if err := os.WriteFile(n.config, []byte(conf+agents(vendor.URL, "http://"+s.models)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.nodes = append(s.nodes, n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, n := range s.nodes {
		s.running.Go(func() { n.supervise(ctx) })
	}
	t.Cleanup(s.close)
	return s
}

// agents are those of every node: one for clients, and those of the attack.
func agents(vendor, endless string) string {
	return fmt.Sprintf(`providers:
  fake: {api: openai-completions, baseUrl: %[1]q}
  text: {api: openai-completions, baseUrl: %[2]q}
  arguments: {api: openai-completions, baseUrl: %[3]q}
agents:
  worker: {mounts: [/worker], model: fake/model, instructions: Do what the message says.}
  fat: {mounts: [/fat], model: fake/model, instructions: Wait.}
  armed: {mounts: [/armed], model: fake/model, instructions: Use the tools.}
  text: {mounts: [/text], model: text/endless, instructions: Speak.}
  arguments: {mounts: [/arguments], model: arguments/endless, instructions: Call.}
  branches:
    mounts: [/branches]
    model: fake/model
    initialData: {anyOf: [{type: array, items: {$ref: "#"}}, {type: array, items: {$ref: "#"}, minItems: 1}]}
  items: {mounts: [/items], model: fake/model, initialData: {items: {type: string}}}
`, vendor+"/v1", endless+"/text", endless+"/arguments")
}

// supervise starts the node again whenever it has ended, until ctx does. An end that
// nobody asked for is a violation.
func (n *node) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		n.mu.Lock()
		n.lives++
		log := filepath.Join(n.dir, fmt.Sprintf("node-%d.%d.log", n.number+1, n.lives))
		n.mu.Unlock()
		command := []string{n.program, "serve", "--quiet", "--config", n.config}
		if len(n.nodes) > 1 {
			command = append(command, "--insecure-cluster")
		}
		p, err := n.reaper.Start(proc.Command{Args: command, Env: n.env, Log: log})
		if err != nil {
			n.Fail("start %v: %v", n, err)
			return
		}
		n.now(p)
		n.weigh(ctx, p)
		if ctx.Err() != nil {
			p.Kill()
		}
		n.mu.Lock()
		asked := n.asked
		n.process, n.asked = nil, false
		n.mu.Unlock()
		for _, f := range p.Flaws(token) {
			n.Fail("%v: %s", n, f)
		}
		// A node that was stopped or starved for long is no member any more.
		if flaw := p.Flaw(); flaw != "" && !asked && !(len(n.nodes) > 1 && p.ExitCode() == exitReplaced) {
			n.Fail("%v: %s\n%s", n, flaw, p.Tail(maxOutput))
		}
	}
}

func (n *node) now(p *proc.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = p
}

// weigh notes the memory of a process until that or ctx ends.
func (n *node) weigh(ctx context.Context, p *proc.Process) {
	for {
		if _, most, err := noderun.Memory(p.PID()); err == nil {
			n.mu.Lock()
			n.peak = max(n.peak, most)
			n.mu.Unlock()
		}
		select {
		case <-p.Ended():
			return
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// heaviest is the most memory that the node had, and how often it was started.
func (n *node) heaviest() (peak int64, lives int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peak, n.lives
}

// signal sends a signal to the process of the moment.
func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	p := n.process
	n.asked = n.asked || s == syscall.SIGKILL || s == syscall.SIGTERM
	n.mu.Unlock()
	if p != nil {
		p.Signal(s)
	}
}

// get reads what the node says of itself.
func (n *node) get(ctx context.Context, path string) ([]byte, error) {
	body, _, err := n.client.Do(ctx, http.MethodGet, "http://"+n.admin+path, nil)
	return body, err
}

// ready reports whether the node takes requests.
func (n *node) ready(ctx context.Context) bool {
	_, err := n.get(ctx, "/readyz")
	return err == nil
}

// await waits until all nodes take requests, and reports whether they do.
func (s *site) await(ctx context.Context) bool {
	began := time.Now()
	for _, n := range s.nodes {
		for !n.ready(ctx) {
			if time.Since(began) > liveness || noderun.Pause(ctx, 20*time.Millisecond) != nil {
				s.Fail("%v is not ready after %v\n%s", n, time.Since(began), n.tail())
				return false
			}
		}
	}
	return true
}

// tail is the end of what the process of the moment has printed.
func (n *node) tail() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return "it does not run"
	}
	return n.process.Tail(maxOutput)
}

// meters are metrics of all nodes together, by name without labels.
func (s *site) meters(ctx context.Context) map[string]float64 {
	sum := map[string]float64{}
	for _, n := range s.nodes {
		text, err := n.get(ctx, "/metrics")
		if err != nil {
			continue // It is down.
		}
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
			if v, err := strconv.ParseFloat(value, 64); ok && err == nil && strings.HasPrefix(name, "parley_") {
				sum[name] += v
			}
		}
	}
	return sum
}

// close kills what runs, as the end of all power would, and waits.
func (s *site) close() {
	s.cancel()
	s.running.Wait()
}
