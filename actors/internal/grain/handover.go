package grain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/wire"
)

const (
	// settleTime is how long after a change of the view members may still run what is no longer theirs.
	settleTime = time.Minute
	// maxAsked bounds the members that one Release asks for their claim alone. One change moves an identity
	// between the best claims; who had it before several is known from maxPast views at most.
	maxAsked = 4
	maxPast  = 16
	// cededFor is how long an identity that another member has asked for is not activated here, unless
	// the view changes: by then this member has seen the view that the other one goes by.
	cededFor = time.Second
	// releasePatience is how long a member may take until it is looked at whether it still answers.
	releasePatience = time.Second
)

// HandOver is what an activation gets when its identity belongs to another member: finish what must not
// be cut off, and Passivate. One that takes longer than Options.HandOver is stopped.
type HandOver struct{}

// handOver asks an activation to end. From now on whoever asks for it waits for its end.
func (p *placement) handOver(ctx actor.Context, s *slot) {
	if s.phase != slotRuns {
		return
	}
	s.phase = slotHanding
	root, self, pid := ctx.ActorSystem().Root, ctx.Self(), s.pid
	s.limit = time.AfterFunc(p.lookup.handOver, func() { root.Send(self, overdue{pid: pid}) })
	ctx.Send(s.pid, HandOver{})
}

func (p *placement) overdue(ctx actor.Context, pid *actor.PID) {
	s := p.byPID[pid.Id]
	if s == nil || s.phase != slotHanding {
		return
	}
	p.lookup.log.Warn("activation did not hand over in time", "conversation", s.ci.Identity)
	p.stop(ctx, s)
}

// release answers asker as soon as nothing of id runs here. That the asker asks is a claim that it owns
// id in a view that this member may not have seen, so this member's own view is not heeded.
//
// An activation that waits in Release itself has begun nothing and may wait for the asker: it does not
// count. Both may then run for a moment, as members with different views may at any time.
func (p *placement) release(ctx actor.Context, id string, asker *actor.PID) {
	s := p.byID[id]
	if p.lookup.owns(id) && !p.lookup.releases.pending(id) {
		p.cede(id)
	}
	switch {
	case s == nil, p.lookup.releases.pending(id):
		ctx.Send(asker, &wire.Released{})
	case len(s.asked) < maxWaiting:
		s.asked = append(s.asked, asker)
		p.handOver(ctx, s)
	}
}

// handedOver tells who waits that the slot's activation has ended.
func (p *placement) handedOver(ctx actor.Context, s *slot) {
	if s.limit != nil {
		s.limit.Stop()
	}
	for _, asker := range s.asked {
		ctx.Send(asker, &wire.Released{})
	}
}

// cede keeps id from being activated here for a moment.
func (p *placement) cede(id string) {
	now := time.Now()
	if len(p.ceded) >= maxWaiting {
		maps.DeleteFunc(p.ceded, func(_ string, until time.Time) bool { return now.After(until) })
	}
	p.ceded[id] = now.Add(p.lookup.cedes)
}

// isCeded reports whether another member has just asked for id. Activating it here would take it away
// from that one again.
func (p *placement) isCeded(id string) bool {
	until, ok := p.ceded[id]
	if !ok {
		return false
	}
	if time.Now().After(until) {
		delete(p.ceded, id)
		return false
	}
	return true
}

// releases counts the calls of Release under way.
type releases struct {
	mu  sync.Mutex
	ids map[string]int
}

func (r *releases) begin(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = make(map[string]int)
	}
	r.ids[id]++
}

func (r *releases) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[id]--; r.ids[id] == 0 {
		delete(r.ids, id)
	}
}

func (r *releases) pending(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id] > 0
}

// Release asks the members that may still run id to hand it over, and waits until none of them does. An
// activation calls it, not within its Receive, before it begins anything that another copy could be at.
// If the view has been the same for a minute, only members that are draining may.
//
// A member that leaves is not waited for, nor is one that has answered no ping for 3 s. The error names
// those that had not answered by then, when ctx ended or the cluster stopped, which is no reason not to go
// on: whatever runs there is fenced off.
func (c *Cluster) Release(ctx context.Context, id string) error {
	v := c.lookup.view.Load()
	others := v.mayRun(id, c.system.Address(), time.Since(v.since) >= c.settle)
	if len(others) == 0 {
		return nil
	}
	c.lookup.releases.begin(id)
	defer c.lookup.releases.end(id)
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i, address := range others {
		wg.Go(func() { errs[i] = c.askRelease(ctx, address, id) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("release %q: %w", id, err)
	}
	return nil
}

// askRelease asks one member until it has answered, has left, or answers nothing at all any more. The
// question may be repeated at will.
func (c *Cluster) askRelease(ctx context.Context, address, id string) error {
	target := actor.NewPID(address, placementName)
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		limited, cancel := context.WithTimeout(ctx, releasePatience)
		_, err := c.calls.ask(limited, target, &wire.Release{Conversation: id})
		cancel()
		if err == nil || !c.lookup.isUp(address) {
			return nil
		}
		if ctx.Err() == nil && !errors.Is(err, errStopped) && c.pings.answers(address) {
			if stop := c.requester.pause(ctx, backoff); stop == nil {
				continue
			}
		}
		return fmt.Errorf("member %s has not answered: %w", address, err)
	}
}
