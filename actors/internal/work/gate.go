package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// maxQueuedDispatches bounds the queued dispatches of one agent on a node.
const maxQueuedDispatches = 1000

// gatePause is the retry hint for an agent with too many queued dispatches.
const gatePause = 2 * time.Second

// gate limits concurrent admissions of dispatched messages, so that external callers need not wait
// behind them. Agents take turns, and messages of one agent keep their order. It is safe for
// concurrent use.
type gate struct {
	mu      sync.Mutex
	free    int
	agents  []string                   // with queued messages, the next one first
	waiting map[string][]chan struct{} // by agent, never empty; a channel is closed at its turn
	refused int64
}

func newGate(atOnce int) *gate {
	return &gate{free: atOnce, waiting: map[string][]chan struct{}{}}
}

// enter waits for the turn of an agent's message, which leave ends. It returns ctx.Err(), or
// runtime_unavailable if too many messages are queued.
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
	if !g.withdraw(agent, turn) { // the turn came at the same time
		g.leave()
	}
	return ctx.Err()
}

// withdraw deletes a message from the queue and reports whether it was there.
func (g *gate) withdraw(agent string, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting[agent], turn)
	if i < 0 {
		return false
	}
	g.setQueue(agent, slices.Delete(g.waiting[agent], i, i+1))
	return true
}

func (g *gate) setQueue(agent string, queue []chan struct{}) {
	if g.waiting[agent] = queue; len(queue) > 0 {
		return
	}
	delete(g.waiting, agent)
	i := slices.Index(g.agents, agent)
	g.agents = slices.Delete(g.agents, i, i+1)
}

// leave ends a turn and starts the next one.
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
	g.setQueue(agent, queue[1:])
}

func (g *gate) counts() (waiting, refused int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, queue := range g.waiting {
		waiting += int64(len(queue))
	}
	return waiting, g.refused
}
