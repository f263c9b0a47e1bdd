package otel_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/observability/otel"
)

const model = "gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=gpt-5,gen_ai.response.model=gpt-5-1,"

const server = "server.address=models.example.com,server.port=8443"

func TestMetrics(t *testing.T) {
	admitted := "parley.submission.admission.duration[s]{gen_ai.agent.name=support} 1 0.008"
	queued := "parley.submission.queue.duration[s]{gen_ai.agent.name=support} 1 0.050"
	tests := []struct {
		name   string
		script *script
		want   []string
	}{
		{"plain", plain(""), []string{
			"gen_ai.client.operation.duration[s]{" + model + server + "} 1 0.100",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=input," + server + "} 1 137.000",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=output," + server + "} 1 20.000",
			"gen_ai.invoke_agent.duration[s]{gen_ai.agent.name=support,gen_ai.operation.name=invoke_agent} 1 0.200",
			admitted,
			queued,
			"parley.submission.settled[{submission}]{gen_ai.agent.name=support,parley.submission.outcome=completed} 1 1.000",
		}},
		{"subagents", subagents(), []string{
			"gen_ai.client.operation.duration[s]{" + model + server + "} 3 0.300",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=input," + server + "} 3 411.000",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=output," + server + "} 3 60.000",
			"gen_ai.execute_tool.duration[s]{gen_ai.agent.name=support,gen_ai.operation.name=execute_tool,gen_ai.tool.name=look,gen_ai.tool.type=function} 1 0.010",
			"gen_ai.invoke_agent.duration[s]{error.type=failed,gen_ai.agent.name=checker,gen_ai.operation.name=invoke_agent} 1 0.180",
			"gen_ai.invoke_agent.duration[s]{gen_ai.agent.name=reader,gen_ai.operation.name=invoke_agent} 1 0.390",
			"gen_ai.invoke_agent.duration[s]{gen_ai.agent.name=support,gen_ai.operation.name=invoke_agent} 1 0.650",
			admitted,
			queued,
			"parley.submission.settled[{submission}]{gen_ai.agent.name=support,parley.submission.outcome=completed} 1 1.000",
		}},
		{"retry", retry(), []string{
			"gen_ai.client.operation.duration[s]{" + "error.type=overloaded," + model + server + "} 1 0.100",
			"gen_ai.client.operation.duration[s]{" + model + server + "} 1 0.100",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=input," + server + "} 1 137.000",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=output," + server + "} 1 20.000",
			"gen_ai.invoke_agent.duration[s]{gen_ai.agent.name=support,gen_ai.operation.name=invoke_agent} 1 0.400",
			admitted,
			queued,
			"parley.submission.settled[{submission}]{gen_ai.agent.name=support,parley.submission.outcome=completed} 1 1.000",
		}},
		{"recovered", recovered(), []string{
			"gen_ai.client.operation.duration[s]{" + model + server + "} 2 0.200",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=input," + server + "} 2 274.000",
			"gen_ai.client.token.usage[{token}]{" + model + "gen_ai.token.type=output," + server + "} 2 40.000",
			"gen_ai.invoke_agent.duration[s]{gen_ai.agent.name=support,gen_ai.operation.name=invoke_agent} 1 0.300",
			admitted,
			queued,
			"parley.submission.settled[{submission}]{gen_ai.agent.name=support,parley.submission.outcome=completed} 1 1.000",
		}},
		{"abort queued", abortQueued(), []string{
			"parley.submission.settled[{submission}]{error.type=submission_aborted,gen_ai.agent.name=support,parley.submission.outcome=aborted} 1 1.000",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.write(t, tt.script.events)
			if diff := cmp.Diff(tt.want, f.metrics(t)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			// Repeated events, in one Write or in several, are skipped.
			before := f.Counts().Spans
			f.write(t, append(tt.script.events, tt.script.events...))
			if diff := cmp.Diff(tt.want, f.metrics(t)); diff != "" {
				t.Errorf("metrics after the same events again (-want +got):\n%s", diff)
			}
			if got := f.Counts(); got.Spans != before || got.Repeated == 0 {
				t.Errorf("counts after the same events again are %+v, want %d spans and some repeated", got, before)
			}
		})
	}
}

func TestTwiceInOneWrite(t *testing.T) {
	f := newFixture(t, nil)
	events := plain("").events
	f.write(t, append(events[:len(events):len(events)], events...))
	if got := len(f.spans.GetSpans()); got != 2 {
		t.Errorf("%d spans, want 2", got)
	}
	if got := f.metrics(t); !strings.HasSuffix(got[0], " 1 0.100") {
		t.Errorf("%q counts a model call more than once", got[0])
	}
}

func TestErrorLabel(t *testing.T) {
	long := strings.Repeat("a", 64)
	for in, want := range map[string]string{
		"overloaded": "overloaded", "http.status_503-x": "http.status_503-x", long: long, "Z": "Z",
		long + "a": "_OTHER", "": "_OTHER", "5xx": "_OTHER", "_x": "_OTHER", "two words": "_OTHER", "grün": "_OTHER", "a\x00": "_OTHER", "@a": "_OTHER", "a[": "_OTHER",
	} {
		if got := otel.ErrorLabel(in); got != want {
			t.Errorf("ErrorLabel(%q) = %q, want %q", in, got, want)
		}
	}
}
