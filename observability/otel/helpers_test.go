package otel_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/otel"
)

// epoch is time 0 of the tests.
const epoch = conversation.Time(1_767_323_045_000)

const (
	caller      = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "b7ad6b7169203331"
)

// script builds the events of a conversation.
type script struct{ events []observability.Event }

type env = observability.Envelope

// add appends a durable event at a time in milliseconds.
func (s *script) add(ms int64, e env, p observability.Payload) {
	n := int64(len(s.events))
	e.Version, e.ID, e.Seq, e.At, e.Type = observability.Version, fmt.Sprintf("key/%d/0", n), n, epoch+conversation.Time(ms), p.EventType()
	e.Agent, e.Instance = "support", "42"
	e.Submission = cmp.Or(e.Submission, "sub_A")
	s.events = append(s.events, observability.Event{Envelope: e, Payload: p})
}

// root, within and task are scopes of events: the operation of the submission, a turn of it, and a
// subagent with its task.
func root() env {
	return env{Operation: "op_A", Conversation: "conv_A", Session: "default", Harness: "default"}
}

func within(turn conversation.TurnID) env {
	e := root()
	e.Turn = turn
	return e
}

func task(id, parent string, turn conversation.TurnID) env {
	e := env{Operation: "op_" + id, Conversation: conversation.ConversationID("conv_" + id), Turn: turn, Harness: "default"}
	e.Task, e.Session, e.ParentSession = id, "task:"+id, "default"
	if parent != "" {
		e.ParentSession = "task:" + parent
	}
	return e
}

func asked() observability.ModelRequest {
	return observability.ModelRequest{Provider: "work", ProviderName: "openai", Model: "gpt-5", Server: "models.example.com", Port: 8443}
}

func answered(finish string) observability.ModelResponse {
	return observability.ModelResponse{
		ID: "resp_1", Model: "gpt-5-1", FinishReason: finish,
		Usage: &observability.Usage{Input: 100, Output: 20, CacheRead: 30, CacheWrite: 7, Reasoning: 5, Total: 157, Cost: observability.Cost{Total: 0.25}},
	}
}

func call(finish string) *observability.Turn {
	return &observability.Turn{Purpose: "agent", DurationMs: 100, FirstTokenMs: 40, Request: asked(), Response: answered(finish)}
}

func begin(traceparent string) *script {
	s := &script{}
	s.add(0, env{}, &observability.SubmissionQueued{Kind: "direct", Traceparent: traceparent, Body: &observability.Content{Bytes: 5, Text: "hello"}})
	s.add(50, env{}, &observability.SubmissionRunning{Kind: "direct", Attempt: 1, QueuedMs: 50, Traceparent: traceparent})
	s.add(50, root(), &observability.OperationStart{Kind: "prompt"})
	s.add(50, root(), &observability.AgentStart{Attempt: 1})
	return s
}

// end settles the submission after some milliseconds of work.
func (s *script) end(ms, work int64, outcome string, err *observability.Error) *script {
	s.add(ms, root(), &observability.AgentEnd{Reason: "settled", DurationMs: work})
	s.add(ms, root(), &observability.Operation{Kind: "prompt", DurationMs: work, IsError: err != nil, Error: err})
	s.add(ms, root(), &observability.Idle{})
	s.add(ms, env{}, &observability.SubmissionSettled{Kind: "direct", Outcome: outcome, Attempt: 1, WorkMs: work, TotalMs: ms, AdmissionMs: 8, Error: err})
	return s
}

// fixture is a sink with exporters in memory.
type fixture struct {
	*otel.Sink
	spans  *tracetest.InMemoryExporter
	reader *sdkmetric.ManualReader
}

func newFixture(t testing.TB, opts *otel.Options) fixture {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	return newFixtureWith(t, opts, spans, spans)
}

// newFixtureWith uses an exporter that forwards spans to kept.
func newFixtureWith(t testing.TB, opts *otel.Options, spans sdktrace.SpanExporter, kept *tracetest.InMemoryExporter) fixture {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	s, err := otel.NewWith(opts, spans, reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return fixture{s, kept, reader}
}

func (f fixture) write(t testing.TB, events []observability.Event) {
	t.Helper()
	if err := f.Write(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// tree formats spans: name, kind, start and end in milliseconds, and error. A parent that is not among
// them appears at the top as its span id.
func tree(spans tracetest.SpanStubs) string {
	known := map[trace.SpanID]bool{}
	children := map[trace.SpanID][]tracetest.SpanStub{}
	for _, s := range spans {
		known[s.SpanContext.SpanID()] = true
		children[s.Parent.SpanID()] = append(children[s.Parent.SpanID()], s)
	}
	var b strings.Builder
	var draw func(parent trace.SpanID, depth int)
	draw = func(parent trace.SpanID, depth int) {
		slices.SortStableFunc(children[parent], func(x, y tracetest.SpanStub) int {
			return cmp.Or(x.StartTime.Compare(y.StartTime), strings.Compare(x.Name, y.Name))
		})
		for _, s := range children[parent] {
			fmt.Fprintf(&b, "%s%s %s %d-%d", strings.Repeat("  ", depth), s.Name, s.SpanKind,
				s.StartTime.UnixMilli()-int64(epoch), s.EndTime.UnixMilli()-int64(epoch))
			if s.Status.Code == codes.Error {
				fmt.Fprintf(&b, " !%s", attr(s, "error.type").AsString())
			}
			b.WriteString("\n")
			draw(s.SpanContext.SpanID(), depth+1)
		}
	}
	draw(trace.SpanID{}, 0)
	for _, s := range spans {
		if p := s.Parent.SpanID(); p.IsValid() && !known[p] {
			known[p] = true
			fmt.Fprintf(&b, "^%s\n", p)
			draw(p, 1)
		}
	}
	return b.String()
}

func attr(s tracetest.SpanStub, key string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// attrs returns the attributes of a span as lines of key and value.
func attrs(s tracetest.SpanStub) map[string]string {
	m := map[string]string{}
	for _, a := range s.Attributes {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

func find(t testing.TB, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("missing span %q in\n%s", name, tree(spans))
	return tracetest.SpanStub{}
}

// metrics returns one line per series: its labels, count and sum.
func (f fixture) metrics(t testing.TB) []string {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := f.reader.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	var lines []string
	line := func(name, unit string, set attribute.Set, count uint64, sum float64) {
		lines = append(lines, fmt.Sprintf("%s[%s]{%s} %d %.3f", name, unit, set.Encoded(attribute.DefaultEncoder()), count, sum))
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					line(m.Name, m.Unit, p.Attributes, p.Count, p.Sum)
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					line(m.Name, m.Unit, p.Attributes, p.Count, float64(p.Sum))
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					line(m.Name, m.Unit, p.Attributes, 1, float64(p.Value))
				}
			default:
				t.Errorf("metric %s: got type %T", m.Name, d)
			}
		}
	}
	slices.Sort(lines)
	return lines
}
