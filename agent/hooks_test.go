package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

func TestHooksAreContained(t *testing.T) {
	var answer func() error
	a := &agent.Agent{Name: "a"}
	turn, resp, settled := &agent.Turn{Submission: "sub_1"}, &agent.Response{}, &agent.Settlement{}
	calls := map[string]func() error{
		"DeliveryStarted": func() error { return agenthost.StartDelivery(t.Context(), a, turn) },
		"WouldStop":       func() error { _, err := agenthost.BeforeStop(t.Context(), a, resp); return err },
		"Settled":         func() error { return agenthost.AfterSettlement(t.Context(), a, settled) },
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s without a hook: %v", name, err)
		}
	}
	a.Hooks = agent.Hooks{
		DeliveryStarted: func(_ context.Context, got *agent.Turn) error { same(t, got, turn); return answer() },
		WouldStop:       func(_ context.Context, got *agent.Response) (string, error) { same(t, got, resp); return "x", answer() },
		Settled:         func(_ context.Context, got *agent.Settlement) error { same(t, got, settled); return answer() },
	}
	own := errors.New("own")
	for name, call := range calls {
		answer = func() error { return nil }
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		answer = func() error { return own }
		if err := call(); err != own {
			t.Errorf("%s: got %v, want the error as it was returned", name, err)
		}
		answer = func() error { panic("secret") }
		err := call()
		var crash *agent.PanicError
		if !errors.As(err, &crash) || err.Error() != "hook "+name+" of agent a crashed" {
			t.Errorf("%s: got %v, want a PanicError", name, err)
		}
	}
}

func same[T any](t *testing.T, got, want *T) {
	t.Helper()
	if got != want {
		t.Errorf("hook got %+v, want %+v", got, want)
	}
}

func TestBeforeStop(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		err           error
		want          string
		wrong         string
	}{
		{"nothing", "", nil, "", ""},
		{"blank", " \n\t", nil, "", ""},
		{"a text", " The tests fail.\n", nil, " The tests fail.\n", ""},
		{"a text and an error", "Go on.", errors.New("own"), "", "own"},
		{"as long as may be", strings.Repeat("x", conversation.MaxPayloadBytes), nil, strings.Repeat("x", conversation.MaxPayloadBytes), ""},
		{"too long", strings.Repeat("x", conversation.MaxPayloadBytes+1), nil, "", "text of WouldStop has 4194305 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &agent.Agent{Name: "a", Hooks: agent.Hooks{
				WouldStop: func(context.Context, *agent.Response) (string, error) { return tc.message, tc.err },
			}}
			got, err := agenthost.BeforeStop(t.Context(), a, &agent.Response{})
			if got != tc.want || (err == nil) != (tc.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), tc.wrong) {
				t.Errorf("got %.40q, %v", got, err)
			}
		})
	}
}

func TestHooksAndState(t *testing.T) {
	state := agent.NewState("n", 0)
	add := func(ctx context.Context) error {
		_, err := state.Update(ctx, func(n int) int { return n + 1 })
		return err
	}
	a := &agent.Agent{Name: "a", Hooks: agent.Hooks{
		DeliveryStarted:  func(ctx context.Context, _ *agent.Turn) error { return add(ctx) },
		ResponseStarted:  func(ctx context.Context, _ *agent.Turn) (map[string]any, error) { return nil, add(ctx) },
		WouldStop:        func(ctx context.Context, _ *agent.Response) (string, error) { return "", add(ctx) },
		ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) { return nil, add(ctx) },
		Settled: func(ctx context.Context, _ *agent.Settlement) error {
			if n, err := state.Get(ctx); n != 4 || err != nil {
				t.Errorf("after the other hooks: got %d, %v, want 4", n, err)
			}
			return add(ctx)
		},
	}}
	ctx := agenthost.WithState(t.Context(), newMemoryStore())
	_, started := agenthost.StartResponse(ctx, a, &agent.Turn{})
	_, stop := agenthost.BeforeStop(ctx, a, &agent.Response{})
	_, finished := agenthost.FinishResponse(ctx, a, &agent.Response{})
	if err := errors.Join(agenthost.StartDelivery(ctx, a, &agent.Turn{}), started, stop, finished); err != nil {
		t.Error(err)
	}
	if err := agenthost.AfterSettlement(ctx, a, &agent.Settlement{}); !errors.Is(err, agent.ErrReadOnly) {
		t.Errorf("after the settlement: got %v, want ErrReadOnly", err)
	}
}
