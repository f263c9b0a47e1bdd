package otel

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parleyrun/parley/internal/outage"
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
	rejected int    // of the spans, because they never will be taken
	reason   string // of that, as [observability.RejectedError] has it
	err      error  // not nil: nothing was taken, but may be later; the reason may be empty
}

// Reasons of rejections.
const (
	reasonTooLarge = "too_large"
	reasonInvalid  = "invalid"
	reasonPartial  = "partial_success"
	reasonPage     = "page"
	reasonLogin    = "unauthorized"
)

// verdicts reads the errors of the OTLP exporter, which has no types for them.
type verdicts struct{ status, busy, partial, warning *regexp.Regexp }

func newVerdicts() verdicts {
	return verdicts{
		status:  regexp.MustCompile(`failed to send (?:metrics )?to \S+: (\d{3}) `),
		busy:    regexp.MustCompile(`retry-able request failure`), // 429, 502, 503 and 504
		partial: regexp.MustCompile(`OTLP partial success: (?s:.*) \((\d+) spans rejected\)`),
		warning: regexp.MustCompile(`OTLP partial success: (?s:.*) \(0 (?:spans|metric data points) rejected\)`),
	}
}

// statusOf returns the status of an answer, "" if the error is about something else.
func (v verdicts) statusOf(err error) string {
	if m := v.status.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// of judges the answer to a request of n spans.
func (v verdicts) of(err error, n int) verdict {
	if err == nil {
		return verdict{}
	}
	switch v.statusOf(err) {
	case "413":
		return verdict{rejected: n, reason: reasonTooLarge}
	case "400", "422":
		return verdict{rejected: n, reason: reasonInvalid}
	}
	if m := v.partial.FindStringSubmatch(err.Error()); m != nil {
		some, convErr := strconv.Atoi(m[1])
		if convErr != nil || some > n {
			some = n
		}
		return verdict{rejected: some, reason: reasonPartial}
	}
	var page *pageError
	switch status := v.statusOf(err); {
	case errors.As(err, &page), strings.HasPrefix(status, "3"):
		return verdict{err: err, reason: reasonPage}
	case status == "401", status == "403":
		return verdict{err: err, reason: reasonLogin}
	}
	return verdict{err: err}
}

// remedy says what to check after an error.
func (v verdicts) remedy(err error) string {
	var page *pageError
	switch status := v.statusOf(err); {
	case errors.As(err, &page), strings.HasPrefix(status, "3"):
		return "a page came in place of a collector's answer: check the endpoint, and the headers if a login is in front of it"
	case status == "" && !v.busy.MatchString(err.Error()):
		return "is the collector running, is this its port of OTLP over HTTP (4318; gRPC has 4317), and does a firewall let it through?"
	case status == "401", status == "403":
		return "check the headers, which have the key for the collector"
	case status == "404", status == "405":
		return "check the endpoint, the base of /v1/traces and /v1/metrics, and that the collector takes both"
	}
	return "check the collector, and what it sends to"
}

// metricExporter tells the logger when metrics begin to be refused and when they are taken
// again, where the SDK would tell a global of every failure. Of a collector that is away
// for spans too it is silent: whoever calls Write knows. The next export has everything
// that a failed one had, except for the last.
type metricExporter struct {
	sdkmetric.Exporter
	outage *outage.Outage
	judge  verdicts

	mu       sync.Mutex
	last     error // of the last export
	unlogged error // the first that failed and nothing explains; logged by logFailure
	logged   bool  // that exports fail
}

// Export implements the SDK's Exporter.
func (m *metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	err := m.Exporter.Export(ctx, rm)
	if err != nil && m.judge.warning.MatchString(err.Error()) {
		err = nil // Everything was taken; of spans the same is logged.
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.last = err; {
	case err == nil:
		m.outage.Succeeded()
		m.unlogged, m.logged = nil, false
	case m.logged:
		m.outage.Report(err, "check", m.judge.remedy(err))
	case m.unlogged == nil:
		m.unlogged = err
	}
	return nil
}

// logFailure is called when the collector has taken spans, or none are sent: that it does not
// take metrics has another reason then.
func (m *metricExporter) logFailure() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unlogged != nil {
		m.outage.Report(m.unlogged, "check", m.judge.remedy(m.unlogged))
		m.unlogged, m.logged = nil, true
	}
}

// excuse is called when the collector is away, and when it is back.
func (m *metricExporter) excuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlogged = nil
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
