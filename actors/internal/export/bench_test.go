package export_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

func reportQuantiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// BenchmarkEmitFailingSink emits live events to a failing sink.
func BenchmarkEmitFailingSink(b *testing.B) {
	bucket := memory(b)
	failing := newSink(b, "failing")
	failing.outcome = away
	x, err := export.New(storage.NewLogs(bucket, nil), bucket, &export.Options{Member: "me", Sinks: []observability.Sink{failing}, Project: project})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- x.Run(ctx) }()
	var took []time.Duration
	e := live(1)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		x.Emit(e)
		took = append(took, time.Since(began))
	}
	reportQuantiles(b, took)
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOfferFailingSink offers batches of two events with a failing sink.
func BenchmarkOfferFailingSink(b *testing.B) {
	bucket := memory(b)
	failing := newSink(b, "failing")
	failing.outcome = away
	x, err := export.New(storage.NewLogs(bucket, nil), bucket, &export.Options{Member: "me", Sinks: []observability.Sink{failing}, Project: project})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- x.Run(ctx) }()
	took := make([]time.Duration, 0, b.N)
	const conversations = 1000
	srcs := make([]observability.Source, conversations)
	for i := range srcs {
		at := conversation.Address{Agent: "triage", ID: fmt.Sprint(i)}
		srcs[i] = observability.Source{Key: at.Key(), Agent: at.Agent, ID: at.ID, Conversation: "conv_1"}
		x.Open(srcs[i].Key, srcs[i], -1, -1)
	}
	records := []conversation.Record{
		&conversation.AttemptStarted{Submission: "sub_1", Attempt: 1, At: 1},
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		src := srcs[i%conversations]
		batch := conversation.Batch{Offset: conversation.Offset(i / conversations), Records: records}
		began := time.Now()
		x.Offer(src.Key, src, batch, nil)
		took = append(took, time.Since(began))
	}
	reportQuantiles(b, took)
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
