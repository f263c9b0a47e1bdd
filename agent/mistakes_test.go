package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// defect is an error whose methods need a value, which a typed nil does not have.
type defect struct{ text string }

func (e *defect) Error() string   { return e.text }
func (e *defect) Is(error) bool   { return e.text == "" }
func (e *defect) Unwrap() error   { return errors.New(e.text) }
func (e *defect) Timeout() bool   { return e.text == "" }
func (e *defect) Temporary() bool { return e.text == "" }

// partly is an error whose text alone is available.
type partly struct{ defect }

func (e *partly) Is(error) bool { panic("a defect of Is") }
func (e *partly) As(any) bool   { runtime.Goexit(); return false }
func (e *partly) Unwrap() error { panic("a defect of Unwrap") }

func noMap() map[string]int { return nil }

// mistakes are misbehaving functions of authors. Each returns the function's error, if it returns.
func mistakes() map[string]func() error {
	return map[string]func() error{
		"panics":                        func() error { panic("a defect") },
		"panics with a typed nil":       func() error { var e *defect; panic(e) },
		"writes to a nil map":           func() error { noMap()["x"]++; return nil },
		"exits":                         func() error { runtime.Goexit(); return nil },
		"returns a typed nil":           func() error { var e *defect; return e },
		"joins a typed nil":             func() error { var e *defect; return errors.Join(errors.New("x"), e) },
		"returns a nil of this package": func() error { var e *agent.PanicError; return e },
		"returns half an error":         func() error { return &partly{defect{"half"}} },
	}
}

// unwritable is a value whose methods never return.
type unwritable struct{ act func() error }

func (v unwritable) MarshalJSON() ([]byte, error) { return nil, v.act() }
func (v unwritable) LogValue() slog.Value         { return slog.StringValue(v.act().Error()) }
func (v unwritable) String() string               { return v.act().Error() }

// unreadable is a value that cannot be decoded.
type unreadable map[string]any

var unreadAct func() error

func (v *unreadable) UnmarshalJSON([]byte) error { return unreadAct() }

// failing checks that a call has failed, and that its error can be inspected.
func failing(t *testing.T, name string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error", name)
		return
	}
	var other *json.SyntaxError
	if err.Error() == "" || errors.Is(err, io.EOF) || errors.As(err, &other) {
		t.Errorf("%s: got %v", name, err)
	}
}

// functionsOf returns the names of a struct's fields that hold a function.
func functionsOf(of any) (names []string) {
	for f := range reflect.TypeOf(of).Fields() {
		if f.IsExported() && f.Type.Kind() == reflect.Func {
			names = append(names, f.Name)
		}
	}
	return names
}

// set assigns a misbehaving function to a field: it returns zero values and the error.
func set(field reflect.Value, mistake func() error) {
	field.Set(reflect.MakeFunc(field.Type(), func([]reflect.Value) (out []reflect.Value) {
		for i := range field.Type().NumOut() - 1 {
			out = append(out, reflect.Zero(field.Type().Out(i)))
		}
		err := reflect.New(reflect.TypeFor[error]()).Elem()
		if e := mistake(); e != nil {
			err.Set(reflect.ValueOf(e))
		}
		return append(out, err)
	}))
}

// TestEveryFunctionOfAnAgentIsContained calls each function of an agent as a host does. New functions
// must be added here.
func TestEveryFunctionOfAnAgentIsContained(t *testing.T) {
	ctx, turn, resp := t.Context(), &agent.Turn{}, &agent.Response{}
	calls := map[string]func(a *agent.Agent) error{
		"InstructionsFunc": func(a *agent.Agent) error { _, err := agenthost.SetupFor(ctx, a, turn); return err },
		"Prepare":          func(a *agent.Agent) error { _, err := agenthost.SetupFor(ctx, a, turn); return err },
		"DeliveryStarted":  func(a *agent.Agent) error { return agenthost.StartDelivery(ctx, a, turn) },
		"ResponseStarted":  func(a *agent.Agent) error { _, err := agenthost.StartResponse(ctx, a, turn); return err },
		"WouldStop":        func(a *agent.Agent) error { _, err := agenthost.BeforeStop(ctx, a, resp); return err },
		"ResponseFinished": func(a *agent.Agent) error { _, err := agenthost.FinishResponse(ctx, a, resp); return err },
		"Settled":          func(a *agent.Agent) error { return agenthost.AfterSettlement(ctx, a, &agent.Settlement{}) },
	}
	for _, of := range []any{agent.Agent{}, agent.Hooks{}} {
		for _, name := range functionsOf(of) {
			call := calls[name]
			if call == nil {
				t.Errorf("function %s of %T has no test here", name, of)
				continue
			}
			for desc, mistake := range mistakes() {
				a := &agent.Agent{Name: "a", Model: "x/y"}
				in := reflect.ValueOf(a).Elem()
				if _, hook := of.(agent.Hooks); hook {
					in = in.FieldByName("Hooks")
				}
				set(in.FieldByName(name), mistake)
				failing(t, name+" that "+desc, call(a))
			}
		}
	}
}

// TestEveryFunctionInACallIsContained covers the functions called within a tool.
func TestEveryFunctionInACallIsContained(t *testing.T) {
	state := agent.NewState("s", 1)
	for desc, mistake := range mistakes() {
		fails := func(context.Context) (int, error) { return 0, mistake() }
		for name, tool := range map[string]agent.Tool{
			"a tool":     agent.NewTool("x", "X.", func(context.Context, struct{}) (string, error) { return "ok", mistake() }, nil),
			"a workflow": agent.NewWorkflow("x", func(context.Context, struct{}) (string, error) { return "ok", mistake() }, nil).Definition().Tools[0],
			"a step":     durable(func(ctx context.Context) (int, error) { return agent.Step(ctx, "one", fails) }),
			"an update": durable(func(ctx context.Context) (int, error) {
				return state.Update(ctx, func(int) int {
					if err := mistake(); err != nil {
						panic(err)
					}
					return 1
				})
			}),
		} {
			ctx := agenthost.WithSteps(agenthost.WithState(t.Context(), newMemoryStore()), &journal{})
			_, err := tool.Run(ctx, nil)
			failing(t, name+" that "+desc, err)
		}
	}
}

// TestStepsFailAlone covers a step that panics or exits on an author's goroutine.
func TestStepsFailAlone(t *testing.T) {
	for desc, mistake := range mistakes() {
		tool := durable(func(ctx context.Context) (string, error) {
			done := make(chan error)
			go func() {
				_, err := agent.Step(ctx, "one", func(context.Context) (int, error) { return 0, mistake() })
				done <- err
			}()
			if err := <-done; err == nil {
				t.Errorf("a step that %s: got no error", desc)
			}
			return agent.Step(ctx, "one", func(context.Context) (string, error) { return "after", nil })
		})
		if out, err := tool.Run(agenthost.WithSteps(t.Context(), &journal{}), nil); err != nil || string(out.Output) != `"after"` {
			t.Errorf("after a step that %s: got %+v, %v", desc, out, err)
		}
	}
}

// TestEveryValueIsContained encodes a misbehaving value in each place that accepts one, on an
// uncontained goroutine, and decodes one likewise.
func TestEveryValueIsContained(t *testing.T) {
	state, data := agent.NewState[any]("s", nil), agent.NewDataWriter[any]("d", nil)
	flow := agent.NewWorkflow("w", func(context.Context, any) (int, error) { return 0, nil }, nil)
	for desc, mistake := range mistakes() {
		v := any(unwritable{mistake})
		host := agenthost.WithSteps(agenthost.WithState(agenthost.WithCall(t.Context(), agent.Call{ID: "call_1"}), newMemoryStore()), &journal{})
		host = agenthost.WithPoster(agenthost.WithData(host, func(context.Context, string, json.RawMessage) error { return nil }), discardPosts{})
		logs := 0
		host = agenthost.WithLog(host, func(_ slog.Level, _ string, attributes map[string]any) { logs += len(attributes) })
		tool := agent.NewTool("x", "X.", func(context.Context, struct{}) (any, error) { return map[string]any{"v": v}, nil }, nil)
		meta := &agent.Agent{Name: "a", Hooks: agent.Hooks{ResponseStarted: func(context.Context, *agent.Turn) (map[string]any, error) {
			return map[string]any{"v": v}, nil
		}}}
		for name, write := range map[string]func() error{
			"an output": func() error { _, err := tool.Run(host, nil); return err },
			"metadata":  func() error { _, err := agenthost.StartResponse(host, meta, &agent.Turn{}); return err },
			"state":     func() error { return state.Set(host, v) },
			"data":      func() error { return data.Write(host, v) },
			"a step": func() error {
				_, err := agent.Step(host, "s", func(context.Context) (any, error) { return v, nil })
				return err
			},
			"a post":   func() error { _, err := agent.Post(host, agent.Outgoing{Target: "t", Body: v}); return err },
			"a signal": func() error { _, err := agent.Signal("n", v); return err },
			"an input": func() error { _, err := flow.Admission("k", v); return err },
			"a log's own": func() error {
				agent.Log(host, slog.LevelInfo, "m", "v", v, "e", mistakeError{mistake})
				return errors.New("it is logged")
			},
		} {
			failing(t, name+" that "+desc, write())
		}
		if logs != 2 {
			t.Errorf("a value that %s: got %d attributes in logs, want 2", desc, logs)
		}
		unreadAct = mistake
		read := agent.NewTool("x", "X.", func(context.Context, unreadable) (int, error) { return 0, nil }, &agent.ToolOptions{
			InputSchema: json.RawMessage(`{"type":"object"}`),
		})
		_, err := read.Run(host, nil)
		failing(t, "an input read by a method that "+desc, err)
	}
}

type mistakeError struct{ act func() error }

func (e mistakeError) Error() string { return e.act().Error() }

// discardPosts accepts all posts.
type discardPosts struct{}

func (discardPosts) Post(context.Context, agenthost.Posting) error { return nil }

// TestMistakesAreNamed checks the error texts for models and authors.
func TestMistakesAreNamed(t *testing.T) {
	for desc, want := range map[string]string{
		"returns a typed nil": "tool x crashed", "panics": "tool x crashed", "returns half an error": "half",
		"exits": "tool x ended its goroutine without returning",
	} {
		tool := agent.NewTool("x", "X.", func(context.Context, struct{}) (int, error) { return 0, mistakes()[desc]() }, nil)
		if _, err := tool.Run(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a tool that %s: got %v, want %q", desc, err, want)
		}
	}
}
