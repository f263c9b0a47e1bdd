package jsonl_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/jsonl"
)

// Read decodes the lines of another program, here the failures, from a file whose last line is
// truncated.
func ExampleRead() {
	var file bytes.Buffer
	sink := jsonl.NewWriter("file", &file)
	err := sink.Write(context.Background(), []observability.Event{
		{Envelope: observability.Envelope{Version: observability.Version, ID: "1", Type: observability.TypeSubmissionSettled, Agent: "clerk"}, Payload: &observability.SubmissionSettled{Outcome: "completed"}},
		{Envelope: observability.Envelope{Version: observability.Version, ID: "2", Type: observability.TypeSubmissionSettled, Agent: "triage"}, Payload: &observability.SubmissionSettled{Outcome: "failed"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for event, err := range jsonl.Read(strings.NewReader(file.String() + `{"id":"3","ty`)) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		if s, ok := event.Payload.(*observability.SubmissionSettled); ok && s.Outcome == "failed" {
			fmt.Println(event.ID, event.Agent, s.Outcome)
		}
	}
	// Output:
	// 2 triage failed
}
