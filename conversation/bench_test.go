package conversation_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// shortTurn returns the batches of a short turn.
func shortTurn() []conversation.Batch {
	const (
		sub  = "sub_01K0ZQ3J8V5N6M7P8Q9R0S1T2V"
		msg  = "msg_01K0ZQ3J8V5N6M7P8Q9R0S1T2W"
		turn = "turn_01K0ZQ3J8V5N6M7P8Q9R0S1T2X"
	)
	return []conversation.Batch{
		{Offset: 1, Records: []conversation.Record{
			&conversation.SubmissionAdmitted{
				Submission: sub, Message: "msg_01K0ZQ3J8V5N6M7P8Q9R0S1T2A", Key: "01K0ZQ3J8V5N6M7P8Q9R0S1T2B",
				PayloadHash: "00112233445566778899aabbccddeeff", At: at,
				Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "What is the weather like today?"},
			},
			&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: "01K0ZQ3J8V5N6M7P8Q9R0S1T2C", At: at},
		}},
		{Offset: 2, Records: []conversation.Record{
			&conversation.ResponseStarted{Message: msg, Submission: sub, Turn: turn, Model: "fake/model", At: at},
			&conversation.Delta{Message: msg, Kind: conversation.PartText, Text: strings.Repeat("It’s sunny. ", 20)},
		}},
		{Offset: 3, Records: []conversation.Record{
			&conversation.StepCompleted{Message: msg, Turn: turn, StopReason: "stop", At: at},
			&conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted, At: at},
		}},
	}
}

// BenchmarkProjection encodes the chunks of a short turn, and of its batch of 20 coalesced tokens
// alone.
func BenchmarkProjection(b *testing.B) {
	all := shortTurn()
	for name, batches := range map[string][]conversation.Batch{"turn": all, "tokens": {{Offset: 2, Records: all[1].Records[1:]}}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = 0
				for _, batch := range batches {
					page, err := conversation.AppendProjection([]byte{'['}, "conv_01K0ZQ3J8V5N6M7P8Q9R0S1T2D", batch, nil)
					if err != nil {
						b.Fatal(err)
					}
					size += len(page)
				}
			}
			b.ReportMetric(float64(size), "out-B/op")
		})
	}
}

func BenchmarkEncodeRecords(b *testing.B) {
	batches := shortTurn()
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		size = 0
		for _, batch := range batches {
			lines, err := conversation.EncodeRecords(nil, batch.Records)
			if err != nil {
				b.Fatal(err)
			}
			size += len(lines)
		}
	}
	b.ReportMetric(float64(size), "out-B/op")
}
