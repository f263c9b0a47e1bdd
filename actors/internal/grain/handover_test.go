package grain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// TestHandingOverIsLeaving: a request for an activation that hands over waits for its end and is
// refused.
func TestHandingOverIsLeaving(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	received, gate, stopping := make(chan struct{}, 10), make(chan struct{}), make(chan struct{}, 10)
	c := start(t, actorFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case grain.HandOver:
			received <- struct{}{}
			root, self := ctx.ActorSystem().Root, ctx.Self()
			go func() {
				<-gate
				root.Send(self, expire{})
			}()
		case expire:
			grain.Passivate(ctx)
		case *actor.Stopping:
			stopping <- struct{}{}
		}
		echo(ctx)
	}), &grain.Options{Membership: m, HandOver: 10 * testTimeout})
	c.StopPings()
	other := closedMember(t)
	theirs := ownedBy(other, 1, m.self, other)[0]
	mine := ownedBy(m.self, 1, m.self, other)[0]
	ask(t, c, theirs, "m")
	pid, _ := c.Cached(theirs)
	m.show(m.self, other)
	m.show(m.self, other) // sends HandOver once
	await(t, received, "HandOver")
	reply, err := c.System().Root.RequestFuture(pid, text("m"), testTimeout).Result()
	if err != nil || len(stopping) != 0 {
		t.Fatalf("during the handover: reply %v, error %v, stopped %d", reply, err, len(stopping))
	}
	waits := c.System().Root.RequestFuture(c.PlacementPID(), &cluster.ActivationRequest{
		ClusterIdentity: cluster.NewClusterIdentity(theirs, kind),
	}, testTimeout)
	ask(t, c, mine, "m")
	if c.ActiveCount() != 2 || len(received) != 0 {
		t.Errorf("%d activations, received %d times more", c.ActiveCount(), len(received))
	}
	close(gate)
	res, err := waits.Result()
	if err != nil {
		t.Fatal(err)
	}
	if r := res.(*cluster.ActivationResponse); !r.Failed {
		t.Errorf("response %v, want a refusal", r)
	}
	if c.ActiveCount() != 1 {
		t.Errorf("ActiveCount %d, want 1", c.ActiveCount())
	}
}

func TestHandingOverIsBounded(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	stopped := make(chan struct{})
	log, lines := newLog()
	c := start(t, actorFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Stopped); ok {
			close(stopped)
		}
		echo(ctx)
	}), &grain.Options{Membership: m, HandOver: time.Millisecond, Logger: log})
	c.StopPings()
	other := closedMember(t)
	id := ownedBy(other, 1, m.self, other)[0]
	ask(t, c, id, "m")
	m.show(m.self, other)
	await(t, stopped, "the activation's end")
	if lines.Count("handover timeout; stopping activation") != 1 || lines.Count(id) != 1 {
		t.Errorf("log lacks the timeout:\n%s", lines)
	}
}

func TestDrainingMemberHandsOverAndRefuses(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	ended := make(chan struct{})
	var views []grain.View
	c := start(t, actorFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case grain.HandOver:
			grain.Passivate(ctx)
		case *actor.Stopped:
			close(ended)
		}
		echo(ctx)
	}), &grain.Options{
		Membership: m, OwnerWait: time.Millisecond, RequestTimeout: 10 * testTimeout,
		ViewChanged: func(v grain.View) { views = append(views, v) },
	})
	if owner, self := c.Owner("a"); owner != c.Address() || !self {
		t.Errorf("owner %q, self %v, want this member", owner, self)
	}
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); {
		if _, err := c.Request(t.Context(), "a", text("m")); err == nil {
			break // a millisecond may be too short for the first attempts
		}
	}
	drainingSelf := m.self
	drainingSelf.Draining = true
	other := closedMember(t)
	m.show(drainingSelf, other)
	await(t, ended, "the activation's end")
	if owner, self := c.Owner("a"); owner != other.Address() || self {
		t.Errorf("owner %q, self %v while draining, want the other member", owner, self)
	}
	_, err := c.Request(t.Context(), "a", text("m"))
	if !errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("error %v, want %v", err, grain.ErrNoOwner)
	}
	if len(views) != 2 || views[0].Members[0] != m.self || views[1].Members[0] != drainingSelf || c.View().Members[0] != drainingSelf {
		t.Errorf("published views %+v, current view %+v", views, c.View())
	}
	m.show(m.self)
	eventually(t, "a request after draining ended", func() bool {
		_, err := c.Request(t.Context(), "a", text("m"))
		return err == nil
	})
}

// TestReplyMayTakeLongerThanOwnerWait: OwnerWait does not count after the message was handed over.
func TestReplyMayTakeLongerThanOwnerWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 200 * time.Millisecond
		c := start(t, actorFunc(func(ctx actor.Context) {
			if _, ok := body(ctx); ok {
				root, sender := ctx.ActorSystem().Root, ctx.Sender()
				time.AfterFunc(2*wait, func() { root.Send(sender, text("late")) })
			}
		}), &grain.Options{Alone: true, OwnerWait: wait})
		if got := ask(t, c, "a", "m"); got != "late" {
			t.Errorf("reply %q, want late", got)
		}
	})
}

// two starts two members in one process, each with its own view, that run echo and passivate on
// HandOver.
func two(t *testing.T) (nodes [2]*grain.Cluster, views [2]*handDriven) {
	t.Helper()
	keys := newKeys(t)
	for i := range nodes {
		views[i] = newHandDriven()
		nodes[i] = build(t, actorFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(grain.HandOver); ok {
				grain.Passivate(ctx)
			}
			echo(ctx)
		}), &grain.Options{Membership: views[i], HandOver: 10 * testTimeout, RequestTimeout: testTimeout})
		nodes[i].UseKeys(keys)
	}
	for _, n := range nodes {
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.StopPings()
		t.Cleanup(func() { stop(t, n) })
	}
	return nodes, views
}

// released retries until every member has answered. Release does not wait longer than a second for
// one, which is short on a busy machine.
func released(t *testing.T, c *grain.Cluster, id string) {
	t.Helper()
	eventually(t, "a release", func() bool { return c.Release(t.Context(), id) == nil })
}

func TestReleaseEndsTheOldCopy(t *testing.T) {
	if isolated(t) {
		return
	}
	nodes, views := two(t)
	old, next := nodes[0], nodes[1]
	a, b := views[0].self, views[1].self
	id := ownedBy(b, 1, a, b)[0]
	release := func() {
		t.Helper()
		released(t, next, id)
	}
	release() // single member: none to ask
	ask(t, old, id, "m")
	views[1].show(a, b) // old has the previous view, in which it owns the identity
	release()
	if old.ActiveCount() != 0 {
		t.Errorf("%d activations after Release, want none", old.ActiveCount())
	}
	release() // no activation there

	ask(t, old, id, "m")
	next.SettleAfter(0)
	release()
	if old.ActiveCount() != 1 {
		t.Error("Release asked a member although the view is settled")
	}
	a.Draining = true
	views[1].show(a, b)
	release()
	if old.ActiveCount() != 0 {
		t.Error("Release did not ask a draining member")
	}
}

// contested gives each of two members a view in which it owns everything, with a third member that
// never answers.
func contested(t *testing.T, nodes [2]*grain.Cluster, views [2]*handDriven, silent grain.Member) {
	t.Helper()
	silent.Weight = 0 // owns nothing but may be asked
	for i, n := range nodes {
		ask(t, n, "contested", "m") // each owns everything in its first view
		mine, theirs := views[i].self, views[1-i].self
		theirs.Weight = 0
		views[i].show(mine, theirs, silent)
	}
}

// TestReleaseOfBothSides: two members that both believe to own an identity ask each other, and a third
// that never answers.
func TestReleaseOfBothSides(t *testing.T) {
	if isolated(t) {
		return
	}
	nodes, views := two(t)
	silent := closedMember(t)
	eventually(t, "both members to answer each other", func() bool { // a second is short on a busy machine
		contested(t, nodes, views, silent)
		errs, answered := make(chan error, len(nodes)), true
		for _, n := range nodes {
			go func() { errs <- n.Release(t.Context(), "contested") }()
		}
		for range nodes {
			err := await(t, errs, "Release")
			if err == nil || !strings.Contains(err.Error(), silent.Address()) {
				t.Fatalf("error %v, want it to name %s", err, silent.Address())
			}
			for _, v := range views {
				answered = answered && !strings.Contains(err.Error(), v.self.Address())
			}
		}
		return answered
	})
}

// TestReleasedIdentityIsCeded: after a release request a member does not reactivate the identity
// because of its own view.
func TestReleasedIdentityIsCeded(t *testing.T) {
	if isolated(t) {
		return
	}
	nodes, views := two(t)
	nodes[1].CedeFor(time.Hour)
	a, b := views[0].self, views[1].self
	for i, n := range nodes {
		ask(t, n, "contested", "m")
		mine, theirs := views[i].self, views[1-i].self
		theirs.Weight = 0
		views[i].show(mine, theirs)
	}
	released(t, nodes[0], "contested")
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := nodes[1].Request(soon, "contested", text("m")); !errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("error %v, want the identity to be ceded", err)
	}
	if n := nodes[1].ActiveCount(); n != 0 {
		t.Errorf("%d activations at the releasing member, want 0", n)
	}
	a.Weight = 0
	views[1].show(b, a) // a new view ends the block
	ask(t, nodes[1], "contested", "m")
}
