package otel

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"sync"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxChunkSpans and maxChunkBytes bound one request to the collector.
	maxChunkSpans = 512
	maxChunkBytes = 4 << 20
	// spanBytes is about what a span takes without content.
	spanBytes = 2 << 10
)

// collector takes the spans that end from the SDK. It is used by one Write at a time.
type collector struct{ ended []sdktrace.ReadOnlySpan }

// OnStart implements the SDK's SpanProcessor.
func (*collector) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements the SDK's SpanProcessor.
func (c *collector) OnEnd(s sdktrace.ReadOnlySpan) { c.ended = append(c.ended, s) }

// Shutdown implements the SDK's SpanProcessor.
func (*collector) Shutdown(context.Context) error { return nil }

// ForceFlush implements the SDK's SpanProcessor.
func (*collector) ForceFlush(context.Context) error { return nil }

// pending is a span on its way to the collector.
type pending struct {
	event string // the id of the event it is made of
	span  sdktrace.ReadOnlySpan
	bytes int // about
}

// verdict is what an answer of the collector means for the spans of a request.
type verdict struct {
	rejected int   // of the spans, because they never will be taken
	err      error // not nil: nothing was taken, but may be later
}

// verdicts reads the errors of the OTLP exporter, which has no types for them.
type verdicts struct{ refused, partial *regexp.Regexp }

func newVerdicts() verdicts {
	return verdicts{
		refused: regexp.MustCompile(`failed to send to \S+: (400|413|422) `),
		partial: regexp.MustCompile(`OTLP partial success: (?s:.*) \((\d+) spans rejected\)`),
	}
}

// of judges the answer to a request of n spans.
func (v verdicts) of(err error, n int) verdict {
	if err == nil {
		return verdict{}
	}
	if v.refused.MatchString(err.Error()) {
		return verdict{rejected: n}
	}
	if m := v.partial.FindStringSubmatch(err.Error()); m != nil {
		some, convErr := strconv.Atoi(m[1])
		if convErr != nil || some > n {
			some = n
		}
		return verdict{rejected: some}
	}
	return verdict{err: err}
}

// metricExporter tells the logger of what failed, where the SDK would tell a global. The
// next export has everything that a failed one had, except for the last.
type metricExporter struct {
	sdkmetric.Exporter
	logger *slog.Logger

	mu   sync.Mutex
	last error // of the last export
}

// Export implements the SDK's Exporter.
func (m *metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	err := m.Exporter.Export(ctx, rm)
	m.mu.Lock()
	m.last = err
	m.mu.Unlock()
	if err != nil {
		m.logger.WarnContext(ctx, "metrics were not exported", "err", err)
	}
	return nil
}

// lost returns why the last export failed, nil if it did not.
func (m *metricExporter) lost() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return nil
	}
	return fmt.Errorf("export metrics: %w", m.last)
}
