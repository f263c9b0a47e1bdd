package bedrockconverse_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestEndless checks the reply limits for every kind of endless output.
func TestEndless(t *testing.T) {
	piece := strings.Repeat("x", 1000)
	always := func(event string) func(int) string { return func(int) string { return event } }
	providertest.RunEndless(t, newCodec(), framing{}, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {
			"text":            always(delta("0", text(piece))),
			"reasoning":       always(delta("0", thought("text", piece))),
			"signature":       always(delta("0", thought("signature", piece))),
			"redacted":        always(delta("0", thought("redactedContent", strings.Repeat("eHh4", 250)))),
			"parts of a byte": func(i int) string { return delta(strconv.Itoa(i), []string{text("x"), thought("text", "x")}[i%2]) },
			"open blocks":     func(i int) string { return delta(strconv.Itoa(i), thought("text", "")) },
		},
		providers.LimitedArguments: {
			"arguments": func(i int) string {
				if i == 0 {
					return start("0", "c", "f")
				}
				return delta("0", input(piece))
			},
		},
		providers.LimitedCalls: {
			"calls": func(i int) string { return start(strconv.Itoa(i), "c", "f") },
		},
	})
}
