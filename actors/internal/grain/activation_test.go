package grain_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"

	"github.com/parleyrun/parley/actors/internal/grain"
)

type expire struct{}

// shortLived passivates 5 ms after its start, regardless of its queue, and counts the live copies of
// its identity.
type shortLived struct {
	live    *sync.Map // identity → *atomic.Int64
	ended   *atomic.Int64
	doubled *atomic.Int64
	id      string
}

func (a *shortLived) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *cluster.ClusterInit:
		a.id = m.Identity.Identity
		if a.counter().Add(1) != 1 {
			a.doubled.Add(1)
		}
		root, self := ctx.ActorSystem().Root, ctx.Self()
		time.AfterFunc(5*time.Millisecond, func() { root.Send(self, expire{}) })
	case expire:
		grain.Passivate(ctx)
	case *actor.Stopped:
		a.counter().Add(-1)
		a.ended.Add(1)
	default:
		echo(ctx)
	}
}

func (a *shortLived) counter() *atomic.Int64 {
	n, _ := a.live.LoadOrStore(a.id, new(atomic.Int64))
	return n.(*atomic.Int64)
}

func TestPassivationLosesNoRequest(t *testing.T) {
	const ids, callers, wantRequests, wantEnds = 10, 8, 5000, 300
	var live sync.Map
	var ended, doubled, sent, failed atomic.Int64
	c := start(t, func() actor.Actor {
		return &shortLived{live: &live, ended: &ended, doubled: &doubled}
	}, &grain.Options{RequestTimeout: testTimeout})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := i; ended.Load() < wantEnds || sent.Load() < wantRequests; n++ {
				sent.Add(1)
				want := fmt.Sprint(n)
				reply, err := c.Request(t.Context(), fmt.Sprintf("conv-%d", n%ids), text(want))
				if err != nil {
					failed.Add(1)
					t.Log(err)
				} else if got := value(reply); got != want {
					t.Errorf("reply %q, want %q", got, want)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests, %d passivations", sent.Load(), ended.Load())
	if failed.Load() != 0 || doubled.Load() != 0 {
		t.Errorf("%d of %d requests failed, %d doubled activations", failed.Load(), sent.Load(), doubled.Load())
	}
}

func TestQueuedRequestsGoToTheNextActivation(t *testing.T) {
	stops := map[string]func(actor.Context){
		"passivate": grain.Passivate,
		"stop":      func(ctx actor.Context) { ctx.Stop(ctx.Self()) },
		"panic":     func(actor.Context) { panic("at the gate") },
	}
	for name, end := range stops {
		t.Run(name, func(t *testing.T) {
			const queued = 20
			gate, held := make(chan struct{}), make(chan struct{})
			var made atomic.Int64
			c := start(t, func() actor.Actor {
				first := made.Add(1) == 1
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if s, ok := body(ctx); ok && first && s == "hold" {
						close(held)
						<-gate
						end(ctx)
						return
					} else if ok && first {
						t.Errorf("stopping activation received %q", s)
					}
					echo(ctx)
				})
			}, &grain.Options{RequestTimeout: testTimeout})
			pid := mustLocate(t, c, "a")
			c.System().Root.Send(pid, text("hold"))
			await(t, held, "the gate")
			var wg sync.WaitGroup
			for i := range queued {
				wg.Go(func() { ask(t, c, "a", fmt.Sprint(i)) })
			}
			eventually(t, "all to be queued", func() bool { return c.QueuedFor(pid) == queued })
			close(gate)
			wg.Wait()
			if got := made.Load(); got != 2 {
				t.Errorf("%d activations, want 2", got)
			}
		})
	}
}

func mustLocate(t *testing.T, c *grain.Cluster, id string) *actor.PID {
	t.Helper()
	var pid *actor.PID
	eventually(t, "an activation of "+id, func() bool { // one attempt takes up to two seconds
		pid = c.Library().Get(id, kind)
		return pid != nil
	})
	return pid
}

// leaveOrEcho passivates on the message "leave", and answers it too.
func leaveOrEcho(ctx actor.Context) {
	echo(ctx)
	if s, ok := body(ctx); ok && s == "leave" {
		grain.Passivate(ctx)
	}
}

func TestRequestWaitsForTheOldCopyToEnd(t *testing.T) {
	gate, stopping := make(chan struct{}), make(chan struct{}, 3)
	var made atomic.Int64
	c := start(t, func() actor.Actor {
		made.Add(1)
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Stopping); ok {
				stopping <- struct{}{}
				<-gate
			}
			leaveOrEcho(ctx)
		})
	}, &grain.Options{RequestTimeout: testTimeout})
	ask(t, c, "a", "leave")
	await(t, stopping, "Stopping")
	old, _ := c.Cached("a")
	waits := c.System().Root.RequestFuture(c.PlacementPID(), &cluster.ActivationRequest{
		ClusterIdentity: cluster.NewClusterIdentity("a", kind),
	}, testTimeout)
	// The placement actor receives this later. Its answer proves that the other request is waiting.
	ask(t, c, "b", "another identity is not held up")
	if made.Load() != 2 {
		t.Errorf("%d actors made before the old copy ended, want 2", made.Load())
	}
	close(gate)
	res, err := waits.Result()
	if err != nil {
		t.Fatal(err)
	}
	if r := res.(*cluster.ActivationResponse); r.Failed || r.Pid.Equal(old) {
		t.Errorf("response %v, want an activation other than %v", r, old)
	}
	ask(t, c, "a", "m")
	if made.Load() != 3 {
		t.Errorf("%d actors made, want 3", made.Load())
	}
}

func TestPanicEndsItsActivationOnly(t *testing.T) {
	var made atomic.Int64
	stopped := make(chan struct{}, 10)
	c := start(t, func() actor.Actor {
		made.Add(1)
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Stopped); ok {
				stopped <- struct{}{}
			}
			if s, ok := body(ctx); ok && s == "panic" {
				panic(errors.New("boom"))
			}
			echo(ctx)
		})
	}, nil)
	ask(t, c, "b", "bystander")
	if _, err := c.Request(t.Context(), "a", text("panic")); !errors.Is(err, grain.ErrPanicked) {
		t.Errorf("error %v, want %v", err, grain.ErrPanicked)
	}
	await(t, stopped, "the end of the activation")
	ask(t, c, "a", "again")
	ask(t, c, "b", "bystander")
	if made.Load() != 3 || len(stopped) != 0 {
		t.Errorf("%d actors made and %d more ended, want 3 and 0", made.Load(), len(stopped))
	}
}

func TestPanicInTheLifeCycle(t *testing.T) {
	tests := []struct {
		name string
		hit  func(message any) bool
		made int64
	}{
		{"started", func(m any) bool { _, ok := m.(*actor.Started); return ok }, 3},
		{"cluster init", func(m any) bool { _, ok := m.(*cluster.ClusterInit); return ok }, 3},
		{"stopping", func(m any) bool { _, ok := m.(*actor.Stopping); return ok }, 2},
		{"stopped", func(m any) bool { _, ok := m.(*actor.Stopped); return ok }, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var made atomic.Int64
			c := start(t, func() actor.Actor {
				first := made.Add(1) == 1
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if first && tt.hit(ctx.Message()) {
						panic(tt.name)
					}
					leaveOrEcho(ctx)
				})
			}, &grain.Options{RequestTimeout: testTimeout})
			ask(t, c, "a", "leave")
			ask(t, c, "a", "again")
			if made.Load() != tt.made {
				t.Errorf("%d actors made, want %d", made.Load(), tt.made)
			}
		})
	}
}

func TestPanicInAContinuationEndsTheActivation(t *testing.T) {
	var made atomic.Int64
	c := start(t, func() actor.Actor {
		made.Add(1)
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if s, ok := body(ctx); ok && s == "later" {
				f := actor.NewFuture(ctx.ActorSystem(), testTimeout)
				ctx.ReenterAfter(f, func(any, error) { panic("late") })
				ctx.Send(f.PID(), text("now"))
				ctx.Respond(text(s))
				return
			}
			echo(ctx)
		})
	}, &grain.Options{RequestTimeout: testTimeout})
	ask(t, c, "a", "later")
	eventually(t, "the activation's end", func() bool { return c.ActiveCount() == 0 })
	ask(t, c, "a", "again")
	if made.Load() != 2 {
		t.Errorf("%d actors made, want 2", made.Load())
	}
}

func TestEndedActivationLeavesTheCache(t *testing.T) {
	c := start(t, actorFunc(leaveOrEcho), nil)
	ask(t, c, "a", "m")
	if _, ok := c.Cached("a"); !ok {
		t.Error("live activation is not cached")
	}
	ask(t, c, "a", "leave")
	eventually(t, "the eviction", func() bool { _, ok := c.Cached("a"); return !ok })
}

func TestMemberThatLosesAnIdentityHandsItOver(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	stopped := make(chan string, 100)
	c := start(t, func() actor.Actor {
		var id string
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *cluster.ClusterInit:
				id = m.Identity.Identity
			case grain.HandOver:
				grain.Passivate(ctx)
			case *actor.Stopped:
				stopped <- id
			}
			echo(ctx)
		})
	}, &grain.Options{Membership: m, HandOver: 10 * testTimeout})
	other := closedMember(t)
	mine, theirs := ownedBy(m.self, 20, m.self, other), ownedBy(other, 20, m.self, other)
	for _, id := range append(append([]string{}, mine...), theirs...) {
		ask(t, c, id, "m")
	}
	m.show(m.self, other)
	for range theirs {
		if id := await(t, stopped, "an activation's end"); grain.Owner([]string{m.self.Address(), other.Address()}, id) != other.Address() {
			t.Errorf("%q was stopped but is still owned here", id)
		}
	}
	eventually(t, "the rest to stay", func() bool { return c.ActiveCount() == len(mine) })
	for _, id := range mine {
		ask(t, c, id, "m")
	}

	// A member with a stale view still believes that this one is the owner.
	res, err := c.System().Root.RequestFuture(c.PlacementPID(), &cluster.ActivationRequest{
		ClusterIdentity: cluster.NewClusterIdentity(theirs[0], kind),
	}, testTimeout).Result()
	if err != nil {
		t.Fatal(err)
	}
	if r := res.(*cluster.ActivationResponse); !r.Failed || r.Pid != nil {
		t.Errorf("response %v, want a refusal", r)
	}
}

func TestActivationCallEndsWhenItsMemberLeaves(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	c := start(t, actorFunc(echo), &grain.Options{Membership: m})
	c.StopPings()
	other := closedMember(t)
	id := ownedBy(other, 1, m.self, other)[0]
	m.show(m.self, other)
	res := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		_, err := c.Request(ctx, id, text("m"))
		res <- err
	}()
	eventually(t, "the call", func() bool { return c.CallsTo(other.Address()) == 1 })
	m.show(m.self)
	if err := await(t, res, "the request"); err != nil {
		t.Errorf("error %v, want this member to take over", err)
	}
	if c.ActiveCount() != 1 {
		t.Errorf("ActiveCount %d, want 1", c.ActiveCount())
	}
}
