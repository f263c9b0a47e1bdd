package otel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/observability"
)

// maxRecent is the number of events held for deduplication.
const maxRecent = 32_768

// done records the processing of an event. The zero value is unprocessed.
type done struct {
	write   int64 // last Write that contained it, from 1
	shipped bool  // its span, if any, was sent
}

// Counts are the totals of a sink.
type Counts struct {
	Spans    int64 // accepted by the collector
	Rejected int64 // permanently rejected by the collector
	Repeated int64 // repeated events that were skipped
	Evicted  int64 // trace contexts of callers evicted because of MaxOpen
}

// Sink implements [observability.Sink]. It is safe for concurrent use.
type Sink struct {
	options  Options
	resource *resource.Resource
	linger   time.Duration // see Batch
	spans    sdktrace.SpanExporter
	// reader creates the exporter of metrics on the first Write, because it has a goroutine.
	reader       func() (sdkmetric.Reader, error)
	metricExport *metricExporter // exporter of the reader, nil if a test replaces it
	verdicts     verdicts

	// turn is a semaphore: its holder, which has put a value into it, owns the fields below.
	turn      chan struct{}
	collector *collector
	traces    *sdktrace.TracerProvider
	metrics   *sdkmetric.MeterProvider // nil before the first Write
	meters    *meters
	lineage   *lineage
	contents  *contents // nil without content
	recent    *recent[string, done]
	counts    Counts
	writes    int64
	// probe is a span of the last request if that failed.
	probe *pending
	// rejected counts the rejected spans since the last successful Write.
	rejected *observability.RejectedError
	warned   bool // whether a warning of the collector was logged
	closed   bool
}

// New returns a sink for a collector. It does not connect: an unavailable collector makes Write fail.
func New(ctx context.Context, opts *Options) (*Sink, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	traces, err := newClient("TRACES", os.Getenv)
	if err != nil {
		return nil, err
	}
	linger, err := lingerOf(os.Getenv)
	if err != nil {
		return nil, err
	}
	metrics, err := newClient("METRICS", os.Getenv)
	if err != nil {
		return nil, err
	}
	spans, err := otlptracehttp.New(ctx, append(o.traceOptions(), otlptracehttp.WithHTTPClient(traces))...)
	if err != nil {
		return nil, fmt.Errorf("create trace exporter: %w", err)
	}
	s, err := newSink(ctx, o, spans)
	if err != nil {
		return nil, err
	}
	s.linger = linger
	s.metricExport = &metricExporter{verdicts: s.verdicts, outage: outage.New(o.Logger, outage.Lines{
		Began: "collector rejects metrics", Continues: "collector still rejects metrics", Ended: "collector accepts metrics again",
	}, 0)}
	if s.metricExport.Exporter, err = otlpmetrichttp.New(ctx, append(o.metricOptions(), otlpmetrichttp.WithHTTPClient(metrics))...); err != nil {
		return nil, fmt.Errorf("make exporter of metrics: %w", err)
	}
	s.reader = func() (sdkmetric.Reader, error) { return sdkmetric.NewPeriodicReader(s.metricExport), nil }
	return s, nil
}

func newSink(ctx context.Context, o Options, spans sdktrace.SpanExporter) (*Sink, error) {
	s := &Sink{options: o, spans: spans, verdicts: newVerdicts(), linger: defaultLinger, turn: make(chan struct{}, 1), collector: &collector{}}
	var err error
	if s.resource, err = o.resource(ctx); err != nil {
		return nil, err
	}
	s.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(s.resource),
		sdktrace.WithIDGenerator(generator{}), sdktrace.WithSpanProcessor(s.collector))
	s.lineage = &lineage{
		tracer: s.traces.Tracer(scopeName),
		works: newRecent[string](o.MaxOpen, func(w work) {
			if w.caller.IsValid() {
				s.counts.Evicted++
			}
		}),
		detached: newRecent[string, bool](maxDetached, nil),
	}
	if o.Content {
		s.contents = newContents()
	}
	s.recent = newRecent[string, done](maxRecent, nil)
	return s, nil
}

// Name implements [observability.Sink].
func (*Sink) Name() string { return "otel" }

// Batch implements [observability.Batcher]: one request has the spans of many submissions.
func (s *Sink) Batch() (events int, linger time.Duration) { return batchEvents, s.linger }

// Counts returns the totals. It waits for a Write in progress.
func (s *Sink) Counts() Counts {
	s.turn <- struct{}{}
	defer s.release()
	return s.counts
}

// Write implements [observability.Sink]. It sends the spans that the events end, at most 512 per
// request. It waits for each response until ctx ends or OTEL_EXPORTER_OTLP_TIMEOUT, 10 s by default. A
// request that is too large for the collector is halved; rejected spans result in a
// [*observability.RejectedError]. After any other error the caller must write the same events again:
// accepted spans are skipped then, and none counts twice. A Write without spans resends a failed span
// of the last one.
func (s *Sink) Write(ctx context.Context, events []observability.Event) error {
	if err := s.acquire(ctx); err != nil {
		return fmt.Errorf("write %d events: %w", len(events), err)
	}
	defer s.release()
	if s.closed {
		return fmt.Errorf("write %d events: %w", len(events), os.ErrClosed)
	}
	if err := s.start(); err != nil {
		return err
	}
	s.writes++
	for i := range events {
		s.lineage.learn(&events[i])
		if s.contents != nil {
			s.contents.hold(&events[i])
		}
	}
	// Count everything before sending: metrics include events that are dropped in an outage.
	var fresh []*observability.Event
	for i := range events {
		if s.count(ctx, &events[i]) {
			fresh = append(fresh, &events[i])
		}
	}
	if err := s.send(ctx, fresh); err != nil {
		return err
	}
	if rejected := s.rejected; rejected != nil {
		s.rejected = nil
		return rejected
	}
	return nil
}

// Close exports the remaining metrics and ends the goroutine of the sink, within ctx. Later writes
// fail. It may be called again.
func (s *Sink) Close(ctx context.Context) error {
	if err := s.acquire(ctx); err != nil {
		return fmt.Errorf("close sink: %w", err)
	}
	defer s.release()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.metrics != nil {
		errs = append(errs, s.metrics.Shutdown(ctx))
		if s.metricExport != nil {
			errs = append(errs, s.metricExport.lost())
		}
	}
	if n := s.counts.Rejected; n > 0 {
		s.options.Logger.InfoContext(ctx, "spans were rejected", "spans", n)
	}
	errs = append(errs, s.traces.Shutdown(ctx), s.spans.Shutdown(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close sink: %w", err)
	}
	return nil
}

func (s *Sink) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Sink) release() { <-s.turn }

// start starts the export of metrics, once.
func (s *Sink) start() error {
	if s.metrics != nil {
		return nil
	}
	reader, err := s.reader()
	if err != nil {
		return fmt.Errorf("export metrics: %w", err)
	}
	s.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(s.resource), sdkmetric.WithReader(reader))
	if s.meters, err = newMeters(s.metrics.Meter(scopeName)); err != nil {
		return fmt.Errorf("create instruments: %w", err)
	}
	return nil
}

// count adds an event to the metrics unless counted already, and reports whether its span, if any,
// must be sent.
func (s *Sink) count(ctx context.Context, e *observability.Event) bool {
	if !shows(e) {
		return false
	}
	was := s.recent.at(e.ID)
	if was.shipped || was.write == s.writes {
		s.counts.Repeated++
		return false
	}
	if was.write == 0 {
		s.meters.record(ctx, e)
	}
	s.recent.put(e.ID, done{write: s.writes})
	return true
}

// send creates the spans that events end and sends them in bounded requests, up to the first failure.
func (s *Sink) send(ctx context.Context, events []*observability.Event) error {
	var spans []pending
	bytes := 0
	for _, e := range events {
		p, ok := s.span(e)
		if !ok {
			s.recent.put(e.ID, done{s.writes, true})
			continue
		}
		if len(spans) == maxChunkSpans || (len(spans) > 0 && bytes+p.bytes > maxChunkBytes) {
			if err := s.ship(ctx, spans); err != nil {
				return err
			}
			spans, bytes = spans[:0], 0
		}
		spans, bytes = append(spans, p), bytes+p.bytes
	}
	if len(spans) == 0 && s.probe != nil {
		// Without it, an outage would end and start again with every Write.
		spans = append(spans, *s.probe)
	}
	if len(spans) > 0 {
		return s.ship(ctx, spans)
	}
	if s.metricExport != nil && s.counts.Spans+s.counts.Rejected == 0 {
		s.metricExport.logFailure() // No span will show whether the collector is there.
	}
	return nil
}

// span returns the span that an event ends, false if there is none or the sampler dropped it.
func (s *Sink) span(e *observability.Event) (pending, bool) {
	d, ok := s.lineage.draftOf(e)
	if !ok {
		return pending{}, false
	}
	p := pending{event: e.ID, bytes: spanBytes}
	if s.contents != nil {
		content := s.contents.attributes(e)
		for _, a := range content {
			p.bytes += len(a.Value.AsString())
		}
		d.attrs = append(d.attrs, content...)
	}
	d.end(s.lineage.tracer, e.At)
	if len(s.collector.ended) == 0 {
		return pending{}, false
	}
	p.span = s.collector.ended[0]
	s.collector.ended = s.collector.ended[:0]
	return p, true
}

// shows reports whether an event is in metrics or ends a span.
func shows(e *observability.Event) bool {
	switch e.Payload.(type) {
	case *observability.SubmissionRunning, *observability.SubmissionSettled, *observability.Operation,
		*observability.Turn, *observability.Tool, *observability.Wait, *observability.Post, *observability.Task, *observability.Compaction:
		return true
	}
	return false
}

// answered records whether the collector accepted a request. first is one of its spans.
func (s *Sink) answered(ctx context.Context, first pending, taken bool) {
	wasAway := s.probe != nil
	if s.probe = nil; !taken {
		s.probe = &first
	}
	switch {
	case s.metricExport == nil:
	case wasAway || !taken:
		s.metricExport.excuse()
	default:
		s.metricExport.logFailure()
	}
}

// ship sends spans in one request, and splits it if it is too large for the collector.
func (s *Sink) ship(ctx context.Context, spans []pending) error {
	batch := make([]sdktrace.ReadOnlySpan, len(spans))
	for i := range batch {
		batch[i] = spans[i].span
	}
	err := s.spans.ExportSpans(ctx, batch)
	v := s.verdicts.of(err, len(spans))
	if v.reason == reasonTooLarge && len(spans) > 1 {
		half := len(spans) / 2
		if err := s.ship(ctx, spans[:half]); err != nil {
			return err
		}
		return s.ship(ctx, spans[half:])
	}
	s.answered(ctx, spans[0], v.err == nil)
	if v.err != nil {
		err := fmt.Errorf("export %d spans: %s (%w)", len(spans), s.verdicts.remedy(v.err), v.err)
		if v.reason != "" {
			return &observability.RejectedError{Events: map[string]int{v.reason: len(spans)}, Again: true, Err: err}
		}
		return err
	}
	switch {
	case v.rejected > 0:
		s.reject(ctx, v, err)
	case err != nil && !s.warned:
		s.warned = true
		s.options.Logger.WarnContext(ctx, "collector accepted spans with a warning", "err", err)
	}
	s.counts.Spans += int64(len(spans) - v.rejected)
	for _, p := range spans {
		s.recent.put(p.event, done{s.writes, true})
	}
	return nil
}

// reject counts rejected spans, to be reported by the next successful Write.
func (s *Sink) reject(ctx context.Context, v verdict, err error) {
	if s.counts.Rejected == 0 {
		s.options.Logger.WarnContext(ctx, "collector rejects spans", "spans", v.rejected, "reason", v.reason, "err", err)
	}
	s.counts.Rejected += int64(v.rejected)
	if s.rejected == nil {
		s.rejected = &observability.RejectedError{Events: map[string]int{}, Err: err}
	}
	s.rejected.Events[v.reason] += v.rejected
}
