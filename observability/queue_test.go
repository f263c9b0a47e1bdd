package observability_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

// delta returns a small event with a number and a text.
func delta(n int, text string) observability.Event {
	return observability.Event{
		Envelope: observability.Envelope{
			Version: observability.Version, ID: fmt.Sprintf("live_%d", n), Index: int64(n), Seq: observability.LiveSeq, Type: observability.TypeTextDelta,
		},
		Payload: &observability.TextDelta{Bytes: len(text), Text: text},
	}
}

func deltas(n int) []observability.Event {
	events := make([]observability.Event, n)
	for i := range events {
		events[i] = delta(i, "x")
	}
	return events
}

func indexes(events []observability.Event) (out []int) {
	for _, e := range events {
		out = append(out, int(e.Index))
	}
	return out
}

func upTo(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func ready(q *observability.Queue) bool {
	select {
	case <-q.Ready():
		return true
	default:
		return false
	}
}

func TestQueueRefusesTheNewest(t *testing.T) {
	q := observability.NewQueue(3, 0)
	q.Put(deltas(5)...)
	q.Put(observability.Event{Envelope: observability.Envelope{Type: observability.TypeIdle}, Payload: &observability.Idle{}})
	want := observability.QueueCounts{
		Emitted: 6, Dropped: 3, Waiting: 3, Bytes: 3 * observability.Size(delta(0, "x")),
		DroppedBy: map[observability.Type]int64{observability.TypeTextDelta: 2, observability.TypeIdle: 1},
	}
	if diff := cmp.Diff(want, q.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got := indexes(q.Take(0)); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("taken %v, want the oldest", got)
	}
	q.Put(delta(7, "x"))
	if got := indexes(q.Take(9)); !slices.Equal(got, []int{7}) {
		t.Errorf("got %v, want the event added when there was room", got)
	}
}

func TestQueueIsBoundedByBytes(t *testing.T) {
	small, large := delta(1, "x"), delta(2, strings.Repeat("x", 10_000))
	q := observability.NewQueue(0, 2*observability.Size(small)+observability.Size(large)-1)
	q.Put(small, large, delta(3, "x"), delta(4, strings.Repeat("x", 1<<20)))
	if got := indexes(q.Take(0)); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("taken %v, want 1 and 2, which fill the bytes", got)
	}
	if c := q.Counts(); c.Bytes != 0 || c.Waiting != 0 || c.Dropped != 2 {
		t.Errorf("empty queue: got counts %+v", c)
	}
	q.Put(large)
	if got := q.Take(0); len(got) != 1 {
		t.Error("bytes of taken events are not released")
	}
}

// TestQueueKeepsOrder puts and takes in groups whose sizes do not divide a block.
func TestQueueKeepsOrder(t *testing.T) {
	q := observability.NewQueue(0, 0)
	events := deltas(10_000)
	var got []int
	for part := range slices.Chunk(events, 173) {
		q.Put(part...)
		got = append(got, indexes(q.Take(61))...)
	}
	for part := q.Take(607); part != nil; part = q.Take(607) {
		got = append(got, indexes(part)...)
	}
	if !slices.Equal(got, upTo(0, len(events))) {
		t.Errorf("got %d events, some out of order or lost", len(events))
	}
}

func TestQueueIsReadyWhileEventsWait(t *testing.T) {
	q := observability.NewQueue(0, 0)
	if q.Put(); ready(q) {
		t.Error("empty queue: got ready")
	}
	q.Put(deltas(3)...)
	q.Put(delta(3, "x"))
	for n := 4; n > 0; n -= 2 {
		if !ready(q) {
			t.Errorf("%d queued events: got not ready", n)
		}
		q.Take(2)
	}
	if ready(q) {
		t.Error("queue without events: got ready")
	}
}

func TestClosedQueueReturnsRemaining(t *testing.T) {
	q := observability.NewQueue(0, 0)
	q.Put(deltas(2)...)
	q.Close()
	q.Put(delta(2, "x"))
	if got := indexes(q.Take(0)); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("taken %v", got)
	}
	if c := q.Counts(); c.Emitted != 3 || c.Taken != 2 || c.Dropped != 1 {
		t.Errorf("got counts %+v", c)
	}
}

// TestPutNeverBlocks puts from several goroutines without a consumer; it would hang otherwise.
func TestPutNeverBlocks(t *testing.T) {
	const writers, each, room = 8, 5_000, 1_000
	q := observability.NewQueue(room, 0)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				q.Put(delta(i, "x"))
			}
		})
	}
	wg.Wait()
	if c := q.Counts(); c.Emitted != writers*each || c.Waiting != room || c.Dropped != writers*each-room {
		t.Errorf("got counts %+v", c)
	}
}

// TestQueueCountsAddUp checks the counts during concurrent puts and takes.
func TestQueueCountsAddUp(t *testing.T) {
	q := observability.NewQueue(50, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				q.Put(deltas(7)...)
			}
		})
	}
	taken := 0
	for i := 0; i < 2000; i++ {
		taken += len(q.Take(11))
		if c := q.Counts(); c.Emitted != c.Taken+c.Dropped+int64(c.Waiting) || c.Taken != int64(taken) {
			t.Fatalf("got counts %+v that do not add up, taken %d", c, taken)
		}
	}
	wg.Wait()
	if c := q.Counts(); c.Emitted != 4*500*7 || c.DroppedBy[observability.TypeTextDelta] != c.Dropped {
		t.Errorf("got counts %+v", c)
	}
}

// TestSizeFollowsTheText compares Size with the encoding of each sample, without member names, which
// take no memory.
func TestSizeFollowsTheText(t *testing.T) {
	for _, e := range sinktest.Sample() {
		line, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if size := observability.Size(e); size < len(line)/2 || size > 4096+len(line) {
			t.Errorf("%s: got size %d, line has %d bytes", e.Type, size, len(line))
		}
	}
	long := strings.Repeat("x", 100_000)
	for _, p := range []observability.Payload{
		&observability.SubmissionQueued{Body: &observability.Content{Text: long}},
		&observability.SubmissionSettled{Error: &observability.Error{Message: long}},
		&observability.Operation{Error: &observability.Error{Meta: map[string]any{"a": []any{long}}}},
		&observability.TurnRequest{Request: observability.ModelRequest{Input: []byte(long)}},
		&observability.Turn{Response: observability.ModelResponse{Error: &observability.Error{Message: long}}},
		&observability.TurnMessages{ToolResults: []observability.Message{{Text: long}}},
		&observability.MessageStart{Message: observability.Message{Text: long}},
		&observability.MessageEnd{Message: observability.Message{Text: long}},
		&observability.TextDelta{Text: long},
		&observability.ThinkingDelta{Delta: long},
		&observability.ThinkingEnd{Content: long},
		&observability.ToolcallDelta{Delta: long},
		&observability.ToolStart{Args: &observability.Content{Text: long}},
		&observability.Tool{Result: &observability.Content{Text: long}},
		&observability.TaskStart{Prompt: &observability.Content{Text: long}},
		&observability.Compaction{Error: &observability.Error{Message: long}},
		&observability.Log{Attributes: map[string]any{"a": map[string]any{"b": long}}},
	} {
		if size := observability.Size(observability.Event{Payload: p}); size < len(long) || size > len(long)+2000 {
			t.Errorf("%s: got size %d with a text of %d bytes", p.EventType(), size, len(long))
		}
	}
}

// BenchmarkQueuePut measures one event, without and with a consumer.
func BenchmarkQueuePut(b *testing.B) {
	for _, taken := range []bool{false, true} {
		b.Run(fmt.Sprintf("taken=%t", taken), func(b *testing.B) {
			q := observability.NewQueue(0, 0)
			done := make(chan struct{})
			var wg sync.WaitGroup
			if taken {
				wg.Go(func() {
					for {
						select {
						case <-q.Ready():
							q.Take(1000)
						case <-done:
							return
						}
					}
				})
			}
			e := sinktest.Sample()[11]
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					q.Put(e)
				}
			})
			close(done)
			wg.Wait()
		})
	}
}

// BenchmarkQueuePutTail reports the slowest of a hundred Puts without a consumer.
func BenchmarkQueuePutTail(b *testing.B) {
	q := observability.NewQueue(0, 0)
	e := sinktest.Sample()[11]
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		begin := time.Now()
		q.Put(e)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
}
