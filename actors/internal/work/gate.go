package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// maxQueuedDispatches bounds the messages of one agent's tools and hooks that wait on a
// node to be dispatched.
const maxQueuedDispatches = 1000

// gatePause is what an agent is asked to wait when too many of its messages wait.
const gatePause = 2 * time.Second

// gate lets so many dispatched messages be admitted at a time, so that those
// who come from outside need not wait behind all that agents send each other. The agents
// take turns; messages of one agent keep their order. It is safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	free    int
	agents  []string                   // with messages that wait, the next one first
	waiting map[string][]chan struct{} // by agent, never empty; closed when it is their turn
	refused int64
}

func newGate(atOnce int) *gate {
	return &gate{free: atOnce, waiting: map[string][]chan struct{}{}}
}

// enter waits for the turn of a message of an agent, which leave ends. It returns the
// context's error, or runtime_unavailable if too many wait.
func (g *gate) enter(ctx context.Context, agent string) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	queue := g.waiting[agent]
	if len(queue) >= maxQueuedDispatches {
		g.refused++
		g.mu.Unlock()
		err := conversation.Unavailable(gatePause, nil)
		err.Details = "Too many messages of this agent wait to be dispatched on this node. Dispatch again later."
		return err
	}
	if len(queue) == 0 {
		g.agents = append(g.agents, agent)
	}
	turn := make(chan struct{})
	g.waiting[agent] = append(queue, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !g.forget(agent, turn) { // it came at the same time
		g.leave()
	}
	return ctx.Err()
}

// forget takes a message out of the queue, and reports whether it was there.
func (g *gate) forget(agent string, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting[agent], turn)
	if i < 0 {
		return false
	}
	g.keep(agent, slices.Delete(g.waiting[agent], i, i+1))
	return true
}

// keep sets the queue of an agent.
func (g *gate) keep(agent string, queue []chan struct{}) {
	if g.waiting[agent] = queue; len(queue) > 0 {
		return
	}
	delete(g.waiting, agent)
	i := slices.Index(g.agents, agent)
	g.agents = slices.Delete(g.agents, i, i+1)
}

// leave lets the next message in.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.agents) == 0 {
		g.free++
		return
	}
	agent := g.agents[0]
	g.agents = append(g.agents[1:], agent)
	queue := g.waiting[agent]
	close(queue[0])
	g.keep(agent, queue[1:])
}

// counts returns how many messages wait, and how many were refused.
func (g *gate) counts() (waiting, refused int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, queue := range g.waiting {
		waiting += int64(len(queue))
	}
	return waiting, g.refused
}
