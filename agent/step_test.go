package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// journal is a StepRecorder in memory.
type journal struct {
	mu      sync.Mutex
	results map[string]json.RawMessage
	broken  error
	ctxErr  error // of the last Record's context
}

func (j *journal) Recorded(name string) (json.RawMessage, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	raw, ok := j.results[name]
	return raw, ok
}

func (j *journal) Record(ctx context.Context, name string, output json.RawMessage) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ctxErr = ctx.Err(); j.broken != nil {
		return j.broken
	}
	if j.results == nil {
		j.results = map[string]json.RawMessage{}
	}
	j.results[name] = output
	return nil
}

func durable[Out any](fn func(ctx context.Context) (Out, error)) agent.Tool {
	return agent.NewTool("durable", "Run steps.", func(ctx context.Context, _ struct{}) (Out, error) { return fn(ctx) }, &agent.ToolOptions{Durable: true})
}

func TestStepsRunOnce(t *testing.T) {
	var ran []string
	crash := true
	step := func(ctx context.Context, name string) (string, error) {
		return agent.Step(ctx, name, func(context.Context) (string, error) {
			ran = append(ran, name)
			return name + "!", nil
		})
	}
	tool := durable(func(ctx context.Context) (string, error) {
		one, err := step(ctx, "one")
		if err != nil {
			return "", err
		}
		if crash {
			panic("the process crashes here")
		}
		two, err := step(ctx, "two")
		return one + two, err
	})
	if !tool.Durable() {
		t.Error("tool is not durable")
	}
	var records journal
	if _, err := tool.Run(agenthost.WithSteps(t.Context(), &records), nil); err == nil {
		t.Fatal("first run did not crash")
	}
	crash = false
	out, err := tool.Run(agenthost.WithSteps(t.Context(), &records), nil)
	if err != nil || string(out.Output) != `"one!two!"` {
		t.Errorf("got %v, %v", out, err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, ran); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
}

func TestStepReturnsRecordedResult(t *testing.T) {
	type result struct {
		N    int64  `json:"n"`
		Any  any    `json:"any"`
		Lost string `json:"-"`
	}
	tool := durable(func(ctx context.Context) (any, error) {
		r, err := agent.Step(ctx, "s", func(context.Context) (result, error) {
			return result{N: 9007199254740993, Any: uint64(18446744073709551615), Lost: "x"}, nil
		})
		return fmt.Sprintf("%d %v %q", r.N, r.Any, r.Lost), err
	})
	var records journal
	for run := range 2 {
		out, err := tool.Run(agenthost.WithSteps(t.Context(), &records), nil)
		if err != nil || string(out.Output) != `"9007199254740993 18446744073709551615 \"\""` {
			t.Errorf("run %d: got %+v, %v", run, out, err)
		}
	}
}

func TestStepFails(t *testing.T) {
	own, away := errors.New("own"), errors.New("away")
	value := func(v any) func(context.Context) (any, error) {
		return func(context.Context) (any, error) { return v, nil }
	}
	for _, tc := range []struct {
		name    string
		step    string
		records *journal
		run     func(ctx context.Context, name string) error
		is      error
		message string
	}{
		{"twice", "s", &journal{}, func(ctx context.Context, name string) error {
			_, _ = agent.Step(ctx, name, value(1))
			_, err := agent.Step(ctx, name, value(2))
			return err
		}, nil, "step s: name is used twice in one call"},
		{"twice, recorded before", "s", &journal{results: map[string]json.RawMessage{"s": json.RawMessage("1")}}, func(ctx context.Context, name string) error {
			_, _ = agent.Step(ctx, name, value(1))
			_, err := agent.Step(ctx, name, value(2))
			return err
		}, nil, "step s: name is used twice in one call"},
		{"within itself", "s", &journal{}, func(ctx context.Context, name string) error {
			_, err := agent.Step(ctx, name, func(ctx context.Context) (any, error) { return agent.Step(ctx, name, value(1)) })
			return err
		}, nil, "step s: name is used twice in one call"},
		{"no name", "", &journal{}, one(value(1)), nil, "step : name must be"},
		{"long name", strings.Repeat("s", 129), &journal{}, one(value(1)), nil, "name must be UTF-8 of 1 to 128 bytes"},
		{"no text", "\xff", &journal{}, one(value(1)), nil, "name must be"},
		{"no JSON", "s", &journal{}, one(value(func() {})), nil, "step s: result cannot be recorded: json: unsupported type"},
		{"too large", "s", &journal{}, one(value(strings.Repeat("x", conversation.MaxPayloadBytes))), nil, "result cannot be recorded: has"},
		{"not recorded", "s", &journal{broken: away}, one(value(1)), away, "step s: record result: away"},
		{"other type now", "s", &journal{results: map[string]json.RawMessage{"s": json.RawMessage(`"x"`)}}, func(ctx context.Context, name string) error {
			_, err := agent.Step(ctx, name, func(context.Context) (int, error) { panic("is recorded") })
			return err
		}, nil, "step s: recorded result does not fit int"},
		{"own error", "s", &journal{}, one(func(context.Context) (any, error) { return 1, own }), own, "own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got error
			tool := durable(func(ctx context.Context) (any, error) {
				got = tc.run(ctx, tc.step)
				return nil, nil
			})
			if _, err := tool.Run(agenthost.WithSteps(t.Context(), tc.records), nil); err != nil {
				t.Fatal(err)
			}
			if got == nil || !strings.Contains(got.Error(), tc.message) || tc.is != nil && !errors.Is(got, tc.is) {
				t.Fatalf("got %v, want %q", got, tc.message)
			}
			var failed *agent.StepError
			if want := tc.is != own; errors.As(got, &failed) != want || want && failed.Step != tc.step {
				t.Errorf("got StepError %v", !want)
			}
			if got == own && len(tc.records.results) != 0 {
				t.Error("an error was recorded")
			}
		})
	}
}

func one[T any](fn func(context.Context) (T, error)) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		_, err := agent.Step(ctx, name, fn)
		return err
	}
}

func TestStepMayBeTriedAgain(t *testing.T) {
	tool := durable(func(ctx context.Context) (int, error) {
		for try := 1; ; try++ {
			n, err := agent.Step(ctx, "fetch", func(context.Context) (int, error) {
				switch try {
				case 1:
					return 0, errors.New("busy")
				}
				return try, nil
			})
			if err == nil {
				return n, nil
			}
			if err.Error() != "busy" {
				return 0, err
			}
		}
	})
	if out, err := tool.Run(agenthost.WithSteps(t.Context(), &journal{}), nil); err != nil || string(out.Output) != "2" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestStepsNeedADurableTool(t *testing.T) {
	try := func(ctx context.Context) (int, error) {
		return agent.Step(ctx, "s", func(context.Context) (int, error) { t.Error("the step ran"); return 1, nil })
	}
	if _, err := try(t.Context()); !errors.Is(err, agent.ErrNoSteps) {
		t.Errorf("outside of a call: %v", err)
	}
	if _, err := durable(try).Run(t.Context(), nil); !errors.Is(err, agent.ErrNoSteps) {
		t.Errorf("without a recorder: %v", err)
	}
	plain := agent.NewTool("plain", "Is not durable.", func(ctx context.Context, _ struct{}) (int, error) { return try(ctx) }, nil)
	if _, err := plain.Run(agenthost.WithSteps(t.Context(), &journal{}), nil); !errors.Is(err, agent.ErrNoSteps) {
		t.Errorf("in a tool that is not durable: %v", err)
	}
}

func TestStepsReadStateOnly(t *testing.T) {
	state := agent.NewState("n", 5)
	tool := durable(func(ctx context.Context) (int, error) {
		n, err := agent.Step(ctx, "read", func(ctx context.Context) (int, error) {
			if err := state.Set(ctx, 1); !errors.Is(err, agent.ErrReadOnly) {
				t.Errorf("write in a step: %v", err)
			}
			return state.Get(ctx)
		})
		if err != nil {
			return 0, err
		}
		return state.Update(ctx, func(m int) int { return m + n })
	})
	ctx := agenthost.WithSteps(agenthost.WithState(t.Context(), newMemoryStore()), &journal{})
	if out, err := tool.Run(ctx, nil); err != nil || string(out.Output) != "10" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestStepsAtTheSameTime(t *testing.T) {
	tool := durable(func(ctx context.Context) ([]int, error) {
		got := make([]int, 20)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				n, err := agent.Step(ctx, fmt.Sprint("step ", i), func(ctx context.Context) (int, error) {
					return agent.Step(ctx, fmt.Sprint("inner ", i), func(context.Context) (int, error) { return i, nil })
				})
				if err != nil {
					t.Error(err)
				}
				got[i] = n
			})
		}
		wg.Wait()
		return got, nil
	})
	var records journal
	first, err := tool.Run(agenthost.WithSteps(t.Context(), &records), nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := tool.Run(agenthost.WithSteps(t.Context(), &records), nil)
	if err != nil || !slices.Equal(first.Output, second.Output) || len(records.results) != 40 {
		t.Errorf("got %s, then %s, %v, with %d records", first.Output, second.Output, err, len(records.results))
	}
}

// TestStepIsRecordedThoughTimeIsOver checks that an effect is recorded even if it took too long.
func TestStepIsRecordedThoughTimeIsOver(t *testing.T) {
	tool := durable(func(ctx context.Context) (int, error) {
		return agent.Step(ctx, "slow", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 7, nil
		})
	})
	synctest.Test(t, func(t *testing.T) {
		var records journal
		began := time.Now()
		out, err := tool.Run(agenthost.WithSteps(t.Context(), &records), nil)
		if err != nil || string(out.Output) != "7" || string(records.results["slow"]) != "7" || records.ctxErr != nil {
			t.Errorf("got %+v, %v, recorded %s with context error %v", out, err, records.results["slow"], records.ctxErr)
		}
		if took := time.Since(began); took != agent.DefaultToolTimeout {
			t.Errorf("took %v, want %v", took, agent.DefaultToolTimeout)
		}
	})
}

// TestMethodsWithPointerReceivers checks that encoding uses the same methods as decoding, including
// those with pointer receivers, as of big.Int.
func TestMethodsWithPointerReceivers(t *testing.T) {
	ctx := agenthost.WithSteps(t.Context(), &journal{})
	tool := durable(func(ctx context.Context) (big.Int, error) {
		return agent.Step(ctx, "count", func(context.Context) (big.Int, error) { return *big.NewInt(7), nil })
	})
	if out, err := tool.Call(ctx, nil); string(out) != "7" || err != nil {
		t.Errorf("result of a step: got %s, %v, want 7", out, err)
	}
	signal, err := agent.Signal("count", *big.NewInt(7))
	if signal.Delivery.Body != "7" || err != nil {
		t.Errorf("value of a signal: got %q, %v, want 7", signal.Delivery.Body, err)
	}
}
