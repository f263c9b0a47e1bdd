package bench

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoopDoesEverythingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		samples, err := loop(t.Context(), time.Hour, 4, 10, func(_ context.Context, i int) (time.Duration, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second) // Virtual time: all four operations reach this line.
			now.Add(-1)
			return time.Duration(i), nil
		})
		want := []time.Duration{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		if err != nil || !slices.Equal(samples, want) || most.Load() != 4 {
			t.Errorf("%v, %v, %d at once", samples, err, most.Load())
		}
	})
}

func TestLoopStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := func(_ context.Context, i int) (time.Duration, error) {
			time.Sleep(time.Second)
			return time.Duration(i + 1), nil
		}
		samples, err := loop(t.Context(), 2500*time.Millisecond, 2, 100, second)
		if want := []time.Duration{1, 2, 3, 4, 5, 6}; err != nil || !slices.Equal(samples, want) {
			t.Errorf("%v, %v; want %v", samples, err, want)
		}
		if samples, err := loop(t.Context(), 0, 2, 100, second); err == nil {
			t.Errorf("loop ended in time with samples %v", samples)
		}
	})
}

func TestLoopEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	samples, err := loop(t.Context(), time.Hour, 2, 1_000_000, func(ctx context.Context, i int) (time.Duration, error) {
		if i == 3 {
			return 0, broken
		}
		return 0, ctx.Err()
	})
	if !errors.Is(err, broken) || samples != nil {
		t.Errorf("%v, %v", samples, err)
	}
}

// The time limit of a scenario ends one that hangs, and is reported.
func TestScenarioTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{o: Options{Progress: io.Discard}, limits: bounds{scenario: time.Minute}}
		got := r.run(t.Context(), scenario{name: "x", raw: "y", run: func(ctx context.Context, j *job) error {
			j.Samples, j.raw.Samples = 7, 8
			<-ctx.Done()
			return ctx.Err()
		}})
		for i, name := range []string{"y", "x"} {
			if got[i].Name != name || got[i].Error != errSlow.Error() || got[i].Samples != 0 {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestRatios(t *testing.T) {
	two := func(_ context.Context, j *job) error {
		j.take([]time.Duration{2 * time.Millisecond})
		return nil
	}
	for _, tt := range []struct {
		name string
		raw  float64
		s    scenario
		want float64
	}{
		{"compared", 0.5, scenario{run: two, ratio: true}, 4},
		{"not measured", 0, scenario{run: two, ratio: true}, 0},
		{"not asked for", 0.5, scenario{run: two}, 0},
	} {
		r := &runner{o: Options{Progress: io.Discard}, limits: bounds{scenario: time.Hour}, rawPut: tt.raw}
		if got := r.run(t.Context(), tt.s)[0]; got.ToRawPut != tt.want || got.PerSecond != 0 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
