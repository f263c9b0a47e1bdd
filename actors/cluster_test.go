package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// clustered returns the options of a node that shares its bucket.
func clustered(o actors.Options) actors.Options {
	o.Cluster = &actors.ClusterOptions{Listen: "127.0.0.1:0", Insecure: true}
	return o
}

// isolated runs the calling test in a process of its own, concurrently with others, and returns true
// to the caller; in that process it returns false. It is for nodes that connect to each other:
// goroutines of their connections outlive them and read the logger of grpclog, which the library
// replaces without a lock whenever a node starts.
func isolated(t *testing.T) bool {
	t.Helper()
	if !proc.IsChild(t) {
		t.Parallel()
	}
	return proc.Isolated(t)
}

// together starts nodes of a cluster and waits until each reaches the others and has its share. No two
// connect before all listen; see isolated for the reason.
func (w *world) together(n int, s setup) []*node {
	w.tb.Helper()
	nodes, done := make([]*node, n), make([]<-chan error, n)
	for i := range nodes {
		nodes[i] = w.build(setup{opts: clustered(s.opts), model: s.model})
	}
	if n > 2 {
		w.mu.Lock()
		w.absent, w.listen = n, make(chan struct{})
		w.mu.Unlock()
	}
	for i, node := range nodes {
		done[i] = node.run()
		if n <= 2 { // Joining other nodes takes seconds.
			node.serves(done[i])
		}
	}
	for i, node := range nodes {
		node.serves(done[i])
	}
	w.meet(nodes)
	return nodes
}

// join holds each node's first read of the members until all nodes of together have made one: they
// read once they listen, and none knows another before.
func (w *world) join(ctx context.Context, c *storagetest.Call) error {
	w.mu.Lock()
	if c.Method != "LIST" || !strings.HasPrefix(c.Key, "members/") || w.absent == 0 {
		w.mu.Unlock()
		return nil
	}
	all := w.listen
	if w.absent--; w.absent == 0 {
		close(all)
	}
	w.mu.Unlock()
	select {
	case <-all:
		return nil
	case <-ctx.Done(): // The node reads again, while others may not have got here.
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.absent > 0 {
			w.absent++
		}
		return ctx.Err()
	}
}

func (w *world) meet(nodes []*node) {
	w.tb.Helper()
	for _, node := range nodes {
		eventually(w.tb, "nodes that reach each other", func() bool {
			st := node.rt.Status()
			return st.Members == len(nodes) && st.Reachable == len(nodes)-1 && st.Unreached == 0
		})
	}
}

// ownedBy returns a conversation that the node owns.
func ownedBy(tb testing.TB, n *node, name string) conversation.Address {
	tb.Helper()
	for i := range 1000 {
		at := chat(fmt.Sprintf("%s-%d", name, i))
		before := n.rt.Status().Active
		if _, err := n.rt.Precheck(context.Background(), message(at, "probe", "x")); err != nil {
			tb.Fatal(err)
		}
		if n.rt.Status().Active > before {
			return at
		}
	}
	tb.Fatal("no conversation owned by the node")
	return conversation.Address{}
}

// TestAnyNodeAdmits sends requests to a node that does not own the conversation: short ones, and ones
// too long for a message.
func TestAnyNodeAdmits(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.UnloadAfter, opts.EvictAfter = time.Hour, time.Hour // activations are counted
	nodes := w.together(2, setup{opts: opts, model: emits(3)})
	owner, other := nodes[0], nodes[1]
	at := ownedBy(t, owner, "c")
	probed := other.rt.Status().Active
	long := strings.Repeat("x", 1<<20)
	first := other.admit(at, "k1", "hello")
	if again := owner.admit(at, "k1", "hello"); again.SubmissionID != first.SubmissionID || !again.Deduplicated {
		t.Errorf("got receipt %+v from the owner, want deduplicated", again)
	}
	for _, precheck := range []bool{true, false} {
		a := message(at, "k2", long)
		if precheck {
			if known, err := other.rt.Precheck(context.Background(), a); err != nil || known != nil {
				t.Errorf("precheck of a long message: %+v, %v", known, err)
			}
			continue
		}
		other.accept(a)
	}
	w.untilSettled(at, 2)
	admitted := only[*conversation.SubmissionAdmitted](w.records(at))
	if len(admitted) != 2 || admitted[1].Delivery.Body != long {
		t.Errorf("got %d messages in the log", len(admitted))
	}
	w.until("no object that was staged", func() bool {
		for key := range w.listing() {
			if strings.HasPrefix(key, "staged/") {
				return false
			}
		}
		return true
	})
	wrong := message(at, "k3", "x")
	wrong.Condition = conversation.Condition{Set: true, UID: "other"}
	_, err := other.rt.Admit(context.Background(), wrong)
	codeIs(t, err, conversation.CodeInstanceNotFound)
	if aborted, err := other.rt.Abort(context.Background(), at); err != nil || aborted {
		t.Errorf("abort of nothing: %v, %v", aborted, err)
	}
	if got := other.rt.Status().Active; got != probed {
		t.Errorf("got %d activations on the other node, want %d", got, probed)
	}
}

// TestReadersOnAnotherNode follows a conversation on a node that does not run it.
func TestReadersOnAnotherNode(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	model := make(stage)
	opts := agents(chatAgent())
	opts.Pace = 50 * time.Millisecond
	nodes := w.together(2, setup{opts: opts, model: model})
	owner, other := nodes[0], nodes[1]
	at := ownedBy(t, owner, "c")
	receipt := other.admit(at, "k", "hello")
	call := model.next(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reader := other.rt.Reader()
	tailing := conversation.Tailing(ctx)
	next, seen := receipt.Offset, 0
	for i := range 20 {
		word := fmt.Sprintf("word%d ", i)
		call.text(word)
		for {
			page, err := reader.Updates(tailing, at, next, 100)
			if err != nil {
				t.Fatal(err)
			}
			next = page.Next
			if strings.Contains(string(page.JSON), word) {
				seen++
				break
			}
			if err := reader.Wait(tailing, at, next); err != nil {
				t.Fatal(err)
			}
		}
	}
	call.finish()
	loads := other.rt.Status().Follower.Loads
	if owner.rt.Status().Relayed == 0 {
		t.Error("no batch was pushed")
	}
	if loads > 5 {
		t.Errorf("got %d bucket reads for %d words", loads, seen)
	}
	w.untilSettled(at, 1)
	want, err := owner.rt.Reader().Snapshot(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Wait(tailing, at, want.Next-1); err != nil { // The owner confirms the stored tail.
		t.Fatal(err)
	}
	got, err := reader.Snapshot(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want.JSON), string(got.JSON)); diff != "" {
		t.Errorf("the snapshots differ (-owner +other):\n%s", diff)
	}
}

// TestReadsSeeAcknowledgedWrites reads at each node, without an offset, a message that another
// node has just acknowledged.
func TestReadsSeeAcknowledgedWrites(t *testing.T) {
	if isolated(t) {
		return
	}
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprint("strict ", strict), func(t *testing.T) {
			w := newWorld(t)
			o := agents(chatAgent())
			o.StrictReads = strict
			nodes := w.together(3, setup{opts: o, model: emits(1)})
			var wg sync.WaitGroup
			for c := range 4 {
				wg.Go(func() {
					for i := range 10 {
						at := chat(fmt.Sprint("c", c))
						receipt := nodes[(c+i)%3].admit(at, fmt.Sprint("k", i), "x")
						page, err := nodes[(c+i+1)%3].rt.Reader().Snapshot(context.Background(), at)
						if err != nil {
							t.Error(err)
							return
						}
						if page.Next < receipt.Offset || !strings.Contains(string(page.JSON), string(receipt.SubmissionID)) {
							t.Errorf("acknowledged at %v, got later snapshot at %v", receipt.Offset, page.Next)
						}
						head, err := nodes[(c+i+2)%3].rt.Reader().Head(context.Background(), at)
						if err != nil || head < receipt.Offset {
							t.Errorf("acknowledged at %v, got head %v, %v", receipt.Offset, head, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestHandOverCostsNoAttempt stops the owner in the middle of a response.
func TestHandOverCostsNoAttempt(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	model := make(stage)
	opts := agents(chatAgent())
	opts.DrainTimeout = 2 * patience
	nodes := w.together(2, setup{opts: opts, model: model})
	owner, other := nodes[0], nodes[1]
	at := ownedBy(t, owner, "c")
	other.admit(at, "k", "hello")
	call := model.next(t)
	call.text("half a ")
	w.until("the first half", func() bool { return strings.Contains(w.lines(at), "half a ") })

	handed := make(chan error, 1)
	go func() { handed <- owner.rt.HandOver(context.Background()) }()
	second := model.next(t)
	if err := await(t, handed, "the end of the handover"); err != nil {
		t.Fatal(err)
	}
	st := owner.rt.Status()
	if st.Active != 0 || st.Ready || !strings.Contains(st.Reason, "draining") || st.HandedOver != 1 {
		t.Errorf("after the handover: got %+v", st)
	}
	if _, err := owner.rt.Admit(context.Background(), message(at, "k2", "through the one that leaves")); err != nil {
		t.Errorf("not forwarded by a leaving node: %v", err)
	}
	second.text("reply")
	second.finish()
	model.next(t).finish()
	w.untilSettled(at, 2)
	if err := owner.stop(); err != nil {
		t.Error(err)
	}
	records := w.records(at)
	if got := len(only[*conversation.AttemptReleased](records)); got != 1 {
		t.Errorf("got %d released attempts, want 1", got)
	}
	for _, s := range only[*conversation.AttemptStarted](records) {
		if s.Attempt != 1 {
			t.Errorf("got attempt %d of %s, want the handover to count none", s.Attempt, s.Submission)
		}
	}
	eventually(t, "one member", func() bool { return other.rt.Status().Members == 1 })
	for key := range w.listing() {
		if strings.HasPrefix(key, "pending/"+st.Member) || strings.HasPrefix(key, "heartbeat/"+st.Member) {
			t.Errorf("remaining after the node left: %s", key)
		}
	}
}

// TestCrashedNodesAreReplaced permanently cuts the owner off the bucket in the middle of a response,
// without further requests.
func TestCrashedNodesAreReplaced(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	model := make(stage)
	nodes := w.together(3, setup{opts: doomed(chatAgent()), model: model})
	at := ownedBy(t, nodes[0], "c")
	nodes[1].admit(at, "k", "hello")
	call := model.next(t)
	call.text("half a ")
	w.until("the first half", func() bool { return strings.Contains(w.lines(at), "half a ") })
	nodes[0].cut()
	second := model.next(t)
	second.text("reply")
	second.finish()
	w.untilSettled(at, 1)
	started := only[*conversation.AttemptStarted](w.records(at))
	if len(started) != 2 || started[0].Writer == started[1].Writer {
		t.Errorf("got attempts %+v", started)
	}
	// The sweep counts it when its probe is answered, which may be after the reply.
	eventually(t, "a sweep that took the conversation over", func() bool {
		return nodes[1].rt.Status().TakenOver+nodes[2].rt.Status().TakenOver > 0
	})
	st := nodes[0].rt.Status()
	if !st.Passive || st.Ready {
		t.Errorf("got status %+v, want passive", st)
	}
	_, err := nodes[0].rt.Admit(context.Background(), message(at, "k2", "x"))
	if e := codeIs(t, err, conversation.CodeUnavailable); e != nil && e.RetryAfter != 2*time.Second {
		t.Errorf("got retry-after %v from a passive node", e.RetryAfter)
	}
}

// TestDrainByCommand drains a node from outside, and cancels that.
func TestDrainByCommand(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	nodes := w.together(2, setup{opts: agents(chatAgent()), model: emits(1)})
	at := ownedBy(t, nodes[0], "c")
	nodes[1].admit(at, "k1", "x")
	w.untilSettled(at, 1)
	member := nodes[0].rt.Status().Member
	view, err := actors.SetDraining(context.Background(), w.bucket, member, true)
	if err != nil {
		t.Fatal(err)
	}
	shares := map[string]float64{}
	for _, m := range view.Members {
		shares[m.ID] = m.Share
	}
	if shares[member] != 0 || shares[nodes[1].rt.Status().Member] != 1 {
		t.Errorf("got shares %v", shares)
	}
	eventually(t, "an empty node", func() bool { return nodes[0].rt.Status().Active == 0 })
	nodes[0].admit(at, "k2", "x")
	w.untilSettled(at, 2)
	if got := nodes[0].rt.Status().Active; got != 0 {
		t.Errorf("got %d activations on a drained node, want 0", got)
	}
	if _, err := actors.SetDraining(context.Background(), w.bucket, member, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node's share", func() bool {
		nodes[1].admit(at, "k2", "x")
		return nodes[0].rt.Status().Active == 1
	})
	if _, err := actors.SetDraining(context.Background(), w.bucket, "nobody", true); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v for an unknown member", err)
	}
}

// TestTwoOwners has two nodes that each know only themselves: the log decides.
func TestTwoOwners(t *testing.T) {
	w := newWorld(t)
	var nodes []*node
	for range 2 {
		o := agents(chatAgent())
		o.SweepEvery = 50 * time.Millisecond
		nodes = append(nodes, w.start(setup{opts: o, model: emits(20)}))
	}
	at := chat("both")
	const each = 20
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			for k := range each {
				key := fmt.Sprintf("%d-%d", i, k)
				eventually(t, "an admission", func() bool {
					_, err := n.rt.Admit(context.Background(), message(at, key, "x"))
					return err == nil
				})
			}
		})
	}
	wg.Wait()
	settled := w.untilSettled(at, 2*each)
	seen := map[conversation.SubmissionID]bool{}
	for _, s := range settled {
		if seen[s.Submission] {
			t.Errorf("duplicate settlement of %s", s.Submission)
		}
		seen[s.Submission] = true
	}
	var fences int64
	for _, n := range nodes {
		fences += n.rt.Status().Fences
	}
	if fences == 0 {
		t.Error("no writer was fenced")
	}
	var prev storage.Hash
	for b, err := range w.logs.Batches(context.Background(), at.Key(), storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Prev != prev {
			t.Errorf("batch %d does not continue the one before it", b.Seq)
		}
		prev = b.Hash
	}
}

// TestMixedNodesInBucket starts a node that wants the bucket alone next to a cluster, and vice
// versa.
func TestMixedNodesInBucket(t *testing.T) {
	for _, first := range []string{"cluster", "alone"} {
		t.Run(first+" first", func(t *testing.T) {
			w := newWorld(t)
			one, two := clustered(agents(chatAgent())), agents(chatAgent())
			if first == "alone" {
				one, two = two, one
			}
			w.start(setup{opts: one, model: emits(1), shared: true})
			err := w.build(setup{opts: two, model: emits(1), shared: true}).rt.Run(t.Context())
			var refused *actors.MemberError
			if !errors.As(err, &refused) || refused.Replaced || refused.Cluster != (first == "alone") {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}

// TestClusterOptions rejects each invalid option before any request.
func TestClusterOptions(t *testing.T) {
	weight := 1001
	for want, c := range map[string]actors.ClusterOptions{
		"Listen is empty":    {},
		"names no host":      {Listen: "0.0.0.0:7000", Insecure: true},
		"names no host that": {Listen: ":7000", Insecure: true},
		"want 0 to 1000":     {Listen: "127.0.0.1:0", Insecure: true, Weight: &weight},
		"missing port":       {Listen: "127.0.0.1", Insecure: true},
		"can reach":          {Listen: "127.0.0.1:0", Insecure: true},
	} {
		bucket := newWorld(t).bucket
		if want != "can reach" {
			bucket = storagetest.Shared(bucket)
		}
		o := agents(chatAgent())
		o.Cluster = &c
		if _, err := actors.New(bucket, &o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", c, err, want)
		}
	}
}
