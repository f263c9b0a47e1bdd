package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

type plan struct {
	Plan  string `json:"plan"`
	Seats int64  `json:"seats,omitempty"`
}

func TestInitialDataGet(t *testing.T) {
	required, optional, open := agent.NewInitialData[plan](nil), agent.NewInitialData[*plan](nil), agent.NewInitialData[plan](&agent.InitialDataOptions{Open: true})
	pro := plan{"pro", 9007199254740993}
	for _, tc := range []struct {
		name, raw string
		read      func(ctx context.Context) (plan, error)
		want      plan
		wrong     string
	}{
		{"fits", `{"plan":"pro","seats":9007199254740993}`, required.Get, pro, ""},
		{"not sent", ``, required.Get, plan{}, "get initial data: is required, but was not sent"},
		{"not sent where it is optional", ``, pointed(optional.Get), plan{}, ""},
		{"optional and sent", `{"plan":"pro","seats":9007199254740993}`, pointed(optional.Get), pro, ""},
		{"of another type", `{"plan":7}`, required.Get, plan{}, "get initial data: /plan: got number, want string"},
		{"out of range", `{"plan":"a","seats":9223372036854775808}`, required.Get, plan{}, "get initial data: "},
		{"a member more", `{"plan":"pro","seats":9007199254740993,"since":2019}`, required.Get, plan{}, `get initial data: unknown member "since"`},
		{"a member more where it is open", `{"plan":"pro","seats":9007199254740993,"since":2019}`, open.Get, pro, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.read(agenthost.WithCall(t.Context(), agent.Call{InitialData: rawOrNil(tc.raw)}))
			if got != tc.want || (err == nil) != (tc.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), tc.wrong) {
				t.Errorf("got %+v, %v, want %+v, %s", got, err, tc.want, tc.wrong)
			}
			var unfit *agent.SchemaError
			if tc.wrong != "" && !errors.As(err, &unfit) {
				t.Errorf("got %T, want a SchemaError", err)
			}
		})
	}
	if _, err := required.Get(t.Context()); !errors.Is(err, agent.ErrNoInitialData) {
		t.Errorf("without a conversation: %v", err)
	}
}

// pointed dereferences optional data.
func pointed(get func(ctx context.Context) (*plan, error)) func(ctx context.Context) (plan, error) {
	return func(ctx context.Context) (plan, error) {
		p, err := get(ctx)
		if p == nil {
			return plan{}, err
		}
		return *p, err
	}
}

// TestInitialDataIsThere reads the data in every function of an author.
func TestInitialDataIsThere(t *testing.T) {
	begin := agent.NewInitialData[plan](nil)
	seen := 0
	read := func(ctx context.Context) error {
		p, err := begin.Get(ctx)
		if p.Plan == "pro" {
			seen++
		}
		return err
	}
	a := &agent.Agent{
		Name: "a", Model: "p/m", InitialData: begin.Schema(),
		InstructionsFunc: func(ctx context.Context, _ *agent.Turn) (string, error) { return "", read(ctx) },
		Prepare:          func(ctx context.Context, _ *agent.Turn, _ *agent.Setup) error { return read(ctx) },
		Hooks: agent.Hooks{
			DeliveryStarted:  func(ctx context.Context, _ *agent.Turn) error { return read(ctx) },
			ResponseStarted:  func(ctx context.Context, _ *agent.Turn) (map[string]any, error) { return nil, read(ctx) },
			WouldStop:        func(ctx context.Context, _ *agent.Response) (string, error) { return "", read(ctx) },
			ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) { return nil, read(ctx) },
			Settled:          func(ctx context.Context, _ *agent.Settlement) error { return read(ctx) },
		},
	}
	raw := json.RawMessage(`{"plan":"pro"}`)
	ctx, turn := t.Context(), &agent.Turn{InitialData: raw}
	_, setup := agenthost.SetupFor(ctx, a, turn)
	_, started := agenthost.StartResponse(ctx, a, turn)
	_, stop := agenthost.BeforeStop(ctx, a, &agent.Response{Turn: *turn})
	_, finished := agenthost.FinishResponse(ctx, a, &agent.Response{Turn: *turn})
	err := errors.Join(setup, started, stop, finished, agenthost.CheckInitialData(ctx, a, raw),
		agenthost.StartDelivery(ctx, a, turn), agenthost.AfterSettlement(ctx, a, &agent.Settlement{InitialData: raw}))
	if err != nil || seen != 7 {
		t.Errorf("got %d of 7 readers: %v", seen, err)
	}
}

func TestNewInitialDataPanics(t *testing.T) {
	for name, begin := range map[string]func(){
		"open with a schema": func() {
			agent.NewInitialData[plan](&agent.InitialDataOptions{Open: true, Schema: json.RawMessage(`{}`)})
		},
		"no JSON":      func() { agent.NewInitialData[chan int](nil) },
		"wrong schema": func() { agent.NewInitialData[plan](&agent.InitialDataOptions{Schema: json.RawMessage(`7`)}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			begin()
		}()
	}
}
