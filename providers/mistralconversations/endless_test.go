package mistralconversations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestEndless checks the reply limits for every kind of endless output.
func TestEndless(t *testing.T) {
	piece := strings.Repeat("x", 1000)
	content := func(delta string) string { return `{"choices":[{"delta":` + delta + `}]}` }
	always := func(delta string) func(int) string { return func(int) string { return content(delta) } }
	providertest.RunEndless(t, mistralconversations.NewCodec(nil), nil, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {
			"text":     always(`{"content":"` + piece + `"}`),
			"thinking": always(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"` + piece + `"}]}]}`),
			"parts of a byte": func(i int) string {
				return content([]string{`{"content":"x"}`, `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"x"}]}]}`}[i%2])
			},
			"arguments without a name": always(`{"tool_calls":[{"index":0,"function":{"arguments":"` + piece + `"}}]}`),
		},
		providers.LimitedArguments: {
			"arguments": always(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"` + piece + `"}}]}`),
		},
		providers.LimitedCalls: {
			"calls": func(i int) string {
				return content(fmt.Sprintf(`{"tool_calls":[{"id":"c%d","function":{"name":"f","arguments":"{}"}}]}`, i))
			},
		},
	})
}
