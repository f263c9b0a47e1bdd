package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// memberHost is a host without sockets whose start and stop the test controls.
type memberHost struct {
	*fakeHost
	id      string
	members *members
	single  bool
	start   func() error
	stop    func()
}

func (h *memberHost) MemberID() string { return h.id }

func (h *memberHost) Start(ctx context.Context) error {
	var err error
	if !h.single {
		err = h.members.Join(ctx, grain.Member{ID: h.id, Host: h.id + ".example", Port: 1}, func([]grain.Member) {})
	}
	if err == nil && h.start != nil {
		err = h.start()
	}
	if err != nil {
		err = errors.Join(err, h.members.Leave(context.WithoutCancel(ctx)))
	}
	return err
}

func (h *memberHost) Stop(ctx context.Context) error {
	if h.stop != nil {
		h.stop()
	}
	return h.members.Leave(ctx)
}

// memberNode is a runtime with its own link to the bucket.
type memberNode struct {
	t    *testing.T
	rt   *Runtime
	host *memberHost
	stop context.CancelFunc // as SIGTERM does
	done chan error

	mu     sync.Mutex
	seen   []string
	cut    bool          // All requests fail.
	frozen chan struct{} // Requests wait until it is closed.
}

func newMemberNode(t *testing.T, bucket storage.Bucket, id string) *memberNode {
	t.Helper()
	n := &memberNode{t: t, host: &memberHost{fakeHost: &fakeHost{}, id: id}, done: make(chan error, 1)}
	var err error
	if n.rt, err = newRuntime(storagetest.Through(bucket, n.carry), &Options{Address: id + ".example"}); err != nil {
		t.Fatal(err)
	}
	n.host.members, n.host.single = n.rt.nodes.members, storage.IsExclusive(bucket)
	if err := n.rt.attach(n.host); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *memberNode) carry(ctx context.Context, c *storagetest.Call) error {
	n.mu.Lock()
	n.seen = append(n.seen, c.Method+" "+c.Key)
	cut, frozen := n.cut, n.frozen
	n.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	if cut {
		<-ctx.Done()
		return c.Unanswered(ctx.Err())
	}
	return c.Do(ctx)
}

func (n *memberNode) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.seen
	n.seen = nil
	return out
}

// crash permanently cuts a node off the bucket, after requests in flight: a heartbeat that lands later
// would look alive.
func (n *memberNode) crash() {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
}

// freeze blocks the node's requests until the returned function is called.
func (n *memberNode) freeze() func() {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	frozen := make(chan struct{})
	n.frozen = frozen
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.frozen = nil
		close(frozen)
	}
}

func (n *memberNode) run() *memberNode {
	ctx, cancel := context.WithCancel(n.t.Context())
	n.stop = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.done <- n.rt.Run(ctx)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return n
}

// ended returns the result of Run.
func (n *memberNode) ended() error {
	n.t.Helper()
	select {
	case err := <-n.done:
		return err
	case <-time.After(5 * time.Minute): // of the bubble's clock
		n.t.Fatalf("%s: still running", n.host.id)
		return nil
	}
}

// serves starts a node and waits until it accepts requests.
func (n *memberNode) serves() *memberNode {
	n.t.Helper()
	n.run()
	select {
	case <-n.rt.Ready():
	case err := <-n.done:
		n.t.Fatalf("%s: run ended: %v", n.host.id, err)
	}
	return n
}

// ends stops a node gracefully.
func (n *memberNode) ends() {
	n.t.Helper()
	n.stop()
	if err := n.ended(); err != nil {
		n.t.Errorf("%s: %v", n.host.id, err)
	}
}

// refused starts a node and checks that another node prevents it.
func (n *memberNode) refused(because string) {
	n.t.Helper()
	n.run()
	n.isRefused(n.ended(), because)
}

func (n *memberNode) isRefused(err error, because string) {
	n.t.Helper()
	var member *MemberError
	if !errors.As(err, &member) || member.Member != because || member.Address != because+".example" || member.Replaced {
		n.t.Errorf("%s: got %v, want a rejection because of %s", n.host.id, err, because)
		return
	}
	for _, part := range []string{because, because + ".example", "stop it", "another bucket", "2s"} {
		if !strings.Contains(err.Error(), part) {
			n.t.Errorf("got error %q, want %q in it", err, part)
		}
	}
	select {
	case <-n.rt.Ready():
		n.t.Errorf("got %s ready", n.host.id)
	default:
	}
}

// bubble runs a test over a shared bucket in memory, in a bubble.
func bubble(t *testing.T, test func(*testing.T, storage.Bucket)) {
	synctest.Test(t, func(t *testing.T) { test(t, sharedBucket(t)) })
}

func took(t *testing.T, began time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(began); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSecondNodeIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		a := newMemberNode(t, bucket, "a").serves()
		newMemberNode(t, bucket, "b").refused("a")
		time.Sleep(5 * time.Minute)
		newMemberNode(t, bucket, "c").refused("a")
		a.ends()
		began := time.Now()
		newMemberNode(t, bucket, "d").serves()
		took(t, began, 0)
	})
}

func TestKilledNodeIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		a := newMemberNode(t, bucket, "a").serves()
		time.Sleep(time.Minute)
		a.crash()
		began := time.Now()
		b := newMemberNode(t, bucket, "b").serves()
		took(t, began, membership.DefaultSuspect)
		newMemberNode(t, bucket, "c").refused("b")
		b.ends()
	})
}

func TestNodesThatStartAtOnce(t *testing.T) {
	for round := range 20 {
		bubble(t, func(t *testing.T, bucket storage.Bucket) {
			if round%2 == 1 { // After a crash.
				newMemberNode(t, bucket, "dead").serves().crash()
			}
			var nodes []*memberNode
			for i := range 4 {
				nodes = append(nodes, newMemberNode(t, bucket, fmt.Sprint("n", i)).run())
			}
			time.Sleep(10 * time.Second)
			var serving []*memberNode
			for _, n := range nodes {
				select {
				case <-n.rt.Ready():
					serving = append(serving, n)
				default:
				}
			}
			if len(serving) != 1 {
				t.Fatalf("got %d serving nodes, want 1", len(serving))
			}
			for _, n := range nodes {
				if n != serving[0] {
					n.isRefused(n.ended(), serving[0].host.id)
				}
			}
			serving[0].ends()
		})
	}
}

// TestReplacedNodeEnds pauses a node until another replaced it.
func TestReplacedNodeEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		leave bool // The other node has left when the paused one continues.
		want  string
	}{
		"the other serves": {false, `node b at "b.example" replaced this node`},
		"the other left":   {true, "replaced by one that has left"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, bucket storage.Bucket) {
				a := newMemberNode(t, bucket, "a").serves()
				goOn := a.freeze()
				b := newMemberNode(t, bucket, "b").serves()
				if tt.leave {
					b.ends()
				}
				time.Sleep(time.Minute)
				goOn()
				err := a.ended()
				var member *MemberError
				if !errors.As(err, &member) || !member.Replaced || (member.Member == "b") == tt.leave || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want a replacement: %s", err, tt.want)
				}
				if tt.leave {
					newMemberNode(t, bucket, "c").serves()
				} else {
					newMemberNode(t, bucket, "c").refused("b")
				}
			})
		})
	}
}

// TestHeartbeatsOutliveTheDrain delays the shutdown of a node: others have to wait.
func TestHeartbeatsOutliveTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		a := newMemberNode(t, bucket, "a")
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		a.host.stop = func() { <-gate }
		a.serves().stop()
		t.Cleanup(open)
		time.Sleep(time.Minute)
		newMemberNode(t, bucket, "b").refused("a")
		open()
		a.ends()
		newMemberNode(t, bucket, "c").serves()
	})
}

func TestNodeThatCannotStartLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		broken := errors.New("no port")
		a := newMemberNode(t, bucket, "a")
		a.host.start = func() error { return broken }
		a.run()
		if err := a.ended(); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		began := time.Now()
		newMemberNode(t, bucket, "b").serves()
		took(t, began, 0)
	})
}

func TestStopWhileItWatches(t *testing.T) {
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		newMemberNode(t, bucket, "dead").serves().crash()
		a := newMemberNode(t, bucket, "a").run()
		time.Sleep(time.Second)
		a.ends()
	})
}

// TestMembershipRequests counts the requests of membership at a node's start and shutdown.
func TestMembershipRequests(t *testing.T) {
	epoch := storage.EpochKey
	run := func(t *testing.T, over func(storage.Bucket) storage.Bucket) (start, end []string) {
		bubble(t, func(t *testing.T, bucket storage.Bucket) {
			ready := make(chan []string, 1)
			a := newMemberNode(t, over(bucket), "a")
			a.host.start = func() error { // All requests of the start precede the first accepted request.
				ready <- a.requests()
				return nil
			}
			a.serves()
			start = <-ready
			synctest.Wait()
			a.requests()
			a.ends()
			end = a.requests()
		})
		return start, end
	}
	format := []string{"GET format.json"}
	start, end := run(t, storagetest.Exclusive)
	if diff := cmp.Diff([][]string{format, nil}, [][]string{start, end}); diff != "" {
		t.Errorf("single (-want +got):\n%s", diff)
	}
	start, end = run(t, storagetest.Shared)
	if diff := cmp.Diff(slices.Concat(format, []string{"GET probe/result/e3b0c44298fc1c149afbf4c8996fb924", "LIST members/", "LIST heartbeat/", "PUT heartbeat/a", "PUT " + epoch(1), "LIST members/"}), start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	want := []string{"LIST members/", "GET " + epoch(1), "PUT " + epoch(2), "LIST members/", "DELETE " + epoch(1), "DELETE heartbeat/a"}
	if diff := cmp.Diff(want, end); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		a := newMemberNode(t, storagetest.Exclusive(bucket), "a").serves()
		time.Sleep(5 * time.Minute)
		for _, request := range a.requests() {
			if strings.Contains(request, "members/") || strings.Contains(request, "heartbeat/") {
				t.Errorf("got request %s of the single node", request)
			}
		}
	})
}

// TestRowAndJournalShareIncarnation uses the real host: the row and the pending-work journal have the same
// incarnation, which is new at every start.
func TestRowAndJournalShareIncarnation(t *testing.T) {
	bucket := sharedBucket(t)
	seen := map[string]bool{}
	for range 2 {
		r, err := New(bucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		select {
		case <-r.Ready():
		case err := <-done:
			t.Fatal(err)
		}
		e, _, err := storage.NewestEpoch(t.Context(), bucket, 0)
		if err != nil || len(e.Members) != 1 || e.Members[0].ID != r.sweeper.Journal.Member() || e.Members[0].Address == "" || e.Members[0].Version == "" {
			t.Errorf("got epoch %+v, %v; want member %s alone, with address and version", e, err, r.sweeper.Journal.Member())
		}
		if seen[r.sweeper.Journal.Member()] {
			t.Errorf("got member %s twice", r.sweeper.Journal.Member())
		}
		seen[r.sweeper.Journal.Member()] = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestMembershipOptionsAreChecked(t *testing.T) {
	bucket := sharedBucket(t)
	for name, opts := range map[string]*Options{
		"address": {Address: "a\nb"},
		"long":    {Address: strings.Repeat("x", 257)},
	} {
		if _, err := newRuntime(bucket, opts); err == nil || !strings.Contains(err.Error(), "option ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestMembersAreDeleted deletes members/* under a node: it is unready at once with that reason, and
// ends with the remedy.
func TestMembersAreDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		a := newMemberNode(t, bucket, "a").serves()
		time.Sleep(time.Minute)
		if st := a.rt.Status(); !st.Ready {
			t.Fatalf("got not ready: %s", st.Reason)
		}
		if err := a.rt.nodes.members.bucket.Delete(t.Context(), storage.EpochKey(a.rt.Status().Epoch)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(membership.DefaultHeartbeat)
		if st := a.rt.Status(); st.Ready || !st.Passive || !strings.Contains(st.Reason, "members/ of the bucket were deleted") {
			t.Errorf("got ready %v, passive %v: %s", st.Ready, st.Passive, st.Reason)
		}
		var member *MemberError
		if err := a.ended(); !errors.As(err, &member) || !member.Deleted || !member.Replaced || !strings.Contains(err.Error(), "start all nodes of the bucket again") {
			t.Errorf("got %v", err)
		}
		newMemberNode(t, bucket, "b").serves()
	})
}

// TestBriefPassivity delays the confirmation of a node's row: callers wait for it, and are rejected
// if it does not come.
func TestBriefPassivity(t *testing.T) {
	bubble(t, func(t *testing.T, bucket storage.Bucket) {
		a := newMemberNode(t, bucket, "a").serves()
		goOn := a.freeze()
		time.Sleep(2 * time.Second)
		if !a.rt.nodes.members.passive() {
			t.Fatal("got an active node, want passive because the bucket does not answer")
		}
		began := time.Now()
		_, err := a.rt.Abort(t.Context(), conversation.Address{Agent: "a", ID: "c"})
		if took := time.Since(began); conversation.CodeOf(err) != conversation.CodeUnavailable || !errors.Is(err, errPassive) || took != retryAfter {
			t.Errorf("got rejection after %v: %v", took, err)
		}
		began = time.Now()
		time.AfterFunc(time.Second, goOn)
		if err := a.rt.awaitActive(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("got answer after %v: %v", time.Since(began), err)
		}
	})
}
