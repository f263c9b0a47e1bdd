package bedrockconverse_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestEndless holds the codec to the limits of a reply, whatever it is that never ends.
func TestEndless(t *testing.T) {
	piece := strings.Repeat("x", 1000)
	always := func(event string) func(int) string { return func(int) string { return event } }
	for name, tt := range map[string]struct {
		event func(int) string
		what  providers.Limited
	}{
		"text":      {always(delta("0", text(piece))), providers.LimitedReply},
		"reasoning": {always(delta("0", thought("text", piece))), providers.LimitedReply},
		"signature": {always(delta("0", thought("signature", piece))), providers.LimitedReply},
		"redacted":  {always(delta("0", thought("redactedContent", strings.Repeat("eHh4", 250)))), providers.LimitedReply},
		"arguments": {func(i int) string {
			if i == 0 {
				return start("0", "c", "f")
			}
			return delta("0", input(piece))
		}, providers.LimitedArguments},
		"calls":           {func(i int) string { return start(strconv.Itoa(i), "c", "f") }, providers.LimitedCalls},
		"parts of a byte": {func(i int) string { return delta(strconv.Itoa(i), []string{text("x"), thought("text", "x")}[i%2]) }, providers.LimitedReply},
		"open blocks":     {func(i int) string { return delta(strconv.Itoa(i), thought("text", "")) }, providers.LimitedReply},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.RunEndless(t, providertest.Endless{Codec: newCodec(), Framing: framing{}, Event: tt.event, What: tt.what})
		})
	}
}
