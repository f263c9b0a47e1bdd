package anthropicmessages_test

import (
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/181
func TestChoices(t *testing.T) {
	providertest.Choices(t, anthropicmessages.NewCodec(nil), providers.Model{Provider: "p", ID: "m", Reasoning: true, MaxTokens: 64000}, map[string]providers.Options{
		`{"tool_choice":{"type":"any"}}`:                                                     {ToolChoice: providers.ToolRequired},
		`{"tool_choice":{"type":"none"}}`:                                                    {ToolChoice: providers.ToolNone},
		`{"tool_choice":{"type":"tool","name":"find"}}`:                                      {ToolChoice: "find"},
		`{"stop_sequences":["END"]}`:                                                         {Stop: []string{"END"}},
		`{"tool_choice":{"type":"any"},"thinking":{"type":"disabled"}}`:                      {ToolChoice: providers.ToolRequired, ThinkingLevel: "high"},
		`{"tool_choice":{"type":"none"},"thinking":{"type":"enabled","budget_tokens":2048}}`: {ToolChoice: providers.ToolNone, ThinkingLevel: "low"},
	})
}
