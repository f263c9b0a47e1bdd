package anthropicmessages_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// BenchmarkEncode encodes the next call of a conversation.
func BenchmarkEncode(b *testing.B) { providertest.BenchmarkEncode(b, anthropicmessages.NewCodec(nil)) }

// BenchmarkDecode decodes a reply of 20 tokens that is available at once.
func BenchmarkDecode(b *testing.B) {
	var body []byte
	add := func(kind, rest string) {
		body = fmt.Appendf(body, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
	}
	add("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"usage":{"input_tokens":9,"output_tokens":1}}`)
	add("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for n := range 20 {
		add("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":" w%d"}`, n))
	}
	add("content_block_stop", `,"index":0`)
	add("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}`)
	add("message_stop", "")
	providertest.BenchmarkDecode(b, anthropicmessages.NewCodec(nil), body)
}
