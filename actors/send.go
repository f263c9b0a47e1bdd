package actors

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// UnknownAgentError says that no agent is registered under a name.
type UnknownAgentError struct{ Agent string }

// Error implements error.
func (e *UnknownAgentError) Error() string {
	return fmt.Sprintf("agent %.80q is not registered with this runtime", e.Agent)
}

// Dispatch sends a message to a conversation from the program that the
// runtime runs in; agent.Text("…") makes one of a text. When it returns the message
// is durable and will reach exactly one settlement, whatever dies; [Runtime.Wait]
// waits for that. Tools and hooks use [agent.Dispatch] instead, whose keys survive
// a repetition of the call.
//
// A message without a key gets a random one: after an error that leaves
// open whether it was taken, only a message with a key of its own can be sent again
// without being worked on twice.
//
// The error is an [*UnknownAgentError], a [*conversation.Error] (invalid_request for
// a message that cannot be, agent_instance_not_found and agent_instance_exists for a
// condition that does not hold, submission_conflict for a key that stands for
// another message, runtime_unavailable when it may help to repeat) or internal. It
// may be called from any goroutine once [Runtime.Ready] is closed.
func (r *Runtime) Dispatch(ctx context.Context, to conversation.Address, m agent.Message) (conversation.Receipt, error) {
	receipt, err := r.dispatch(ctx, to, m)
	if err != nil {
		return conversation.Receipt{}, fmt.Errorf("dispatch to %.80s/%.80s: %w", to.Agent, to.ID, err)
	}
	return receipt, nil
}

func (r *Runtime) dispatch(ctx context.Context, to conversation.Address, m agent.Message) (conversation.Receipt, error) {
	if !r.Serves(to.Agent) {
		return conversation.Receipt{}, &UnknownAgentError{to.Agent}
	}
	a, err := m.Admission(to)
	if err != nil {
		return conversation.Receipt{}, err
	}
	if a.Key == "" {
		a.Key = rand.Text()
	}
	a.Dispatched = true
	return r.Admit(ctx, a)
}
