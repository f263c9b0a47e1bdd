package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/observability"
)

// done returns events of every measured kind.
func done() []observability.Event {
	var events []observability.Event
	add := func(agent string, p observability.Payload) {
		events = append(events, observability.Event{Envelope: observability.Envelope{Agent: agent, Instance: "secret-id", Type: p.EventType()}, Payload: p})
	}
	usage := &observability.Usage{Input: 100, Output: 20, CacheRead: 3}
	usage.Cost.Total = 0.5
	add("desk", &observability.SubmissionQueued{Kind: "direct"})
	add("desk", &observability.SubmissionRunning{QueuedMs: 200})
	add("desk", &observability.SubmissionRunning{QueuedMs: 9000, Resumed: true})
	add("desk", &observability.Turn{DurationMs: 1200, FirstTokenMs: 300, Retries: 2, Request: observability.ModelRequest{Provider: "openai"}, Response: observability.ModelResponse{Usage: usage}})
	add("desk", &observability.Turn{DurationMs: 100, IsError: true, Dropped: true, Retries: 1, Request: observability.ModelRequest{Provider: "openai"}})
	for _, finish := range []string{"handover", "interrupted", "aborted"} {
		add("desk", &observability.Turn{DurationMs: 70, Request: observability.ModelRequest{Provider: "openai"}, Response: observability.ModelResponse{FinishReason: finish}})
	}
	add("desk", &observability.Tool{ToolName: "look_up", DurationMs: 40})
	add("desk", &observability.Tool{ToolName: "made-up-by-a-model", IsError: true})
	add("desk", &observability.SubmissionSettled{Outcome: "failed", TotalMs: 7000, Error: &observability.Error{Type: "submission_limit_reached", Message: "secret words"}})
	add("desk", &observability.SubmissionSettled{Outcome: "aborted", TotalMs: 10, Error: &observability.Error{Type: "submission_aborted"}})
	return events
}

func TestMetricsOfAgents(t *testing.T) {
	agents := admin.NewAgents([]string{"look_up"})
	if err := agents.Write(t.Context(), done()); err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	h := agents.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("live") {
			close(entered)
			<-leave
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	s, err := admin.New(func() actors.Status { return actors.Status{} }, &admin.Options{Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/agents/desk/secret-id", nil))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/agents/desk/secret-id?view=updates&live=sse", nil))
	}()
	<-entered
	all := samples(t, s)
	for name, want := range map[string]string{
		`parley_submissions_admitted_total{agent="desk",kind="direct"}`:                   "1",
		`parley_submissions_settled_total{agent="desk",outcome="failed"}`:                 "1",
		`parley_submissions_settled_total{agent="desk",outcome="aborted"}`:                "1",
		`parley_submission_failures_total{agent="desk",error="submission_limit_reached"}`: "1",
		`parley_submission_failures_total{agent="desk",error="submission_aborted"}`:       "",
		`parley_submission_seconds_sum{agent="desk"}`:                                     "7.01",
		`parley_submission_queue_seconds_count{agent="desk"}`:                             "1",
		`parley_model_call_seconds_sum{outcome="ok",provider="openai"}`:                   "1.2",
		`parley_model_call_seconds_count{outcome="error",provider="openai"}`:              "1",
		`parley_model_call_seconds_sum{outcome="handover",provider="openai"}`:             "0.07",
		`parley_model_call_seconds_count{outcome="interrupted",provider="openai"}`:        "1",
		`parley_model_call_seconds_count{outcome="aborted",provider="openai"}`:            "1",
		`parley_model_first_token_seconds_sum{provider="openai"}`:                         "0.3",
		`parley_model_retries_total{provider="openai"}`:                                   "2",
		`parley_model_tokens_total{agent="desk",kind="input",provider="openai"}`:          "100",
		`parley_model_cost_dollars_total{agent="desk",provider="openai"}`:                 "0.5",
		`parley_tool_call_seconds_count{outcome="ok",tool="look_up"}`:                     "1",
		`parley_tool_call_seconds_count{outcome="error",tool="other"}`:                    "1",
		`parley_http_requests_total{code="418",method="post"}`:                            "1",
		`parley_http_request_seconds_count{method="post"}`:                                "1",
		`parley_live_readers{mode="sse"}`:                                                 "1",
	} {
		if all[name] != want {
			t.Errorf("%s is %q, want %q", name, all[name], want)
		}
	}
	close(leave)
	<-ended
	if n := samples(t, s)[`parley_live_readers{mode="sse"}`]; n != "0" {
		t.Errorf("got %q live readers at the end", n)
	}
	if _, text := ask(s, "GET", "/metrics"); strings.Contains(text, "secret") || strings.Contains(text, "made-up") {
		t.Error("a label has data of a conversation")
	}
}

// TestLabelsAreBounded checks that agents above the bound share one label value.
func TestLabelsAreBounded(t *testing.T) {
	agents := admin.NewAgents(nil)
	for i := range 150 {
		e := observability.Event{Envelope: observability.Envelope{Agent: fmt.Sprint("a", i)}, Payload: &observability.SubmissionQueued{Kind: "direct"}}
		if err := agents.Write(t.Context(), []observability.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := admin.New(func() actors.Status { return actors.Status{} }, &admin.Options{Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	if all := samples(t, s); all[`parley_submissions_admitted_total{agent="other",kind="direct"}`] != "50" || all[`parley_submissions_admitted_total{agent="a99",kind="direct"}`] != "1" {
		t.Errorf("got %q for other agents", all[`parley_submissions_admitted_total{agent="other",kind="direct"}`])
	}
}
