package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// logged returns the message and attributes passed to the runtime.
func logged(t *testing.T, message string, args ...any) (string, map[string]any) {
	t.Helper()
	var logText string
	var got map[string]any
	ctx := agenthost.WithLog(context.Background(), func(_ slog.Level, message string, attributes map[string]any) {
		logText, got = message, attributes
	})
	agent.Log(ctx, slog.LevelInfo, message, args...)
	if got == nil {
		t.Fatal("got no log record")
	}
	if _, err := json.Marshal(got); err != nil {
		t.Errorf("encode attributes: %v", err)
	}
	return logText, got
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("a defect of an author") }

type itself struct{}

func (itself) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("a", itself{}), slog.Any("b", itself{}))
}

func TestLogTakesAnyValue(t *testing.T) {
	ring := map[string]any{}
	ring["ring"] = ring
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, c := range []struct {
		name string
		args []any
		want map[string]any
	}{
		{"nothing", nil, map[string]any{}},
		{"plain", []any{"s", "x", "b", true, "i", -7, "u", uint64(math.MaxUint64), "f", 1.5},
			map[string]any{"s": "x", "b": true, "i": int64(-7), "u": uint64(math.MaxUint64), "f": 1.5}},
		{"no numbers of JSON", []any{"n", math.NaN(), "i", math.Inf(-1)}, map[string]any{"n": "NaN", "i": "-Inf"}},
		{"times", []any{"d", 1500 * time.Millisecond, "t", at}, map[string]any{"d": "1.5s", "t": "2026-01-02T03:04:05.006Z"}},
		{"an error", []any{"err", errors.New("no such order")}, map[string]any{"err": "no such order"}},
		{"a group", []any{slog.Group("g", "k", 1, slog.Group("", "inline", 2))},
			map[string]any{"g": map[string]any{"k": int64(1), "inline": int64(2)}}},
		{"a struct", []any{"v", struct {
			ID   int64 `json:"id"`
			List []any
		}{1<<53 + 1, []any{0.5, nil}}}, map[string]any{"v": map[string]any{"id": int64(1<<53 + 1), "List": []any{0.5, nil}}}},
		{"no JSON form", []any{"c", make(chan int), "r", ring, "p", panics{}, "nan", []float64{math.NaN()}}, map[string]any{
			"c": "(chan int has no JSON form)", "r": "(map[string]interface {} has no JSON form)",
			"p": "(agent_test.panics has no JSON form)", "nan": "([]float64 has no JSON form)",
		}},
		{"odd arguments", []any{"alone"}, map[string]any{"!BADKEY": "alone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got := logged(t, "m", c.args...); !cmp.Equal(c.want, got) {
				t.Errorf("attributes (-want +got):\n%s", cmp.Diff(c.want, got))
			}
		})
	}
}

// TestLogCopies checks that later changes of a value do not affect the logged one.
func TestLogCopies(t *testing.T) {
	state := map[string]int{"n": 1}
	_, got := logged(t, "m", "state", state)
	state["n"] = 2
	if diff := cmp.Diff(map[string]any{"state": map[string]any{"n": int64(1)}}, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

func TestLogIsBounded(t *testing.T) {
	huge := strings.Repeat("ü", 1<<20)
	var many []any
	for range 10_000 {
		many = append(many, strings.Repeat("k", 1+len(many)%50), 1)
	}
	for name, args := range map[string][]any{
		"text": {"a", huge, "b", huge}, "value": {"v", []string{huge}}, "key": {huge, 1}, "error": {"err", errors.New(huge)},
		"many": many, "group": {slog.Group("g", "a", huge, "b", 1)}, "endless": {"v", itself{}},
	} {
		logText, got := logged(t, huge, args...)
		b, err := json.Marshal(got)
		if err != nil || len(b) > 8*agent.MaxLogAttributes || len(logText) > agent.MaxLogMessage || strings.ContainsRune(logText, '\uFFFD') {
			t.Errorf("%s: got a message of %d bytes, attributes of %d, %v", name, len(logText), len(b), err)
		}
		if got["truncated"] != true {
			t.Errorf("%s: missing note of omitted data", name)
		}
	}
}
