package googlegenerativeai_test

import (
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/181
func TestChoices(t *testing.T) {
	providertest.Choices(t, googlegenerativeai.NewCodec(nil), providers.Model{Provider: "p", ID: "m"}, map[string]providers.Options{
		`{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`:                                 {ToolChoice: providers.ToolRequired},
		`{"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}`:                                {ToolChoice: providers.ToolNone},
		`{"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["find"]}}}`: {ToolChoice: "find"},
		`{"generationConfig":{"stopSequences":["END"]}}`:                                          {Stop: []string{"END"}},
	})
}
