package mistralconversations_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/206
func TestOddities(t *testing.T) {
	delta := func(members string) string { return `{"choices":[{"delta":{` + members + `}}]}` }
	providertest.RunOddities(t, providertest.Wire{
		Codec: mistralconversations.NewCodec(nil),
		Text:  func(s string) []string { return []string{delta(`"content":` + s)} },
		Call: func(name string, arguments ...string) []string {
			out := []string{delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"` + name + `","arguments":` + arguments[0] + `}}]`)}
			for _, a := range arguments[1:] {
				out = append(out, delta(`"tool_calls":[{"index":0,"id":"null","function":{"name":"","arguments":`+a+`}}]`))
			}
			return out
		},
		End: func(word, usage string) []string {
			return []string{fmt.Sprintf(`{"choices":[{"delta":{},"finish_reason":%q}],"usage":%s}`, word, usage)}
		},
		Stop: "stop", Calls: "tool_calls", Count: "completion_tokens",
		Document: `{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":null},"finish_reason":"stop"}]}`,
	})
}
