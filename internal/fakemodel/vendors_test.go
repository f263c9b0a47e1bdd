package fakemodel_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestVendorsTakeTurns changes the vendor at each turn, or between calls and their results, through
// all formats in both orders. Each must accept the history of the others. A turn has reasoning, two
// parallel calls, an image of the user and one of a tool.
// covers: providers/172, providers/185
func TestVendorsTakeTurns(t *testing.T) {
	for name, away := range map[string]int{"own calls": 0, "calls of another vendor": 1} {
		t.Run(name, func(t *testing.T) { takeTurns(t, away) })
	}
}

// foreignIDs are prefixes of call ids of some vendors, which repeat them in each reply.
var foreignIDs = []string{"functions.0:", "call_" + strings.Repeat("0123456789", 8) + "|", "toolu_01", "ünlike "}

// takeTurns lets the vendor that is so many positions away answer the results of a call.
func takeTurns(t *testing.T, away int) {
	picture := providers.Image{MimeType: "image/png", Content: providers.Bytes(fakemodel.PictureHead)}
	ask := user(`reasoning=2 say="One moment." tool=a {"città":"<Nîmes>"} tool=b then say="Done with both."`)
	ask.Parts = append([]providers.Part{picture}, ask.Parts...)
	clients := map[string]*client{}
	for api := range formats() {
		c := start(t, api, nil)
		switch c.of.Provider = api; {
		case strings.HasPrefix(api, "google-"):
			c.of.ID = "gemini-3-pro" // a model that verifies its signatures
		case api == openairesponses.APICodex:
			c.of.ID = "gpt-5.3-codex" // a model with phases
		}
		clients[api] = c
	}
	order := slices.Sorted(maps.Keys(clients))
	back := slices.Clone(order)
	slices.Reverse(back)
	var history []providers.Message
	turns := slices.Concat(order, back)
	for n := range turns {
		history = append(history, ask)
		for step, calls := range []int{2, 0} {
			api := turns[(n+step*away)%len(turns)]
			reply := clients[api].reply(t, history, providers.Options{ThinkingLevel: providers.ThinkingLow})
			results := providers.Message{Role: providers.RoleTool}
			for i, p := range reply.Parts {
				if c, ok := p.(providers.ToolCall); ok {
					c.ID = foreignIDs[n%len(foreignIDs)] + c.Name
					reply.Parts[i] = c
					results.Parts = append(results.Parts, providers.ToolResult{CallID: c.ID, Name: c.Name, Content: []providers.Part{providers.Text{Text: "r"}, picture}})
				}
			}
			if len(results.Parts) != calls {
				t.Fatalf("turn %d, %s: got %+v, want %d calls", n, api, reply, calls)
			}
			if history = append(history, reply); calls > 0 {
				history = append(history, results)
			}
		}
	}
	for _, c := range clients {
		c.reply(t, append(slices.Clip(history), ask), providers.Options{})
	}
}

// TestRepliesOfReasoningOnly verifies that a reply cut by a limit during reasoning is accepted as
// history of its model.
// covers: providers/204
func TestRepliesOfReasoningOnly(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		ask := user("reasoning=20")
		reply := c.reply(t, []providers.Message{ask}, providers.Options{MaxTokens: 16})
		c.reply(t, []providers.Message{ask, reply, user("tokens=1")}, providers.Options{})
	})
}

// reply makes a call and returns the reply as a runtime stores it. A rejected call fails the test,
// because codecs may retry with another.
func (c *client) reply(t *testing.T, history []providers.Message, o providers.Options) providers.Message {
	t.Helper()
	events, failure, broken := providertest.Collect(c.protocol.Stream(t.Context(), c.of, providers.Request{Messages: history}, o))
	if failure != nil || broken != nil {
		t.Fatalf("%s: got %v, %s, %v", c.of.API, failure, failureBody(failure), broken)
	}
	for _, r := range c.model.Requests() {
		if r.Refused != "" {
			t.Fatalf("%s: got a rejected call: %s", c.of.API, r.Refused)
		}
	}
	return providertest.MessageOf(c.of.Spec(), events)
}

// TestChoicesOfAuthors verifies that vendors accept the codecs' encoding of tool choices.
// covers: providers/181
func TestChoicesOfAuthors(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		temperature := 0.5
		req := providers.Request{Messages: []providers.Message{user("tokens=1")}, Tools: []providers.Tool{{Name: "time"}}}
		for _, choice := range []providers.ToolChoice{providers.ToolAuto, providers.ToolRequired, providers.ToolNone, "time"} {
			o := providers.Options{Temperature: &temperature, Stop: []string{"END"}, ToolChoice: choice}
			got, failure := c.send(t.Context(), t, req, o)
			if unsent := failure != nil && failure.Status == 0; got.Text != "w1" && !unsent {
				t.Errorf("%q: got %+v, %s", choice, got, failureBody(failure))
			}
		}
	})
}
