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

// maxRecent is how many events are remembered to tell those that come again.
const maxRecent = 32_768

// done says what has happened with an event already. Its zero value: nothing.
type done struct {
	write   int64 // the last Write that had it, from 1
	shipped bool  // its span was sent, if it has one
}

// Counts say what a sink has done since it was made.
type Counts struct {
	Spans    int64 // taken by the collector
	Rejected int64 // refused by the collector for good
	Repeated int64 // events that came again and were left out
	Evicted  int64 // trace contexts of callers forgotten because of MaxOpen
}

// Sink implements [observability.Sink]. It is safe for concurrent use.
type Sink struct {
	options  Options
	resource *resource.Resource
	linger   time.Duration // see Batch
	spans    sdktrace.SpanExporter
	// reader makes what exports metrics, on the first Write: it has a goroutine.
	reader  func() (sdkmetric.Reader, error)
	figures *metricExporter // what the reader exports to, nil if a test gives another
	judge   verdicts

	// turn is held, by one value in it, by who uses what is below.
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
	// owed is a span of the last request, if the collector did not take that.
	owed *pending
	// rejected counts the spans that were rejected since the last Write that succeeded.
	rejected *observability.RejectedError
	warned   bool // that the collector warns of what it takes was logged
	closed   bool
}

// New returns a sink that sends to a collector. It connects to nothing: a collector that
// is away shows in Write.
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
		return nil, fmt.Errorf("make exporter of traces: %w", err)
	}
	s, err := newSink(ctx, o, spans)
	if err != nil {
		return nil, err
	}
	s.linger = linger
	s.figures = &metricExporter{judge: s.judge, outage: outage.New(o.Logger, outage.Lines{
		Began: "collector does not take metrics", Continues: "collector still takes no metrics", Ended: "collector takes metrics again",
	}, 0)}
	if s.figures.Exporter, err = otlpmetrichttp.New(ctx, append(o.metricOptions(), otlpmetrichttp.WithHTTPClient(metrics))...); err != nil {
		return nil, fmt.Errorf("make exporter of metrics: %w", err)
	}
	s.reader = func() (sdkmetric.Reader, error) { return sdkmetric.NewPeriodicReader(s.figures), nil }
	return s, nil
}

func newSink(ctx context.Context, o Options, spans sdktrace.SpanExporter) (*Sink, error) {
	s := &Sink{options: o, spans: spans, judge: newVerdicts(), linger: defaultLinger, turn: make(chan struct{}, 1), collector: &collector{}}
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

// Batch implements [observability.Batcher]: one request to the collector has the spans of
// many submissions.
func (s *Sink) Batch() (events int, linger time.Duration) { return batchEvents, s.linger }

// Counts returns what the sink has done. It waits for a Write in progress.
func (s *Sink) Counts() Counts {
	s.turn <- struct{}{}
	defer s.release()
	return s.counts
}

// Write implements [observability.Sink]. It sends the spans that the events end and
// waits for the collector's answer, until ctx ends or OTEL_EXPORTER_OTLP_TIMEOUT is
// over, 10 s by default, for each 512 spans. A request that is too large for the collector is
// halved; spans that it rejects make a [*observability.RejectedError]. After another error the
// same events are to be given again: those whose span was taken are left out then, and none counts twice. A
// Write that ends no span asks a collector that was away with a span of the last one.
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
	// Everything is counted before anything is sent: what is dropped because the
	// collector is away is still in the metrics.
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

// Close sends the metrics that were not exported yet and ends the goroutine of the
// sink, within ctx. Later writes are refused; it may be called again.
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
		if s.figures != nil {
			errs = append(errs, s.figures.lost())
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

// start begins to export metrics, once.
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
		return fmt.Errorf("make instruments: %w", err)
	}
	return nil
}

// count adds an event to the metrics, unless that was done, and reports whether its span
// is to be sent, if it has one.
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

// send makes the spans that events end and sends them, in requests of a bounded size, up
// to the first that fails.
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
	if len(spans) == 0 && s.owed != nil {
		// Without it, an outage would end and begin again with every Write.
		spans = append(spans, *s.owed)
	}
	if len(spans) > 0 {
		return s.ship(ctx, spans)
	}
	if s.figures != nil && s.counts.Spans+s.counts.Rejected == 0 {
		s.figures.logFailure() // No span will show whether the collector is there.
	}
	return nil
}

// span returns the span that an event ends, false if there is none or the sampler has
// left it out.
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

// answered notes whether the collector took a request, of which first was a part.
func (s *Sink) answered(ctx context.Context, first pending, taken bool) {
	wasAway := s.owed != nil
	if s.owed = nil; !taken {
		s.owed = &first
	}
	switch {
	case s.figures == nil:
	case wasAway || !taken:
		s.figures.excuse()
	default:
		s.figures.logFailure()
	}
}

// ship sends spans in one request, and in smaller ones what is too large for the collector.
func (s *Sink) ship(ctx context.Context, spans []pending) error {
	batch := make([]sdktrace.ReadOnlySpan, len(spans))
	for i := range batch {
		batch[i] = spans[i].span
	}
	err := s.spans.ExportSpans(ctx, batch)
	v := s.judge.of(err, len(spans))
	if v.reason == reasonTooLarge && len(spans) > 1 {
		half := len(spans) / 2
		if err := s.ship(ctx, spans[:half]); err != nil {
			return err
		}
		return s.ship(ctx, spans[half:])
	}
	s.answered(ctx, spans[0], v.err == nil)
	if v.err != nil {
		err := fmt.Errorf("export %d spans: %s (%w)", len(spans), s.judge.remedy(v.err), v.err)
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
		s.options.Logger.WarnContext(ctx, "collector takes spans with a warning, which is logged once", "err", err)
	}
	s.counts.Spans += int64(len(spans) - v.rejected)
	for _, p := range spans {
		s.recent.put(p.event, done{s.writes, true})
	}
	return nil
}

// reject counts spans that the collector refuses, for the end of the Write that succeeds.
func (s *Sink) reject(ctx context.Context, v verdict, err error) {
	if s.counts.Rejected == 0 {
		s.options.Logger.WarnContext(ctx, "collector rejects spans; more of them are only counted", "spans", v.rejected, "reason", v.reason, "err", err)
	}
	s.counts.Rejected += int64(v.rejected)
	if s.rejected == nil {
		s.rejected = &observability.RejectedError{Events: map[string]int{}, Err: err}
	}
	s.rejected.Events[v.reason] += v.rejected
}
