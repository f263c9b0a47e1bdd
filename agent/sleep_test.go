package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// suspendingRecorder is a recorder that suspends calls that would sleep for longer than patience.
type suspendingRecorder struct {
	journal
	patience time.Duration

	mu        sync.Mutex
	suspended []time.Time
}

func (b *suspendingRecorder) Suspend(until time.Time) bool {
	if time.Until(until) <= b.patience {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.suspended = append(b.suspended, until)
	return true
}

// sleeper is a tool that sleeps between two times.
func sleeper(d time.Duration) agent.Tool {
	return agent.NewTool("naps", "Sleeps.", func(ctx context.Context, _ struct{}) (bool, error) {
		return true, agent.Sleep(ctx, "nap", d)
	}, &agent.ToolOptions{Durable: true, Timeout: 24 * time.Hour})
}

// TestSleep: the first run fixes the deadline, a later run waits for the rest, and one after the
// deadline does not wait.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records journal
		began := time.Now()
		run := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := sleeper(time.Hour).Run(agenthost.WithSteps(ctx, &records), nil)
			return err
		}
		if err := run(20 * time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("first run: got %v", err)
		}
		for range 2 {
			if err := run(time.Hour); err != nil || time.Since(began) != time.Hour {
				t.Errorf("ended after %v with %v", time.Since(began), err)
			}
		}
	})
}

// TestSleepIsNeverTooShort checks that fractions of a millisecond are rounded up.
func TestSleepIsNeverTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Microsecond)
		began := time.Now()
		_, err := sleeper(time.Second+time.Nanosecond).Run(agenthost.WithSteps(t.Context(), &journal{}), nil)
		if took := time.Since(began); err != nil || took <= time.Second || took > time.Second+time.Millisecond {
			t.Errorf("sleep took %v, %v", took, err)
		}
	})
}

// TestSleepSuspends checks that a long sleep ends the run with the deadline of the first run.
func TestSleepSuspends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &suspendingRecorder{patience: time.Minute}
		began := time.Now()
		for range 2 {
			if _, err := sleeper(time.Hour).Run(agenthost.WithSteps(t.Context(), b), nil); !errors.Is(err, agent.ErrSuspended) {
				t.Errorf("got error %v", err)
			}
			time.Sleep(time.Minute)
		}
		if len(b.suspended) != 2 || b.suspended[0].Sub(began) != time.Hour || !b.suspended[1].Equal(b.suspended[0]) {
			t.Errorf("suspended until %v, began at %v", b.suspended, began)
		}
		time.Sleep(57*time.Minute + 30*time.Second)
		if _, err := sleeper(time.Hour).Run(agenthost.WithSteps(t.Context(), b), nil); err != nil || time.Since(began) != time.Hour {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}

func TestSleepErrors(t *testing.T) {
	old := &journal{}
	if err := old.Record(t.Context(), "nap", json.RawMessage(`7`)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		records *journal
		sleep   func(ctx context.Context) error
		is      error
	}{
		"no steps": {nil, func(ctx context.Context) error { return agent.Sleep(ctx, "nap", 0) }, agent.ErrNoSteps},
		"no name":  {&journal{}, func(ctx context.Context) error { return agent.Sleep(ctx, "", 0) }, nil},
		"beyond all time": {&journal{}, func(ctx context.Context) error {
			return agent.SleepUntil(ctx, "nap", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		}, nil},
		"was a step": {old, func(ctx context.Context) error { return agent.Sleep(ctx, "nap", 0) }, nil},
		"twice": {&journal{}, func(ctx context.Context) error {
			return errors.Join(agent.Sleep(ctx, "nap", 0), agent.Sleep(ctx, "nap", 0))
		}, nil},
		"in a step": {&journal{}, func(ctx context.Context) error {
			_, err := agent.Step(ctx, "outer", func(ctx context.Context) (int, error) { return 0, agent.Sleep(ctx, "nap", 0) })
			return err
		}, agent.ErrSleepInStep},
	} {
		ctx := t.Context()
		if tc.records != nil {
			ctx = agenthost.WithSteps(ctx, tc.records)
		}
		var failed *agent.StepError
		if err := tc.sleep(ctx); !errors.As(err, &failed) || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ExampleSleep: a durable tool waits for a day. Its run ends, and the next one passes the sleep.
// Without a runtime that suspends calls it blocks.
func ExampleSleep() {
	remind := agent.NewTool("remind", "Remind somebody tomorrow.", func(ctx context.Context, in struct {
		Whom string `json:"whom"`
	}) (string, error) {
		if err := agent.Sleep(ctx, "a day", 24*time.Hour); err != nil {
			return "", err // returned at once: the run ends, and no client sees the error
		}
		return agent.Step(ctx, "call", func(context.Context) (string, error) {
			return "called " + in.Whom, nil
		})
	}, &agent.ToolOptions{Durable: true})

	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	records := memory{"a day": json.RawMessage(`"` + yesterday + `"`)} // by the first run
	out, err := remind.Call(agenthost.WithSteps(context.Background(), records), json.RawMessage(`{"whom":"Ann"}`))
	fmt.Println(string(out), err)
	// Output:
	// "called Ann" <nil>
}

// clocked is a recorder with a clock of its own.
type clocked struct {
	journal
	ahead time.Duration
}

func (c *clocked) Now() time.Time { return time.Now().Add(c.ahead) }

// TestSleepByItsClock checks that the duration does not depend on the clock's time, and that the
// recorded time is the clock's.
func TestSleepByItsClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			records := &clocked{ahead: ahead}
			began := time.Now()
			for range 2 { // the second run finds it elapsed
				if _, err := sleeper(time.Minute).Run(agenthost.WithSteps(t.Context(), records), nil); err != nil || time.Since(began) != time.Minute {
					t.Errorf("%v ahead: ended after %v with %v", ahead, time.Since(began), err)
				}
			}
			records.ahead -= 30 * time.Second
			if _, err := sleeper(time.Minute).Run(agenthost.WithSteps(t.Context(), records), nil); err != nil || time.Since(began) != 90*time.Second {
				t.Errorf("slow clock: ended after %v with %v", time.Since(began), err)
			}
		})
	}
}
