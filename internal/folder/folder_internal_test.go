package folder

import (
	"encoding/json"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

// TestInputOfAnEarlierBatch covers a call stored before its turn ended: its input appears once, where
// the call starts.
func TestInputOfAnEarlierBatch(t *testing.T) {
	called := func(turn conversation.TurnID, call conversation.CallID, input string) *conversation.ToolCalled {
		return &conversation.ToolCalled{Message: "m", Turn: turn, Call: call, Name: "look_up", Input: json.RawMessage(input), At: 1}
	}
	created := &conversation.ConversationCreated{Agent: "echo", ID: "one", ConversationID: "conv_1", At: 1}
	started := map[conversation.CallID]string{}
	var at reading
	for seq, records := range [][]conversation.Record{
		{created, called("turn_1", "call_1", `{"a":1}`), called("turn_2", "call_2", `{"a":2}`), called("", "call_3", `{"a":3}`)},
		{called("turn_1", "call_4", `{"a":4}`)},
		{&conversation.StepCompleted{Message: "m", Turn: "turn_1", Calls: []conversation.CallName{{Call: "call_1"}, {Call: "call_4"}}, At: 2}},
		{&conversation.StepDropped{Message: "m", Turn: "turn_2", At: 3}},
	} {
		lines, err := conversation.EncodeRecords(nil, records)
		if err != nil {
			t.Fatal(err)
		}
		batch := storage.Batch{Lines: lines}
		batch.Seq = int64(seq)
		events, err := at.project(created.Address().Key(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if p, ok := e.Payload.(*observability.ToolStart); ok && p.Args != nil {
				started[p.ToolCallID] += p.Args.Text
			}
		}
		if kept := []int{2, 3, 1, 0}[seq]; len(at.calls) != kept {
			t.Errorf("after batch %d: got %d open calls, want %d", seq, len(at.calls), kept)
		}
	}
	if len(started) != 2 || started["call_1"] != `{"a":1}` || started["call_4"] != `{"a":4}` {
		t.Errorf("got inputs %v where calls start", started)
	}
}
