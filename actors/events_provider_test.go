package actors_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
)

// identified fails after one word as "google", at once as "openai", hangs after one word as "slow",
// and answers otherwise.
type identified struct{}

func (identified) Stream(ctx context.Context, m providers.Model, _ providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		if m.Provider == "openai" {
			return &providers.Error{Kind: providers.KindQuota, Err: errors.New("no credit")}
		}
		a.Text("word")
		if m.Provider == "slow" {
			<-ctx.Done()
			return ctx.Err()
		}
		if m.Provider == "google" {
			return &providers.Error{Kind: providers.KindQuota, Err: errors.New("no credit")}
		}
		a.Text("done")
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
}

// requestsOf returns the model requests of turn or turn_request events, by provider.
func requestsOf(s *memorySink, live bool) (out []observability.ModelRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		switch p := e.Payload.(type) {
		case *observability.Turn:
			if !live {
				out = append(out, p.Request)
			}
		case *observability.TurnRequest:
			if live {
				r := p.Request
				r.Messages, r.Tools, r.InputBytes, r.Input, r.InputTruncated = 0, 0, 0, nil, false
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b observability.ModelRequest) int { return strings.Compare(a.Provider, b.Provider) })
	return out
}

// TestEventsNameTheProvider: turn and turn_request identify the provider by the telemetry of its
// registration, also for failed and aborted calls, and always by its registered id.
// covers: providers/56, providers/57, providers/60, providers/62, providers/63, providers/85
func TestEventsNameTheProvider(t *testing.T) {
	w := newWorld(t)
	reg := providers.NewRegistry(nil)
	reg.RegisterProtocol("test", identified{})
	for id, r := range map[string]providers.Registration{
		"google": {API: "test", BaseURL: "https://gemini.example:8443/v1"},
		"mine": {API: "test", BaseURL: "http://10.0.0.7:9000/v1", Reasoning: new(true), Telemetry: providers.Telemetry{
			ProviderName: "openai", ServerAddress: "models.example", ServerPort: 7,
		}},
		"openai": {API: "test", BaseURL: "test:", Telemetry: providers.Telemetry{ServerAddress: "alone.example"}},
		"slow":   {API: "test", BaseURL: "test:", Telemetry: providers.Telemetry{ProviderName: "x"}},
	} {
		if err := reg.RegisterProvider(id, r); err != nil {
			t.Fatal(err)
		}
	}
	sink := newMemorySink("memory")
	n := w.start(setup{opts: actors.Options{
		Providers: reg, Events: actors.EventOptions{Sinks: []observability.Sink{sink}},
		Agents: []*agent.Agent{
			{Name: "chat", Model: "google/gemini/2", Fallbacks: []string{"mine/m", "openai/gpt"}, ThinkingLevel: agent.ThinkingHigh},
			{Name: "silent", Model: "openai/gpt"},
			{Name: "slow", Model: "slow/m"},
		},
	}})
	google := observability.ModelRequest{Provider: "google", ProviderName: "gcp.gemini", Model: "gemini/2", API: "test", Server: "gemini.example", Port: 8443}
	mine := observability.ModelRequest{
		Provider: "mine", ProviderName: "openai", Model: "m", API: "test", Server: "models.example", Port: 7, Reasoning: "high",
	}
	openai := observability.ModelRequest{Provider: "openai", ProviderName: "openai", Model: "gpt", API: "test", Server: "alone.example"}
	n.admit(chat("c"), "1", "go")
	w.untilSettled(chat("c"), 1)
	silent := chat("c")
	silent.Agent = "silent"
	n.admit(silent, "1", "go")
	w.untilSettled(silent, 1)
	slow := chat("c")
	slow.Agent = "slow"
	n.admit(slow, "1", "go")
	w.until("a word", func() bool { return strings.Contains(strings.Join(w.events(slow, nil), ""), `"turn_start"`) })
	if _, err := n.rt.Abort(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	w.untilSettled(slow, 1)
	want := []observability.ModelRequest{google, mine, openai, {Provider: "slow", ProviderName: "x", Model: "m", API: "test"}}
	eventually(t, "all turns", func() bool {
		return len(requestsOf(sink, false)) == len(want) && len(requestsOf(sink, true)) == len(want)
	})
	for _, live := range []bool{false, true} {
		if diff := cmp.Diff(want, requestsOf(sink, live)); diff != "" {
			t.Errorf("live: %t (-want +got):\n%s", live, diff)
		}
	}
}
