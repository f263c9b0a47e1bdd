package actors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// TestModelThatNeverEnds cuts off a response that is longer than it may be: it fails
// once with what was said so far, whatever it is that does not end, and no other model
// is asked. An end that the test sees shows that reading went on.
func TestModelThatNeverEnds(t *testing.T) {
	const limit, piece = 256 << 10, 1 << 10
	endless := func(say func(a *providers.Assembler, i int)) script {
		return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
			for i := 0; i < 64*limit/piece && !a.Stopped(); i++ {
				say(a, i)
			}
			a.Finish(providers.Done{StopReason: providers.StopStop})
			return nil
		}
	}
	text := strings.Repeat("x", piece)
	for name, tt := range map[string]struct {
		say   func(a *providers.Assembler, i int)
		limit int
	}{
		"text":      {func(a *providers.Assembler, _ int) { a.Text(text) }, limit},
		"reasoning": {func(a *providers.Assembler, _ int) { a.Reasoning(text, "") }, limit},
		"signatures": {func(a *providers.Assembler, i int) {
			a.Reasoning("", fmt.Sprint(text, i))
			a.Text("x")
		}, limit},
		"parts": {func(a *providers.Assembler, i int) {
			a.Text("x")
			a.Reasoning("y", "")
		}, limit},
		"arguments": {func(a *providers.Assembler, i int) {
			if i == 0 {
				a.StartCall("p", "t")
			}
			a.CallArguments(0, text)
		}, limit / 4},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				a := chatAgent()
				a.Limits = agent.Limits{ResponseBytes: limit, ArgumentBytes: limit / 4}
				a.Fallbacks = []string{"test/other"}
				c := &cast{models: map[string]script{"model": endless(tt.say), "other": tells("done")}}
				n := l.run(part{opts: agents(a), cast: c})
				n.admit(chat("c"), "1", "go")
				got := l.settles(chat("c"), 1)[0].Error
				if got == nil || got.Type != conversation.CodeOutputTooLong {
					t.Fatalf("settled with %+v", got)
				}
				if at := fmt.Sprint(got.Meta["limit"]); at != fmt.Sprint(tt.limit) {
					t.Errorf("told of the limit %s, want %d", at, tt.limit)
				}
				if asked := len(c.requests("")); asked != 1 {
					t.Errorf("%d model calls, want 1", asked)
				}
				said := 0
				for _, d := range only[*conversation.Delta](l.records(chat("c"))) {
					said += len(d.Text)
				}
				if said > limit {
					t.Errorf("%d bytes are in the log, want at most %d", said, limit)
				}
				if name == "text" && said < limit/2 {
					t.Errorf("%d bytes are in the log, want what was said until the limit of %d", said, limit)
				}
			})
		})
	}
}

// TestManyCalls runs none of the calls of a reply that has too many, and asks again.
func TestManyCalls(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		many := make([]string, 20_000)
		for i := range many {
			many[i] = "t"
		}
		c := alone(inTurn(asks(many...), asks("t", "t"), tells("done")))
		n := l.run(part{opts: agents(chatAgent(returning("t", "one"))), cast: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if calls := only[*conversation.ToolCalled](l.records(chat("c"))); len(calls) != 2 {
			t.Errorf("%d calls are in the log, want 2", len(calls))
		}
		notes := only[*conversation.Advisory](l.records(chat("c")))
		if len(notes) != 1 {
			t.Fatalf("%d notes, want 1", len(notes))
		}
		wants(t, "the note", notes[0].Text, "more than 128 tool calls")
		wants(t, "what the model saw", strings.Join(c.last(t, "model"), "\n"), "more than 128 tool calls")
	})
}
