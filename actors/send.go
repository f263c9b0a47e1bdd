package actors

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// UnknownAgentError reports that no agent is registered under a name.
type UnknownAgentError struct{ Agent string }

// Error implements error.
func (e *UnknownAgentError) Error() string {
	return fmt.Sprintf("agent %.80q is not registered with this runtime", e.Agent)
}

// Dispatch sends a message to a conversation from the program that runs the runtime; agent.Text("…")
// makes a message of a text. When it returns, the message is durable and will reach exactly one
// settlement; [Runtime.Wait] waits for it. Tools and hooks use [agent.Dispatch] instead, whose keys
// are stable across retries.
//
// A message without a key gets a random one. If an error leaves the outcome unknown, only a message
// with its own key can be retried without being processed twice.
//
// The error is an [*UnknownAgentError], a [*conversation.Error] or internal. The code is
// invalid_request for an invalid message, and agent_instance_not_found or agent_instance_exists for a
// failed condition. It is submission_conflict for a key of a different message, and
// runtime_unavailable if a retry may help. Dispatch is safe for concurrent use once [Runtime.Ready] is
// closed.
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
