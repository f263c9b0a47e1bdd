package agenthost

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// InstructionsFor returns the system prompt of a turn. An error is the author's, a [*agent.PanicError]
// or an [*agent.ExitError]. [SetupFor] calls it.
func InstructionsFor(ctx context.Context, a *agent.Agent, t *agent.Turn) (string, error) {
	if a.InstructionsFunc == nil {
		return a.Instructions, nil
	}
	return contain.Do("instructions of agent "+a.Name, func() (string, error) {
		return a.InstructionsFunc(seam.WithReadOnly(withInitialData(ctx, t.InitialData)), t)
	})
}

// SetupFor returns the setup of a model call: the agent's fields and instructions, changed by Prepare.
// State is read-only during the call. The setup owns the slices.
//
// The error is the author's, a [*agent.PanicError], an [*agent.ExitError], or a [*agent.SetupError]
// that names each invalid field. The agent must be valid by [agent.Agent.Validate]; a subagent must be
// the result of [Inherit].
func SetupFor(ctx context.Context, a *agent.Agent, t *agent.Turn) (*agent.Setup, error) {
	s := agent.NewSetup(a)
	var err error
	if s.Instructions, err = InstructionsFor(ctx, a, t); err != nil {
		return nil, err
	}
	if err := prepare(ctx, a, t, s); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if finish, ok := s.Tool(agent.FinishTool); ok {
		s.Tools = append(s.Tools, finish)
	}
	return s, nil
}

func prepare(ctx context.Context, a *agent.Agent, t *agent.Turn, s *agent.Setup) error {
	if a.Prepare == nil {
		return nil
	}
	return contain.Run("prepare of agent "+a.Name, func() error {
		return a.Prepare(seam.WithReadOnly(withInitialData(ctx, t.InitialData)), t, s)
	})
}

// Inherit returns a subagent for a model call of its parent: without a model of its own it has the
// parent's model and fallbacks, and the parent's thinking level unless it sets one. Neither argument
// is changed.
func Inherit(sub *agent.Agent, parent *agent.Setup) *agent.Agent {
	if sub.Model != "" {
		return sub
	}
	child := *sub
	child.Model, child.Fallbacks = parent.Model, slices.Clone(parent.Fallbacks)
	if child.ThinkingLevel == "" {
		child.ThinkingLevel = parent.ThinkingLevel
	}
	return &child
}

// WritesData reports whether data of that name may appear in responses of an agent.
func WritesData(a *agent.Agent, name string) bool {
	return slices.ContainsFunc(a.Data, func(d agent.Data) bool { return d.Name() == name })
}

// KeepsState reports whether an agent has a persistent value of that name.
func KeepsState(a *agent.Agent, name string) bool {
	return slices.ContainsFunc(a.State, func(d agent.StateDefinition) bool { return d.Name() == name })
}

// CheckInitialData validates the initial data of a new conversation of an agent; nil means absent. The
// error is a [*conversation.Error] with code invalid_request whose details list the violations, or
// name the exceeded bound, with the [*agent.SchemaBoundError] as its cause; or the error of ctx.
func CheckInitialData(ctx context.Context, a *agent.Agent, raw json.RawMessage) error {
	if a.InitialData == nil {
		return nil
	}
	return unfit("initialData", a.InitialData.Validate(ctx, raw))
}

// unfit returns the refusal of a value that violates its schema or exceeds a bound of the check; any
// other error is returned unchanged.
func unfit(desc string, err error) error {
	var issues *agent.SchemaError
	var bound *agent.SchemaBoundError
	switch {
	case errors.As(err, &issues):
		return conversation.Errorf(conversation.CodeInvalidRequest, "%s: %v", desc, err)
	case errors.As(err, &bound):
		refusal := conversation.Errorf(conversation.CodeInvalidRequest, "%s: %v", desc, err)
		refusal.Err = bound
		return refusal
	}
	return err
}
