package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// fallbacks reads a list of models. It keeps the index of each, including invalid ones, so that issues
// of package agent refer to the right one.
func (r *reader) fallbacks(dst *[]string) func(value) {
	return func(v value) {
		for _, item := range r.items(v) {
			r.seen[item.at.String()] = item
			s, _ := r.checked(item)
			*dst = append(*dst, s)
		}
	}
}

// compaction reads the settings for summaries of a conversation.
func (r *reader) compaction(dst *agent.Compaction) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "off", example: "true", read: r.truth(func(t bool) { dst.Off = t })},
			{name: "reserveTokens", example: "20000", read: r.whole(func(n int64) { dst.ReserveTokens = int(n) })},
			{name: "keepRecentTokens", example: "8000", read: r.whole(func(n int64) { dst.KeepRecentTokens = int(n) })},
			{name: "model", example: "openai/gpt-5", read: r.text(&dst.Model)},
			{name: "instructions", example: `"Keep every order number."`, read: r.text(&dst.Instructions)},
		})
	}
}

// exampleSubagent is a subagent on one line.
const exampleSubagent = "{name: researcher, description: Looks things up., instructions: You search.}"

// subagents reads the subagents of an agent at a depth. Like fallbacks it keeps the index of each.
func (r *reader) subagents(dst *[]*agent.Agent, depth int) func(value) {
	return func(v value) {
		if depth > agent.MaxTaskDepth {
			r.blameKey(v, fault{
				fmt.Sprintf("exceed the maximum depth of %d levels", agent.MaxTaskDepth), "remove the key, or move the subagents up",
			})
			return
		}
		for _, item := range r.items(v) {
			r.seen[item.at.String()] = item
			sub := &agent.Agent{}
			*dst = append(*dst, sub)
			r.fields(item, append([]field{
				{name: "name", example: "researcher", read: r.text(&sub.Name), required: true},
				{name: "description", example: `"Looks things up."`, read: r.text(&sub.Description), required: true},
				{name: "model", example: "openai/gpt-5", read: r.text(&sub.Model)},
			}, r.common(sub, depth)...))
		}
	}
}

// generation reads the sampling settings of a model.
func (r *reader) generation(dst *agent.Generation) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "temperature", example: "0.2", read: func(v value) {
				dst.Temperature = new(float64)
				r.float(dst.Temperature, "a temperature", 2)(v)
			}},
			{name: "maxOutputTokens", example: "4000", read: r.whole(func(n int64) { dst.MaxOutputTokens = int(n) })},
			{name: "stopSequences", example: "[END]", read: r.texts(&dst.StopSequences)},
			{name: "toolChoice", example: "required", read: r.text((*string)(&dst.ToolChoice))},
		})
	}
}

// common returns the keys that agents and subagents share.
func (r *reader) common(a *agent.Agent, depth int) []field {
	return []field{
		{name: "fallbacks", example: "[anthropic/claude-opus-4-6]", read: r.fallbacks(&a.Fallbacks)},
		{name: "instructions", example: `"You are terse."`, read: r.text(&a.Instructions)},
		{name: "thinkingLevel", example: "medium", read: r.text((*string)(&a.ThinkingLevel))},
		{name: "generation", example: "{temperature: 0.2}", read: r.generation(&a.Generation)},
		{name: "output", example: "{type: object, properties: {city: {type: string}}, required: [city]}", read: r.schema(&a.Output)},
		{name: "toolConcurrency", example: "16", read: r.whole(func(n int64) { a.ToolConcurrency = int(n) })},
		{name: "compaction", example: "{reserveTokens: 20000, keepRecentTokens: 8000}", read: r.compaction(&a.Compaction)},
		{name: "subagents", example: "[" + exampleSubagent + "]", read: r.subagents(&a.Subagents, depth+1)},
	}
}

// providersOf checks that the models of an agent and its subagents have known providers.
func (r *reader) providersOf(a *agent.Agent, at *path, known map[string]providers.Registration) {
	r.providerOf(a.Model, at.key("model"), known)
	for i, spec := range a.Fallbacks {
		r.providerOf(spec, at.key("fallbacks").item(i), known)
	}
	r.providerOf(a.Compaction.Model, at.key("compaction").key("model"), known)
	for i, sub := range a.Subagents {
		r.providersOf(sub, at.key("subagents").item(i), known)
	}
}

// maxIDs bounds the ids in a remedy.
const maxIDs = 12

func (r *reader) providerOf(spec string, at *path, known map[string]providers.Registration) {
	v, ok := r.seen[at.String()]
	provider, _, slash := strings.Cut(spec, "/")
	_, is := known[provider]
	if is = is || len(r.opts.Providers) == 0 || slices.Contains(r.opts.Providers, provider); is || !ok || !slash || r.blamed[at.String()] {
		return
	}
	ids := slices.Sorted(maps.Keys(known))
	for _, id := range r.opts.Providers {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	f := fault{problem: quote(provider) + " is not a provider, neither built-in nor in providers"}
	f.remedy = "add it to providers, or use one of " + strings.Join(ids, ", ")
	if len(ids) > maxIDs {
		f.remedy = "add it to providers, or use one that parley models lists"
	}
	if near := nearest(provider, ids); near != "" {
		f.remedy = "did you mean " + near + "?"
	}
	r.blame(v, f)
}
