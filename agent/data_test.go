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

type rating struct {
	Stars int `json:"stars"`
}

// written collects the output of data writers.
type written []string

func (w *written) context(ctx context.Context) context.Context {
	return agenthost.WithData(ctx, func(_ context.Context, name string, data json.RawMessage) error {
		*w = append(*w, name+" "+string(data))
		return nil
	})
}

func TestDataWriter(t *testing.T) {
	bounded := agent.NewDataWriter[rating]("rating", &agent.DataOptions{
		Schema: json.RawMessage(`{"type":"object","properties":{"stars":{"maximum":5}}}`),
	})
	var got written
	ctx := got.context(t.Context())
	if err := bounded.Write(ctx, rating{4}); err != nil {
		t.Error(err)
	}
	if err := agent.NewDataWriter[string]("html", nil).Write(ctx, "<b>"); err != nil {
		t.Error(err)
	}
	var invalid *agent.SchemaError
	if err := bounded.Write(ctx, rating{6}); !errors.As(err, &invalid) || err.Error() != "write data rating: /stars: must be at most 5" {
		t.Errorf("value over the bound: got %v", err)
	}
	if err := agent.NewDataWriter[any]("any", nil).Write(ctx, func() {}); err == nil || !strings.HasPrefix(err.Error(), "write data any: ") {
		t.Errorf("value without a JSON form: got %v", err)
	}
	if err := bounded.Write(t.Context(), rating{4}); !errors.Is(err, agent.ErrNoResponse) {
		t.Errorf("outside a response: got %v", err)
	}
	away := errors.New("away")
	refusing := agenthost.WithData(t.Context(), func(context.Context, string, json.RawMessage) error { return away })
	if err := bounded.Write(refusing, rating{4}); !errors.Is(err, away) {
		t.Errorf("rejected write: got %v", err)
	}
	if diff := cmp.Diff(written{`rating {"stars":4}`, `html "<b>"`}, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if bounded.Name() != "rating" || !strings.Contains(string(bounded.JSONSchema()), `"maximum":5`) {
		t.Errorf("got name %s and schema %s", bounded.Name(), bounded.JSONSchema())
	}
}

func TestNewDataWriterPanics(t *testing.T) {
	for name, make := range map[string]func(){
		"data \"\": name does not match":         func() { agent.NewDataWriter[string]("", nil) },
		"data \"a b\": name does not match":      func() { agent.NewDataWriter[string]("a b", nil) },
		"data \"1\": name does not match":        func() { agent.NewDataWriter[string]("1", nil) },
		"data \"chan\": ":                        func() { agent.NewDataWriter[chan int]("chan", nil) },
		"data \"schema\": parse schema":          func() { agent.NewDataWriter[int]("schema", &agent.DataOptions{Schema: json.RawMessage(`{`)}) },
		"data \"" + strings.Repeat("x", 65) + "": func() { agent.NewDataWriter[string](strings.Repeat("x", 65), nil) },
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

func TestHookMetadata(t *testing.T) {
	a := &agent.Agent{Name: "a"}
	if raw, err := agenthost.StartResponse(t.Context(), a, nil); raw != nil || err != nil {
		t.Errorf("without a hook: %s, %v", raw, err)
	}
	var answer func() (map[string]any, error)
	a.Hooks.ResponseFinished = func(context.Context, *agent.Response) (map[string]any, error) { return answer() }
	for _, tc := range []struct {
		name   string
		answer func() (map[string]any, error)
		raw    string
		err    string
	}{
		{"metadata", func() (map[string]any, error) { return map[string]any{"a": "<b>"}, nil }, `{"a":"<b>"}`, ""},
		{"none", func() (map[string]any, error) { return nil, nil }, "", ""},
		{"empty", func() (map[string]any, error) { return map[string]any{}, nil }, "", ""},
		{"error", func() (map[string]any, error) { return map[string]any{"a": 1}, errors.New("no luck") }, "", "no luck"},
		{"panic", func() (map[string]any, error) { panic("secret") }, "", "hook ResponseFinished of agent a crashed"},
		{"unfit", func() (map[string]any, error) { return map[string]any{"a": func() {}}, nil }, "", "encode metadata: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer = tc.answer
			raw, err := agenthost.FinishResponse(t.Context(), a, &agent.Response{})
			if string(raw) != tc.raw || (err == nil) != (tc.err == "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
				t.Errorf("got %s, %v", raw, err)
			}
		})
	}
}

func TestToolsDataIsDeclared(t *testing.T) {
	listed, other := agent.NewDataWriter[int]("shown", nil), agent.NewDataWriter[string]("shown", nil)
	show := func(d ...agent.Data) agent.Tool {
		return agent.NewTool("show", "Shows.", func(context.Context, struct{}) (string, error) { return "", nil }, &agent.ToolOptions{Data: d})
	}
	for _, tc := range []struct {
		name string
		tool agent.Tool
		data []agent.Data
		want string
	}{
		{"listed", show(listed), []agent.Data{listed}, ""},
		{"the same once more", show(agent.NewDataWriter[int]("shown", nil)), []agent.Data{listed}, ""},
		{"unused", show(), nil, ""},
		{"not listed", show(listed), nil, `Tools[0]: uses the data writer "shown", which the agent does not list`},
		{"another of that name", show(other), []agent.Data{listed}, `Tools[0]: uses a data writer "shown" that is another than Data[0]`},
		{"nil", show(nil), []agent.Data{listed}, "Tools[0]: uses a data writer that is nil"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := valid()
			a.Tools, a.Data = []agent.Tool{tc.tool}, tc.data
			err := a.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			a.Tools = nil
			s := agent.NewSetup(a)
			s.Tools = []agent.Tool{tc.tool}
			if again := s.Validate(); (again == nil) != (err == nil) {
				t.Errorf("of a setup: %v", again)
			}
		})
	}
	a, sub := valid(), scout()
	a.Data, sub.Tools, a.Subagents = []agent.Data{listed}, []agent.Tool{show(listed)}, []*agent.Agent{sub}
	if err := a.Validate(); err == nil || !strings.Contains(err.Error(), `Subagents[0].Tools[0]: uses the data writer "shown"`) {
		t.Errorf("a subagent: %v", err)
	}
}
