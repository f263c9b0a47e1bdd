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

// Notes gathers what is wrong. The zero value has nothing.
type Notes struct {
	mu    sync.Mutex
	lines []string
}

// Fail notes that something is wrong.
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

// Fleet is nodes that run, and what is wrong with them.
type Fleet struct {
	Notes
	Client   *Client // For what nodes say of themselves, and for whoever else wants it.
	liveness time.Duration
	reaper   *proc.Reaper
	running  sync.WaitGroup
	begin    func(*Node)
	cancel   context.CancelFunc // Ends what was begun.

	mu    sync.Mutex
	nodes []*Node
}

// NewFleet makes a fleet without a node, which ends with a test. What has to happen has
// liveness to do so.
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

// Leave ends all nodes in order, at once, and waits for them.
func (f *Fleet) Leave() {
	var leaving sync.WaitGroup
	for _, n := range f.all() {
		leaving.Go(n.Leave)
	}
	leaving.Wait()
}

// Replacements is how many processes have ended because they were no members any more.
func (f *Fleet) Replacements() (sum int) {
	for _, n := range f.all() {
		sum += int(n.replaced.Load())
	}
	return sum
}

// Close kills what runs, as the end of all power would, and waits.
func (f *Fleet) Close() {
	f.cancel()
	f.running.Wait()
}

// maxOutput bounds what a failed run shows of what one process has printed, in bytes.
const maxOutput = 16 << 10

// Tails are the ends of the logs of the last two processes of each node.
func (f *Fleet) Tails() string {
	var b strings.Builder
	for _, n := range f.all() {
		for life := max(1, n.Lives()-1); life <= n.Lives(); life++ {
			fmt.Fprintf(&b, "--- %v, life %d\n%s\n", n, life, proc.Tail(n.log(life), maxOutput))
		}
	}
	return b.String()
}

// NodeOptions say how a node is run.
type NodeOptions struct {
	Number  int      // From 0; people are told of the first as 1.
	HTTP    string   // host:port for clients.
	Admin   string   // host:port of health and metrics, "" for a node without.
	Program string   // Its file.
	Flags   []string // Beside those of every node.
	Config  string   // Its file.
	Env     []string
	Dir     string // Of its logs.
	Secret  string // No log may have it. "" is none.
	Stays   bool   // It may not cease to be a member.
	// Excused reports whether a process may have ended as it did although nobody asked for
	// it. Nil excuses none.
	Excused func(*proc.Process) bool
	// Beside is called with each process as it begins, and returns once that, or ctx, has ended.
	Beside func(ctx context.Context, p *proc.Process)
}

// Node is one member over all its processes: whenever it is wanted and none runs, one is
// started. An end that nobody asked for is noted.
type Node struct {
	NodeOptions
	fleet    *Fleet
	wanted   atomic.Bool
	process  atomic.Pointer[proc.Process] // Nil while none runs.
	lives    atomic.Int64
	replaced atomic.Int64
}

const (
	// exitReplaced is the exit code of a node that is not a member any more. Whoever runs it
	// starts it again.
	exitReplaced = 75
	// looks is how often is looked whether a node is wanted, or ready.
	looks = 10 * time.Millisecond
)

func (n *Node) String() string { return fmt.Sprintf("node %d", n.Number+1) }

// log is the file of what one of its processes prints.
func (n *Node) log(life int) string {
	return filepath.Join(n.Dir, fmt.Sprintf("node-%d.%d.log", n.Number+1, life))
}

func (n *Node) Lives() int { return int(n.lives.Load()) }

func (n *Node) Want(on bool) { n.wanted.Store(on) }

// Running returns the process of the moment, nil for none. One that has ended is none, whether
// that was seen already or not.
func (n *Node) Running() *proc.Process {
	p := n.process.Load()
	if p != nil && p.HasEnded() {
		return nil
	}
	return p
}

// supervise starts the node whenever it is wanted and does not run, until the fleet ends.
// It kills what runs then.
func (n *Node) supervise(ctx context.Context) {
	for ; ctx.Err() == nil; _ = Pause(ctx, looks) {
		if !n.wanted.Load() {
			continue
		}
		args := append([]string{n.Program, "serve", "--quiet", "--config", n.Config}, n.Flags...)
		p, err := n.fleet.reaper.Start(proc.Command{Args: args, Env: n.Env, Log: n.log(int(n.lives.Add(1)))})
		if err != nil {
			n.fleet.Fail("start %v: %v", n, err)
			return
		}
		n.process.Store(p)
		if !n.wanted.Load() {
			p.Kill() // Who ended the node while it was started has not seen it.
		}
		if n.Beside != nil {
			n.Beside(ctx, p)
		}
		select {
		case <-p.Ended():
		case <-ctx.Done():
			p.Kill()
		}
		n.process.Store(nil)
		if !n.judge(p) {
			return
		}
		_ = Pause(ctx, 100*time.Millisecond)
	}
}

// judge looks at a process that has ended. It reports whether to start another.
func (n *Node) judge(p *proc.Process) bool {
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

// Kill kills the node, which is not started again until it is wanted.
func (n *Node) Kill() {
	n.Want(false)
	if p := n.Running(); p != nil {
		p.Kill()
	}
}

// Leave ends the node in order and waits for it. It is not started again until it is
// wanted.
func (n *Node) Leave() {
	n.Want(false)
	p := n.Running()
	if p == nil {
		return
	}
	late, cancel := context.WithTimeout(context.Background(), n.fleet.liveness)
	defer cancel()
	_, _ = p.Await(late) // Until it serves, it may not have asked yet to be told of the signal.
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended():
	case <-late.Done():
		p.Quit()
		n.fleet.Fail("%v does not end in order", n)
	}
}

// Await waits until the node takes requests, and reports whether it does. It gives up once
// anything is wrong.
func (n *Node) Await(ctx context.Context) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, n.fleet.liveness, fmt.Errorf("not within %v", n.fleet.liveness))
	defer cancel()
	for !n.fleet.Any() {
		if p := n.Running(); p != nil && p.Served() && n.admits(ctx) {
			return true
		}
		if Pause(ctx, looks) != nil {
			n.fleet.Fail("%v is not ready: %v", n, context.Cause(ctx))
		}
	}
	return false
}

// admits asks the node whether it takes requests.
func (n *Node) admits(ctx context.Context) bool {
	if n.Admin == "" {
		return true
	}
	_, err := n.Says(ctx, "/readyz")
	return err == nil
}

func (n *Node) Says(ctx context.Context, path string) ([]byte, error) {
	body, _, err := n.fleet.Client.Do(ctx, "GET", "http://"+n.Admin+path, nil)
	return body, err
}
