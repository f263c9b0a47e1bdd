package observability_test

import (
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

// BenchmarkProject projects the two batches of a resumed turn to their nine durable events, as a
// writer does after they have landed.
func BenchmarkProject(b *testing.B) {
	src := observability.SourceOf(&conversation.ConversationCreated{Agent: "triage", ID: "42", ConversationID: "conv_1"})
	origin := conversation.Origin{Root: "sub_1"}
	batches := []conversation.Batch{
		{Offset: 7, Records: []conversation.Record{
			&conversation.SubmissionAdmitted{Submission: "sub_1", Message: "msg_1", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hello"}},
			&conversation.AttemptStarted{Submission: "sub_1", Attempt: 1, MaxAttempts: 10, After: conversation.AfterPause},
		}},
		{Offset: 8, Records: []conversation.Record{
			&conversation.ResponseStarted{Message: "msg_2", Submission: "sub_1", Turn: "turn_1", Model: "anthropic/x"},
			&conversation.Delta{Message: "msg_2", Kind: conversation.PartText, Text: "Hello."},
			&conversation.StepCompleted{
				Origin: origin, Message: "msg_2", Turn: "turn_1", StopReason: "stop", Model: "anthropic/x", Usage: conversation.Usage{Input: 10, Output: 2, Total: 12},
			},
			&conversation.SubmissionSettled{Submission: "sub_1", Outcome: conversation.OutcomeCompleted, Began: true, Open: true, Attempts: 1},
		}},
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n = 0
		for _, batch := range batches {
			n += len(observability.Project(src, batch, nil))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
}

// BenchmarkPayload encodes one payload of every type, with all fields.
func BenchmarkPayload(b *testing.B) {
	events := sinktest.Sample()
	enc := observability.NewEncoder()
	for name, encode := range map[string]func([]byte, observability.Payload) ([]byte, error){
		"encoder": enc.AppendPayload, "encoding-json": observability.AppendPayload,
	} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				for i := range events {
					var err error
					if buf, err = encode(buf[:0], events[i].Payload); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
