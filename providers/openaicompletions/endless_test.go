package openaicompletions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestEndless checks the reply limits for every kind of endless output.
func TestEndless(t *testing.T) {
	piece := strings.Repeat("x", 1000)
	reply := func(delta string) string { return `{"choices":[{"delta":` + delta + `}]}` }
	always := func(delta string) func(int) string { return func(int) string { return reply(delta) } }
	providertest.RunEndless(t, openaicompletions.NewCodec(nil), nil, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {
			"text":      always(`{"content":"` + piece + `"}`),
			"reasoning": always(`{"reasoning":"` + piece + `"}`),
			"parts of a byte": func(i int) string {
				return reply([]string{`{"content":"x"}`, `{"reasoning":"x"}`}[i%2])
			},
			"arguments without a name": always(`{"tool_calls":[{"index":0,"function":{"arguments":"` + piece + `"}}]}`),
			"arguments of many calls": func(i int) string {
				return reply(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"%s"}}]}`, i%16, i%16, piece))
			},
		},
		providers.LimitedArguments: {
			"arguments": always(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"` + piece + `"}}]}`),
		},
		providers.LimitedCalls: {
			"calls": func(i int) string {
				return reply(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}]}`, i, i))
			},
			"calls without a name": func(i int) string {
				return reply(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":""}}]}`, i))
			},
		},
	})
}
