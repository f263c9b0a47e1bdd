package sinktest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/observability"
)

// memory stores events in memory, with at most one fault.
type memory struct {
	name  string
	fault string

	mu     sync.Mutex
	events []observability.Event
}

func (m *memory) Name() string { return m.name }

func (m *memory) Write(ctx context.Context, events []observability.Event) error {
	if m.fault == "forgets" {
		return nil
	}
	if len(events) == 0 && m.fault == "fails on nothing" {
		return errors.New("nothing to store")
	}
	if m.fault != "ignores the context" && ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == "keeps the slice" {
		if len(m.events) == 0 {
			m.events = events
			return nil
		}
	}
	if m.fault == "takes few" && len(events) > 5000 {
		return errors.New("too many events")
	}
	for i := range events {
		if err := m.add(&events[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) add(e *observability.Event) error {
	size := observability.Size(*e)
	switch {
	case m.fault != "stores twice" && slices.ContainsFunc(m.events[max(0, len(m.events)-400):], func(o observability.Event) bool { return o.ID == e.ID }):
		if m.fault == "rejects known events" {
			return fmt.Errorf("event %s is stored", e.ID)
		}
	case m.fault == "turns round":
		m.events = slices.Insert(m.events, 0, *e)
	case m.fault == "loses large events" && size > 1<<20:
	case m.fault == "cuts at NUL":
		if log, ok := e.Payload.(*observability.Log); ok {
			cut := *log
			cut.Message, _, _ = strings.Cut(log.Message, "\x00")
			cp := *e
			cp.Payload = &cut
			e = &cp
		}
		m.events = append(m.events, *e)
	case m.fault == "loses a field":
		cp := *e
		cp.ParentSession = ""
		m.events = append(m.events, cp)
	case m.fault == "changes events":
		m.events = append(m.events, *e)
		e.Agent = "changed"
	default:
		m.events = append(m.events, *e)
	}
	return nil
}

func storeOf(m *memory) *store {
	return &store{
		sink: m, many: manyEvents,
		second: func() observability.Sink {
			if m.fault == "second is elsewhere" {
				return &memory{name: "memory"}
			}
			return m
		},
		read: func() []observability.Event {
			m.mu.Lock()
			defer m.mu.Unlock()
			var out []observability.Event
			seen := map[string]bool{}
			for _, e := range m.events {
				if m.fault == "stores twice" || !seen[e.ID] {
					out = append(out, e)
				}
				seen[e.ID] = true
			}
			return out
		},
	}
}

func TestASinkWithoutFaultPasses(t *testing.T) {
	Run(t, Options{
		New: func(*testing.T) (observability.Sink, func(*testing.T) []observability.Event) {
			m := &memory{name: "memory"}
			return m, func(*testing.T) []observability.Event { return storeOf(m).read() }
		},
		Second: func(_ *testing.T, first observability.Sink) observability.Sink { return first },
	})
}

// TestEveryRuleIsBrokenByItsFault checks that every rule detects its fault.
func TestEveryRuleIsBrokenByItsFault(t *testing.T) {
	faults := map[string]string{ // by rule
		"nothing": "fails on nothing", "everyType": "loses a field", "order": "turns round", "again": "rejects known events",
		"cancelled": "ignores the context", "callersSlice": "keeps the slice", "large": "loses large events", "text": "cuts at NUL",
		"many": "takes few", "concurrent": "second is elsewhere",
	}
	for _, r := range rules() {
		m := &memory{name: "memory", fault: faults[r.name]}
		if r.name == "name" {
			m.name = "Memory 2"
		} else if m.fault == "" {
			t.Errorf("rule %s: got no fault that violates it", r.name)
		}
		if err := r.check(t.Context(), storeOf(m)); err == nil {
			t.Errorf("rule %s: got no violation by a sink that %s", r.name, m.fault)
		}
	}
	more := map[string]string{"stores twice": "again", "forgets": "everyType", "changes events": "callersSlice"}
	for fault, name := range more {
		i := slices.IndexFunc(rules(), func(r rule) bool { return r.name == name })
		if err := rules()[i].check(t.Context(), storeOf(&memory{name: "memory", fault: fault})); err == nil {
			t.Errorf("rule %s: got no violation by a sink that %s", name, fault)
		}
	}
}

// TestSampleIsComplete checks that Sample has all types and sets every field.
func TestSampleIsComplete(t *testing.T) {
	var types []observability.Type
	ids := map[string]bool{}
	for _, e := range Sample() {
		types = append(types, e.Type)
		for _, path := range unset(reflect.ValueOf(e), string(e.Type)) {
			if path != "submission_queued.Index" { // the first event has index 0
				t.Errorf("%s is not set", path)
			}
		}
		if ids[e.ID] {
			t.Errorf("got duplicate id %s", e.ID)
		}
		ids[e.ID] = true
	}
	slices.Sort(types)
	if diff := cmp.Diff(observability.Types(), types); diff != "" {
		t.Errorf("types of Sample (-want +got):\n%s", diff)
	}
	if !cmp.Equal(Sample(), Sample()) {
		t.Error("Sample: got two different results")
	}
}

// unset returns the paths of zero fields and elements of v.
func unset(v reflect.Value, path string) (paths []string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return []string{path}
		}
		return unset(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			if v.Type().Field(i).Anonymous || v.Type().Field(i).Name == "Payload" {
				name = path
			}
			paths = append(paths, unset(v.Field(i), name)...)
		}
		return paths
	case reflect.Slice:
		for i := range v.Len() {
			paths = append(paths, unset(v.Index(i), path)...)
		}
	}
	if v.IsZero() {
		paths = append(paths, path)
	}
	return paths
}
