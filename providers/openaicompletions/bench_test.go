package openaicompletions_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// BenchmarkEncode encodes the next call of a conversation.
func BenchmarkEncode(b *testing.B) { providertest.BenchmarkEncode(b, openaicompletions.NewCodec(nil)) }

// BenchmarkDecode decodes a reply of 20 tokens that is available at once.
func BenchmarkDecode(b *testing.B) {
	var body []byte
	head := `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m-1",`
	for n := range 20 {
		body = fmt.Appendf(body, "%s\"choices\":[{\"index\":0,\"delta\":{\"content\":\" w%d\"},\"finish_reason\":null}],\"usage\":null}\n\n", head, n)
	}
	body = fmt.Appendf(body, "%s\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n", head)
	body = fmt.Appendf(body, "%s\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":20,\"total_tokens\":29}}\n\ndata: [DONE]\n\n", head)
	providertest.BenchmarkDecode(b, openaicompletions.NewCodec(nil), body)
}
