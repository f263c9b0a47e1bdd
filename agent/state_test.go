package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// memoryStore is a Store in memory that counts writes.
type memoryStore struct {
	mu     sync.Mutex
	values map[string]json.RawMessage
	taken  int
	broken error
}

func (s *memoryStore) Get(name string) (json.RawMessage, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[name]
	return v, ok, s.broken
}

func (s *memoryStore) Update(_ context.Context, name string, fn func(json.RawMessage) (json.RawMessage, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	raw, err := fn(s.values[name])
	if err != nil || raw == nil {
		return err
	}
	s.taken++
	if string(raw) == "null" {
		delete(s.values, name)
	} else {
		s.values[name] = raw
	}
	return nil
}

// newMemoryStore returns a store with values, given as alternating names and JSON.
func newMemoryStore(values ...string) *memoryStore {
	s := &memoryStore{values: map[string]json.RawMessage{}}
	for i := 0; i < len(values); i += 2 {
		s.values[values[i]] = json.RawMessage(values[i+1])
	}
	return s
}

type cart struct {
	Items []string `json:"items"`
	Cents int64    `json:"cents,omitempty"`
}

func TestStateReads(t *testing.T) {
	state := agent.NewState("cart", cart{Items: []string{"pen"}})
	for _, tc := range []struct {
		name, stored string
		want         cart
		problem      string
	}{
		{"nothing", ``, cart{Items: []string{"pen"}}, ""},
		{"stored", `{"items":["ink"],"cents":9007199254740993}`, cart{Items: []string{"ink"}, Cents: 9007199254740993}, ""},
		{"other type", `{"items":"ink"}`, cart{}, "/items: got string, want null or array"},
		{"unknown member", `{"items":[],"coupon":1}`, cart{}, `unknown member "coupon"`},
		{"missing member", `{}`, cart{}, ""},
		{"missing and unknown member", `{"coupon":1}`, cart{}, `unknown member "coupon"`},
		{"too large for Go", `{"items":[],"cents":9223372036854775808}`, cart{}, "which does not fit int64"},
		{"not JSON", `{`, cart{}, "is not valid JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := newMemoryStore()
			if tc.stored != "" {
				store.values["cart"] = json.RawMessage(tc.stored)
			}
			ctx := agenthost.WithState(t.Context(), store)
			got, err := state.Get(ctx)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
			_, updated := state.Update(ctx, func(c cart) cart { return c })
			if tc.problem == "" {
				if err != nil || updated != nil {
					t.Errorf("got %v, %v", err, updated)
				}
				return
			}
			for verb, err := range map[string]error{"get": err, "update": updated} {
				var unfit *agent.StateError
				if !errors.As(err, &unfit) || unfit.State != "cart" || len(unfit.Issues) == 0 || !strings.Contains(err.Error(), tc.problem) ||
					!strings.HasPrefix(err.Error(), verb+" state cart: stored value of state cart does not fit its type: ") {
					t.Errorf("%s: got %v, want a StateError about %q", verb, err, tc.problem)
				}
			}
			if store.taken != 0 {
				t.Error("Update of an unreadable value wrote")
			}
			if err := state.Set(ctx, cart{}); err != nil || string(store.values["cart"]) != `{"items":null}` {
				t.Errorf("set: got %v, %s", err, store.values["cart"])
			}
		})
	}
}

// TestStateIsReadWithoutTime reads in a context that has ended, as hooks may.
func TestStateIsReadWithoutTime(t *testing.T) {
	ctx, cancel := context.WithCancel(agenthost.WithState(t.Context(), newMemoryStore("count", "7")))
	cancel()
	if got, err := agent.NewState("count", 0).Get(ctx); got != 7 || err != nil {
		t.Errorf("got %d, %v, want 7", got, err)
	}
}

func TestStateWritesChanges(t *testing.T) {
	count := agent.NewState("count", 0)
	list := agent.NewState[[]string]("list", nil)
	object := agent.NewState("object", map[string]any{})
	store := newMemoryStore("object", `{"b":[1],"a":{"x":12345678901234567890}}`)
	ctx := agenthost.WithState(t.Context(), store)
	same := map[string]any{"a": map[string]any{"x": json.Number("12345678901234567890")}, "b": []int{1}}
	for i, tc := range []struct {
		name  string
		write func() error
		taken int
		want  string
	}{
		{"the first value, though it is the initial", func() error { return count.Set(ctx, 0) }, 1, "count 0"},
		{"the same", func() error { return count.Set(ctx, 0) }, 0, "count 0"},
		{"another", func() error { return count.Set(ctx, 2) }, 1, "count 2"},
		{"the same again, updated", func() error { return update(ctx, t, count, func(n int) int { return n }, 2) }, 0, "count 2"},
		{"another, updated", func() error { return update(ctx, t, count, func(n int) int { return n + 1 }, 3) }, 1, "count 3"},
		{"null without a value", func() error { return list.Set(ctx, nil) }, 0, "list "},
		{"a list", func() error { return list.Set(ctx, []string{"<a>"}) }, 1, `list ["<a>"]`},
		{"null where something is", func() error { return list.Set(ctx, nil) }, 1, "list "},
		{"members in another order", func() error { return object.Set(ctx, same) }, 0, `object {"b":[1],"a":{"x":12345678901234567890}}`},
		{"other digits", func() error { same["b"] = []int{2}; return object.Set(ctx, same) }, 1, `object {"a":{"x":12345678901234567890},"b":[2]}`},
	} {
		before := store.taken
		if err := tc.write(); err != nil {
			t.Errorf("%d %s: %v", i, tc.name, err)
		}
		name, value, _ := strings.Cut(tc.want, " ")
		if got := string(store.values[name]); got != value || store.taken-before != tc.taken {
			t.Errorf("%d %s: stored %q with %d writes, want %q with %d", i, tc.name, got, store.taken-before, value, tc.taken)
		}
	}
}

func update[T comparable](ctx context.Context, t *testing.T, s *agent.State[T], fn func(T) T, want T) error {
	t.Helper()
	got, err := s.Update(ctx, fn)
	if got != want {
		t.Errorf("update returned %v, want %v", got, want)
	}
	return err
}

func TestStateValuesAreCopies(t *testing.T) {
	shared := map[string]int{"a": 1}
	state := agent.NewState("counts", shared)
	shared["a"] = 2
	ctx := agenthost.WithState(t.Context(), newMemoryStore())
	first, err := state.Get(ctx)
	if err != nil || first["a"] != 1 {
		t.Fatalf("got %v, %v: initial value follows its variable", first, err)
	}
	first["a"] = 3
	if again, _ := state.Get(ctx); again["a"] != 1 {
		t.Errorf("got %v: initial value was changed by a reader", again)
	}
	after, err := state.Update(ctx, func(m map[string]int) map[string]int { m["b"] = 1; return m })
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, after); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestStateRefuses(t *testing.T) {
	state := agent.NewState("s", any("x"))
	away := errors.New("away")
	broken := newMemoryStore()
	broken.broken = away
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		set     any
		is      error
		message string
	}{
		{"no conversation", t.Context(), 1, agent.ErrNoState, ""},
		{"no store", agenthost.WithState(t.Context(), nil), 1, agent.ErrNoState, ""},
		{"broken store", agenthost.WithState(t.Context(), broken), 1, away, ""},
		{"no JSON", agenthost.WithState(t.Context(), newMemoryStore()), func() {}, nil, "unsupported type"},
		{"too large", agenthost.WithState(t.Context(), newMemoryStore()), strings.Repeat("x", conversation.MaxPayloadBytes), nil, "at most"},
		{"infinity", agenthost.WithState(t.Context(), newMemoryStore()), math.Inf(1), nil, "unsupported value"},
		{"null with an initial value", agenthost.WithState(t.Context(), newMemoryStore()), nil, nil, `null cannot be stored with the initial value "x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := state.Set(tc.ctx, tc.set)
			_, updated := state.Update(tc.ctx, func(any) any { return tc.set })
			for verb, err := range map[string]error{"set": err, "update": updated} {
				if err == nil || !strings.HasPrefix(err.Error(), verb+" state s: ") || !strings.Contains(err.Error(), tc.message) ||
					tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("%s: got %v", verb, err)
				}
			}
			if _, err := state.Get(tc.ctx); tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("get: got %v, want %v", err, tc.is)
			}
		})
	}
}

func TestStateUpdatesAreAtomic(t *testing.T) {
	const workers, rounds = 8, 50
	state := agent.NewState("n", 0)
	tool := agent.NewTool("count", "Count.", func(ctx context.Context, _ struct{}) (int, error) {
		return state.Update(ctx, func(n int) int { return n + 1 })
	}, nil)
	ctx := agenthost.WithState(t.Context(), newMemoryStore())
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				if _, err := tool.Run(ctx, nil); err != nil {
					t.Error(err)
				}
				if _, err := state.Get(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, err := state.Get(ctx); got != workers*rounds || err != nil {
		t.Errorf("got %d, %v, want %d", got, err, workers*rounds)
	}
}

func TestStateOutlivesAPanic(t *testing.T) {
	state := agent.NewState("n", 1)
	tool := agent.NewTool("crash", "Crash.", func(ctx context.Context, _ struct{}) (int, error) {
		return state.Update(ctx, func(int) int { panic("secret") })
	}, nil)
	store := newMemoryStore()
	ctx := agenthost.WithState(t.Context(), store)
	var crash *agent.PanicError
	if _, err := tool.Run(ctx, nil); !errors.As(err, &crash) {
		t.Errorf("got %v, want a PanicError", err)
	}
	if got, err := state.Get(ctx); got != 1 || err != nil || store.taken != 0 {
		t.Errorf("got %d, %v after %d writes", got, err, store.taken)
	}
}

func TestNewStatePanics(t *testing.T) {
	var number any = math.NaN()
	for name, make := range map[string]func(){
		"state \"\": name does not match":    func() { agent.NewState("", 1) },
		"state \"a b\": name does not match": func() { agent.NewState("a b", 1) },
		"state \"chan\": ":                   func() { agent.NewState[chan int]("chan", nil) },
		"state \"nan\": json: unsupported":   func() { agent.NewState("nan", number) },
		"state \"large\": value has":         func() { agent.NewState("large", strings.Repeat("x", conversation.MaxPayloadBytes)) },
		"state \"time\": odd: agent_test.odd is written by its method MarshalText and not read so": func() { agent.NewState("time", odd{}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.HasPrefix(err.Error(), "agent: "+name) {
					t.Errorf("panic is %v", err)
				}
			}()
			make()
		})
	}
}

// odd is a struct whose JSON is a string.
type odd struct{}

func (odd) MarshalText() ([]byte, error) { return []byte("odd"), nil }

func TestStateDescribesItself(t *testing.T) {
	var def agent.StateDefinition = agent.NewState("cart", cart{})
	if def.Name() != "cart" || !strings.Contains(string(def.JSONSchema()), `"items"`) {
		t.Errorf("got %s %s", def.Name(), def.JSONSchema())
	}
	a := &agent.Agent{State: []agent.StateDefinition{def}}
	if !agenthost.KeepsState(a, "cart") || agenthost.KeepsState(a, "other") {
		t.Error("agent does not list its state")
	}
}

// FuzzStateRead checks that any stored text is a value that is encoded unchanged, or a StateError.
func FuzzStateRead(f *testing.F) {
	for _, s := range []string{``, `null`, `{"items":["a"],"cents":1.0}`, `{"items":[],"items":null}`, `{"items":[],"cents":1e400}`, `[[[`, `{"items":["\ud800"]}`} {
		f.Add([]byte(s))
	}
	state := agent.NewState("cart", cart{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		store := newMemoryStore()
		store.values["cart"] = raw
		ctx := agenthost.WithState(t.Context(), store)
		got, err := state.Get(ctx)
		var unfit *agent.StateError
		if err != nil {
			if !errors.As(err, &unfit) || len(unfit.Issues) == 0 {
				t.Fatalf("got %v, want a StateError with issues", err)
			}
			return
		}
		if err := state.Set(ctx, got); err != nil {
			t.Fatalf("encode decoded value: %v", err)
		}
		again, err := state.Get(ctx)
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Fatalf("%v (-first +second):\n%s", err, diff)
		}
	})
}
