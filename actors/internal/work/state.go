package work

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// authorState is the author's persistent state for the work on one submission: the durable values and
// the newer writes of that work. It is safe for concurrent use.
//
// Calls that write take turns, each from its first write until its outcome is enqueued. So an outcome
// is recorded together with the writes of its call only.
type authorState struct {
	submission conversation.SubmissionID
	writer     chan struct{} // holds an element while a call writes

	mu     sync.Mutex
	values map[string]json.RawMessage
}

func (r *Runner) stateOf(v *view) *authorState {
	if r.author == nil || r.author.submission != v.id {
		r.author = newState(v)
	}
	return r.author
}

func newState(v *view) *authorState {
	s := &authorState{submission: v.id, writer: make(chan struct{}, 1), values: map[string]json.RawMessage{}}
	maps.Copy(s.values, v.state)
	return s
}

// stateWrites is the access of one call or hook to an author's state. It implements [agenthost.Store].
type stateWrites struct {
	state *authorState
	agent *agent.Agent
	over  chan struct{} // closed once the outcome is decided
	gate  chan struct{} // holds an element during an update

	// Guarded by gate.
	holds   bool           // this call has the turn to write
	written map[string]int // size of the newest value
}

var _ agenthost.Store = (*stateWrites)(nil)

func newStateWrites(state *authorState, ag *agent.Agent) *stateWrites {
	return &stateWrites{state: state, agent: ag, over: make(chan struct{}), gate: make(chan struct{}, 1), written: map[string]int{}}
}

// Get implements [agenthost.Store].
func (w *stateWrites) Get(name string) (json.RawMessage, bool, error) {
	if err := w.known(name); err != nil {
		return nil, false, err
	}
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	v, ok := w.state.values[name]
	return v, ok, nil
}

// Update implements [agenthost.Store].
func (w *stateWrites) Update(ctx context.Context, name string, fn func(json.RawMessage) (json.RawMessage, error)) error {
	if err := w.known(name); err != nil {
		return err
	}
	if err := w.enter(ctx, w.gate); err != nil {
		return err
	}
	defer func() { <-w.gate }()
	select {
	case <-w.over: // select is random if both are ready
		return agent.ErrNoState
	default:
	}
	if !w.holds {
		if err := w.enter(ctx, w.state.writer); err != nil {
			return err
		}
		w.holds = true
	}
	w.state.mu.Lock()
	old := w.state.values[name]
	w.state.mu.Unlock()
	v, err := fn(old)
	if err != nil || v == nil {
		return err
	}
	if !w.fits(name, len(v)) {
		return agent.ErrStateFull
	}
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	if string(v) == "null" {
		delete(w.state.values, name)
	} else {
		w.state.values[name] = v
	}
	w.written[name] = len(v)
	return nil
}

// maxWrites bounds the state writes of one call or hook, in bytes. They share a batch with the
// outcome.
const maxWrites = 8 << 20

// fits reports whether a value fits in addition to the other writes. The caller holds gate.
func (w *stateWrites) fits(name string, bytes int) bool {
	for other, n := range w.written {
		if other != name {
			bytes += n
		}
	}
	return bytes <= maxWrites
}

// enter acquires slot, unless ctx ends or the outcome is decided first.
func (w *stateWrites) enter(ctx context.Context, slot chan struct{}) error {
	select {
	case <-w.over:
		return agent.ErrNoState
	default:
	}
	select {
	case slot <- struct{}{}:
		return nil
	case <-w.over:
		return agent.ErrNoState
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *stateWrites) known(name string) error {
	if !agenthost.KeepsState(w.agent, name) {
		return fmt.Errorf("agent %q does not declare it; add the state to Agent.State", w.agent.Name)
	}
	return nil
}

// take ends the writes and returns them for the log. It is called once, followed by release once they
// are enqueued.
func (w *stateWrites) take() []machine.StateWrite {
	if w == nil {
		return nil
	}
	close(w.over)
	w.gate <- struct{}{}
	defer func() { <-w.gate }()
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	var out []machine.StateWrite
	for _, name := range slices.Sorted(maps.Keys(w.written)) {
		v, ok := w.state.values[name]
		if !ok {
			v = json.RawMessage("null")
		}
		out = append(out, machine.StateWrite{Key: name, Value: v})
	}
	return out
}

// release passes the turn to the next call.
func (w *stateWrites) release() {
	if w != nil && w.holds {
		<-w.state.writer
	}
}
