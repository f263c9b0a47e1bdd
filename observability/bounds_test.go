package observability_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/observability"
)

// TestContentIsBounded checks that content never exceeds its limit, and is a prefix of the original.
func TestContentIsBounded(t *testing.T) {
	calls := sample.Of(100, 10)
	huge := strings.Repeat("aü", 1<<19)
	var records []conversation.Record
	resultBytes := map[string]string{}
	piece := func(kind conversation.PartKind, text string) {
		records = append(records, &conversation.Delta{Kind: kind, Text: text})
		resultBytes[string(kind)] += text
	}
	records = append(records, &conversation.ResponseStarted{Submission: "sub_1", Turn: "turn_1"})
	for i := range 3000 { // The limit falls within a character, and short pieces follow.
		piece(conversation.PartReasoning, fmt.Sprintf("%dü€", i))
	}
	piece(conversation.PartReasoning, huge)
	for i := range 3000 {
		piece(conversation.PartText, fmt.Sprintf("%dü€", i))
	}
	piece(conversation.PartText, huge)
	step := &conversation.StepCompleted{Turn: "turn_1", StopReason: "tool_use"}
	for i := range calls {
		id := conversation.CallID(fmt.Sprint("call_", i))
		records = append(records, &conversation.ToolCalled{Call: id, Name: "say", Input: []byte(`"` + huge + `"`)})
		step.Calls = append(step.Calls, conversation.CallName{Call: id, Name: "say"})
	}
	records = append(records, step)
	for _, c := range step.Calls {
		records = append(records, &conversation.ToolSettled{Call: c.Call, Name: "say", Output: []byte(`"` + huge + `"`)})
	}
	b := conversation.Batch{Records: records}
	opts := observability.ProjectOptions{Content: true}
	stream := observability.Stream{Options: opts}
	for _, e := range append(observability.Project(observability.Source{}, b, &opts), stream.Batch(b, 1)...) {
		line, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		bound := 2 * observability.DefaultContentBytes
		switch p := e.Payload.(type) {
		case *observability.ThinkingEnd:
			checkBeginning(t, resultBytes[string(conversation.PartReasoning)], p.Content)
		case *observability.MessageEnd:
			if p.Message.Role == "assistant" {
				checkBeginning(t, resultBytes[string(conversation.PartText)], p.Message.Text)
			}
		case *observability.TurnMessages:
			bound = 10*observability.DefaultContentBytes + calls*256
			if n := len(p.ToolResults); n != calls || !p.ToolResults[n-1].Truncated {
				t.Errorf("got %d results, want %d, the last one without its text", n, calls)
			}
		}
		if len(line) > bound || observability.Size(e) > bound || !utf8.Valid(line) || strings.ContainsRune(string(line), utf8.RuneError) {
			t.Errorf("event %s: got %d bytes, %d by Size, want at most %d and valid UTF-8", e.Type, len(line), observability.Size(e), bound)
		}
	}
}

func checkBeginning(t *testing.T, resultBytes, shown string) {
	t.Helper()
	if len(shown) < observability.DefaultContentBytes-utf8.UTFMax || !strings.HasPrefix(resultBytes, shown) {
		t.Errorf("got %d bytes that are not a prefix of the text", len(shown))
	}
}
