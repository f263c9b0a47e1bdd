package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

type progress struct {
	Percent int `json:"percent"`
}

// lookUp answers a first request with a tool call, and a second with text.
func lookUp() script {
	return func(_ context.Context, req providers.Request, a *providers.Assembler) error {
		if req.Messages[len(req.Messages)-1].Role == providers.RoleTool {
			a.Text("It is sunny.")
			a.Finish(providers.Done{StopReason: providers.StopStop, Usage: providers.Usage{Input: 5, Output: 2, Total: 7}})
			return nil
		}
		a.Text("Let me see.")
		a.CallArguments(a.StartCall("p1", "look"), "{}")
		a.Finish(providers.Done{StopReason: providers.StopToolUse, Usage: providers.Usage{Input: 3, Output: 1, Total: 4}})
		return nil
	}
}

func (n *node) response(at conversation.Address) conversation.Message {
	n.w.tb.Helper()
	for _, m := range n.snapshot(at).Messages {
		if m.Role == conversation.RoleAssistant {
			return m
		}
	}
	n.w.tb.Fatal("got no response")
	return conversation.Message{}
}

// TestHooksDecorateAResponse: metadata of both hooks, and data of a tool and a hook, are public.
func TestHooksDecorateAResponse(t *testing.T) {
	w := newWorld(t)
	written := agent.NewDataWriter[progress]("progress", nil)
	var seen agent.Response
	look := agent.NewTool("look", "Look out of the window.", func(ctx context.Context, _ struct{}) (string, error) {
		for _, p := range []int{50, 100} {
			if err := written.Write(ctx, progress{p}); err != nil {
				return "", err
			}
		}
		return "sun", nil
	}, nil)
	a := chatAgent(look)
	a.Data = []agent.Data{written}
	a.Hooks = agent.Hooks{
		ResponseStarted: func(_ context.Context, turn *agent.Turn) (map[string]any, error) {
			return map[string]any{"by": map[string]any{"asked": turn.Delivery.Body}, "n": 1}, nil
		},
		ResponseFinished: func(ctx context.Context, r *agent.Response) (map[string]any, error) {
			seen = *r
			return map[string]any{"by": map[string]any{"tokens": r.Usage.Total}, "n": 2}, written.Write(ctx, progress{101})
		},
	}
	n := w.start(setup{opts: agents(a), model: lookUp()})
	n.admit(chat("c"), "1", "how is it?")
	w.untilSettled(chat("c"), 1)

	m := n.response(chat("c"))
	var metadata map[string]any
	if err := json.Unmarshal(m.Metadata, &metadata); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"by": map[string]any{"asked": "how is it?", "tokens": 11.0}, "n": 2.0}
	if diff := cmp.Diff(want, metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	var parts []string
	for _, p := range m.Parts {
		parts = append(parts, p.Type+" "+string(p.Data))
	}
	if diff := cmp.Diff([]string{
		"text ", "dynamic-tool ", `data-progress {"percent":101}`, "text ",
	}, parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if seen.Text != "Let me see.\n\nIt is sunny." || seen.StopReason != "stop" || seen.Message != m.ID || seen.Number != 2 || seen.Attempt != 1 {
		t.Errorf("got hook input %+v", seen)
	}
	types := map[string]bool{}
	chunks, _ := n.updates(chat("c"), 0)
	for _, c := range chunks {
		types[string(c.Type)] = true
		if c.Type == conversation.ChunkStarted && c.TurnID == m.TurnID && len(c.Metadata) == 0 {
			t.Errorf("got response start without metadata: %+v", c)
		}
	}
	if !types[string(conversation.ChunkDataPart)] || !types[string(conversation.ChunkMetadata)] {
		t.Errorf("got chunk types %v", types)
	}
}

// TestHooksCannotFailAResponse: hooks fail in every way; the reply still arrives, and the log reports
// each failure.
func TestHooksCannotFailAResponse(t *testing.T) {
	for name, hook := range map[string]func(context.Context) (map[string]any, error){
		"error": func(context.Context) (map[string]any, error) { return nil, errors.New("out of luck") },
		"panic": func(context.Context) (map[string]any, error) { panic("secret") },
		"unfit": func(context.Context) (map[string]any, error) { return map[string]any{"f": func() {}}, nil },
		"large": func(context.Context) (map[string]any, error) {
			return map[string]any{"x": strings.Repeat("x", 5<<20)}, nil
		},
		"hanging": func(ctx context.Context) (map[string]any, error) { <-ctx.Done(); return nil, ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := chatAgent()
			a.Hooks = agent.Hooks{
				ResponseStarted:  func(ctx context.Context, _ *agent.Turn) (map[string]any, error) { return hook(ctx) },
				ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) { return hook(ctx) },
			}
			opts := agents(a)
			if name == "hanging" {
				opts.HookTimeout = 50 * time.Millisecond
			}
			n := w.start(setup{opts: opts, model: emits(2)})
			n.admit(chat("c"), "1", "hello")
			if s := w.untilSettled(chat("c"), 1)[0]; s.Outcome != conversation.OutcomeCompleted {
				t.Errorf("got settlement %+v", s)
			}
			if m := n.response(chat("c")); len(m.Metadata) > 0 || len(m.Parts) != 1 {
				t.Errorf("got reply %+v", m)
			}
			for _, hook := range []string{"hook=ResponseStarted", "hook=ResponseFinished"} {
				if !strings.Contains(n.log.String(), hook) {
					t.Errorf("the log lacks %s:\n%s", hook, n.log)
				}
				if text := n.log.String(); strings.Contains(text, "cause=") != (name == "panic") || strings.Contains(text, `cause=""`) {
					t.Errorf("want a cause in the log for the panic only:\n%s", text)
				}
			}
		})
	}
}

// TestDataIsRefused writes invalid data: the tool gets the reason.
func TestDataIsRefused(t *testing.T) {
	w := newWorld(t)
	listed, strange := agent.NewDataWriter[string]("listed", nil), agent.NewDataWriter[string]("strange", nil)
	var errs []error
	look := agent.NewTool("look", "Look.", func(ctx context.Context, _ struct{}) (string, error) {
		errs = append(errs, strange.Write(ctx, "x"), listed.Write(ctx, strings.Repeat("x", 5<<20)), listed.Write(context.Background(), "x"))
		return "done", nil
	}, nil)
	a := chatAgent(look)
	a.Data = []agent.Data{listed}
	n := w.start(setup{opts: agents(a), model: lookUp()})
	n.admit(chat("c"), "1", "hello")
	w.untilSettled(chat("c"), 1)
	for i, want := range []string{agent.ErrUndeclaredData.Error(), "at most 4194304 are taken", agent.ErrNoResponse.Error()} {
		if i >= len(errs) || errs[i] == nil || !strings.Contains(errs[i].Error(), want) {
			t.Errorf("write %d: got %v, want %q", i, errs, want)
		}
	}
	if !errors.Is(errs[0], agent.ErrUndeclaredData) || !errors.Is(errs[2], agent.ErrNoResponse) {
		t.Errorf("got errors %v", errs)
	}
	for _, p := range n.response(chat("c")).Parts {
		if strings.HasPrefix(p.Type, conversation.DataPrefix) {
			t.Errorf("got part %s", p.Type)
		}
	}
}

// TestDataAfterTheEnd writes with contexts kept beyond their tool or hook, canceled or not: no write
// succeeds, and none blocks forever.
func TestDataAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	listed := agent.NewDataWriter[string]("listed", nil)
	kept := map[string]context.Context{}
	look := agent.NewTool("look", "Look.", func(ctx context.Context, _ struct{}) (string, error) {
		kept["tool"], kept["tool, detached"] = ctx, context.WithoutCancel(ctx)
		return "done", nil
	}, nil)
	a := chatAgent(look)
	a.Data = []agent.Data{listed}
	a.Hooks.ResponseFinished = func(ctx context.Context, _ *agent.Response) (map[string]any, error) {
		kept["hook"], kept["hook, detached"] = ctx, context.WithoutCancel(ctx)
		return nil, nil
	}
	n := w.start(setup{opts: agents(a), model: lookUp()})
	n.admit(chat("c"), "1", "hello")
	w.untilSettled(chat("c"), 1)
	for name, ctx := range kept {
		result := make(chan error, 1)
		go func() { result <- listed.Write(ctx, "late") }()
		if err := await(t, result, name); !errors.Is(err, agent.ErrNoResponse) {
			t.Errorf("%s: %v, want %v", name, err, agent.ErrNoResponse)
		}
	}
	if len(kept) != 4 {
		t.Errorf("got %d contexts, want 4", len(kept))
	}
}

// TestDetachedWriteEndsWithItsRun aborts a tool that writes more than fits, with a context that never
// ends.
func TestDetachedWriteEndsWithItsRun(t *testing.T) {
	w := newWorld(t)
	listed := agent.NewDataWriter[string]("listed", nil)
	began, ended := make(chan struct{}), make(chan error, 1)
	look := agent.NewTool("look", "Look.", func(ctx context.Context, _ struct{}) (string, error) {
		close(began)
		for {
			if err := listed.Write(context.WithoutCancel(ctx), strings.Repeat("x", 1<<20)); err != nil {
				ended <- err
				return "", err
			}
		}
	}, nil)
	a := chatAgent(look)
	a.Data = []agent.Data{listed}
	n := w.start(setup{opts: agents(a), model: lookUp()})
	n.admit(chat("c"), "1", "hello")
	await(t, began, "the tool")
	if _, err := n.rt.Abort(t.Context(), chat("c")); err != nil {
		t.Fatal(err)
	}
	if err := await(t, ended, "the end of the writes"); !errors.Is(err, context.Canceled) && !errors.Is(err, agent.ErrNoResponse) {
		t.Errorf("got write error %v", err)
	}
}

// TestDataWaitsForRoom writes more than may wait for an append: data of a write that returned is
// always in the response.
func TestDataWaitsForRoom(t *testing.T) {
	w := newWorld(t)
	listed := agent.NewDataWriter[string]("listed", nil)
	const writes = 2 // The first write takes all the room until the pace lets it leave.
	look := agent.NewTool("look", "Look.", func(ctx context.Context, _ struct{}) (string, error) {
		for range writes {
			if err := listed.Write(ctx, strings.Repeat("x", conversation.MaxPayloadBytes-2)); err != nil {
				return "", err
			}
		}
		return "done", nil
	}, nil)
	a := chatAgent(look)
	a.Data = []agent.Data{listed}
	opts := agents(a)
	opts.Pace = time.Second
	n := w.start(setup{opts: opts, model: lookUp()})
	n.admit(chat("c"), "1", "hello")
	w.untilSettled(chat("c"), 1)
	if got := only[*conversation.DataWritten](w.records(chat("c"))); len(got) != writes {
		t.Errorf("got %d of %d writes recorded", len(got), writes)
	}
}
