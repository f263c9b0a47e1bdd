package mistralconversations_test

import (
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/181
func TestChoices(t *testing.T) {
	providertest.Choices(t, mistralconversations.NewCodec(nil), providers.Model{Provider: "p", ID: "m"}, map[string]providers.Options{
		`{"tool_choice":"required"}`:                                     {ToolChoice: providers.ToolRequired},
		`{"tool_choice":"none"}`:                                         {ToolChoice: providers.ToolNone},
		`{"tool_choice":{"type":"function","function":{"name":"find"}}}`: {ToolChoice: "find"},
		`{"stop":["END"]}`:                                               {Stop: []string{"END"}},
	})
}
