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
	// settleTime is the time after a change of the view that members may still run identities they no
	// longer own.
	settleTime = time.Minute
	// maxAsked bounds the members that one Release asks because of their score. One change moves an
	// identity between the best scores. Owners before several changes are known from at most maxPast
	// views.
	maxAsked = 4
	maxPast  = 16
	// cededFor is the time that an identity requested by another member is not activated here, unless
	// the view changes. By then this member has received the other member's view.
	cededFor = time.Second
	// releaseTimeout is the time after which a member without an answer is checked with its pings.
	releaseTimeout = time.Second
)

// HandOver is sent to an activation whose identity moved to another member. The activation finishes
// work that must not be interrupted and calls Passivate. It is stopped after Options.HandOver.
type HandOver struct{}

// handOver asks an activation to end. Later activation requests wait for its end.
func (p *placement) handOver(ctx actor.Context, s *slot) {
	if s.phase != slotRuns {
		return
	}
	s.phase = slotHanding
	root, self, pid := ctx.ActorSystem().Root, ctx.Self(), s.pid
	s.limit = time.AfterFunc(p.lookup.handOver, func() { root.Send(self, handOverTimeout{pid: pid}) })
	ctx.Send(s.pid, HandOver{})
}

func (p *placement) handOverExpired(ctx actor.Context, pid *actor.PID) {
	s := p.byPID[pid.Id]
	if s == nil || s.phase != slotHanding {
		return
	}
	p.lookup.log.Warn("handover timeout; stopping activation", "conversation", s.ci.Identity)
	p.stop(ctx, s)
}

// release answers asker as soon as no activation of id runs here. The request implies that the asker
// owns id in a view that this member may not have yet, so this member's own view is ignored.
//
// An activation that waits in Release itself has started no work and may wait for the asker, so it
// does not count. Both may then run briefly, as members with different views may at any time.
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

// handedOver notifies the waiting members that the slot's activation has ended.
func (p *placement) handedOver(ctx actor.Context, s *slot) {
	if s.limit != nil {
		s.limit.Stop()
	}
	for _, asker := range s.asked {
		ctx.Send(asker, &wire.Released{})
	}
}

// cede blocks the activation of id here for cededFor.
func (p *placement) cede(id string) {
	now := time.Now()
	if len(p.ceded) >= maxWaiting {
		maps.DeleteFunc(p.ceded, func(_ string, until time.Time) bool { return now.After(until) })
	}
	p.ceded[id] = now.Add(p.lookup.cedes)
}

// isCeded reports whether another member has just requested id. Activating it here would cancel that request.
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

// releases counts the pending calls of Release per identity.
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

// Release asks the members that may still run id to hand it over, and waits until none of them does.
// An activation calls it, outside of its Receive, before it starts work that another copy may be
// doing. If the view is unchanged for a minute, only draining members are asked.
//
// Release does not wait for members that leave, or that answered no ping for 3 s. The error names the
// members without an answer when ctx ended or the cluster stopped. The caller may continue in spite of
// the error, because a remaining copy is fenced off.
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

// askRelease asks one member until it has answered, has left, or stops answering pings. The request is
// idempotent.
func (c *Cluster) askRelease(ctx context.Context, address, id string) error {
	target := actor.NewPID(address, placementName)
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		limited, cancel := context.WithTimeout(ctx, releaseTimeout)
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
		return fmt.Errorf("no answer from member %s: %w", address, err)
	}
}
