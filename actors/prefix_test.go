package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/openairesponses"
)

// thinks is a model that reasons several times in a reply: before a call, between its calls
// (invisibly), and before its answer. Its vendor signs each.
func thinks(seal func(string) string) script {
	n := 0
	return func(_ context.Context, req providers.Request, a *providers.Assembler) error {
		n++
		text := func(s string) string { return fmt.Sprintf("%s%d", s, n) }
		if len(req.Tools) == 0 {
			a.Text("What was said so far.")
			a.Finish(providers.Done{StopReason: providers.StopStop})
			return nil
		}
		a.Reasoning(text("think"), "")
		a.EndReasoning(seal(text("a")))
		if req.Messages[len(req.Messages)-1].Role == providers.RoleUser {
			first := a.StartCall(text("call_a"), "first")
			a.CallArguments(first, `{}`)
			a.EndCall(first, "")
			a.EndReasoning(seal(text("b")))
			a.EndCall(a.StartCall(text("call_b"), "first"), "sig")
			a.Finish(providers.Done{StopReason: providers.StopToolUse})
			return nil
		}
		a.Text(text("comment"))
		a.EndText(`{"phase":"commentary"}`)
		a.Text(text("answer"))
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	}
}

// TestRequestIsPrefixOfNext: each prompt is a byte prefix of the next, so that the vendor's cache
// hits. That includes tools, reasoning and another activation. A summary changes it once.
// covers: providers/173, providers/176
func TestRequestIsPrefixOfNext(t *testing.T) {
	sealed := func(s string) string { return fmt.Sprintf(`{"encrypted_content":%q,"summary":[%d]}`, s, len("think1")) }
	for name, tt := range map[string]struct {
		codec providers.Codec
		list  string
		seal  func(string) string
	}{
		"messages":    {anthropicmessages.NewCodec(nil), "messages", func(s string) string { return s }},
		"completions": {openaicompletions.NewCodec(nil), "messages", func(string) string { return "reasoning_content" }},
		"responses":   {openairesponses.NewCodec(nil), "input", sealed},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				c := onlyModel(thinks(tt.seal))
				a := chatAgent(returning("first", "one"))
				a.Compaction.KeepRecentTokens = 1
				n := l.run(part{opts: agents(a), vendor: c})
				runTurns := func(from, to int) {
					for i := from; i <= to; i++ {
						n.admit(chat("c"), fmt.Sprint(i), fmt.Sprint("question ", i))
						l.completes(chat("c"), i)
					}
				}
				runTurns(1, 3)
				n.crash()
				n = l.run(part{opts: agents(a), vendor: c})
				runTurns(4, 5)
				if compacted, err := n.rt.Compact(t.Context(), chat("c"), ""); err != nil || !compacted {
					t.Fatalf("got compacted %t, %v", compacted, err)
				}
				runTurns(6, 7)
				growing(t, tt.codec, tt.list, c.requests("model"))
			})
		})
	}
}

// marks match prompt-cache marks, which move to the newest message and are not part of the cached
// prefix.
var marks = regexp.MustCompile(`,"cache_control":\{"type":"ephemeral"\}`)

// growing checks that each request extends the previous one, except those for a summary.
func growing(t *testing.T, c providers.Codec, list string, requests []modelRequest) {
	t.Helper()
	m := providers.Model{Provider: "test", ID: "model", Reasoning: true}
	var before map[string]json.RawMessage
	changed, compared := 0, 0
	for _, r := range requests {
		if r.o.ThinkingLevel != providers.ThinkingOff {
			t.Errorf("got thinking level %q, want off by default", r.o.ThinkingLevel)
		}
		if len(r.req.Tools) == 0 {
			continue
		}
		req, o := providers.Transform(m, r.req, r.o)
		call, err := c.Encode(m, req, o)
		if err != nil {
			t.Fatal(err)
		}
		body := call.Body.Open(t.Context())
		text, err := io.ReadAll(body)
		body.Close()
		var now map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(marks.ReplaceAll(text, nil), &now)
		}
		if err != nil {
			t.Fatal(err)
		}
		if before != nil {
			compared++
			was, is := before[list], now[list]
			if !bytes.HasPrefix(is, was[:len(was)-1]) {
				changed++
			}
			delete(before, list)
			rest := map[string]json.RawMessage{}
			for k, v := range now {
				if k != list {
					rest[k] = v
				}
			}
			if diff := cmp.Diff(before, rest); diff != "" {
				t.Errorf("outside the messages (-before +after):\n%s", diff)
			}
		}
		before = now
	}
	if compared < 10 || changed != 1 {
		t.Errorf("got %d of %d requests that do not extend the previous one, want 1 after the summary", changed, compared)
	}
}
