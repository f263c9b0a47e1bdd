package agent

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// TaskTool is the name of the tool by which a model delegates a task to a subagent. Its input is
// {"agent": "the subagent's name", "prompt": "the task"}. The runtime adds it to the tools of an agent
// that has subagents.
const TaskTool = conversation.TaskTool

// MaxTaskDepth bounds nested tasks: the tasks of an agent's own conversation are at depth 1, and a
// task at the maximum cannot delegate further.
const MaxTaskDepth = conversation.MaxDepth

// taskIssues returns the mistakes in the subagents of a, at any depth.
func (a *Agent) taskIssues(subagents []*Agent) []Issue {
	return subagentIssues(subagents, "", []*Agent{a})
}

// subagentIssues checks the subagents of the last of ancestors; the first ancestor is the agent
// itself. It stops at the maximum depth of tasks.
func subagentIssues(subagents []*Agent, path string, ancestors []*Agent) []Issue {
	if len(subagents) > 0 && len(ancestors) > MaxTaskDepth {
		return []Issue{{path + "Subagents", fmt.Sprintf("are deeper than tasks are handed on; at most %d levels are", MaxTaskDepth)}}
	}
	var issues []Issue
	first := map[string]int{}
	for i, sub := range subagents {
		field := fmt.Sprintf("%sSubagents[%d]", path, i)
		switch {
		case sub == nil:
			issues = append(issues, Issue{field, "is nil"})
			continue
		case slices.Contains(ancestors, sub):
			issues = append(issues, Issue{field, fmt.Sprintf("leads back to agent %q; an agent cannot hand a task to itself or to one that works for it", sub.Name)})
			continue
		}
		if j, ok := first[sub.Name]; ok {
			issues = append(issues, Issue{field, fmt.Sprintf("is named %q like %sSubagents[%d]; rename one of the two", sub.Name, path, j)})
		} else {
			first[sub.Name] = i
		}
		for _, issue := range sub.subagentOwn() {
			issues = append(issues, Issue{field + "." + issue.Path, issue.Problem})
		}
		issues = append(issues, subagentIssues(sub.Subagents, field+".", append(ancestors, sub))...)
	}
	return issues
}

// subagentOwn returns the mistakes of a as a subagent, without those of its own subagents.
func (a *Agent) subagentOwn() []Issue {
	var issues []Issue
	bad := func(field, format string, args ...any) {
		issues = append(issues, Issue{field, fmt.Sprintf(format, args...)})
	}
	if !regexp.MustCompile(namePattern).MatchString(a.Name) {
		bad("Name", "%q does not match %s", a.Name, namePattern)
	}
	if a.Description == "" {
		bad("Description", "is empty; the model chooses a subagent by it")
	}
	switch {
	case a.Model != "":
		issues = append(issues, modelIssues(a.Model, a.Fallbacks)...)
	case len(a.Fallbacks) > 0:
		bad("Fallbacks", "are set without a Model; set one, or leave both to the parent's")
	}
	// These fields belong to conversations that callers reach, so they would be ignored.
	if a.InitialData != nil {
		bad("InitialData", "is set; a task has no caller who could send it, so write it into the task")
	}
	if len(a.State) > 0 {
		bad("State", "is set; state belongs to the conversation that hands out the task")
	}
	if len(a.Data) > 0 {
		bad("Data", "is set; a task has no response that clients see")
	}
	if a.Hooks.any() {
		bad("Hooks", "are set; they are called for the conversation that hands out the task")
	}
	if a.Durability != (Durability{}) {
		bad("Durability", "is set; a task is bounded by the submission it belongs to")
	}
	if a.Limits != (Limits{}) {
		bad("Limits", "are set; those of the agent that the submission belongs to hold")
	}
	if a.Events != (Events{}) {
		bad("Events", "are set; what events show is decided by the agent of the conversation that hands out the task")
	}
	return append(issues, a.commonIssues()...)
}
