package anthropicmessages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestEndless holds the codec to the limits of a reply, whatever it is that never ends.
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
	for name, tt := range map[string]struct {
		event func(int) string
		what  providers.Limited
	}{
		"text":      {on(`{"type":"text"}`, "text_delta", "text"), providers.LimitedReply},
		"thinking":  {on(`{"type":"thinking"}`, "thinking_delta", "thinking"), providers.LimitedReply},
		"signature": {on(`{"type":"thinking"}`, "signature_delta", "signature"), providers.LimitedReply},
		"arguments": {on(`{"type":"tool_use","id":"c","name":"f"}`, "input_json_delta", "partial_json"), providers.LimitedArguments},
		"parts of a byte": {func(i int) string {
			return start(i, []string{`{"type":"text","text":"x"}`, `{"type":"thinking","thinking":"x"}`}[i%2])
		}, providers.LimitedReply},
		"calls":           {func(i int) string { return start(i, `{"type":"tool_use","id":"c","name":"f"}`) }, providers.LimitedCalls},
		"hidden thinking": {func(int) string { return start(0, `{"type":"redacted_thinking","data":"`+piece+`"}`) }, providers.LimitedReply},
		"open blocks":     {func(i int) string { return start(i, `{"type":"text"}`) }, providers.LimitedReply},
		"unknown blocks":  {func(i int) string { return start(i, `{"type":"other"}`) }, providers.LimitedReply},
		"input at once": {func(i int) string {
			return start(i, `{"type":"tool_use","id":"c","name":"f","input":{"n":"`+strings.Repeat(piece, 20)+`"}}`)
		}, providers.LimitedReply},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.RunEndless(t, providertest.Endless{Codec: anthropicmessages.NewCodec(nil), Event: tt.event, What: tt.what})
		})
	}
}
