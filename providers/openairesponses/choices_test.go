package openairesponses_test

import (
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/181
func TestChoices(t *testing.T) {
	providertest.Choices(t, openairesponses.NewCodec(nil), providers.Model{Provider: "p", ID: "m", API: openairesponses.API, BaseURL: "http://127.0.0.1"}, map[string]providers.Options{
		`{"tool_choice":"required"}`:                        {ToolChoice: providers.ToolRequired},
		`{"tool_choice":"none"}`:                            {ToolChoice: providers.ToolNone},
		`{"tool_choice":{"type":"function","name":"find"}}`: {ToolChoice: "find"},
	})
	if _, err := openairesponses.NewCodec(nil).Encode(providers.Model{API: openairesponses.API}, providers.Request{}, providers.Options{Stop: []string{"END"}}); err == nil {
		t.Error("stop sequences: got no error")
	}
}
