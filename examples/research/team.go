package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parleyrun/parley/agent"
)

// newTeam returns the lead agent and its subagents.
func newTeam(lead, fallback, critic string, notes library) *agent.Agent {
	return &agent.Agent{
		Name:          "research",
		Model:         lead,
		Fallbacks:     []string{fallback},
		ThinkingLevel: agent.ThinkingMedium,
		Instructions: "Answer the question. Split it into parts that can be looked up on their own, hand all of them to the reader at once, " +
			"let the critic look at your draft, and say which notes the answer rests on.",
		Subagents: []*agent.Agent{
			{
				// A subagent without a model uses the lead's model and fallbacks.
				Name:         "reader",
				Description:  "Looks one thing up in the notes and reports what they say about it.",
				Instructions: "Look the topic up. Report what the notes say and name them; add nothing of your own.",
				Tools:        []agent.Tool{agent.NewTool("look_up", "Read the note about a topic.", notes.lookUp, nil)},
			},
			{
				// Another model has other blind spots.
				Name:         "critic",
				Description:  "Says what is wrong with a draft, or missing.",
				Model:        critic,
				Instructions: "Name the weakest claim of the draft and what would support it. Two sentences.",
			},
		},
		// Two readers at a time stay within the vendor's rate limits.
		ToolConcurrency: 2,
		// Research fills the context window. Reserve room for a long answer, and keep the sources in
		// summaries.
		Compaction: agent.Compaction{
			ReserveTokens: 30_000,
			Instructions:  "Keep the name of every note that was quoted.",
		},
	}
}

// library maps topics to notes.
type library map[string]string

func newLibrary() library {
	return library{
		"tea":    "Tea keeps people awake for four hours. It is served hot.",
		"coffee": "Coffee keeps people awake for six hours. It is served hot, too.",
		"water":  "Water keeps nobody awake.",
	}
}

type lookUpInput struct {
	Topic string `json:"topic" jsonschema:"one word in lower case"`
}

// lookUp is a tool. Its error lists the known topics, so that the model can correct itself.
func (l library) lookUp(_ context.Context, in lookUpInput) (string, error) {
	note, ok := l[in.Topic]
	if !ok {
		return "", fmt.Errorf("no note about %q; the topics are %s", in.Topic, strings.Join(slices.Sorted(maps.Keys(l)), ", "))
	}
	return note, nil
}
