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

// author is who defines the work on a submission: the conversation's agent, or a
// subagent as its parent's set-up has it. It is safe for concurrent use.
type author struct {
	name   string // of the agent or subagent
	agent  *agent.Agent
	parent *author // of a subagent, whose agent is nil
	state  *authorState
	depth  int
	// left puts the delivery of turn in its place if turn does not have it; else nil.
	left func(context.Context, *conversation.Delivery) error

	mu    sync.Mutex
	turn  *agent.Turn
	who   *agent.Agent // with what a subagent inherits
	setup *agent.Setup // of the newest model call
}

// errNoSubagent says that the author no longer has a subagent that a task was handed
// to.
var errNoSubagent = errors.New("there is no such subagent any more")

// authorOf returns the author of a submission, with nothing set up.
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

// agentOnly returns the agent as the author of what belongs to no work on a submission.
func (r *Runner) agentOnly(v *view) *author {
	return &author{
		name: v.created.Agent, agent: r.node.o.Agents[v.created.Agent], state: newState(&view{state: v.state}),
		turn: &agent.Turn{Address: v.created.Address(), UID: v.created.UID, InitialData: v.created.InitialData},
	}
}

// prepare evaluates what holds for a model call.
func (u *author) prepare(ctx context.Context, t *agent.Turn) (*agent.Setup, error) {
	who := u.agent
	if u.parent != nil {
		above, err := u.parent.current(ctx)
		if err != nil {
			return nil, err
		}
		sub, ok := above.Subagent(u.name)
		if !ok {
			return nil, fmt.Errorf("%w: %s", errNoSubagent, u.name)
		}
		who = agenthost.Inherit(sub, above)
	}
	setup, err := agenthost.SetupFor(u.within(ctx, who).ctx, who, t)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn, u.who, u.setup = t, who, setup
	return setup, nil
}

// current returns what held for the newest model call. Without one in this process it
// is evaluated.
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

// compaction returns the rules of whoever was set up last: a subagent inherits none.
func (u *author) compaction() agent.Compaction {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.who.Compaction
}

// writesData reports whether data of that name may appear in responses.
func (u *author) writesData(name string) bool {
	return u.agent != nil && agenthost.WritesData(u.agent, name)
}

// stateScope is a context that sees the author's state, and what is written through it.
type stateScope struct {
	ctx    context.Context
	writes *stateWrites
}

// within gives a context the author's state. A subagent has none.
func (u *author) within(ctx context.Context, who *agent.Agent) stateScope {
	if u.state == nil {
		return stateScope{ctx: ctx}
	}
	w := newStateWrites(u.state, who)
	return stateScope{agenthost.WithState(ctx, w), w}
}
