package agent

import (
	"context"
	"fmt"
	"slices"
)

// Setup is what holds for one model call. It begins as what the agent's fields say;
// [Agent.Prepare] may change every field of it, and nothing of the agent.
//
// A prompt that stays the same is cached by vendors: what changes from call to
// call costs.
type Setup struct {
	// Model is asked first, as "provider/model".
	Model string
	// Fallbacks are asked in order when the calls of Model fail for good.
	Fallbacks []string
	// ThinkingLevel is how much the model may reason; empty means [ThinkingOff].
	ThinkingLevel ThinkingLevel
	// Generation says how the model writes.
	Generation Generation
	// Instructions are the system prompt.
	Instructions string
	// Tools are what the model may call. The calls of this turn run the tools of this
	// setup; a durable call that is resumed runs the tool of the setup made then.
	Tools []Tool
	// Subagents are whom the model may hand tasks to.
	Subagents []*Agent

	finishes bool // there is the tool FinishTool
}

// Tool returns the tool of that name, and whether there is one.
func (s *Setup) Tool(name string) (Tool, bool) { return findTool(s.Tools, name) }

// offers reports whether a model is shown a tool of that name.
func (s *Setup) offers(name string) bool {
	_, ok := s.Tool(name)
	return ok || name == TaskTool && len(s.Subagents) > 0 || name == FinishTool && s.finishes
}

// Subagent returns the subagent of that name, and whether there is one.
func (s *Setup) Subagent(name string) (*Agent, bool) {
	i := slices.IndexFunc(s.Subagents, func(a *Agent) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.Subagents[i], true
}

// SetupFor returns what holds for a model call: the agent's fields, its
// instructions, and then what Prepare makes of them. State can only be read
// meanwhile. The slices are the setup's own.
//
// The error is the author's, a [*PanicError], or a [*SetupError] that names each
// field that cannot be. The agent is one that [Agent.Validate] accepts; a subagent
// has gone through [Agent.Inherit].
func (a *Agent) SetupFor(ctx context.Context, t *Turn) (*Setup, error) {
	ctx = withReadOnlyState(ctx)
	s := &Setup{
		Model: a.Model, Fallbacks: slices.Clone(a.Fallbacks), ThinkingLevel: a.ThinkingLevel, Generation: a.Generation, finishes: a.Output != nil,
		Tools: slices.Clone(a.Tools), Subagents: slices.Clone(a.Subagents),
	}
	s.Generation.StopSequences = slices.Clone(a.Generation.StopSequences)
	var err error
	if s.Instructions, err = a.InstructionsFor(ctx, t); err != nil {
		return nil, err
	}
	if err := a.prepare(ctx, t, s); err != nil {
		return nil, err
	}
	issues := slices.Concat(modelIssues(s.Model, s.Fallbacks), thinkingIssues(s.ThinkingLevel), s.Generation.issues(s.offers), toolIssues(s.Tools), a.taskIssues(s.Subagents))
	if len(issues) > 0 {
		return nil, &SetupError{Agent: a.Name, Issues: issues}
	}
	if a.Output != nil {
		finish, err := a.Output.finish()
		if err != nil {
			return nil, err
		}
		s.Tools = append(s.Tools, finish)
	}
	return s, nil
}

func (a *Agent) prepare(ctx context.Context, t *Turn, s *Setup) (err error) {
	if a.Prepare == nil {
		return nil
	}
	defer contain("prepare of agent "+a.Name, &err)
	return a.Prepare(ctx, t, s)
}

// SetupError lists what [Agent.Prepare] set that cannot be.
type SetupError struct {
	Agent  string
	Issues []Issue
}

// Error implements error.
func (e *SetupError) Error() string {
	return fmt.Sprintf("prepare agent %s: %s", e.Agent, joinIssues(e.Issues))
}
