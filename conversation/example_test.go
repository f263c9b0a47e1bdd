package conversation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/parleyrun/parley/conversation"
)

// GET returns a snapshot. A front end finds the reply to a message in it by the submission id from the
// POST response.
func ExampleSnapshot_Reply() {
	answer := `{"v":1,"conversationId":"conv_01","offset":"0000000000000000_0000000000000003",
		"messages":[
			{"id":"msg_01","role":"user","purpose":"user","display":"visible","submissionId":"sub_01","parts":[{"type":"text","text":"Hello"}]},
			{"id":"msg_02","role":"assistant","purpose":"assistant","display":"visible","submissionId":"sub_01","parts":[{"type":"text","text":"Good morning."}]}],
		"settlements":[{"submissionId":"sub_01","outcome":"completed"}]}`
	var snapshot conversation.Snapshot
	if err := json.Unmarshal([]byte(answer), &snapshot); err != nil {
		fmt.Println(err)
		return
	}
	message, settled := snapshot.Reply("sub_01")
	fmt.Println(*message.Parts[0].Text, settled.Outcome)
	_, settled = snapshot.Reply("sub_02")
	fmt.Println(settled) // not yet
	// Output:
	// Good morning. completed
	// <nil>
}

// An offset is a read position. A reader that stores it can resume there after any pause.
func ExampleParseOffset() {
	stored := conversation.Offset(41).String()
	after, err := conversation.ParseOffset(stored)
	fmt.Println(stored, int64(after), err)
	fmt.Println(conversation.Start, conversation.Start < after)
	_, err = conversation.ParseOffset("41")
	fmt.Println(err)
	// Output:
	// 0000000000000000_0000000000000041 41 <nil>
	// -1 true
	// parse offset "41": want -1 or 0000000000000000_ followed by 16 digits
}

// Callers branch on the code of an error. Its cause is for logs, and never leaves the process.
func ExampleCodeOf() {
	err := fmt.Errorf("admit: %w", &conversation.Error{
		Code: conversation.CodeInvalidRequest, Details: "initialData: is required, but was not sent", Err: io.EOF,
	})
	fmt.Println(conversation.CodeOf(err), errors.Is(err, io.EOF))
	fmt.Println(conversation.CodeOf(io.EOF))
	// Output:
	// invalid_request true
	// internal_error
}
