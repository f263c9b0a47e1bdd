package work

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// author provides the agent of the work on a submission: the conversation's agent, or a subagent
// configured by its parent. It is safe for concurrent use.
type author struct {
	name   string // name of the agent or subagent
	agent  *agent.Agent
	parent *author // set for a subagent, whose agent is nil
	state  *authorState
	depth  int
	// left completes a delivery that was left to the log; nil if turn has it.
	left func(context.Context, *conversation.Delivery) error

	mu        sync.Mutex
	turn      *agent.Turn
	effective *agent.Agent // the agent, with inherited fields of a subagent
	setup     *agent.Setup // setup of the newest model call
}

// errNoSubagent reports that the author removed the subagent of a task.
var errNoSubagent = errors.New("subagent no longer exists")

func (r *Runner) authorOf(v *view) *author {
	if v.child == "" {
		name := v.created.Agent
		u := &author{name: name, agent: r.node.o.Agents[name], state: r.stateOf(v), turn: v.turn(0)}
		if l := v.left; l != nil {
			store, key := r.node.o.History, r.o.Key
			u.left = func(ctx context.Context, d *conversation.Delivery) error { return store.Complete(ctx, key, l, d) }
		}
		return u
	}
	u := &author{name: v.agent, turn: v.turn(0), depth: v.depth}
	for _, w := range r.works {
		if w.submission == v.above.id {
			u.parent = w.author
		}
	}
	if u.parent == nil {
		u.parent = r.authorOf(v.above)
	}
	return u
}

// agentOnly returns the agent as author outside the work on a submission.
func (r *Runner) agentOnly(v *view) *author {
	return &author{
		name: v.created.Agent, agent: r.node.o.Agents[v.created.Agent], state: newState(&view{state: v.state}),
		turn: &agent.Turn{Address: v.created.Address(), UID: v.created.UID, InitialData: v.created.InitialData},
	}
}

func (u *author) prepare(ctx context.Context, t *agent.Turn) (*agent.Setup, error) {
	effective := u.agent
	if u.parent != nil {
		above, err := u.parent.current(ctx)
		if err != nil {
			return nil, err
		}
		sub, ok := above.Subagent(u.name)
		if !ok {
			return nil, fmt.Errorf("%w: %s", errNoSubagent, u.name)
		}
		effective = agenthost.Inherit(sub, above)
	}
	setup, err := agenthost.SetupFor(u.within(ctx, effective).ctx, effective, t)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn, u.effective, u.setup = t, effective, setup
	return setup, nil
}

// current returns the set-up of the newest model call, and evaluates one if this process has none.
func (u *author) current(ctx context.Context) (*agent.Setup, error) {
	u.mu.Lock()
	setup, turn := u.setup, u.turn
	u.mu.Unlock()
	if setup != nil {
		return setup, nil
	}
	if u.left != nil {
		whole := *turn
		if err := u.left(ctx, &whole.Delivery); err != nil {
			return nil, err
		}
		turn = &whole
	}
	return u.prepare(ctx, turn)
}

// compaction returns the compaction rules of the last set-up. A subagent inherits none.
func (u *author) compaction() agent.Compaction {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.effective.Compaction
}

func (u *author) writesData(name string) bool {
	return u.agent != nil && agenthost.WritesData(u.agent, name)
}

// stateScope is a context with access to the author's state, and the writes made through it.
type stateScope struct {
	ctx    context.Context
	writes *stateWrites
}

// within adds the author's state to a context. A subagent has none.
func (u *author) within(ctx context.Context, ag *agent.Agent) stateScope {
	if u.state == nil {
		return stateScope{ctx: ctx}
	}
	w := newStateWrites(u.state, ag)
	return stateScope{agenthost.WithState(ctx, w), w}
}
