package agent

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// namePattern excludes characters with a meaning in paths, keys, DNS labels and shells.
const namePattern = `^[a-z][a-z0-9-]{0,62}$`

// toolNamePattern matches the names that every model vendor accepts.
const toolNamePattern = `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`

// reservedToolNames are reserved for tools of the runtime, so that a later one never collides with an
// author's.
func reservedToolNames() []string {
	return []string{"activate_skill", FinishTool, "give_up", "read_skill_resource", conversation.ReadOutputTool, TaskTool}
}

// Validate reports all mistakes of the definition at once, each with the field's name and the remedy.
// The error is a [*DefinitionError]. The runtime calls it at start; a test of an agent may.
func (a *Agent) Validate() error {
	var issues []Issue
	bad := func(field, format string, args ...any) {
		issues = append(issues, Issue{Path: field, Problem: fmt.Sprintf(format, args...)})
	}
	if !a.function && !regexp.MustCompile(namePattern).MatchString(a.Name) {
		bad("Name", "%q does not match %s; choose a name such as \"issue-triage\"", a.Name, namePattern)
	}
	if !a.function {
		issues = append(issues, modelIssues(a.Model, a.Fallbacks)...)
	}
	issues = append(issues, a.commonIssues()...)
	if a.Durability.MaxAttempts < 0 {
		bad("Durability.MaxAttempts", "is %d; use 1 or more, or 0 for the default of %d", a.Durability.MaxAttempts, DefaultMaxAttempts)
	}
	if a.Durability.Timeout < 0 {
		bad("Durability.Timeout", "is %v; use a positive duration, or 0 for the default of %v", a.Durability.Timeout, DefaultTimeout)
	}
	if a.Durability.Patience < 0 {
		bad("Durability.Patience", "is %v; use a positive duration, or 0 for the default of %v", a.Durability.Patience, DefaultPatience)
	}
	a.limitIssues(bad)
	if a.InitialData != nil && a.InitialData.compiled == nil {
		bad("InitialData", "is an empty Schema; make it with NewSchema or SchemaFor")
	}
	issues = append(issues, nameIssues("Data", "NewDataWriter", a.Data)...)
	issues = append(issues, nameIssues("State", "NewState", a.State)...)
	issues = append(issues, a.taskIssues(a.Subagents)...)
	if len(issues) == 0 {
		return nil
	}
	return &DefinitionError{Agent: a.Name, Issues: issues}
}

// commonIssues checks the fields that agents and subagents share, without models and subagents.
func (a *Agent) commonIssues() []Issue {
	issues := append(thinkingIssues(a.ThinkingLevel), a.Generation.issues(NewSetup(a).offers)...)
	if a.Instructions != "" && a.InstructionsFunc != nil {
		issues = append(issues, Issue{"InstructionsFunc", "is set in addition to Instructions; keep one of the two"})
	}
	issues = append(issues, a.renamedIssues()...)
	if a.ToolConcurrency < 0 {
		issues = append(issues, Issue{"ToolConcurrency", fmt.Sprintf("is %d; use 1 or more, or 0 for the default of %d", a.ToolConcurrency, DefaultToolConcurrency)})
	}
	issues = append(issues, a.toolIssues(a.Tools)...)
	if a.Output != nil && a.Output.compiled == nil {
		issues = append(issues, Issue{"Output", "is an empty Schema; make it with NewSchema or SchemaFor"})
	} else if a.Output != nil {
		if _, err := a.Output.finish(); err != nil {
			issues = append(issues, Issue{"Output", "cannot be given by a tool: " + err.Error()})
		}
	}
	return append(issues, a.Compaction.issues()...)
}

func thinkingIssues(level ThinkingLevel) []Issue {
	if slices.Contains(thinkingLevels(), level) {
		return nil
	}
	return []Issue{{"ThinkingLevel", fmt.Sprintf("%q is unknown; use one of %q", level, thinkingLevels()[1:])}}
}

func modelIssues(model string, fallbacks []string) []Issue {
	var issues []Issue
	if problem := modelProblem(model); problem != "" {
		issues = append(issues, Issue{"Model", problem})
	}
	for i, f := range fallbacks {
		problem := modelProblem(f)
		if problem == "" && (f == model || slices.Contains(fallbacks[:i], f)) {
			problem = fmt.Sprintf("%q is asked before already; remove it", f)
		}
		if problem != "" {
			issues = append(issues, Issue{fmt.Sprintf("Fallbacks[%d]", i), problem})
		}
	}
	return issues
}

func (a *Agent) toolIssues(tools []Tool) []Issue {
	var issues []Issue
	first := map[string]int{}
	for i, t := range tools {
		field := fmt.Sprintf("Tools[%d]", i)
		if t.call == nil {
			issues = append(issues, Issue{field, "is an empty Tool; make it with NewTool"})
			continue
		}
		if j, ok := first[t.name]; ok {
			issues = append(issues, Issue{field, fmt.Sprintf("is named %q like Tools[%d]; rename one of the two", t.name, j)})
			continue
		}
		first[t.name] = i
		for _, d := range t.data {
			if problem := a.dataProblem(d); problem != "" {
				issues = append(issues, Issue{field, problem})
			}
		}
	}
	return issues
}

// renamedIssues checks the former names of tools. Prepare may add a tool that Tools does not list.
func (a *Agent) renamedIssues() []Issue {
	var issues []Issue
	for _, old := range slices.Sorted(maps.Keys(a.Renamed)) {
		field, to := fmt.Sprintf("Renamed[%q]", old), a.Renamed[old]
		_, present := findTool(a.Tools, old)
		_, found := a.Tool(old)
		switch {
		case present:
			issues = append(issues, Issue{field, "is the name of a tool of the agent; remove the entry, or rename the tool"})
		case toolNameProblem(to) != "":
			issues = append(issues, Issue{field, fmt.Sprintf("is %q, which cannot be the name of a tool; use the present name", to)})
		case !found && a.Prepare == nil:
			issues = append(issues, Issue{field, fmt.Sprintf("is %q, and the agent has no such tool; use the present name", to)})
		}
	}
	return issues
}

// dataProblem describes the mistake of a tool's data writer, or returns "".
func (a *Agent) dataProblem(d Data) string {
	if d == nil {
		return "uses a data writer that is nil; make it with NewDataWriter"
	}
	i := slices.IndexFunc(a.Data, func(listed Data) bool { return listed != nil && listed.Name() == d.Name() })
	switch {
	case i < 0:
		return fmt.Sprintf("uses the data writer %q, which the agent does not list; add it to Data, which a subagent has none of", d.Name())
	case !bytes.Equal(a.Data[i].JSONSchema(), d.JSONSchema()):
		return fmt.Sprintf("uses a data writer %q that is another than Data[%d]; list the one that the tool uses, or rename one of the two", d.Name(), i)
	}
	return ""
}

// nameIssues checks a list of data writers or state.
func nameIssues[N interface {
	comparable
	Name() string
}](list, maker string, named []N) []Issue {
	var none N
	var issues []Issue
	first := map[string]int{}
	for i, d := range named {
		field := fmt.Sprintf("%s[%d]", list, i)
		if d == none {
			issues = append(issues, Issue{field, "is nil; make it with " + maker})
			continue
		}
		if j, ok := first[d.Name()]; ok {
			issues = append(issues, Issue{field, fmt.Sprintf("is named %q like %s[%d]; rename one of the two", d.Name(), list, j)})
			continue
		}
		first[d.Name()] = i
	}
	return issues
}

// modelProblem describes the mistake in a model's name, or returns "".
func modelProblem(model string) string {
	provider, name, ok := strings.Cut(model, "/")
	switch {
	case model == "":
		return "is empty; name a model as \"provider/model\""
	case !ok || provider == "" || name == "":
		return fmt.Sprintf("%q is not of the form \"provider/model\"", model)
	case strings.ContainsAny(model, " \t\r\n"):
		return fmt.Sprintf("%q contains white space; remove it", model)
	}
	return ""
}

// toolNameProblem describes the mistake in a tool's name, or returns "".
func toolNameProblem(name string) string {
	switch {
	case !regexp.MustCompile(toolNamePattern).MatchString(name):
		return fmt.Sprintf("name does not match %s", toolNamePattern)
	case slices.Contains(reservedToolNames(), name):
		return "name is reserved for the runtime"
	}
	return ""
}

// thinkingLevels returns every accepted level; the first is the zero value.
func thinkingLevels() []ThinkingLevel {
	return []ThinkingLevel{"", ThinkingOff, ThinkingMinimal, ThinkingLow, ThinkingMedium, ThinkingHigh, ThinkingXHigh, ThinkingMax}
}
