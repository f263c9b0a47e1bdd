package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/parleyrun/parley/agent"
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
	asked string       // the model of the newest call
	given []string     // models that were given up
}

// errNoSubagent says that the author no longer has a subagent that a task was handed
// to.
var errNoSubagent = errors.New("there is no such subagent any more")

// authorOf returns the author of a submission, with nothing set up.
func (a *activation) authorOf(id conversation.SubmissionID) *author {
	state := a.machine.State()
	sub := state.Submission(id)
	if sub.Child == "" {
		name := state.Created().Agent
		u := &author{name: name, agent: a.rt.agents[name], state: a.stateOf(sub), turn: a.turnOf(sub, 0)}
		if l := sub.LeftOf(); l != nil {
			rt, key := a.rt, a.key
			u.left = func(ctx context.Context, d *conversation.Delivery) error { return rt.history.Complete(ctx, key, l, d) }
		}
		return u
	}
	u := &author{name: sub.Agent, turn: a.turnOf(sub, 0), depth: state.Depth(id)}
	for _, w := range a.works {
		if w.submission == sub.Parent {
			u.parent = w.author
		}
	}
	if u.parent == nil {
		u.parent = a.authorOf(sub.Parent)
	}
	return u
}

// bystander returns the agent as the author of what belongs to no work on a
// submission.
func (a *activation) bystander() *author {
	created := a.machine.State().Created()
	return &author{
		name: created.Agent, agent: a.rt.agents[created.Agent], state: a.newState(""),
		turn: &agent.Turn{Address: created.Address(), UID: created.UID, InitialData: created.InitialData},
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
		who = sub.Inherit(above)
	}
	setup, err := who.SetupFor(u.within(ctx, who).ctx, t)
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

// choose returns the first model of a set-up that was not given up, and whether there
// is another one. fallen counts those that were given up, each after the call before.
func (u *author) choose(setup *agent.Setup, fallen int) (model string, more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.given) < fallen && u.asked != "" {
		u.given = append(u.given, u.asked)
	}
	left := slices.DeleteFunc(append([]string{setup.Model}, setup.Fallbacks...), func(m string) bool { return slices.Contains(u.given, m) })
	if len(left) == 0 { // the author names them again
		left = []string{setup.Model}
	}
	u.asked = left[0]
	return left[0], len(left) > 1
}

// compaction returns the rules of whoever was set up last: a subagent inherits none.
func (u *author) compaction() agent.Compaction {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.who.Compaction
}

// writesData reports whether data of that name may appear in responses.
func (u *author) writesData(name string) bool { return u.agent != nil && u.agent.WritesData(name) }

// seen is a context that sees the author's state, and what is written through it.
type seen struct {
	ctx    context.Context
	writes *stateWrites
}

// within gives a context the author's state. A subagent has none.
func (u *author) within(ctx context.Context, who *agent.Agent) seen {
	if u.state == nil {
		return seen{ctx: ctx}
	}
	w := newStateWrites(u.state, who)
	return seen{agent.WithState(ctx, w), w}
}
