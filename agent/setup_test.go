package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// facts returns the compared fields of a setup.
func facts(s *agent.Setup) map[string]any {
	var tools, subagents []string
	for _, t := range s.Tools {
		tools = append(tools, t.Name())
	}
	for _, a := range s.Subagents {
		subagents = append(subagents, a.Name)
	}
	return map[string]any{
		"model": s.Model, "fallbacks": s.Fallbacks, "thinking": s.ThinkingLevel, "instructions": s.Instructions,
		"tools": tools, "subagents": subagents,
	}
}

func scout() *agent.Agent {
	return &agent.Agent{Name: "scout", Description: "Looks things up.", Instructions: "Look it up."}
}

func TestSetupFor(t *testing.T) {
	full := func() *agent.Agent {
		return &agent.Agent{
			Name: "a", Model: "p/m", Fallbacks: []string{"p/n"}, ThinkingLevel: agent.ThinkingLow, Instructions: "Be kind.",
			Tools: []agent.Tool{labelTool()}, Subagents: []*agent.Agent{scout()},
		}
	}
	as := func(changes map[string]any) map[string]any {
		want := map[string]any{
			"model": "p/m", "fallbacks": []string{"p/n"}, "thinking": agent.ThinkingLow, "instructions": "Be kind.",
			"tools": []string{"label"}, "subagents": []string{"scout"},
		}
		for k, v := range changes {
			want[k] = v
		}
		return want
	}
	turn := &agent.Turn{Delivery: conversation.Delivery{Body: "hard"}}
	for _, tc := range []struct {
		name    string
		prepare func(ctx context.Context, t *agent.Turn, s *agent.Setup) error
		want    map[string]any
	}{
		{"the fields", nil, as(nil)},
		{"another model", func(_ context.Context, t *agent.Turn, s *agent.Setup) error {
			s.Model, s.Fallbacks, s.ThinkingLevel = "p/"+t.Delivery.Body, nil, agent.ThinkingMax
			return nil
		}, as(map[string]any{"model": "p/hard", "fallbacks": []string(nil), "thinking": agent.ThinkingMax})},
		{"more instructions", func(_ context.Context, _ *agent.Turn, s *agent.Setup) error {
			s.Instructions += " Be short."
			return nil
		}, as(map[string]any{"instructions": "Be kind. Be short."})},
		{"other tools", func(_ context.Context, _ *agent.Turn, s *agent.Setup) error {
			s.Tools[0], s.Subagents[0], s.Fallbacks[0] = returning(1), &agent.Agent{Name: "b", Description: "B."}, "p/o"
			return nil
		}, as(map[string]any{"tools": []string{"show"}, "subagents": []string{"b"}, "fallbacks": []string{"p/o"}})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := full()
			a.Prepare = tc.prepare
			s, err := agenthost.SetupFor(t.Context(), a, turn)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, facts(s)); diff != "" {
				t.Errorf("setup (-want +got):\n%s", diff)
			}
			a.Prepare = nil
			if s, err = agenthost.SetupFor(t.Context(), a, turn); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(as(nil), facts(s)); diff != "" {
				t.Errorf("Prepare changed the agent (-want +got):\n%s", diff)
			}
		})
	}
	s, err := agenthost.SetupFor(t.Context(), full(), turn)
	if err != nil {
		t.Fatal(err)
	}
	if tool, ok := s.Tool("label"); !ok || tool.Name() != "label" {
		t.Error("setup does not find its tool")
	}
	if sub, ok := s.Subagent("scout"); !ok || sub.Name != "scout" {
		t.Error("setup does not find its subagent")
	}
	_, tool := s.Tool("other")
	if sub, ok := s.Subagent("other"); ok || tool || sub != nil {
		t.Error("setup finds an unknown name")
	}
}

func TestSetupForFails(t *testing.T) {
	own := errors.New("own")
	set := func(change func(s *agent.Setup)) func(a *agent.Agent) {
		return func(a *agent.Agent) {
			a.Prepare = func(_ context.Context, _ *agent.Turn, s *agent.Setup) error { change(s); return nil }
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(a *agent.Agent)
		want  string
	}{
		{"instructions", func(a *agent.Agent) {
			a.InstructionsFunc = func(context.Context, *agent.Turn) (string, error) { return "", own }
		}, "own"},
		{"instructions crash", func(a *agent.Agent) {
			a.InstructionsFunc = func(context.Context, *agent.Turn) (string, error) { panic("secret") }
		}, "instructions of agent issue-triage crashed"},
		{"prepare", func(a *agent.Agent) {
			a.Prepare = func(context.Context, *agent.Turn, *agent.Setup) error { return own }
		}, "own"},
		{"prepare crashes", set(func(*agent.Setup) { panic("secret") }), "prepare of agent issue-triage crashed"},
		{"no model", set(func(s *agent.Setup) { s.Model = "" }), `prepare agent issue-triage: Model: is empty; name a model as "provider/model"`},
		{"bad model", set(func(s *agent.Setup) { s.Model = "gpt" }), `prepare agent issue-triage: Model: "gpt" is not of the form "provider/model"`},
		{"bad fallback", set(func(s *agent.Setup) { s.Fallbacks = []string{"p/m", "gpt"} }), `prepare agent issue-triage: Fallbacks[1]: "gpt" is not of the form "provider/model"`},
		{"bad level", set(func(s *agent.Setup) { s.ThinkingLevel = "hard" }), `prepare agent issue-triage: ThinkingLevel: "hard" is unknown; use one of `},
		{"tool twice", set(func(s *agent.Setup) { s.Tools = append(s.Tools, labelTool()) }), `prepare agent issue-triage: Tools[1]: is named "label" like Tools[0]; rename one of the two`},
		{"empty tool", set(func(s *agent.Setup) { s.Tools = []agent.Tool{{}} }), "prepare agent issue-triage: Tools[0]: is an empty Tool; make it with NewTool"},
		{"bad subagent", set(func(s *agent.Setup) { s.Subagents = []*agent.Agent{{Name: "b"}} }), "prepare agent issue-triage: Subagents[0].Description: is empty; the model chooses a subagent by it"},
		{"two at once", set(func(s *agent.Setup) { s.Model, s.ThinkingLevel = "", "hard" }), `prepare agent issue-triage: Model: is empty; name a model as "provider/model"; ThinkingLevel: `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := valid()
			tc.spoil(a)
			s, err := agenthost.SetupFor(t.Context(), a, &agent.Turn{})
			if s != nil || err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Fatalf("got %v, %v, want %q", s, err, tc.want)
			}
			var rejected *agent.SetupError
			if is := strings.HasPrefix(tc.want, "prepare agent"); errors.As(err, &rejected) != is || is && rejected.Agent != a.Name {
				t.Errorf("got SetupError %v", !is)
			}
		})
	}
	a := valid()
	a.Prepare = func(context.Context, *agent.Turn, *agent.Setup) error { return nil }
	itself := set(func(s *agent.Setup) { s.Subagents = []*agent.Agent{a} })
	itself(a)
	if _, err := agenthost.SetupFor(t.Context(), a, &agent.Turn{}); err == nil || !strings.Contains(err.Error(), "leads back") {
		t.Errorf("recursive agent: got %v", err)
	}
}

func TestSetupReadsStateOnly(t *testing.T) {
	state := agent.NewState("plan", "free")
	read := func(ctx context.Context) (string, error) {
		if err := state.Set(ctx, "pro"); !errors.Is(err, agent.ErrReadOnly) {
			t.Errorf("set: %v", err)
		}
		if _, err := state.Update(ctx, func(s string) string { return s + "!" }); !errors.Is(err, agent.ErrReadOnly) {
			t.Errorf("update: %v", err)
		}
		return state.Get(ctx)
	}
	a := valid()
	a.InstructionsFunc = func(ctx context.Context, _ *agent.Turn) (string, error) { return read(ctx) }
	a.Prepare = func(ctx context.Context, _ *agent.Turn, s *agent.Setup) error {
		plan, err := read(ctx)
		s.Model = "p/" + plan
		return err
	}
	store := newMemoryStore("plan", `"team"`)
	s, err := agenthost.SetupFor(agenthost.WithState(t.Context(), store), a, &agent.Turn{})
	if err != nil || s.Instructions != "team" || s.Model != "p/team" || store.taken != 0 {
		t.Errorf("got %+v, %v after %d writes", s, err, store.taken)
	}
	if text, err := agenthost.InstructionsFor(agenthost.WithState(t.Context(), store), a, &agent.Turn{}); text != "team" || err != nil || store.taken != 0 {
		t.Errorf("instructions alone: got %q, %v after %d writes", text, err, store.taken)
	}
}
