package otel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/otel"
)

// budget is the limit of content per span, in bytes.
const budget = 57_344

func callScript(args, result string) *script {
	s := begin("")
	s.add(150, within("turn_1"), &observability.TurnRequest{Request: observability.ModelRequest{Input: json.RawMessage(`{"messages":["hello"]}`)}})
	s.add(190, within("turn_1"), &observability.MessageEnd{Message: observability.Message{Role: "assistant", Text: "Let me \"look\"."}})
	s.add(200, within("turn_1"), call("toolUse"))
	s.add(200, within("turn_1"), &observability.ToolStart{ToolName: "label", ToolCallID: "call_1", Args: content(args)})
	s.add(250, within("turn_1"), &observability.MessageEnd{Message: observability.Message{Role: "toolResult", Text: "no answer"}})
	s.add(260, within("turn_1"), &observability.Tool{ToolName: "label", ToolCallID: "call_1", DurationMs: 60, Result: content(result)})
	s.add(260, task("task_1", "", "turn_1"), &observability.TaskStart{Agent: "reader", Prompt: content("read it")})
	s.add(280, task("task_1", "", "turn_2"), &observability.TurnMessages{Message: observability.Message{Role: "assistant", Text: "read"}})
	s.add(300, task("task_1", "", "turn_1"), &observability.Task{Agent: "reader", Outcome: "completed"})
	s.add(390, within("turn_3"), &observability.TurnMessages{Message: observability.Message{Role: "assistant", Text: "done", Truncated: true}})
	return s.end(450, 400, "completed", nil)
}

func content(text string) *observability.Content {
	return &observability.Content{Bytes: len(text), Text: text}
}

// contentOf returns the content attributes of a span, and those that report truncation.
func contentOf(all map[string]string) map[string]string {
	kept := map[string]string{}
	for k, v := range all {
		switch k {
		case "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
			"parley.tool.call.arguments", "parley.tool.call.result", "parley.request.input", "parley.content.truncated":
			kept[k] = v
		}
	}
	return kept
}

func TestContent(t *testing.T) {
	f := newFixture(t, &otel.Options{Content: true})
	f.write(t, callScript(`{"issue":7}`, `"labelled"`).events)
	for span, want := range map[string]map[string]string{
		"chat gpt-5": {
			"parley.request.input":   `{"messages":["hello"]}`,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"Let me \"look\"."}],"finish_reason":"tool_call"}]`,
		},
		"execute_tool label": {"gen_ai.tool.call.arguments": `{"issue":7}`, "parley.tool.call.result": `"labelled"`},
		"invoke_agent reader": {
			"gen_ai.input.messages":  `[{"role":"user","parts":[{"type":"text","content":"read it"}]}]`,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"read"}]}]`,
		},
		"invoke_agent support": {
			"gen_ai.input.messages":    `[{"role":"user","parts":[{"type":"text","content":"hello"}]}]`,
			"gen_ai.output.messages":   `[{"role":"assistant","parts":[{"type":"text","content":"done"}]}]`,
			"parley.content.truncated": "true",
		},
	} {
		if diff := cmp.Diff(want, contentOf(attrs(find(t, f.spans.GetSpans(), span)))); diff != "" {
			t.Errorf("content of %s (-want +got):\n%s", span, diff)
		}
	}
}

func TestNoContent(t *testing.T) {
	f := newFixture(t, nil)
	f.write(t, callScript(`{"issue":7}`, `"labelled"`).events)
	for _, s := range f.spans.GetSpans() {
		if got := contentOf(attrs(s)); len(got) != 0 {
			t.Errorf("span %s has content that was not asked for: %v", s.Name, got)
		}
	}
}

func TestContentBudget(t *testing.T) {
	long := func(unit string) string { return strings.Repeat(unit, 100_000) }
	tests := []struct {
		name, args, result string
		minArgs, minResult int
	}{
		{"long arguments", long("a"), "ok", 50_000, 2},
		{"long result", "{}", long("b"), 2, 50_000},
		{"both long", long("a"), long("b"), 40_000, 16_000},
		{"quotes", long(`"`), long(`\`), 20_000, 8_000},
		{"invalid", long("\xff"), long("\x00"), 1, 2_000},
		{"wide", long("日"), long("😀"), 13_000, 4_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, &otel.Options{Content: true})
			f.write(t, callScript(tt.args, tt.result).events)
			got := contentOf(attrs(find(t, f.spans.GetSpans(), "execute_tool label")))
			if got["parley.content.truncated"] != "true" {
				t.Error("truncated content: got no mark")
			}
			size := 0
			for _, v := range got {
				if !utf8.ValidString(v) {
					t.Error("got content that is not UTF-8")
				}
				size += len(v)
			}
			if size > budget {
				t.Errorf("got %d bytes of content, want at most %d", size, budget)
			}
			args := got["gen_ai.tool.call.arguments"] + got["parley.tool.call.arguments"]
			result := got["gen_ai.tool.call.result"] + got["parley.tool.call.result"]
			if n := utf8.RuneCountInString(args); n < tt.minArgs {
				t.Errorf("got %d characters of arguments, want at least %d", n, tt.minArgs)
			}
			if n := utf8.RuneCountInString(result); n < tt.minResult {
				t.Errorf("got %d characters of the result, want at least %d", n, tt.minResult)
			}
		})
	}
}

// TestBounded writes events of more submissions than the sink holds, each with content.
func TestBounded(t *testing.T) {
	const submissions, open = 6_000, 100
	f := newFixture(t, &otel.Options{Content: true, MaxOpen: open})
	text := strings.Repeat("x", 2_000)
	for i := range submissions {
		s := callScript(text[:1+i%7], text)
		for j := range s.events {
			e := &s.events[j]
			e.ID = fmt.Sprintf("key%d/%d/0", i, j)
			e.Submission = conversation.SubmissionID(fmt.Sprintf("sub_%d", i))
			e.Turn = conversation.TurnID(fmt.Sprintf("turn_%d_%s", i, e.Turn))
			if p, ok := e.Payload.(*observability.SubmissionQueued); ok {
				p.Traceparent = caller
			}
		}
		f.write(t, s.events)
		f.spans.Reset()
	}
	works, exchanges, events := f.Remembered()
	if works != open || exchanges > 256 || events != otel.MaxRecent {
		t.Errorf("got %d submissions, %d exchanges and %d events, want %d, at most 256 and %d", works, exchanges, events, open, otel.MaxRecent)
	}
	if got := f.Counts().Evicted; got != submissions-open {
		t.Errorf("Counts().Evicted = %d, want %d", got, submissions-open)
	}
}

// TestKeepsUsedEntries checks that a running submission is not evicted by later ones.
func TestKeepsUsedEntries(t *testing.T) {
	f := newFixture(t, &otel.Options{MaxOpen: 2})
	s := begin(caller)
	for i := range 5 {
		other := conversation.SubmissionID(fmt.Sprintf("sub_%d", i))
		s.add(100, env{Submission: other}, &observability.SubmissionQueued{})
		s.add(200, within("turn_1"), call("stop"))
	}
	for i := range s.events {
		f.write(t, s.events[i:i+1])
	}
	for _, span := range f.spans.GetSpans() {
		if got := span.SpanContext.TraceID().String(); got != callerTrace {
			t.Errorf("a model call is in trace %s, want that of the caller", got)
		}
	}
	if got := f.Counts(); got.Spans != 5 || got.Evicted != 0 {
		t.Errorf("counts are %+v, want 5 spans and no evicted caller", got)
	}
}

func FuzzFit(f *testing.F) {
	f.Add("plain", 3)
	f.Add("\"\\\n\x00\u2028é😀\xff\ufffd\x7f<&>", 17)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit%1000, 0)
		got, size := otel.Fit(s, limit)
		if !strings.HasPrefix(s, got) || size > limit {
			t.Fatalf("Fit(%q, %d) = %q, %d", s, limit, got, size)
		}
		b, err := conversation.EncodeJSON(got)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(b) - len(`""`); n > size {
			t.Errorf("Fit(%q, %d) = %q of %d bytes, which is %d as JSON", s, limit, got, size, n)
		}
		if rest := s[len(got):]; rest != "" && size+6 <= limit {
			t.Errorf("Fit(%q, %d): got %q omitted, which fits", s, limit, rest)
		}
	})
}

// TestCutInput checks that the span of a truncated input reports the truncation.
func TestCutInput(t *testing.T) {
	for _, cut := range []bool{false, true} {
		f := newFixture(t, &otel.Options{Content: true})
		s := begin("")
		s.add(150, within("turn_1"), &observability.TurnRequest{Request: observability.ModelRequest{
			Input: json.RawMessage(`{"messages":["hello"]}`), InputTruncated: cut,
		}})
		s.add(200, within("turn_1"), call("stop"))
		f.write(t, s.events)
		if got := attr(find(t, f.spans.GetSpans(), "chat gpt-5"), "parley.content.truncated").AsBool(); got != cut {
			t.Errorf("parley.content.truncated is %t, want %t", got, cut)
		}
	}
}
