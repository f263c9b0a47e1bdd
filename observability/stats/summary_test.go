package stats_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/stats"
)

const hour = conversation.Time(3_600_000)

// day returns the events of three submissions in two hours, of two agents.
func day() []observability.Event {
	s := newScript()
	gpt := observability.ModelRequest{Provider: "openai", Model: "gpt"}
	s.add(10*hour, &observability.SubmissionQueued{Kind: "direct"})
	s.add(10*hour+5, &observability.SubmissionRunning{Attempt: 1, QueuedMs: 5})
	s.add(10*hour+6, &observability.TurnRequest{Request: gpt}, live)
	s.add(10*hour+100, &observability.Turn{FirstTokenMs: 20, DurationMs: 90, Request: gpt, Response: observability.ModelResponse{Usage: usage(100, 10, 0.5)}})
	s.add(10*hour+120, &observability.Tool{ToolName: "look", DurationMs: 7})
	s.add(10*hour+130, &observability.Tool{ToolName: "look", IsError: true, DurationMs: 900})
	s.add(10*hour+131, &observability.Tool{ToolName: "ask", DurationMs: 0})
	s.add(10*hour+140, &observability.Compaction{IsError: true, Error: &observability.Error{Type: "overflow"}})
	s.add(10*hour+200, &observability.SubmissionSettled{Outcome: "completed", TotalMs: 200, AdmissionMs: 2})

	s.env.Instance, s.env.Submission = "c2", "sub_2"
	s.add(11*hour, &observability.SubmissionQueued{Kind: "direct"})
	s.add(11*hour+1, &observability.SubmissionRunning{Attempt: 1, QueuedMs: 1})
	s.add(11*hour+9, &observability.SubmissionRunning{Attempt: 2, Resumed: true, QueuedMs: 9, Recovered: true})
	s.add(11*hour+10, &observability.SubmissionRecovery{Operation: "start_submission", Fenced: true}, live)
	s.add(11*hour+20, &observability.Turn{DurationMs: 10, IsError: true, Retries: 3, Request: gpt, Response: observability.ModelResponse{Error: &observability.Error{Type: "rate_limit"}}})
	s.add(11*hour+25, &observability.Turn{DurationMs: 9999, Request: gpt, Response: observability.ModelResponse{FinishReason: "handover"}})
	s.add(11*hour+30, &observability.SubmissionSettled{Outcome: "failed", TotalMs: 30, AdmissionMs: 9, Error: &observability.Error{Type: "model_error"}})

	s.env.Agent, s.env.Submission = "other", "sub_3" // the same instance, another address
	s.add(11*hour+40, &observability.SubmissionQueued{Kind: "dispatch"})
	s.add(11*hour+50, &observability.Turn{FirstTokenMs: 4, DurationMs: 8, Request: gpt, Response: observability.ModelResponse{Usage: usage(1, 2, 0.25)}})
	s.add(11*hour+60, &observability.SubmissionSettled{Outcome: "aborted", TotalMs: 20})
	return s.events
}

func TestSummarize(t *testing.T) {
	want := &stats.Summary{
		Events: 18, First: 10 * hour, Last: 11*hour + 60, Conversations: 3,
		Submissions: stats.Submissions{Queued: 3, Completed: 1, Failed: 1, Aborted: 1},
		Recovered:   1, Recoveries: 1, Fences: 1, Compactions: 1, CompactionErrors: 1,
		Admission:  stats.Latency{Count: 2, P50: 9, P90: 9, P99: 9, Max: 9},
		Queue:      stats.Latency{Count: 2, P50: 5, P90: 5, P99: 5, Max: 5},
		FirstToken: stats.Latency{Count: 2, P50: 20, P90: 20, P99: 20, Max: 20},
		Turn:       stats.Latency{Count: 2, P50: 90, P90: 90, P99: 90, Max: 90},
		Settlement: stats.Latency{Count: 3, P50: 30, P90: 200, P99: 200, Max: 200},
		Errors: []stats.ErrorRow{
			{Event: "compaction", Type: "overflow", Count: 1}, {Event: "submission_settled", Type: "model_error", Count: 1},
			{Event: "turn", Type: "rate_limit", Count: 1},
		},
		Models: []stats.ModelRow{
			{Agent: "desk", Provider: "openai", Model: "gpt", Turns: 3, Errors: 1, CutOff: 1, Retries: 3, Tokens: stats.Tokens{Input: 100, Output: 10, CacheRead: 2, CacheWrite: 1, Cost: 0.5}},
			{Agent: "other", Provider: "openai", Model: "gpt", Turns: 1, Tokens: stats.Tokens{Input: 1, Output: 2, CacheRead: 2, CacheWrite: 1, Cost: 0.25}},
		},
		Tools: []stats.ToolRow{
			{Name: "ask", Calls: 1, Latency: stats.Latency{Count: 1}},
			{Name: "look", Calls: 2, Errors: 1, Latency: stats.Latency{Count: 1, P50: 7, P90: 7, P99: 7, Max: 7}},
		},
		Hours: []stats.HourRow{
			{Hour: 10 * hour, Submissions: stats.Submissions{Queued: 1, Completed: 1}, Turns: 1, Tokens: stats.Tokens{Input: 100, Output: 10, CacheRead: 2, CacheWrite: 1, Cost: 0.5}},
			{Hour: 11 * hour, Submissions: stats.Submissions{Queued: 2, Failed: 1, Aborted: 1}, Turns: 3, Tokens: stats.Tokens{Input: 1, Output: 2, CacheRead: 2, CacheWrite: 1, Cost: 0.25}},
		},
		Recent: []stats.Recent{
			{Begun: 11*hour + 40, Submission: "sub_3", Agent: "other", Instance: "c2", Outcome: "aborted", TotalMs: 20, Turns: 1,
				Tokens: stats.Tokens{Input: 1, Output: 2, CacheRead: 2, CacheWrite: 1, Cost: 0.25}},
			{Begun: 11 * hour, Submission: "sub_2", Agent: "desk", Instance: "c2", Outcome: "failed", TotalMs: 30, Error: "model_error", Turns: 2},
			{Begun: 10 * hour, Submission: "sub_1", Agent: "desk", Instance: "c1", Outcome: "completed", TotalMs: 200, Turns: 1,
				Tokens: stats.Tokens{Input: 100, Output: 10, CacheRead: 2, CacheWrite: 1, Cost: 0.5}},
		},
	}
	for name, events := range map[string][]observability.Event{"once": day(), "twice and backwards": reversed(day())} {
		got, err := stats.Summarize(all(events), stats.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestRecentIsBounded reads more submissions than are held, and checks that the newest remain.
func TestRecentIsBounded(t *testing.T) {
	s := newScript()
	for i := range 3000 {
		s.env.Submission = conversation.SubmissionID(fmt.Sprintf("sub_%04d", i))
		s.add(hour+conversation.Time(i), &observability.SubmissionQueued{Kind: "direct"})
	}
	got, err := stats.Summarize(all(s.events), stats.Filter{})
	if err != nil || len(got.Recent) != stats.RecentCount || got.Recent[0].Submission != "sub_2999" || got.Recent[9].Submission != "sub_2990" {
		t.Errorf("%v, %+v", err, got.Recent)
	}
}

func TestSummarizeFilters(t *testing.T) {
	for name, tt := range map[string]struct {
		filter                stats.Filter
		events, conversations int64
		submissions           stats.Submissions
	}{
		"agent":      {stats.Filter{Agent: "other"}, 3, 1, stats.Submissions{Queued: 1, Aborted: 1}},
		"since":      {stats.Filter{Since: 11 * hour}, 10, 2, stats.Submissions{Queued: 2, Failed: 1, Aborted: 1}},
		"until":      {stats.Filter{Until: 10*hour + 200}, 7, 1, stats.Submissions{Queued: 1}},
		"both":       {stats.Filter{Since: 10*hour + 200, Until: 11*hour + 1}, 2, 2, stats.Submissions{Queued: 1, Completed: 1}},
		"no agent":   {stats.Filter{Agent: "none"}, 0, 0, stats.Submissions{}},
		"everything": {stats.Filter{}, 18, 3, stats.Submissions{Queued: 3, Completed: 1, Failed: 1, Aborted: 1}},
	} {
		got, err := stats.Summarize(all(day()), tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		if got.Events != tt.events || got.Conversations != tt.conversations || got.Submissions != tt.submissions {
			t.Errorf("%s: got %d events of %d conversations, %+v; want %d of %d, %+v",
				name, got.Events, got.Conversations, got.Submissions, tt.events, tt.conversations, tt.submissions)
		}
	}
}

// TestQuantiles checks the definition: the index floor(p·n) of the sorted values.
func TestQuantiles(t *testing.T) {
	for n, want := range map[int]stats.Latency{
		1:    {Count: 1, P50: 1, P90: 1, P99: 1, Max: 1},
		2:    {Count: 2, P50: 2, P90: 2, P99: 2, Max: 2},
		10:   {Count: 10, P50: 6, P90: 10, P99: 10, Max: 10},
		100:  {Count: 100, P50: 51, P90: 91, P99: 100, Max: 100},
		1000: {Count: 1000, P50: 501, P90: 901, P99: 991, Max: 1000},
	} {
		s := newScript()
		for i := range n {
			// 1 to n, unordered.
			s.add(hour, &observability.SubmissionSettled{Outcome: "completed", TotalMs: int64((i*7)%n) + 1})
		}
		got, err := stats.Summarize(all(s.events), stats.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Settlement != want {
			t.Errorf("of 1 to %d: %+v, want %+v", n, got.Settlement, want)
		}
	}
}

func TestErrorsOfEventsEndBoth(t *testing.T) {
	if _, err := stats.Summarize(torn(day()), stats.Filter{}); !errors.Is(err, errTorn) {
		t.Errorf("Summarize: got %v", err)
	}
	if _, err := stats.Trace(torn(day()), "sub_1"); !errors.Is(err, errTorn) {
		t.Errorf("Trace: got %v", err)
	}
}
