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
	// spanBytes is the approximate size of a span without content.
	spanBytes = 2 << 10
)

// collector receives ended spans from the SDK. One Write uses it at a time.
type collector struct{ ended []sdktrace.ReadOnlySpan }

// OnStart implements the SDK's SpanProcessor.
func (*collector) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements the SDK's SpanProcessor.
func (c *collector) OnEnd(s sdktrace.ReadOnlySpan) { c.ended = append(c.ended, s) }

// Shutdown implements the SDK's SpanProcessor.
func (*collector) Shutdown(context.Context) error { return nil }

// ForceFlush implements the SDK's SpanProcessor.
func (*collector) ForceFlush(context.Context) error { return nil }

// pending is a span to be sent.
type pending struct {
	event string // id of its event
	span  sdktrace.ReadOnlySpan
	bytes int // approximate
}

// verdict is the meaning of a response of the collector for the spans of a request.
type verdict struct {
	rejected int    // permanently rejected spans
	reason   string // why, as in [observability.RejectedError]
	err      error  // not nil: nothing was accepted, but a retry may succeed; the reason may be empty
}

// Reasons of rejections.
const (
	reasonTooLarge = "too_large"
	reasonInvalid  = "invalid"
	reasonPartial  = "partial_success"
	reasonPage     = "page"
	reasonLogin    = "unauthorized"
)

// verdicts parses the errors of the OTLP exporter, which has no types for them.
type verdicts struct{ status, busy, partial, warning *regexp.Regexp }

func newVerdicts() verdicts {
	return verdicts{
		status:  regexp.MustCompile(`failed to send (?:metrics )?to \S+: (\d{3}) `),
		busy:    regexp.MustCompile(`retry-able request failure`), // 429, 502, 503 and 504
		partial: regexp.MustCompile(`OTLP partial success: (?s:.*) \((\d+) spans rejected\)`),
		warning: regexp.MustCompile(`OTLP partial success: (?s:.*) \(0 (?:spans|metric data points) rejected\)`),
	}
}

// statusOf returns the status of a response, "" for other errors.
func (v verdicts) statusOf(err error) string {
	if m := v.status.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// of returns the verdict for a request of n spans.
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

// remedy returns the remedy for an error.
func (v verdicts) remedy(err error) string {
	var page *pageError
	switch status := v.statusOf(err); {
	case errors.As(err, &page), strings.HasPrefix(status, "3"):
		return "the response is a page, not a collector's: check the endpoint, and the headers if a login is in front of it"
	case status == "" && !v.busy.MatchString(err.Error()):
		return "is the collector running, is this its port of OTLP over HTTP (4318; gRPC has 4317), and does a firewall let it through?"
	case status == "401", status == "403":
		return "check the headers with the key for the collector"
	case status == "404", status == "405":
		return "check the endpoint, the base of /v1/traces and /v1/metrics, and that the collector takes both"
	}
	return "check the collector and its exporters"
}

// metricExporter logs when the collector starts and stops rejecting metrics, where the SDK would
// report every failure to a global. It does not log an outage that affects spans too, because
// Write returns that. The next export includes everything of a failed one, except for the last.
type metricExporter struct {
	sdkmetric.Exporter
	outage   *outage.Outage
	verdicts verdicts

	mu       sync.Mutex
	last     error // error of the last export
	unlogged error // first failure without an explanation; logged by logFailure
	logged   bool  // whether the failure was logged
}

// Export implements the SDK's Exporter.
func (m *metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	err := m.Exporter.Export(ctx, rm)
	if err != nil && m.verdicts.warning.MatchString(err.Error()) {
		err = nil // Everything was accepted; the same is logged for spans.
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.last = err; {
	case err == nil:
		m.outage.Succeeded()
		m.unlogged, m.logged = nil, false
	case m.logged:
		m.outage.Report(err, "check", m.verdicts.remedy(err))
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
		m.outage.Report(m.unlogged, "check", m.verdicts.remedy(m.unlogged))
		m.unlogged, m.logged = nil, true
	}
}

// excuse is called when the collector is unavailable, and when it has recovered.
func (m *metricExporter) excuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlogged = nil
}

// lost returns the error of the last export, nil if it succeeded.
func (m *metricExporter) lost() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return nil
	}
	return fmt.Errorf("export metrics: %w", m.last)
}
