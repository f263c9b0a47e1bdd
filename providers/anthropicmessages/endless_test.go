package anthropicmessages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestEndless checks the reply limits for every kind of endless output.
func TestEndless(t *testing.T) {
	piece := strings.Repeat("x", 1000)
	start := func(index int, block string) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
	}
	on := func(block, kind, field string) func(int) string {
		return func(i int) string {
			if i == 0 {
				return start(0, block)
			}
			return delta(0, kind, field, piece)
		}
	}
	providertest.RunEndless(t, anthropicmessages.NewCodec(nil), nil, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {
			"text":      on(`{"type":"text"}`, "text_delta", "text"),
			"thinking":  on(`{"type":"thinking"}`, "thinking_delta", "thinking"),
			"signature": on(`{"type":"thinking"}`, "signature_delta", "signature"),
			"parts of a byte": func(i int) string {
				return start(i, []string{`{"type":"text","text":"x"}`, `{"type":"thinking","thinking":"x"}`}[i%2])
			},
			"hidden thinking": func(int) string { return start(0, `{"type":"redacted_thinking","data":"`+piece+`"}`) },
			"open blocks":     func(i int) string { return start(i, `{"type":"text"}`) },
			"unknown blocks":  func(i int) string { return start(i, `{"type":"other"}`) },
			"input at once": func(i int) string {
				return start(i, `{"type":"tool_use","id":"c","name":"f","input":{"n":"`+strings.Repeat(piece, 20)+`"}}`)
			},
		},
		providers.LimitedArguments: {
			"arguments": on(`{"type":"tool_use","id":"c","name":"f"}`, "input_json_delta", "partial_json"),
		},
		providers.LimitedCalls: {
			"calls": func(i int) string { return start(i, `{"type":"tool_use","id":"c","name":"f"}`) },
		},
	})
}
