package googlegenerativeai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/206
func TestOddities(t *testing.T) {
	part := func(p string) []string { return []string{`{"candidates":[{"content":{"parts":[` + p + `]}}]}`} }
	providertest.RunOddities(t, providertest.Wire{
		Codec: googlegenerativeai.NewCodec(nil),
		Text:  func(s string) []string { return part(`{"text":` + s + `}`) },
		Call: func(name string, arguments ...string) []string {
			return part(`{"functionCall":{"name":"` + name + `","args":` + strings.Join(arguments, "") + `}}`)
		},
		Whole: true,
		End: func(word, usage string) []string {
			return []string{fmt.Sprintf(`{"candidates":[{"finishReason":%q}],"usageMetadata":%s}`, word, usage)}
		},
		Stop: "STOP", Calls: "STOP", Count: "candidatesTokenCount",
		Document: `{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}`,
	})
}
