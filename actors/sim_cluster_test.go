package actors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/chaos"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

var errStageLost = errors.New("the network has lost it")

// simCluster is a few real nodes over one bucket. A script decides which node each node considers the
// owner, which requests block, and which nodes crash; everything else takes no time. There is no
// model: submissions fail at once, so that the owner needs one more batch.
type simCluster struct {
	*testing.T
	fleet *simFleet
	store *local.Store
	late  sync.WaitGroup // requests without a caller

	mu    sync.Mutex
	nodes map[string]*simMember
	views map[string]string // node that each node considers the owner of everything
	holds []*hold
	acks  []simAck
	// deadly is a conversation whose opening crashes the node; broken is the violation.
	deadly, broken string
	// reading is how long it is read before the crash; set before deadly.
	reading time.Duration
	// conversation whose log is listed slowly
	slow   string
	slowly time.Duration
}

type simAck struct {
	at  conversation.Address
	key string
}

// simMember is a node on a stage.
type simMember struct {
	simCluster *simCluster
	name       string
	rt         *Runtime
	host       *simHost
	stop       context.CancelFunc
	done       chan struct{}
	down       bool
}

// hold blocks requests.
type hold struct {
	simCluster *simCluster
	node       string
	match      func(key string) bool
	answers    bool // the requests land, and their answers are blocked

	once   sync.Once
	caught chan struct{} // closed once a request is blocked
	over   chan struct{} // closed on release
	lands  bool          // whether released requests land
}

// runSimScript runs a script and returns the violation, "" for none.
func runSimScript(t *testing.T, system *actor.ActorSystem, script func(*simCluster)) (violation string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &simCluster{
			T: t, fleet: &simFleet{system: system, hosts: map[string]*simHost{}}, store: local.NewMemory(),
			nodes: map[string]*simMember{}, views: map[string]string{}, reading: pending.SlowOpening / 2,
		}
		defer s.close()
		script(s)
		violation = s.end()
	})
	return violation
}

// start starts nodes that consider the first of them the owner of everything.
func (s *simCluster) start(names ...string) {
	s.Helper()
	for _, name := range names {
		p := &simMember{simCluster: s, name: name, done: make(chan struct{})}
		var err error
		p.rt, err = newRuntime(storagetest.Through(s.store, p.carry), &Options{
			Agents: []*agent.Agent{{Name: "worker", Model: "no/model"}}, SweepEvery: 24 * time.Hour, DrainTimeout: time.Second, Pace: simPace,
		})
		if err != nil {
			s.Fatal(err)
		}
		p.host = newSimHost(chaos.Site{
			Member: name, Owner: func(string) string { return s.owner(name) },
			Message:  func(context.Context, string, string) chaos.Course { return chaos.Course{} },
			Panicked: func(reason any, stack []byte) { s.Errorf("an actor panicked: %v\n%s", reason, stack) },
		}, s.fleet)
		p.host.rt = p.rt
		if err := p.rt.attach(p.host); err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.Context())
		p.stop = cancel
		s.nodes[name] = p
		s.setOwnerView(name, names[0])
		go func() {
			defer close(p.done)
			if err := p.rt.Run(ctx); err != nil && !p.isCrashed() {
				s.Errorf("node %s ends: %v", name, err)
			}
		}()
		<-p.rt.Ready()
	}
	s.pass(time.Second)
}

// pass advances time until all goroutines are blocked again.
func (s *simCluster) pass(d time.Duration) { time.Sleep(d) }

func (s *simCluster) owner(of string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.views[of]
}

// setOwnerView makes a node consider one the owner of everything.
func (s *simCluster) setOwnerView(node, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views[node] = owner
}

// kill crashes a node. Its requests in flight may still land.
func (s *simCluster) kill(name string) {
	p := s.nodes[name]
	s.mu.Lock()
	p.down = true
	s.mu.Unlock()
	p.host.kill()
	p.stop()
}

func (p *simMember) isCrashed() bool {
	p.simCluster.mu.Lock()
	defer p.simCluster.mu.Unlock()
	return p.down
}

func at(conv string) conversation.Address { return conversation.Address{Agent: "worker", ID: conv} }

// admit sends an admission to a node and returns once all goroutines are blocked. It reports whether
// there is a receipt by then.
func (s *simCluster) admit(node, conv, key string) bool {
	done := make(chan struct{})
	s.late.Go(func() {
		_, err := s.nodes[node].rt.Admit(s.Context(), conversation.Admission{
			Address: at(conv), Key: key, Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hi"},
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && !s.nodes[node].down {
			s.acks = append(s.acks, simAck{at(conv), key})
			close(done)
		}
	})
	s.pass(10 * time.Millisecond)
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// acked ends the script unless an admission has a receipt.
func (s *simCluster) acked(conv, key string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.acks, simAck{at(conv), key}) {
		s.Fatalf("off the script: no receipt for %s of %s", key, conv)
	}
}

// sweep makes a node sweep and returns once all goroutines are blocked.
func (s *simCluster) sweep(node string) {
	s.late.Go(func() {
		if err := s.nodes[node].rt.sweeper.Sweep(s.Context()); err != nil {
			s.Logf("sweep of %s: %v", node, err)
		}
	})
	s.pass(10 * time.Millisecond)
}

// hold blocks the writes of a node under matching keys.
func (s *simCluster) hold(node string, match func(key string) bool) *hold {
	h := &hold{simCluster: s, node: node, match: match, caught: make(chan struct{}), over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = append(s.holds, h)
	return h
}

// batches matches the keys of a conversation's log from a number on.
func batches(conv string, from int64) func(string) bool {
	first := storage.LogKey(at(conv).Key(), from)
	return func(key string) bool {
		return strings.HasPrefix(key, first[:strings.LastIndex(first, "/")]) && key >= first
	}
}

// journals matches the keys of a node's journals from a number on.
func journals(node string, from int64) func(string) bool {
	first := storage.JournalKey(node, from)
	return func(key string) bool { return strings.HasPrefix(key, "pending/"+node+"/") && key >= first }
}

// tail returns the number of a conversation's last batch.
func (s *simCluster) tail(conv string) int64 {
	s.Helper()
	tail, err := storage.NewLogs(s.store, nil).Tail(s.Context(), at(conv).Key(), -1)
	if err != nil {
		s.Fatal(err)
	}
	return tail
}

// await ends the script unless a request is blocked.
func (h *hold) await() *hold {
	h.simCluster.Helper()
	select {
	case <-h.caught:
	case <-time.After(5 * time.Second):
		h.simCluster.Fatalf("off the script: no blocked write of %s", h.node)
	}
	return h
}

// release releases the blocked requests, which land or do not.
func (h *hold) release(lands bool) {
	h.simCluster.mu.Lock()
	h.simCluster.holds = slices.DeleteFunc(h.simCluster.holds, func(other *hold) bool { return other == h })
	h.lands = lands
	h.simCluster.mu.Unlock()
	close(h.over)
	h.simCluster.pass(10 * time.Millisecond)
}

func (s *simCluster) holding(node, method, key string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holds {
		if h.node == node && method == http.MethodPut && h.match(key) {
			h.once.Do(func() { close(h.caught) })
			return h
		}
	}
	return nil
}

func opens(c *storagetest.Call, conv string) bool {
	return c.Method == "LIST" && c.After == "" && c.Key == storage.FolderOf(at(conv).Key())+"log/"
}

func (s *simCluster) isDeadly() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadly
}

// setDeadly makes opening a conversation crash the node; "" is none.
func (s *simCluster) setDeadly(conv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadly = conv
}

// setSlow makes a conversation's log slow to list; "" is none.
func (s *simCluster) setSlow(conv string, slowly time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow, s.slowly = conv, slowly
}

// delays returns the duration of a request.
func (s *simCluster) delays(c *storagetest.Call) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow == "" || !opens(c, s.slow) {
		return 0
	}
	return s.slowly
}

// wantQuarantined reports a violation unless exactly the given conversations are quarantined, and no
// pending work is left.
func (s *simCluster) wantQuarantined(convs ...string) {
	s.Helper()
	var want []conversation.Key
	for _, conv := range convs {
		want = append(want, at(conv).Key())
	}
	slices.Sort(want)
	got, err := storage.ListQuarantine(s.Context(), s.store)
	if err != nil {
		s.Fatal(err)
	}
	if !slices.Equal(got, want) && s.broken == "" {
		s.broken = fmt.Sprintf("got quarantined %v, want %v", got, want)
	}
}

func (p *simMember) carry(ctx context.Context, c *storagetest.Call) error {
	later, err := c.Later()
	if err != nil {
		return c.Unanswered(err)
	}
	land := func() error { return later(context.WithoutCancel(ctx)) }
	if p.isCrashed() {
		return c.Unanswered(errSimStopped)
	}
	if d := p.simCluster.delays(c); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return c.Unanswered(errStageLost)
	}
	deadly := p.simCluster.isDeadly()
	if deadly != "" && opens(c, "y") {
		p.simCluster.pass(pending.SlowOpening)
	}
	if deadly != "" && opens(c, deadly) {
		p.simCluster.pass(p.simCluster.reading)
		p.simCluster.late.Go(func() { p.simCluster.kill(p.name) })
		<-p.host.gone
		return c.Unanswered(errSimStopped)
	}
	h := p.simCluster.holding(p.name, c.Method, c.Key)
	switch {
	case h == nil:
		return land()
	case h.answers:
		err := land()
		select {
		case <-h.over:
			return err
		case <-ctx.Done():
			return c.Unanswered(ctx.Err())
		}
	}
	select {
	case <-h.over:
	case <-ctx.Done():
		p.simCluster.late.Go(func() { // It has left the process and cannot be canceled.
			if <-h.over; h.lands {
				_ = land()
			}
		})
		return c.Unanswered(ctx.Err())
	}
	if !h.lands {
		return c.Unanswered(errStageLost)
	}
	return land()
}

// end drops the blocked requests, lets the live nodes sweep under one view, and returns the resulting
// violation.
func (s *simCluster) end() string {
	for len(s.holds) > 0 {
		s.holds[0].release(false)
	}
	var live []string
	for name, p := range s.nodes {
		if !p.down {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	if s.broken != "" {
		return s.broken
	}
	for range 4 {
		for _, name := range live {
			s.setOwnerView(name, live[0])
			s.sweep(name)
		}
		s.pass(time.Minute)
	}
	logs := storage.NewLogs(s.store, nil)
	for _, a := range s.acks {
		state := conversation.NewState()
		for b, err := range logs.Batches(s.Context(), a.at.Key(), storage.Start()) {
			if err == nil {
				err = new(history.Store).Fold(state, b)
			}
			if err != nil {
				s.Fatal(err)
			}
		}
		if sub := state.Lookup(a.key); sub == nil || !sub.Settled {
			return fmt.Sprintf("%s of %s acknowledged but not settled", a.key, a.at.ID)
		}
	}
	for _, name := range live {
		if held := s.nodes[name].rt.sweeper.Journal.Held(); len(held) > 0 {
			return fmt.Sprintf("%s lists %v", name, held)
		}
	}
	refs, err := storage.Journals(s.Context(), s.store)
	if err != nil {
		s.Fatal(err)
	}
	for _, ref := range refs {
		if !slices.Contains(live, ref.Member) {
			return fmt.Sprintf("got remaining journals %v of a crashed node", ref.Keys)
		}
	}
	return ""
}

func (s *simCluster) close() {
	for len(s.holds) > 0 {
		s.holds[0].release(false)
	}
	for _, p := range s.nodes {
		p.stop()
		<-p.done
	}
	s.late.Wait()
	s.pass(time.Second) // The actor system's dead-letter counter ends by itself.
	if err := s.store.Close(); err != nil {
		s.Error(err)
	}
}
