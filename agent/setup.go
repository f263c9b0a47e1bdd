package agent

import (
	"fmt"
	"slices"
)

// Setup is the configuration of one model call. It is made from the agent's fields; [Agent.Prepare]
// may change every field of it without changing the agent.
//
// Vendors cache a prompt that stays the same, so changes from call to call cost money.
type Setup struct {
	// Model is called first, as "provider/model".
	Model string
	// Fallbacks are called in order when the calls of Model fail permanently.
	Fallbacks []string
	// ThinkingLevel bounds the model's reasoning; empty means [ThinkingOff].
	ThinkingLevel ThinkingLevel
	// Generation has the sampling options.
	Generation Generation
	// Instructions are the system prompt.
	Instructions string
	// Tools are the tools that the model may call. The calls of this turn run the tools of this setup;
	// a resumed durable call runs the tool of the setup at that time.
	Tools []Tool
	// Subagents are the agents to which the model may delegate tasks.
	Subagents []*Agent

	agent *Agent
}

// NewSetup returns the setup that [Agent.Prepare] gets, made from the fields of an agent, with its
// constant Instructions. The setup owns the slices.
func NewSetup(a *Agent) *Setup {
	s := &Setup{
		Model: a.Model, Fallbacks: slices.Clone(a.Fallbacks), ThinkingLevel: a.ThinkingLevel, Generation: a.Generation,
		Instructions: a.Instructions, Tools: slices.Clone(a.Tools), Subagents: slices.Clone(a.Subagents), agent: a,
	}
	s.Generation.StopSequences = slices.Clone(a.Generation.StopSequences)
	return s
}

// Tool returns the tool with a name and whether it exists. [FinishTool] exists for an agent with
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

// offers reports whether the model sees a tool of that name.
func (s *Setup) offers(name string) bool {
	t, ok := s.Tool(name)
	return ok && t.Name() == name || name == TaskTool && len(s.Subagents) > 0
}

// Subagent returns the subagent with a name and whether it exists.
func (s *Setup) Subagent(name string) (*Agent, bool) {
	i := slices.IndexFunc(s.Subagents, func(a *Agent) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.Subagents[i], true
}

// Validate checks a setup that [NewSetup] made and [Agent.Prepare] changed. The error is a
// [*SetupError] that names each field. The runtime calls it before every model call; a test of Prepare
// may.
func (s *Setup) Validate() error {
	a := s.agent
	if a == nil { // the zero Setup
		a = &Agent{}
	}
	if a.function {
		return nil // functions have no setup
	}
	issues := slices.Concat(modelIssues(s.Model, s.Fallbacks), thinkingIssues(s.ThinkingLevel), s.Generation.issues(s.offers), a.toolIssues(s.Tools), a.taskIssues(s.Subagents))
	if len(issues) == 0 {
		return nil
	}
	return &SetupError{Agent: a.Name, Issues: issues}
}

// SetupError lists the invalid fields that [Agent.Prepare] set.
type SetupError struct {
	Agent  string
	Issues []Issue
}

// Error implements error.
func (e *SetupError) Error() string {
	return fmt.Sprintf("prepare agent %s: %s", e.Agent, joinIssues(e.Issues))
}
