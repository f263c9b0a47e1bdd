package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// region is a type with new fields, also within lists and maps. One field has changed its type.
type region struct {
	Customer string            `json:"customer"`
	Region   string            `json:"region"`
	Orders   []line            `json:"orders,omitempty"`
	ByName   map[string]line   `json:"byName,omitempty"`
	Limit    int               `json:"limit,omitempty"`
	Tags     map[string]string `json:"tags"`
}

type line struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// TestValuesOfAnEarlierVersion reads state, initial data and the input of a started call that an
// earlier version of a type has stored.
func TestValuesOfAnEarlierVersion(t *testing.T) {
	for _, c := range []struct {
		name, stored string
		want         region
		migrated     bool // invalid without a migration
	}{
		{"field", `{"customer":"c-1"}`, region{Customer: "c-1"}, false},
		{"field within", `{"customer":"c-1","region":"north","tags":{},"orders":[{"id":"A1"}],"byName":{"x":{"cents":7}}}`,
			region{Customer: "c-1", Region: "north", Tags: map[string]string{}, Orders: []line{{ID: "A1"}}, ByName: map[string]line{"x": {Cents: 7}}}, false},
		{"type of a field", `{"customer":"c-1","limit":"7"}`, region{Customer: "c-1", Limit: 7}, true},
		{"removed field", `{"customer":"c-1","vip":true}`, region{Customer: "c-1", Limit: 7}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			migrate := func(old json.RawMessage) (region, error) {
				if string(old) != c.stored {
					t.Errorf("migrate got %s, want %s", old, c.stored)
				}
				return region{Customer: "c-1", Limit: 7}, nil
			}
			store := newMemoryStore()
			store.values["r"] = json.RawMessage(c.stored)
			ctx := agenthost.WithCall(agenthost.WithState(t.Context(), store), agent.Call{InitialData: json.RawMessage(c.stored)})
			state, begin := agent.NewState("r", region{}), agent.NewInitialData[region](nil)
			got, err := state.Get(ctx)
			begun, initial := begin.Get(ctx)
			if c.migrated {
				var unfit *agent.StateError
				var schema *agent.SchemaError
				if !errors.As(err, &unfit) || !errors.As(initial, &schema) || !strings.Contains(err.Error(), "State.Migrating") || !strings.Contains(initial.Error(), "InitialData.Migrating") {
					t.Errorf("got %v and %v, want errors that name the remedy", err, initial)
				}
				got, err = state.Migrating(migrate).Get(ctx)
				begun, initial = begin.Migrating(migrate).Get(ctx)
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("state: %v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(c.want, begun); initial != nil || diff != "" {
				t.Errorf("initial data: %v (-want +got):\n%s", initial, diff)
			}
		})
	}
}

func TestMigrationPanics(t *testing.T) {
	store := newMemoryStore()
	store.values["n"] = json.RawMessage(`"one"`)
	ctx := agenthost.WithCall(agenthost.WithState(t.Context(), store), agent.Call{InitialData: json.RawMessage(`"one"`)})
	crash := func(json.RawMessage) (int, error) { panic("no number") }
	_, err := agent.NewState("n", 1).Migrating(crash).Get(ctx)
	_, initial := agent.NewInitialData[int](nil).Migrating(crash).Get(ctx)
	for desc, err := range map[string]error{"state": err, "initial data": initial} {
		var panicked *agent.PanicError
		if !errors.As(err, &panicked) {
			t.Errorf("%s: got %v, want a PanicError", desc, err)
		}
	}
}

// TestInputOfAnEarlierVersion: the input of a resumed call may lack new fields; that of a new call may
// not.
func TestInputOfAnEarlierVersion(t *testing.T) {
	tool := agent.NewTool("t", "T.", func(_ context.Context, in line) (line, error) { return in, nil }, &agent.ToolOptions{Durable: true})
	out, err := tool.Run(agenthost.WithResumed(t.Context()), json.RawMessage(`{"id":"A1"}`))
	if err != nil || string(out.Output) != `{"id":"A1","cents":0}` {
		t.Errorf("resumed: got %v, %v; want the zero value", out, err)
	}
	var unfit *agent.InputError
	if _, err := tool.Run(t.Context(), json.RawMessage(`{"id":"A1"}`)); !errors.As(err, &unfit) {
		t.Errorf("a new call: got %v, want an InputError", err)
	}
}
