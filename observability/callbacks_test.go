package observability_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

// TestObserverCallsTheFunctionOfTheType sets every function by reflection, to detect a missing or
// swapped one.
func TestObserverCallsTheFunctionOfTheType(t *testing.T) {
	var o observability.Callbacks
	var got []string
	note := func(name string) func([]reflect.Value) []reflect.Value {
		return func(args []reflect.Value) []reflect.Value {
			env, payload := args[0].Interface().(*observability.Envelope), args[1].Interface().(observability.Payload)
			if want := reflect.TypeOf(payload).Elem().Name(); want != name || env.Type != payload.EventType() {
				t.Errorf("%s: got payload %s and envelope %s", name, want, env.Type)
			}
			got = append(got, env.ID)
			return nil
		}
	}
	v := reflect.ValueOf(&o).Elem()
	funcs := 0
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() == reflect.Func && f.Name != "Any" {
			v.Field(i).Set(reflect.MakeFunc(f.Type, note(f.Name)))
			funcs++
		}
	}
	events := sinktest.Sample()
	var want, every []string
	for _, e := range events {
		want = append(want, e.ID)
	}
	o.Any = func(e observability.Event) { every = append(every, e.ID) }
	if err := o.Write(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events by type (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, every); diff != "" {
		t.Errorf("any event (-want +got):\n%s", diff)
	}
	if types := len(observability.Types()); funcs != types {
		t.Errorf("got %d functions for %d types", funcs, types)
	}
}

func TestObserverWithoutFunctionsDoesNothing(t *testing.T) {
	if err := (&observability.Callbacks{}).Write(t.Context(), sinktest.Sample()); err != nil {
		t.Error(err)
	}
}

func TestObserverContainsPanics(t *testing.T) {
	var log bytes.Buffer
	var seen []observability.Type
	o := &observability.Callbacks{
		Any:    func(e observability.Event) { seen = append(seen, e.Type); panic("any") },
		Idle:   func(*observability.Envelope, *observability.Idle) { panic(errors.New("idle")) },
		Tool:   func(e *observability.Envelope, _ *observability.Tool) { seen = append(seen, e.Type) },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	events := sinktest.Sample()
	events = slices.DeleteFunc(events, func(e observability.Event) bool {
		return e.Type != observability.TypeIdle && e.Type != observability.TypeTool
	})
	if err := o.Write(t.Context(), events); err != nil {
		t.Error(err)
	}
	if want := []observability.Type{"idle", "tool", "tool"}; !slices.Equal(seen, want) {
		t.Errorf("got calls %q, want %q", seen, want)
	}
	if n := strings.Count(log.String(), "observer panicked"); n != 3 {
		t.Errorf("got %d logged panics, want 3:\n%s", n, log.String())
	}
	o.Logger = nil
	if err := o.Write(t.Context(), events); err != nil {
		t.Error(err)
	}
}

func TestObserverDoesNotBeginWhenTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := &observability.Callbacks{Any: func(observability.Event) { cancel() }}
	if err := o.Write(ctx, sinktest.Sample()[:2]); err != nil {
		t.Errorf("started Write: got %v", err)
	}
	if err := o.Write(ctx, sinktest.Sample()[:2]); !errors.Is(err, context.Canceled) {
		t.Errorf("Write after the end of its context: got %v", err)
	}
}

// TestObserverPassesTheSuite runs the sink suite on the events that the functions receive.
func TestObserverPassesTheSuite(t *testing.T) {
	sinktest.Run(t, sinktest.Options{New: func(*testing.T) (observability.Sink, func(*testing.T) []observability.Event) {
		return newRecorder()
	}})
}

func newRecorder() (observability.Sink, func(*testing.T) []observability.Event) {
	var mu sync.Mutex
	var events []observability.Event
	seen := map[string]bool{}
	o := &observability.Callbacks{Any: func(e observability.Event) {
		mu.Lock()
		defer mu.Unlock()
		if !seen[e.ID] {
			events = append(events, e)
		}
		seen[e.ID] = true
	}}
	return o, func(*testing.T) []observability.Event {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(events)
	}
}
