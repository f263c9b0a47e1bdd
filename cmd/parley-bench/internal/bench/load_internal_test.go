package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoopDoesEverythingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{c: counts{Loop: time.Hour}}
		var now, most atomic.Int64
		samples, err := r.loop(t.Context(), 4, 10, func(_ context.Context, i int) (time.Duration, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second) // In the bubble: all four get here.
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
		r := &runner{}
		second := func(_ context.Context, i int) (time.Duration, error) {
			time.Sleep(time.Second)
			return time.Duration(i + 1), nil
		}
		samples, err := r.bounded(t.Context(), 2500*time.Millisecond, 2, 100, second)
		if want := []time.Duration{1, 2, 3, 4, 5, 6}; err != nil || !slices.Equal(samples, want) {
			t.Errorf("%v, %v; want %v", samples, err, want)
		}
		if samples, err := r.bounded(t.Context(), 0, 2, 100, second); err == nil {
			t.Errorf("no time was enough for %v", samples)
		}
	})
}

func TestLoopEndsWithTheFirstError(t *testing.T) {
	r := &runner{c: counts{Loop: time.Hour}}
	broken := errors.New("broken")
	samples, err := r.loop(t.Context(), 2, 1_000_000, func(ctx context.Context, i int) (time.Duration, error) {
		if i == 3 {
			return 0, broken
		}
		return 0, ctx.Err()
	})
	if !errors.Is(err, broken) || samples != nil {
		t.Errorf("%v, %v", samples, err)
	}
}

// TestScenarioTime: a scenario that hangs is ended by its own bound, and says so.
func TestScenarioTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{c: counts{Scenario: time.Minute}}
		got := r.run(t.Context(), scenario{name: "x", run: func(ctx context.Context, _ *runner, out *Scenario) error {
			out.Samples = 7
			<-ctx.Done()
			return ctx.Err()
		}})
		if got.Error != errSlow.Error() || got.Samples != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRatios(t *testing.T) {
	two := func(_ context.Context, _ *runner, out *Scenario) error {
		out.take([]time.Duration{2 * time.Millisecond})
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
		r := &runner{c: counts{Scenario: time.Hour}, rawPut: tt.raw}
		if got := r.run(t.Context(), tt.s); got.ToRawPut != tt.want || got.PerSecond != 0 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
