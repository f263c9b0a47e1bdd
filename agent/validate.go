package agent

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// namePattern keeps names free of what paths, keys, DNS labels and shells treat
// specially.
const namePattern = `^[a-z][a-z0-9-]{0,62}$`

// toolNamePattern is what every model vendor accepts.
const toolNamePattern = `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`

// reservedToolNames are kept for tools of the runtime itself, so that adding one
// later never collides with an author's.
func reservedToolNames() []string {
	return []string{"activate_skill", "finish", "give_up", "read_skill_resource", "task"}
}

// Validate reports every mistake of the definition at once, each with the field's
// name and what to do. The error is a [*DefinitionError]. Package actors calls it
// when it starts; a test of an agent may.
func (a *Agent) Validate() error {
	var issues []Issue
	bad := func(field, format string, args ...any) {
		issues = append(issues, Issue{Path: field, Problem: fmt.Sprintf(format, args...)})
	}
	if !regexp.MustCompile(namePattern).MatchString(a.Name) {
		bad("Name", "%q does not match %s; choose a name such as \"issue-triage\"", a.Name, namePattern)
	}
	if problem := modelProblem(a.Model); problem != "" {
		bad("Model", "%s", problem)
	}
	if !slices.Contains(thinkingLevels(), a.ThinkingLevel) {
		bad("ThinkingLevel", "%q is unknown; use one of %q", a.ThinkingLevel, thinkingLevels()[1:])
	}
	if a.Instructions != "" && a.InstructionsFunc != nil {
		bad("InstructionsFunc", "is set beside Instructions; keep one of the two")
	}
	if a.Durability.MaxAttempts < 0 {
		bad("Durability.MaxAttempts", "is %d; use 1 or more, or 0 for the default of %d", a.Durability.MaxAttempts, DefaultMaxAttempts)
	}
	if a.Durability.Timeout < 0 {
		bad("Durability.Timeout", "is %v; use a positive duration, or 0 for the default of %v", a.Durability.Timeout, DefaultTimeout)
	}
	if a.InitialData != nil && a.InitialData.compiled == nil {
		bad("InitialData", "is an empty Schema; make it with NewSchema or SchemaFor")
	}
	if a.ToolConcurrency < 0 {
		bad("ToolConcurrency", "is %d; use 1 or more, or 0 for the default of %d", a.ToolConcurrency, DefaultToolConcurrency)
	}
	issues = append(issues, a.toolIssues()...)
	issues = append(issues, a.dataIssues()...)
	if len(issues) == 0 {
		return nil
	}
	return &DefinitionError{Agent: a.Name, Issues: issues}
}

func (a *Agent) toolIssues() []Issue {
	var issues []Issue
	first := map[string]int{}
	for i, t := range a.Tools {
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
	}
	return issues
}

func (a *Agent) dataIssues() []Issue {
	var issues []Issue
	first := map[string]int{}
	for i, d := range a.Data {
		field := fmt.Sprintf("Data[%d]", i)
		if d == nil {
			issues = append(issues, Issue{field, "is nil; make it with NewDataWriter"})
			continue
		}
		if j, ok := first[d.Name()]; ok {
			issues = append(issues, Issue{field, fmt.Sprintf("is named %q like Data[%d]; rename one of the two", d.Name(), j)})
			continue
		}
		first[d.Name()] = i
	}
	return issues
}

// modelProblem returns what is wrong with a model's name, or "".
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

// toolNameProblem returns what is wrong with a tool's name, or "".
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
