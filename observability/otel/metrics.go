package otel

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// maxLabel bounds the value of a label, in bytes. The SDK bounds the number of labels.
const maxLabel = 128

// meters are the instruments.
type meters struct {
	chat, agent, tool, admission, queue metric.Float64Histogram
	tokens                              metric.Int64Histogram
	settled                             metric.Int64Counter
}

// chatBounds returns the upper bounds of buckets for model calls, in seconds, of the semantic
// conventions.
func chatBounds() []float64 {
	return []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84}
}

// tokenBounds returns the upper bounds of buckets for token counts, of the semantic conventions.
func tokenBounds() []float64 {
	return []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
}

// workBounds returns the upper bounds of buckets for agents and tools, in seconds, up to four hours.
func workBounds() []float64 {
	return []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400}
}

func newMeters(m metric.Meter) (*meters, error) {
	var errs []error
	duration := func(name, about string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	tokens, err := m.Int64Histogram(metricTokens, metric.WithUnit("{token}"), metric.WithDescription("Tokens of model calls."),
		metric.WithExplicitBucketBoundaries(tokenBounds()...))
	errs = append(errs, err)
	settled, err := m.Int64Counter(metricSettled, metric.WithUnit("{submission}"), metric.WithDescription("Submissions that have settled."))
	errs = append(errs, err)
	return &meters{
		chat:      duration(metricChat, "Duration of model calls.", chatBounds()),
		tokens:    tokens,
		agent:     duration(metricAgent, "Duration of the work on submissions and tasks.", workBounds()),
		tool:      duration(metricTool, "Duration of tool calls.", workBounds()),
		admission: duration(metricAdmission, "Time until the sender of a submission had its receipt.", chatBounds()),
		queue:     duration(metricQueue, "Time from the admission of a submission to its first attempt.", workBounds()),
		settled:   settled,
	}, errors.Join(errs...)
}

// record adds an event to the metrics.
func (m *meters) record(ctx context.Context, e *observability.Event) {
	switch p := e.Payload.(type) {
	case *observability.SubmissionRunning:
		if p.Attempt <= 1 && !p.Resumed {
			m.queue.Record(ctx, seconds(p.QueuedMs), labels(e, attribute.String(keyAgent, e.Agent)))
		}
	case *observability.SubmissionSettled:
		if p.AdmissionMs > 0 {
			m.admission.Record(ctx, seconds(p.AdmissionMs), labels(nil, attribute.String(keyAgent, e.Agent)))
		}
		m.settled.Add(ctx, 1, labels(e, attribute.String(keyOutcome, p.Outcome), attribute.String(keyAgent, e.Agent)))
	case *observability.Operation:
		if e.Task == "" && p.Kind != observability.OperationCompact { // usage of a task is counted by task
			m.invoked(ctx, e, e.Agent, p.DurationMs)
		}
	case *observability.Task:
		m.invoked(ctx, e, p.Agent, p.DurationMs)
	case *observability.Turn:
		m.called(ctx, e, p)
	case *observability.Tool:
		if p.ToolName != conversation.TaskTool {
			m.tool.Record(ctx, seconds(p.DurationMs), labels(e, attribute.String(keyOperation, spanTool),
				attribute.String(keyToolName, p.ToolName), attribute.String(keyToolType, toolFunction), attribute.String(keyAgent, e.Agent)))
		}
	}
}

func (m *meters) invoked(ctx context.Context, e *observability.Event, agent string, ms int64) {
	m.agent.Record(ctx, seconds(ms), labels(e, attribute.String(keyOperation, spanAgent), attribute.String(keyAgent, agent)))
}

func (m *meters) called(ctx context.Context, e *observability.Event, p *observability.Turn) {
	model := modelAttributes(p)
	outcome := model[:len(model):len(model)]
	if p.CutOff() {
		outcome = append(outcome, attribute.String(keyCutOff, p.Response.FinishReason))
	}
	m.chat.Record(ctx, seconds(p.DurationMs), labels(e, outcome...))
	if u := p.Response.Usage; u != nil {
		count := func(kind string, tokens int64) {
			m.tokens.Record(ctx, tokens, labels(nil, append(model[:len(model):len(model)], attribute.String(keyTokenType, kind))...))
		}
		count(tokenInput, u.Input+u.CacheRead+u.CacheWrite)
		count(tokenOutput, u.Output)
	}
}

// labels returns the labels that are not empty, with the error type of the event.
func labels(e *observability.Event, attrs ...attribute.KeyValue) metric.MeasurementOption {
	var kept []attribute.KeyValue
	for _, a := range attrs {
		if a.Value.Type() == attribute.STRING {
			if a.Value.AsString() == "" {
				continue
			}
			a = attribute.String(string(a.Key), short(a.Value.AsString(), maxLabel))
		}
		kept = append(kept, a)
	}
	if e != nil {
		if err := failure(e); err != nil {
			kept = append(kept, attribute.String(keyError, errorLabel(err.Type)))
		}
	}
	return metric.WithAttributes(kept...)
}

// errorLabel returns the type of an error if it is one word of at most 64 characters.
func errorLabel(s string) string {
	const maxError = 64
	letter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	if s == "" || len(s) > maxError || !letter(s[0]) {
		return otherError
	}
	for i := range len(s) {
		if c := s[i]; !letter(c) && (c < '0' || c > '9') && !strings.ContainsRune("_.-", rune(c)) {
			return otherError
		}
	}
	return s
}
