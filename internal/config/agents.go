package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

func (r *reader) agents(dst *[]Agent) func(value) {
	return func(v value) {
		for _, entry := range r.entries(v, "{mounts: [/agents/echo], model: openai/gpt-5}") {
			a := Agent{Agent: &agent.Agent{Name: entry.name}}
			about := r.definition
			if own, ok := r.own(entry.name); ok {
				a.Agent, about = own, r.overriding
			}
			r.seen[entry.at.String()] = entry
			served := []field{
				{name: "mounts", example: "[/agents/echo]", read: r.mounts(&a.Mounts)},
				{name: "events", example: "{content: true}", read: r.agentEvents(&a.Agent.Events)},
				{name: "notify", example: "[ledger]", read: r.texts(&a.Agent.Notify)},
				{name: "notifiable", example: "[ledger]", read: r.texts(&a.Agent.Notifiable)},
			}
			r.fields(entry, append(served, about(a.Agent)...))
			if entry.node.kind == mapping {
				*dst = append(*dst, a)
			}
		}
		if v.node.kind == mapping && len(v.node.pairs) == 0 && len(r.opts.Agents) == 0 {
			r.blame(v, fault{"is empty, but a server needs agents", "write for example " + v.example})
		}
	}
}

func (r *reader) mounts(dst *[]string) func(value) {
	return func(v value) {
		for _, item := range r.items(v) {
			mount, ok := r.checked(item, checkMount)
			if !ok {
				continue
			}
			if other, ok := r.mounted[mount]; ok {
				r.blame(item, fault{fmt.Sprintf("%s is %s already, on line %d", quote(mount), other.at, other.line), "give each agent a path of its own"})
				continue
			}
			r.mounted[mount] = item
			*dst = append(*dst, mount)
		}
	}
}

func (r *reader) single(root value) *Single {
	s := &Single{Agent: &agent.Agent{}, Providers: map[string]providers.Registration{}, BlankKeys: r.blankKeys}
	a := s.Agent
	fields := []field{
		{name: "name", example: "echo", read: r.text(&a.Name)},
		{name: "providers", example: "{local: {api: openai-completions, baseUrl: \"http://127.0.0.1:9000/v1\"}}", read: r.providers(s.Providers)},
	}
	r.fields(root, append(fields, r.definition(a)...))
	if root.node.kind != mapping {
		return s
	}
	if a.Name == "" && !r.blamed["name"] {
		var good string
		if a.Name, good = nameOf(r.file); a.Name == "" {
			r.add(root.at.key("name"), root.line, root.column,
				fault{"is missing, and the name of the file is not one for an agent", "add for example name: " + good})
			a.Name = good
		}
	}
	r.define(a, nil, s.Providers)
	return s
}

// nameOf derives the name of an agent from its file. If the name is invalid, good is a similar valid
// one.
func nameOf(file string) (name, good string) {
	base := filepath.Base(file)
	name = strings.TrimSuffix(base, filepath.Ext(base))
	// The model is a valid one.
	if (&agent.Agent{Name: name, Model: "p/m"}).Validate() == nil {
		return name, name
	}
	good = strings.ToLower(name)
	good = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(good, "-"), "-")
	if good == "" || !unicode.IsLetter(rune(good[0])) {
		good = strings.TrimSuffix("agent-"+good, "-")
	}
	return "", good[:min(len(good), 63)]
}

// definition returns the keys of every agent.
func (r *reader) definition(a *agent.Agent) []field {
	return slices.Concat([]field{
		{name: "description", example: `"Says everything again."`, read: r.text(&a.Description)},
		{name: "model", example: "openai/gpt-5", read: r.text(&a.Model), required: true},
	}, r.common(a, 0), []field{
		{name: "durability", example: "{maxAttempts: 10, timeout: 1h}", read: func(v value) {
			r.fields(v, []field{
				{name: "maxAttempts", example: "10", read: r.whole(func(n int64) { a.Durability.MaxAttempts = int(n) })},
				{name: "timeout", example: "1h", read: r.duration(&a.Durability.Timeout)},
				{name: "patience", example: "10m", read: r.duration(&a.Durability.Patience)},
			})
		}},
		{name: "limits", example: "{responseBytes: 16777216}", read: func(v value) {
			r.fields(v, []field{
				{name: "responseBytes", example: "16777216", read: r.whole(func(n int64) { a.Limits.ResponseBytes = int(n) })},
				{name: "argumentBytes", example: "4194304", read: r.whole(func(n int64) { a.Limits.ArgumentBytes = int(n) })},
				{name: "outputBytes", example: "33554432", read: r.whole(func(n int64) { a.Limits.OutputBytes = int(n) })},
				{name: "callsPerReply", example: "128", read: r.whole(func(n int64) { a.Limits.CallsPerReply = int(n) })},
				{name: "turns", example: "100", read: r.whole(func(n int64) { a.Limits.Turns = int(n) })},
				{name: "toolCalls", example: "1000", read: r.whole(func(n int64) { a.Limits.ToolCalls = int(n) })},
				{name: "tokens", example: "2000000", read: r.whole(func(n int64) { a.Limits.Tokens = n })},
				{name: "dollars", example: "2.5", read: r.float(&a.Limits.Dollars, "US dollars", maxDollars)},
				{name: "treeSubmissions", example: "1000", read: r.whole(func(n int64) { a.Limits.TreeSubmissions = int(n) })},
				{name: "treeDollars", example: "20", read: r.float(&a.Limits.TreeDollars, "US dollars", maxDollars)},
				{name: "pricedOnly", example: "true", read: r.truth(func(t bool) { a.Limits.PricedOnly = t })},
			})
		}},
		{name: "answerInOrder", example: "true", read: r.truth(func(t bool) { a.AnswerInOrder = t })},
		{name: "initialData", example: "{type: object}", read: r.schema(&a.InitialData)},
	})
}

// define validates a whole agent. It does not report keys again that already have a mistake.
func (r *reader) define(a *agent.Agent, at *path, known map[string]providers.Registration) {
	var invalid *agent.DefinitionError
	if err := a.Validate(); errors.As(err, &invalid) {
		for _, issue := range invalid.Issues {
			r.blameIssue(at, issue)
		}
	}
	r.providersOf(a, at, known)
}

// keyOf maps a field path of package agent to a key of the file: the field
// Subagents[1].Compaction.Model is the key subagents[1].compaction.model. It reports false inside an
// invalid subagent, which was reported already.
func (r *reader) keyOf(at *path, field string) (*path, bool) {
	for step := range strings.SplitSeq(field, ".") {
		name, index, isItem := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		at = at.key(strings.ToLower(name[:1]) + name[1:])
		if i, err := strconv.Atoi(index); isItem && err == nil {
			at = at.item(i)
			if v, ok := r.seen[at.String()]; ok && name == "Subagents" && v.node.kind != mapping {
				return nil, false
			}
		}
	}
	return at, true
}

// blameIssue converts an issue of package agent to a mistake.
func (r *reader) blameIssue(at *path, issue agent.Issue) {
	key, ok := at, true
	if at == nil || issue.Path != "Name" { // The key of a server's agent is its name.
		key, ok = r.keyOf(at, issue.Path)
	}
	// Subagents without a name are reported as such, not as duplicates.
	if !ok || r.blamed[key.String()] || strings.HasPrefix(issue.Problem, `is named ""`) {
		return
	}
	v, ok := r.seen[key.String()]
	problem, remedy, _ := strings.Cut(issue.Problem, "; ")
	problem = strings.NewReplacer("Subagents[", "subagents[", "a Model", "a model").Replace(problem)
	last := issue.Path[strings.LastIndexByte(issue.Path, '.')+1:]
	switch {
	case last == "Model" || strings.HasPrefix(last, "Fallbacks[") && !strings.HasPrefix(remedy, "remove it"):
		remedy = "write for example openai/gpt-5"
	case strings.HasPrefix(issue.Path, "Subagents") && (last == "Name" || last == "Description"):
		remedy = "write for example " + v.example
	}
	f := fault{problem, cmp.Or(remedy, "correct the value")}
	switch {
	case !ok:
		r.add(key, 1, 1, f)
	case issue.Path == "Name" && at != nil:
		r.blameKey(v, f)
	default:
		r.blame(v, f)
	}
}

func (r *reader) schema(dst **agent.Schema) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		src, wrong, f := appendJSON(nil, v)
		if wrong != nil {
			if f != (fault{}) {
				r.blame(*wrong, f)
			}
			return
		}
		schema, err := agent.NewSchema(json.RawMessage(src))
		if err != nil {
			r.blameSchema(v, err)
			return
		}
		*dst = schema
	}
}

// blameSchema locates the errors of a schema from lines such as "- at '/type': got number, want
// string". An error in another form is reported unchanged.
func (r *reader) blameSchema(v value, err error) {
	remedy := "write a JSON schema of draft 2020-12, for example {type: object, properties: {topic: {type: string}}}"
	text := strings.ReplaceAll(err.Error(), "agent:///schema.json", "")
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ *- at '([^']*)': (.*)$`).FindAllStringSubmatch(text, -1) {
		if pointer, problem := m[1], m[2]; !strings.HasSuffix(problem, "failed") && !seen[pointer] {
			seen[pointer] = true
			r.blame(locate(v, pointer), fault{"is not a JSON schema: " + oneLine(problem), remedy})
		}
	}
	if len(seen) == 0 {
		text, cure, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(text, "compile schema: "), "parse schema: "), "; ")
		if ok {
			remedy = oneLine(cure)
		}
		r.blame(v, fault{"is not a JSON schema: " + oneLine(text), remedy})
	}
}

// oneLine bounds the error text of another package.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if len(s) > 3*maxQuoted {
		s = strings.ToValidUTF8(s[:3*maxQuoted], "") + "…"
	}
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, s)
}

// locate follows a JSON pointer as far as it resolves.
func locate(v value, pointer string) value {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		next, ok := child(v, unescape.Replace(step))
		if !ok {
			break
		}
		v = next
	}
	return v
}

func child(v value, name string) (value, bool) {
	if i, err := strconv.Atoi(name); v.node.kind == list && err == nil && i >= 0 && i < len(v.node.items) {
		return value{at: v.at.item(i), node: v.node.items[i]}, true
	}
	for _, p := range v.node.pairs {
		if p.name == name {
			return value{at: v.at.key(name), node: p.value, line: p.line, column: p.column}, true
		}
	}
	return value{}, false
}
