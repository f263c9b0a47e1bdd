package agenttest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
)

// TestInitialData reads the initial data in each callback of the author, and rejects data of another
// type.
func TestInitialData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := agent.NewInitialData[place](nil)
		var mu sync.Mutex
		seen := map[string]string{}
		check := func(ctx context.Context, where string) error {
			p, err := begin.Get(ctx)
			mu.Lock()
			defer mu.Unlock()
			seen[where] = p.City
			return err
		}
		a := forecast(func(ctx context.Context, _ string) error { return check(ctx, "tool") })
		a.InitialData = begin.Schema()
		a.InstructionsFunc = func(ctx context.Context, _ *agent.Turn) (string, error) { return "", check(ctx, "instructions") }
		a.Hooks = agent.Hooks{
			DeliveryStarted: func(ctx context.Context, _ *agent.Turn) error { return check(ctx, "DeliveryStarted") },
			ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) {
				return nil, check(ctx, "ResponseFinished")
			},
			Settled: func(ctx context.Context, _ *agent.Settlement) error { return check(ctx, "Settled") },
		}
		model := agenttest.NewModel(agenttest.Call("weather", place{"Kiel"}), agenttest.Say("It is warm."))
		h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
		c := h.Conversation("concierge", "1")
		for _, wrong := range []any{nil, map[string]any{"city": 7}, map[string]any{"city": "Bergen", "country": "Norway"}} {
			if _, err := c.Settle(client.Message{Body: "Hello", InitialData: wrong}); err == nil || !strings.Contains(err.Error(), "initialData: ") {
				t.Errorf("initial data %v: got error %v", wrong, err)
			}
		}
		if _, err := c.Settle(client.Message{Body: "Hello", InitialData: place{"Bergen"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, where := range []string{"tool", "instructions", "DeliveryStarted", "ResponseFinished", "Settled"} {
			if seen[where] != "Bergen" {
				t.Errorf("%s: got %q", where, seen[where])
			}
		}
		if _, err := begin.Get(t.Context()); !errors.Is(err, agent.ErrNoInitialData) {
			t.Errorf("outside of a callback: got error %v", err)
		}
	})
}
