package observability_test

import (
	"context"
	"fmt"

	"github.com/parleyrun/parley/observability"
)

// Functions as a sink, for a runtime's Events.Observers or a program's Observers.
func ExampleCallbacks() {
	alarm := &observability.Callbacks{
		SubmissionSettled: func(e *observability.Envelope, s *observability.SubmissionSettled) {
			if s.Outcome == "failed" {
				fmt.Println("alert:", e.Agent, s.Error.Type)
			}
		},
	}
	err := alarm.Write(context.Background(), []observability.Event{
		{Envelope: observability.Envelope{Type: observability.TypeSubmissionSettled, Agent: "clerk"}, Payload: &observability.SubmissionSettled{Outcome: "completed"}},
		{Envelope: observability.Envelope{Type: observability.TypeSubmissionSettled, Agent: "triage"}, Payload: &observability.SubmissionSettled{Outcome: "failed", Error: &observability.Error{Type: "model_failed"}}},
	})
	fmt.Println(err)
	// Output:
	// alert: triage model_failed
	// <nil>
}
