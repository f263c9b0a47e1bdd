package bedrockconverse_test

import (
	"testing"

	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/206
func TestOddities(t *testing.T) {
	providertest.RunOddities(t, providertest.Wire{
		Codec:   newCodec(),
		Framing: framing{},
		Text:    func(s string) []string { return []string{delta("0", `{"text":`+s+`}`)} },
		Call: func(name string, arguments ...string) []string {
			out := []string{`contentBlockStart {"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"c","name":"` + name + `"}}}`}
			for _, a := range arguments {
				out = append(out, delta("1", `{"toolUse":{"input":`+a+`}}`))
			}
			return append(out, stop("1"))
		},
		End: func(word, usage string) []string {
			return []string{`messageStop {"stopReason":"` + word + `"}`, `metadata {"usage":` + usage + `}`}
		},
		Stop: "end_turn", Calls: "tool_use", Count: "outputTokens",
		Document: `{"output":{"message":{"role":"assistant","content":[{"text":"Hi"}]}},"stopReason":"end_turn"}`,
	})
}
