package grain

import (
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/wire"
)

const (
	pingEvery = time.Second
	// reachedFor is the time that an answer counts, and the timeout of a ping.
	reachedFor = 3 * time.Second
)

// pinger pings the other members periodically to check that messages and answers get through.
type pinger struct {
	calls   *calls
	members func() []node // the other members
	changed chan struct{} // capacity 1: the view has changed
	stop    context.CancelFunc
	done    chan struct{}

	mu       sync.Mutex
	answered map[string]time.Time // by member ID
}

func newPinger(c *calls, members func() []node) *pinger {
	return &pinger{calls: c, members: members, changed: make(chan struct{}, 1), answered: make(map[string]time.Time)}
}

// start starts the goroutine that close ends.
func (p *pinger) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		p.run(ctx)
	}()
}

// close returns when the pinger has ended, or if it was never started.
func (p *pinger) close() {
	if p.stop != nil {
		p.stop()
		<-p.done
	}
}

func (p *pinger) viewChanged() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *pinger) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		members := p.members()
		p.evict(members)
		for _, n := range members {
			wg.Go(func() { p.ping(ctx, n) })
		}
		select {
		case <-tick.C:
		case <-p.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (p *pinger) ping(ctx context.Context, n node) {
	ctx, cancel := context.WithTimeout(ctx, reachedFor)
	defer cancel()
	if _, err := p.calls.ask(ctx, actor.NewPID(n.address, nodeName), &wire.Ping{}); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered[n.ID] = time.Now()
}

func (p *pinger) evict(members []node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := make(map[string]time.Time, len(members))
	for _, n := range members {
		if t, ok := p.answered[n.ID]; ok {
			keep[n.ID] = t
		}
	}
	p.answered = keep
}

// answers reports whether the member at address has answered within reachedFor.
func (p *pinger) answers(address string) bool {
	members := p.members()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range members {
		if n.address == address {
			t, ok := p.answered[n.ID]
			return ok && time.Since(t) < reachedFor
		}
	}
	return false
}

// reached returns the IDs of the members that answered within reachedFor, and the number of members.
func (p *pinger) reached() (ids []string, others int) {
	members := p.members()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range members {
		if t, ok := p.answered[n.ID]; ok && time.Since(t) < reachedFor {
			ids = append(ids, n.ID)
		}
	}
	return ids, len(members)
}

// Reachable returns the IDs of the other members that answered within the last 3 s, and the number of
// all others. Each is pinged every second, and immediately when the view changes. The answer uses a
// connection made by the other member, so it proves both directions.
func (c *Cluster) Reachable() (reached []string, others int) { return c.pings.reached() }

func (c *Cluster) others() []node {
	v, self := c.lookup.view.Load(), c.Address()
	others := make([]node, 0, len(v.nodes))
	for _, n := range v.nodes {
		if n.address != self {
			others = append(others, n)
		}
	}
	return others
}
