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

// InstructionsFor returns the system prompt of a turn. An error is the author's, a
// [*agent.PanicError] or an [*agent.ExitError]. [SetupFor] calls it.
func InstructionsFor(ctx context.Context, a *agent.Agent, t *agent.Turn) (string, error) {
	if a.InstructionsFunc == nil {
		return a.Instructions, nil
	}
	return contain.Do("instructions of agent "+a.Name, func() (string, error) {
		return a.InstructionsFunc(seam.WithReadOnly(withInitialData(ctx, t.InitialData)), t)
	})
}

// SetupFor returns what holds for a model call: the agent's fields, its instructions, and then what
// Prepare makes of them. State can only be read meanwhile. The slices are the setup's own.
//
// The error is the author's, a [*agent.PanicError], an [*agent.ExitError], or a [*agent.SetupError] that names each field that
// cannot be. The agent is one that [agent.Agent.Validate] accepts; a subagent has gone through
// [Inherit].
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

// Inherit returns a subagent as it works for a model call of its parent: where it names no model, it has
// the parent's model and fallbacks, and the parent's thinking level unless it sets its own. Neither
// argument is changed.
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

// KeepsState reports whether a persistent value of that name is an agent's.
func KeepsState(a *agent.Agent, name string) bool {
	return slices.ContainsFunc(a.State, func(d agent.StateDefinition) bool { return d.Name() == name })
}

// CheckInitialData decides whether a conversation of an agent may be created with these initial data;
// nil means absent. The error is a [*conversation.Error] with code invalid_request whose details list
// what is wrong, or name the bound that checking them goes beyond, with the [*agent.SchemaBoundError] as
// its cause; or the error is that of ctx, with which the check ends.
func CheckInitialData(ctx context.Context, a *agent.Agent, raw json.RawMessage) error {
	if a.InitialData == nil {
		return nil
	}
	return unfit("initialData", a.InitialData.Validate(ctx, raw))
}

// unfit returns the refusal of a value that does not fit its schema, or goes beyond a bound of the check; any other
// error is as it is.
func unfit(what string, err error) error {
	var issues *agent.SchemaError
	var bound *agent.SchemaBoundError
	switch {
	case errors.As(err, &issues):
		return conversation.Errorf(conversation.CodeInvalidRequest, "%s: %v", what, err)
	case errors.As(err, &bound):
		refusal := conversation.Errorf(conversation.CodeInvalidRequest, "%s: %v", what, err)
		refusal.Err = bound
		return refusal
	}
	return err
}
