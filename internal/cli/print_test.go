package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

func TestPrinterShowsEveryPart(t *testing.T) {
	text, thought, failure, size := "hello", "hm", "no", int64(3)
	var out bytes.Buffer
	p := &printer{out: &out}
	p.chunk(conversation.Chunk{Type: conversation.ChunkReset, Snapshot: &conversation.Snapshot{
		Messages: []conversation.Message{
			{Role: conversation.RoleUser, Parts: []conversation.Part{
				{Type: conversation.PartTypeText, Text: &text}, {Type: conversation.PartTypeFile, MediaType: "image/png", Size: &size},
			}},
			{Role: conversation.RoleAssistant, Parts: []conversation.Part{
				{Type: conversation.PartTypeReasoning, Text: &thought},
				{Type: "data-card", Data: json.RawMessage(`{"a":1}`)},
				{Type: conversation.PartTypeTool, ToolName: "t", Input: json.RawMessage(`{}`), State: conversation.StateOutputError, ErrorText: &failure},
			}},
			{Role: conversation.RoleSystem, Display: conversation.DisplayHidden, Parts: []conversation.Part{{Type: conversation.PartTypeText, Text: &text}}},
		},
		Settlements: []conversation.Settlement{{Outcome: conversation.OutcomeFailed, Error: &conversation.SettlementError{
			Message: "It failed.", Meta: map[string]any{"reason": "network"},
		}}},
	}})
	want := "user: hello\nuser: (file image/png, 3 bytes)\nthinking: hm\ndata card: {\"a\":1}\n" +
		"tool t called with {}\ntool failed: no\n[failed: It failed. Reason: network; the server's log tells more.]\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
