package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

func TestPrinterShowsEveryPart(t *testing.T) {
	text, thought, failure, size := "hello", "hm", "no", int64(3)
	var out bytes.Buffer
	p := NewPrinter(&out, nil)
	p.Chunk(conversation.Chunk{Type: conversation.ChunkReset, Snapshot: &conversation.Snapshot{
		Messages: []conversation.Message{
			{ID: "m1", Role: conversation.RoleUser, Parts: []conversation.Part{
				{Type: conversation.PartTypeText, Text: &text}, {Type: conversation.PartTypeFile, MediaType: "image/png", Size: &size},
			}},
			{ID: "m2", Role: conversation.RoleAssistant, Parts: []conversation.Part{
				{Type: conversation.PartTypeReasoning, Text: &thought},
				{Type: "data-card", Data: json.RawMessage(`{"a":1}`)},
				{Type: conversation.PartTypeTool, ToolName: "t", Input: json.RawMessage(`{}`), State: conversation.StateOutputError, ErrorText: &failure},
			}},
			{ID: "m3", Role: conversation.RoleSystem, Display: conversation.DisplayHidden, Parts: []conversation.Part{{Type: conversation.PartTypeText, Text: &text}}},
		},
		Settlements: []conversation.Settlement{{Outcome: conversation.OutcomeFailed, Error: &conversation.SettlementError{
			Message: "It failed.", Meta: map[string]any{"reason": "network"},
		}}},
	}})
	want := "user: hello\nuser: (file image/png, 3 bytes)\nthinking: hm\ndata card: {\"a\":1}\n" +
		"tool t called with {}\ntool failed: no\n[failed: It failed.]\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// The printer prints the answer to one message of a busy conversation once, and reports a withdrawn
// part.
func TestPrinterOfOneAnswer(t *testing.T) {
	text := func(s string) conversation.Part { return conversation.Part{Type: conversation.PartTypeText, Text: &s} }
	delta := func(id conversation.MessageID, s string) conversation.Chunk {
		return conversation.Chunk{Type: conversation.ChunkDelta, MessageID: id, Kind: conversation.PartText, Delta: s}
	}
	tool := conversation.Part{
		Type: conversation.PartTypeTool, ToolName: "t", ToolCallID: "c", Input: json.RawMessage(`{}`),
		State: conversation.StateOutputAvailable, Output: json.RawMessage(`1`),
	}
	reset := func(mine ...conversation.Part) conversation.Chunk {
		return conversation.Chunk{Type: conversation.ChunkReset, Snapshot: &conversation.Snapshot{
			Messages: []conversation.Message{
				{ID: "q1", Role: conversation.RoleUser, SubmissionID: "other", Parts: []conversation.Part{text("question")}},
				{ID: "o", Role: conversation.RoleAssistant, SubmissionID: "other", Parts: []conversation.Part{text("noise")}},
				{ID: "q2", Role: conversation.RoleUser, SubmissionID: "mine", Parts: []conversation.Part{text("mine")}},
				{ID: "m", Role: conversation.RoleAssistant, SubmissionID: "mine", Parts: mine},
			},
			Settlements: []conversation.Settlement{{SubmissionID: "other", Outcome: conversation.OutcomeFailed}},
		}}
	}
	begin := []conversation.Chunk{
		{Type: conversation.ChunkStarted, MessageID: "o", SubmissionID: "other"}, delta("o", "noise"),
		{Type: conversation.ChunkSettled, SubmissionID: "other", Outcome: conversation.OutcomeCompleted},
		{Type: conversation.ChunkStarted, MessageID: "m", SubmissionID: "mine"}, delta("m", "one "), delta("m", "two"),
	}
	called := []conversation.Chunk{
		{Type: conversation.ChunkToolInput, MessageID: "m", ToolCallID: "c", ToolName: "t", Input: json.RawMessage(`{}`)},
		{Type: conversation.ChunkToolOutput, ToolCallID: "c", Output: json.RawMessage(`1`)},
		{Type: conversation.ChunkToolOutput, ToolCallID: "of-another", Output: json.RawMessage(`2`)},
	}
	data := func(v string) conversation.Chunk {
		return conversation.Chunk{Type: conversation.ChunkDataPart, MessageID: "m", Name: "plan", Data: json.RawMessage(v)}
	}
	plan := func(v string) conversation.Part {
		return conversation.Part{Type: "data-plan", Data: json.RawMessage(v)}
	}
	end := []conversation.Chunk{{Type: conversation.ChunkSettled, SubmissionID: "mine", Outcome: conversation.OutcomeCompleted}}
	const answered = "assistant: one two\ntool t called with {}\ntool answered 1\n"
	for name, c := range map[string]struct {
		then []conversation.Chunk
		want string
	}{
		"no other's":        {called, answered + "[completed]\n"},
		"it is all there":   {append(called, reset(text("one two"), tool)), answered + "[completed]\n"},
		"in other pieces":   {[]conversation.Chunk{reset(text("one "), text("two"))}, "assistant: one two\n[completed]\n"},
		"more came with it": {[]conversation.Chunk{reset(text("one two three"), tool)}, "assistant: one two three\ntool t called with {}\ntool answered 1\n[completed]\n"},
		"all was withdrawn": {[]conversation.Chunk{reset(), delta("m", "anew")}, "assistant: one two\n[starting over]\nassistant: anew\n[completed]\n"},
		"a step was":        {append(called, reset(text("one two")), delta("m", "!")), answered + "[starting over]\nassistant: !\n[completed]\n"},
		"data again": {
			[]conversation.Chunk{data(`1`), data(`2`), reset(text("one two"), plan(`2`))}, "assistant: one two\ndata plan: 1\ndata plan: 2\n[completed]\n",
		},
		"newer data": {
			[]conversation.Chunk{data(`1`), reset(text("one two"), plan(`2`), tool)},
			"assistant: one two\ndata plan: 1\ndata plan: 2\ntool t called with {}\ntool answered 1\n[completed]\n",
		},
		"it is something new": {[]conversation.Chunk{reset(text("other words"))}, "assistant: one two\n[starting over]\nassistant: other words\n[completed]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := NewPrinter(&out, &PrintOptions{Only: "mine"})
			for _, chunk := range slices.Concat(begin, c.then, end) {
				p.Chunk(chunk)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

// A tool call is printed on one terminal line, with as much of its output as fits.
func TestNoticeInOneFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "both")
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	errOut, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer errOut.Close()
	p := NewPrinter(Clean(out), nil)
	p.Chunk(conversation.Chunk{Type: conversation.ChunkDelta, MessageID: "m", Kind: conversation.PartText, Delta: "half"})
	p.Notice(Clean(errOut), "wait")
	if got, err := os.ReadFile(name); err != nil || string(got) != "assistant: half\nparley: wait\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPrinterFitsTools(t *testing.T) {
	second := int64(1000)
	for width, want := range map[int]string{
		80: `tool time {} → {"time":"2026-11-26T11:41:25Z","zone":"UTC, and more th…, 1.00 s`,
		40: `tool time {} → {"time":"2026-1…, 1.00 s`,
	} {
		var out bytes.Buffer
		p := NewPrinter(&out, &PrintOptions{Bare: true, Width: width})
		p.Chunk(conversation.Chunk{Type: conversation.ChunkToolInput, MessageID: "m", ToolCallID: "c", ToolName: "time", Input: json.RawMessage(`{}`)})
		p.Chunk(conversation.Chunk{
			Type: conversation.ChunkToolOutput, ToolCallID: "c", DurationMs: &second,
			Output: json.RawMessage(`{"time":"2026-11-26T11:41:25Z","zone":"UTC, and more than fits a line"}`),
		})
		if diff := cmp.Diff(want+"\n", out.String()); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", width, diff)
		}
	}
}
