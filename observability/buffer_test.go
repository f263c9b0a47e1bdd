package observability_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parleyrun/parley/observability"
)

// scripted is a sink whose Write calls a function; nil stores the events.
type scripted struct {
	write func(ctx context.Context, events []observability.Event) error

	mu     sync.Mutex
	writes [][]int // indexes of the stored events
}

func (*scripted) Name() string { return "scripted" }

func (s *scripted) Write(ctx context.Context, events []observability.Event) error {
	if s.write != nil {
		if err := s.write(ctx, events); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, indexes(events))
	return nil
}

func (s *scripted) stored() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.writes...)
}

// run starts Run and returns a function that ends it and waits.
func run(t *testing.T, b *observability.Buffer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestBufferWritesInOrderAndGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &scripted{}
		b := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 4, Linger: time.Second})
		stop := run(t, b)
		b.Put(deltas(3)...)
		synctest.Wait()
		if got := sink.stored(); got != nil {
			t.Errorf("stored %v before others could join", got)
		}
		b.Put(deltas(10)[3:]...)
		time.Sleep(10 * time.Second)
		stop()
		want := [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}
		if diff := cmp.Diff(want, sink.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		if c := b.Counts(); c.Emitted != 10 || c.Stored != 10 || c.Waiting != 0 || c.Dropped != 0 {
			t.Errorf("got counts %+v", c)
		}
	})
}

// TestBufferExcludesEventsOfStuckSink checks that the events of an abandoned Write stay unchanged.
func TestBufferExcludesEventsOfStuckSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, seen := make(chan struct{}), make(chan []observability.Event, 1)
		sink := &scripted{write: func(_ context.Context, events []observability.Event) error {
			<-stuck
			seen <- events
			return nil
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 10})
		stop := run(t, b)
		b.Put(deltas(100)...)
		synctest.Wait()
		stop()
		close(stuck)
		for i, e := range <-seen {
			if e.Index != int64(i) || e.Payload == nil {
				t.Errorf("event %d: got %+v", i, e)
			}
		}
	})
}

// TestBufferLingersForMore checks that a full Write does not wait, nor one whose queue is nearly full.
func TestBufferLingersForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &scripted{}
		size := observability.Size(deltas(1)[0])
		b := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 4, MaxBytes: 6 * size, Linger: time.Hour})
		wide := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 100, MaxBytes: 6 * size, Linger: time.Hour})
		small := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 100, MaxEvents: 3, Linger: time.Hour})
		for _, step := range []struct {
			b    *observability.Buffer
			put  int
			want []int
		}{{b, 3, nil}, {b, 1, []int{4}}, {b, 2, []int{4}}, {b, 2, []int{4, 4}}, {wide, 3, nil}, {wide, 1, []int{4}}, {small, 2, nil}, {small, 1, []int{3}}} {
			if step.want == nil {
				stop := run(t, step.b)
				defer stop()
				sink.writes = nil
			}
			step.b.Put(deltas(step.put)...)
			synctest.Wait()
			var got []int
			for _, w := range sink.writes {
				got = append(got, len(w))
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("writes of %v events, want %v", got, step.want)
			}
		}
	})
}

// TestBufferRejections checks that a temporary rejection is counted at each attempt and its events are
// stored or dropped, and that a permanent one removes its events from Waiting.
func TestBufferRejections(t *testing.T) {
	for name, tt := range map[string]struct {
		refusals []bool // of the attempts, in order: whether the events are to be written again
		want     observability.BufferCounts
	}{
		"again, then stored":    {[]bool{true}, observability.BufferCounts{Emitted: 2, Stored: 2, Failures: 1, Rejected: observability.Rejections{"page": 1}}},
		"again, then rejected":  {[]bool{true, false}, observability.BufferCounts{Emitted: 2, Stored: 1, Failures: 1, Rejected: observability.Rejections{"page": 2}}},
		"again to the last one": {[]bool{true, true, true}, observability.BufferCounts{Emitted: 2, Dropped: 2, Failures: 3, Rejected: observability.Rejections{"page": 3}, DroppedBy: map[observability.Type]int64{observability.TypeTextDelta: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				b := observability.NewBuffer(&scripted{write: func(context.Context, []observability.Event) error {
					if calls++; calls > len(tt.refusals) {
						return nil
					}
					return &observability.RejectedError{Events: map[string]int{"page": 1}, Again: tt.refusals[calls-1], Err: errors.New("a page")}
				}}, &observability.BufferOptions{Attempts: 3})
				stop := run(t, b)
				b.Put(deltas(2)...)
				time.Sleep(time.Minute)
				if diff := cmp.Diff(tt.want, b.Counts(), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("counts after refusals %v (-want +got):\n%s", tt.refusals, diff)
				}
				stop()
			})
		})
	}
}

func TestBufferTriesAgainThenDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		calls := 0
		sink := &scripted{write: func(_ context.Context, events []observability.Event) error {
			// The first group fails permanently, the second once.
			if calls++; events[0].Index == 0 || calls == 4 {
				return errors.New("no connection")
			}
			return nil
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{
			BatchEvents: 2, Attempts: 3, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		stop := run(t, b)
		b.Put(deltas(6)...)
		time.Sleep(time.Minute)
		want := observability.BufferCounts{
			Emitted: 6, Stored: 4, Dropped: 2, Failures: 4, DroppedBy: map[observability.Type]int64{observability.TypeTextDelta: 2},
		}
		if diff := cmp.Diff(want, b.Counts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
		if got := sink.stored(); !slices.Equal(got, []int{2, 3, 4, 5}) {
			t.Errorf("stored %v", got)
		}
		stop()
		for _, msg := range []string{"sink write failed", "sink recovered"} {
			if n := strings.Count(log.String(), msg); n != 1 {
				t.Errorf("%q: got %d log records, want 1:\n%s", msg, n, log.String())
			}
		}
	})
}

// TestSinkOutageIsCounted: a sink that is away for three minutes has a line at the begin, one each minute, and one at the end.
func TestSinkOutageIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		begun := time.Now()
		sink := &scripted{write: func(context.Context, []observability.Event) error {
			if time.Since(begun) < 3*time.Minute {
				return errors.New("no connection")
			}
			return nil
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{Attempts: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := run(t, b)
		for range 200 {
			b.Put(deltas(1)...)
			time.Sleep(time.Second)
		}
		stop()
		for msg, want := range map[string]int{
			`"sink write failed" sink=scripted err="no connection"`: 1, `"sink still failing"`: 2, `suppressed=120`: 1,
			`"sink recovered" sink=scripted duration=3m0s suppressed=179 dropped=180`: 1, "level=": 4,
		} {
			if got := strings.Count(log.String(), msg); got != want {
				t.Errorf("got %d lines with %s, want %d:\n%s", got, msg, want, &log)
			}
		}
	})
}

func TestBufferContainsPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &scripted{write: func(_ context.Context, events []observability.Event) error {
			switch events[0].Index {
			case 0:
				panic("a defect of the sink")
			case 1:
				runtime.Goexit() // As FailNow of a test does.
			}
			return nil
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 1})
		stop := run(t, b)
		b.Put(deltas(3)...)
		stop()
		if c := b.Counts(); c.Stored != 1 || c.Dropped != 2 || c.Failures != 6 {
			t.Errorf("got counts %+v", c)
		}
	})
}

func TestBufferDrainsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := make(chan struct{})
		sink := &scripted{write: func(context.Context, []observability.Event) error {
			<-busy
			return nil
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 100, Linger: time.Hour})
		stop := run(t, b)
		b.Put(deltas(1000)...)
		synctest.Wait()
		time.AfterFunc(time.Second, func() { close(busy) })
		stop()
		if got := sink.stored(); !slices.Equal(got, upTo(0, 1000)) {
			t.Errorf("%d events stored, want all 1000 in order", len(got))
		}
		b.Put(deltas(5)...)
		if c := b.Counts(); c.Emitted != 1005 || c.Stored != 1000 || c.Dropped != 5 || c.Waiting != 0 {
			t.Errorf("got counts after the end %+v", c)
		}
	})
}

// TestBufferEndsWithABlockedSink uses a sink that blocks every Write until its context ends.
func TestBufferEndsWithABlockedSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &scripted{write: func(ctx context.Context, _ []observability.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{MaxEvents: 100, BatchEvents: 10, WriteTimeout: time.Hour, DrainTimeout: 3 * time.Second})
		stop := run(t, b)
		b.Put(deltas(100)...)
		synctest.Wait()
		b.Put(deltas(500)...)
		if c := b.Counts(); c.Waiting != 110 || c.Dropped != 490 {
			t.Errorf("got counts with a failed sink %+v", c)
		}
		begin := time.Now()
		stop()
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("got return %v after the end of the context, want the 3 s of the drain", took)
		}
		if c := b.Counts(); c.Emitted != 600 || c.Dropped != 600 || c.Waiting != 0 || c.DroppedBy[observability.TypeTextDelta] != 600 {
			t.Errorf("got counts at the end %+v", c)
		}
	})
}

// TestBufferEndsWithoutADeafSink uses a sink that ignores its context, like a stalled pipe.
func TestBufferEndsWithoutADeafSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unresponsive := make(chan struct{})
		sink := &scripted{write: func(context.Context, []observability.Event) error {
			<-unresponsive
			return nil
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{BatchEvents: 10, DrainTimeout: 3 * time.Second})
		stop := run(t, b)
		b.Put(deltas(100)...)
		synctest.Wait()
		begin := time.Now()
		stop()
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("got return %v after the end of the context, want the 3 s of the drain and one more", took)
		}
		if c := b.Counts(); c.Emitted != 100 || c.Dropped != 100 || c.Waiting != 0 {
			t.Errorf("got counts at the end %+v", c)
		}
		close(unresponsive)
	})
}

func TestBufferBoundsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		sink := &scripted{write: func(ctx context.Context, _ []observability.Event) error {
			if calls++; calls == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		b := observability.NewBuffer(sink, &observability.BufferOptions{WriteTimeout: time.Second, Backoff: time.Second})
		stop := run(t, b)
		b.Put(delta(0, "x"))
		time.Sleep(3 * time.Second)
		if c := b.Counts(); c.Stored != 1 || c.Failures != 1 {
			t.Errorf("got counts %+v", c)
		}
		stop()
	})
}
