package noderun

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

// Notes collects flaws. The zero value is empty.
type Notes struct {
	mu    sync.Mutex
	lines []string
}

// Fail adds a flaw.
func (n *Notes) Fail(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *Notes) All() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

func (n *Notes) Any() bool { return len(n.All()) > 0 }

// Fleet is a set of running nodes, with their flaws.
type Fleet struct {
	Notes
	Client   *Client // polls the nodes; callers may use it, too
	liveness time.Duration
	reaper   *proc.Reaper
	running  sync.WaitGroup
	begin    func(*Node)
	cancel   context.CancelFunc // ends all supervisors

	mu    sync.Mutex
	nodes []*Node
}

// NewFleet makes a fleet without a node, which ends with a test. liveness bounds the wait for a
// required event.
func NewFleet(t proc.Test, c *Client, liveness time.Duration) *Fleet {
	f := &Fleet{Client: c, liveness: liveness, reaper: proc.ReaperOf(t)}
	ctx, cancel := context.WithCancel(context.Background())
	f.begin, f.cancel = func(n *Node) { f.running.Go(func() { n.supervise(ctx) }) }, cancel
	t.Cleanup(f.Close)
	return f
}

// Add makes a node that runs once it is wanted.
func (f *Fleet) Add(o NodeOptions) *Node {
	n := &Node{NodeOptions: o, fleet: f}
	f.mu.Lock()
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	f.begin(n)
	return n
}

func (f *Fleet) all() []*Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[:len(f.nodes):len(f.nodes)]
}

// Start wants all nodes and waits until they take requests.
func (f *Fleet) Start(ctx context.Context) bool {
	for _, n := range f.all() {
		n.Want(true)
	}
	return f.Await(ctx)
}

// Await waits until all nodes take requests, and reports whether they do.
func (f *Fleet) Await(ctx context.Context) bool {
	return !slices.ContainsFunc(f.all(), func(n *Node) bool { return !n.Await(ctx) })
}

// Leave shuts all nodes down concurrently, and waits for them.
func (f *Fleet) Leave() {
	var leaving sync.WaitGroup
	for _, n := range f.all() {
		leaving.Go(n.Leave)
	}
	leaving.Wait()
}

// Replacements returns the number of processes that ended because they were no longer members.
func (f *Fleet) Replacements() (sum int) {
	for _, n := range f.all() {
		sum += int(n.replaced.Load())
	}
	return sum
}

// Close kills all processes and waits.
func (f *Fleet) Close() {
	f.cancel()
	f.running.Wait()
}

// maxOutput limits the output of one process in a failure, in bytes.
const maxOutput = 16 << 10

// Tails returns the ends of the logs of the last two processes of each node.
func (f *Fleet) Tails() string {
	var b strings.Builder
	for _, n := range f.all() {
		for start := max(1, n.Starts()-1); start <= n.Starts(); start++ {
			fmt.Fprintf(&b, "--- %v, start %d\n%s\n", n, start, proc.Tail(n.log(start), maxOutput))
		}
	}
	return b.String()
}

// NodeOptions configure a node.
type NodeOptions struct {
	Number  int      // from 0; printed from 1
	HTTP    string   // host:port for clients
	Admin   string   // host:port of health and metrics, "" for none
	Program string   // file name
	Flags   []string // added to the common flags
	Config  string   // file name
	Env     []string
	Dir     string // for its logs
	Secret  string // must not appear in a log, "" for none
	Stays   bool   // must remain a member
	// Excused reports whether a process may have ended without a request. Nil excuses none.
	Excused func(*proc.Process) bool
	// Watch is called with each process at its start, and returns once the process, or ctx, has
	// ended.
	Watch func(ctx context.Context, p *proc.Process)
}

// Node is one member over all its processes: whenever it is wanted and none runs, one is started. An
// end without a request is a flaw.
type Node struct {
	NodeOptions
	fleet    *Fleet
	wanted   atomic.Bool
	process  atomic.Pointer[proc.Process] // nil while none runs
	starts   atomic.Int64
	replaced atomic.Int64
}

const (
	// exitReplaced is the exit code of a node that is no longer a member. Its supervisor restarts it.
	exitReplaced = 75
	// pollEvery is the poll interval for wanted and ready nodes.
	pollEvery = 10 * time.Millisecond
)

func (n *Node) String() string { return fmt.Sprintf("node %d", n.Number+1) }

func (n *Node) log(start int) string {
	return filepath.Join(n.Dir, fmt.Sprintf("node-%d.%d.log", n.Number+1, start))
}

func (n *Node) Starts() int { return int(n.starts.Load()) }

func (n *Node) Want(on bool) { n.wanted.Store(on) }

// Running returns the current process, nil for none. A process that has ended is none, even before it
// was reaped.
func (n *Node) Running() *proc.Process {
	p := n.process.Load()
	if p != nil && p.HasEnded() {
		return nil
	}
	return p
}

// supervise starts the node whenever it is wanted and does not run, until the fleet ends. Then it
// kills the running process.
func (n *Node) supervise(ctx context.Context) {
	for ; ctx.Err() == nil; _ = Pause(ctx, pollEvery) {
		if !n.wanted.Load() {
			continue
		}
		args := append([]string{n.Program, "serve", "--quiet", "--config", n.Config}, n.Flags...)
		p, err := n.fleet.reaper.Start(proc.Command{Args: args, Env: n.Env, Log: n.log(int(n.starts.Add(1)))})
		if err != nil {
			n.fleet.Fail("start %v: %v", n, err)
			return
		}
		n.process.Store(p)
		if !n.wanted.Load() {
			p.Kill() // A Kill or Leave during the start has not seen the process.
		}
		if n.Watch != nil {
			n.Watch(ctx, p)
		}
		select {
		case <-p.Ended():
		case <-ctx.Done():
			p.Kill()
		}
		n.process.Store(nil)
		if !n.inspect(p) {
			return
		}
		_ = Pause(ctx, 100*time.Millisecond)
	}
}

// inspect checks a process that has ended. It reports whether to start another.
func (n *Node) inspect(p *proc.Process) bool {
	flaw := p.Flaw()
	if p.ExitCode() == exitReplaced && !n.Stays {
		n.replaced.Add(1)
		flaw = ""
	}
	if flaw != "" && n.Excused != nil && n.Excused(p) {
		flaw = ""
	}
	for _, f := range p.Flaws(n.Secret) {
		n.fleet.Fail("%v: %s", n, f)
	}
	if flaw != "" {
		n.fleet.Fail("%v: %s\n%s", n, flaw, proc.Tail(p.Log, maxOutput))
	}
	return flaw == ""
}

func (n *Node) Signal(s syscall.Signal) {
	if p := n.Running(); p != nil {
		p.Signal(s)
	}
}

// Kill kills the node, which is not restarted until it is wanted.
func (n *Node) Kill() {
	n.Want(false)
	if p := n.Running(); p != nil {
		p.Kill()
	}
}

// Leave shuts the node down and waits for it. It is not restarted until it is wanted.
func (n *Node) Leave() {
	n.Want(false)
	p := n.Running()
	if p == nil {
		return
	}
	late, cancel := context.WithTimeout(context.Background(), n.fleet.liveness)
	defer cancel()
	_, _ = p.Await(late) // Before it serves, it may not handle the signal yet.
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended():
	case <-late.Done():
		p.Quit()
		n.fleet.Fail("%v does not shut down in time", n)
	}
}

// Await waits until the node takes requests, and reports whether it does. It returns false after any
// flaw.
func (n *Node) Await(ctx context.Context) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, n.fleet.liveness, fmt.Errorf("not within %v", n.fleet.liveness))
	defer cancel()
	for !n.fleet.Any() {
		if p := n.Running(); p != nil && p.Served() && n.admits(ctx) {
			return true
		}
		if Pause(ctx, pollEvery) != nil {
			n.fleet.Fail("%v is not ready: %v", n, context.Cause(ctx))
		}
	}
	return false
}

// admits reports whether the node takes requests.
func (n *Node) admits(ctx context.Context) bool {
	if n.Admin == "" {
		return true
	}
	_, err := n.Get(ctx, "/readyz")
	return err == nil
}

func (n *Node) Get(ctx context.Context, path string) ([]byte, error) {
	body, _, err := n.fleet.Client.Do(ctx, "GET", "http://"+n.Admin+path, nil)
	return body, err
}
