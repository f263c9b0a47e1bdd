package membership_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

const (
	heartbeat = membership.DefaultHeartbeat
	suspect   = membership.DefaultSuspect
	fence     = membership.DefaultFence
)

// world is a bucket in memory, created inside the bubble of a test.
type world struct {
	t      *testing.T
	store  *local.Store
	bucket storage.Bucket // without faults
	net    *network       // nil if all nodes reach each other
}

type network struct {
	mu  sync.Mutex
	ids []string // ids of running nodes
	cut func(a, b string) bool
}

// breaks sets the pairs of nodes, by the first letters of their IDs, that do not reach each other.
func (w *network) breaks(cut func(a, b string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// apart is a network in which only the nodes of one group, given by their letters, reach each other.
func apart(groups ...string) func(a, b string) bool {
	return func(a, b string) bool {
		return !slices.ContainsFunc(groups, func(g string) bool { return strings.Contains(g, a) && strings.Contains(g, b) })
	}
}

func (w *network) runs(id string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids = slices.DeleteFunc(w.ids, func(other string) bool { return other == id })
	if on {
		w.ids = append(w.ids, id)
	}
}

func (w *network) reachedBy(id string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, other := range w.ids {
		if other != id && (w.cut == nil || !w.cut(id[:1], other[:1])) {
			out = append(out, other)
		}
	}
	return out
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: local.NewMemory()}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.bucket = w.store
	return w
}

func (w *world) keys() []string {
	w.t.Helper()
	page, err := w.bucket.List(context.Background(), storage.ListQuery{})
	if err != nil || page.More {
		w.t.Fatal(err, page.More)
	}
	var keys []string
	for _, k := range page.Keys {
		keys = append(keys, k.Key)
	}
	return keys
}

func (w *world) newest() storage.Epoch {
	w.t.Helper()
	e, _, err := storage.NewestEpoch(context.Background(), w.bucket, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) wantMembers(want ...string) {
	w.t.Helper()
	var got []string
	e := w.newest()
	for _, m := range e.Members {
		got = append(got, m.ID)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		w.t.Errorf("members of epoch %d are %v, want %v", e.N, got, want)
	}
}

// node is a membership with its own connection to the bucket.
type node struct {
	*membership.Membership
	w    *world
	id   string
	logs *waiting.Log
	hang func(request string) bool          // reports whether a request hangs; nil is never
	slow func(request string) time.Duration // latency of a response; nil is none

	mu     sync.Mutex
	seen   []string
	frozen chan struct{} // requests wait until it is closed
	beat   time.Time     // send time of the newest heartbeat
	views  []view        // as published

	kill func()     // stops Run without leaving
	done chan error // result of Run
}

type view struct {
	membership.View
	at time.Time
}

// node returns a node that serves alone. decide injects faults into its requests; nil is none.
func (w *world) node(id string, decide func(storagetest.Op) storagetest.Kind) *node {
	return w.slowNode(id, decide, storagetest.Plan{})
}

func (w *world) slowNode(id string, decide func(storagetest.Op) storagetest.Kind, plan storagetest.Plan) *node {
	w.t.Helper()
	if decide != nil {
		plan.Decide = decide
	}
	return w.make(membership.Self{ID: id, Address: id + ".example:3000", Version: "v1"}, plan)
}

// peer returns a node that shares the bucket, with a node address named after the first letter of its
// ID.
func (w *world) peer(id string, plan storagetest.Plan) *node {
	w.t.Helper()
	return w.make(membership.Self{ID: id, Address: id + ".example:3000", Node: id[:1] + ".example:7946", Version: "v1", Weight: 1}, plan)
}

// peers returns running nodes that joined one after the other.
func (w *world) peers(latency time.Duration, ids ...string) map[string]*node {
	w.t.Helper()
	peers := map[string]*node{}
	for i, id := range ids {
		peers[id] = w.peer(id, storagetest.Plan{Seed: uint64(i), Latency: latency}).join().run()
	}
	return peers
}

func (w *world) make(self membership.Self, plan storagetest.Plan) *node {
	w.t.Helper()
	n := &node{w: w, id: self.ID, logs: &waiting.Log{}}
	o := &membership.Options{
		Logger: slog.New(slog.NewTextHandler(n.logs, nil)),
		Load:   func() (active, busy int64) { return 7, 3 }, Publish: n.publish,
	}
	if w.net != nil {
		o.Reached = func() []string { return w.net.reachedBy(n.id) }
	}
	var err error
	n.Membership, err = membership.New(n.over(storagetest.Faulty(w.store, plan)), self, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (n *node) publish(v membership.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.views) > 0 && n.views[len(n.views)-1].Epoch >= v.Epoch {
		n.w.t.Errorf("%s: view %d published after %d", n.id, v.Epoch, n.views[len(n.views)-1].Epoch)
	}
	if !(storage.Epoch{Members: v.Members}).Has(n.id) {
		n.w.t.Errorf("%s: view %d lacks the node itself", n.id, v.Epoch)
	}
	n.views = append(n.views, view{v, time.Now()})
}

func (n *node) last() view {
	n.w.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.views) == 0 {
		n.w.t.Fatalf("%s: no view published", n.id)
	}
	return n.views[len(n.views)-1]
}

func (n *node) published() []view {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.views)
}

func (n *node) lastBeat() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.beat
}

// wantViews checks that nodes have published the newest epoch, and its members.
func (w *world) wantViews(nodes []*node, want ...string) {
	w.t.Helper()
	w.wantMembers(want...)
	e := w.newest()
	for _, n := range nodes {
		if diff := cmp.Diff(membership.View{Epoch: e.N, Members: e.Members}, n.last().View); diff != "" {
			w.t.Errorf("%s: view differs from the newest epoch (-epoch +view):\n%s", n.id, diff)
		}
	}
}

// values returns the nodes of a map except some, by ID.
func values(nodes map[string]*node, without ...string) []*node {
	var out []*node
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		if !slices.Contains(without, id) {
			out = append(out, nodes[id])
		}
	}
	return out
}

// over returns b with the node's requests recorded, and delayed while it is frozen.
func (n *node) over(b storage.Bucket) storage.Bucket {
	return storagetest.Through(b, func(ctx context.Context, c *storagetest.Call) error {
		request := c.Method + " " + c.Key
		n.mu.Lock()
		n.seen = append(n.seen, request)
		if request == "PUT "+storage.HeartbeatKey(n.id) {
			n.beat = time.Now()
		}
		frozen := n.frozen
		n.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if n.hang != nil && n.hang(request) {
			<-ctx.Done()
			return c.Unanswered(ctx.Err())
		}
		err := c.Do(ctx)
		if n.slow != nil {
			time.Sleep(n.slow(request))
		}
		return err
	})
}

func (n *node) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.seen
	n.seen = nil
	return out
}

// freeze stops a node like SIGSTOP, as far as others can observe. The returned function resumes it; it
// is nil if the node is already stopped.
func (n *node) freeze() func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen != nil {
		return nil
	}
	frozen := make(chan struct{})
	n.frozen = frozen
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.frozen = nil
		close(frozen)
	}
}

func (n *node) join() *node {
	n.w.t.Helper()
	if err := n.Join(n.w.t.Context()); err != nil {
		n.w.t.Fatalf("%s: %v", n.id, err)
	}
	return n
}

func (n *node) run() *node {
	ctx, cancel := context.WithCancel(n.w.t.Context())
	n.done = make(chan error, 1)
	ended := make(chan struct{})
	if n.w.net != nil {
		n.w.net.runs(n.id, true)
	}
	n.kill = func() {
		if n.w.net != nil {
			n.w.net.runs(n.id, false)
		}
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		n.done <- n.Run(ctx)
	}()
	n.w.t.Cleanup(n.kill)
	return n
}

func (n *node) ended() error {
	n.w.t.Helper()
	select {
	case err := <-n.done:
		return err
	case <-time.After(time.Hour): // bubble time
		n.w.t.Fatalf("%s still runs", n.id)
		return nil
	}
}

func (n *node) leave() {
	n.w.t.Helper()
	n.kill()
	if err := n.ended(); err != nil {
		n.w.t.Errorf("%s: %v", n.id, err)
	}
	if err := n.Leave(n.w.t.Context()); err != nil {
		n.w.t.Errorf("%s: %v", n.id, err)
	}
}

// wantAlive checks that a join was refused because of a live node.
func wantAlive(t *testing.T, err error, of string) {
	t.Helper()
	var e *membership.AliveError
	if !errors.As(err, &e) || e.Member.ID != of || e.Member.Address != of+".example:3000" || e.Epoch < 1 || !strings.Contains(err.Error(), of) {
		t.Errorf("got %v, want a refusal because of %s", err, of)
	}
}
