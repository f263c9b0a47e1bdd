package openaicompletions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestEndless holds the codec to the limits of a reply, whatever it is that never ends.
func TestEndless(t *testing.T) {
	piece := strings.Repeat("x", 1000)
	said := func(delta string) string { return `{"choices":[{"delta":` + delta + `}]}` }
	always := func(delta string) func(int) string { return func(int) string { return said(delta) } }
	for name, tt := range map[string]struct {
		event func(int) string
		what  providers.Limited
	}{
		"text":      {always(`{"content":"` + piece + `"}`), providers.LimitedReply},
		"reasoning": {always(`{"reasoning":"` + piece + `"}`), providers.LimitedReply},
		"parts of a byte": {func(i int) string {
			return said([]string{`{"content":"x"}`, `{"reasoning":"x"}`}[i%2])
		}, providers.LimitedReply},
		"arguments": {always(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"` + piece + `"}}]}`),
			providers.LimitedArguments},
		"arguments without a name": {always(`{"tool_calls":[{"index":0,"function":{"arguments":"` + piece + `"}}]}`), providers.LimitedReply},
		"arguments of many calls": {func(i int) string {
			return said(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"%s"}}]}`, i%16, i%16, piece))
		}, providers.LimitedReply},
		"calls": {func(i int) string {
			return said(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}]}`, i, i))
		}, providers.LimitedCalls},
		"calls without a name": {func(i int) string {
			return said(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":""}}]}`, i))
		}, providers.LimitedCalls},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.RunEndless(t, providertest.Endless{Codec: openaicompletions.NewCodec(nil), Event: tt.event, What: tt.what})
		})
	}
}
