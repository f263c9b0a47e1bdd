package agent

import (
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

	agent *Agent
}

// NewSetup returns what the fields of an agent say: what [Agent.Prepare] is handed, still with the
// Instructions of the agent. The slices are the setup's own.
func NewSetup(a *Agent) *Setup {
	s := &Setup{
		Model: a.Model, Fallbacks: slices.Clone(a.Fallbacks), ThinkingLevel: a.ThinkingLevel, Generation: a.Generation,
		Instructions: a.Instructions, Tools: slices.Clone(a.Tools), Subagents: slices.Clone(a.Subagents), agent: a,
	}
	s.Generation.StopSequences = slices.Clone(a.Generation.StopSequences)
	return s
}

// Tool returns the tool of that name, and whether there is one. [FinishTool] is there for an agent with
// [Agent.Output].
func (s *Setup) Tool(name string) (Tool, bool) {
	if name == FinishTool && s.agent != nil && s.agent.Output != nil && s.agent.Output.compiled != nil {
		t, err := s.agent.Output.finish()
		return t, err == nil
	}
	if s.agent != nil {
		return s.agent.findTool(s.Tools, name)
	}
	return findTool(s.Tools, name)
}

// offers reports whether a model is shown a tool of that name.
func (s *Setup) offers(name string) bool {
	t, ok := s.Tool(name)
	return ok && t.Name() == name || name == TaskTool && len(s.Subagents) > 0
}

// Subagent returns the subagent of that name, and whether there is one.
func (s *Setup) Subagent(name string) (*Agent, bool) {
	i := slices.IndexFunc(s.Subagents, func(a *Agent) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.Subagents[i], true
}

// Validate reports what cannot be in a setup that [NewSetup] made and [Agent.Prepare] has changed. The
// error is a [*SetupError] that names each field. The runtime calls it before every model call; a test
// of Prepare may.
func (s *Setup) Validate() error {
	a := s.agent
	if a == nil { // nobody's
		a = &Agent{}
	}
	if a.function {
		return nil // nothing of it can be changed
	}
	issues := slices.Concat(modelIssues(s.Model, s.Fallbacks), thinkingIssues(s.ThinkingLevel), s.Generation.issues(s.offers), a.toolIssues(s.Tools), a.taskIssues(s.Subagents))
	if len(issues) == 0 {
		return nil
	}
	return &SetupError{Agent: a.Name, Issues: issues}
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
