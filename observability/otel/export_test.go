package otel

import (
	"context"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// NewWith returns a sink that exports to the given exporters.
func NewWith(opts *Options, spans sdktrace.SpanExporter, reader sdkmetric.Reader) (*Sink, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := newSink(context.Background(), o, spans)
	if err != nil {
		return nil, err
	}
	s.reader = func() (sdkmetric.Reader, error) { return reader, nil }
	return s, nil
}

// Remembered returns the numbers of submissions, exchanges and events that a sink holds.
func (s *Sink) Remembered() (works, exchanges, events int) {
	if s.contents != nil {
		exchanges = len(s.contents.held.entries)
	}
	return len(s.lineage.works.entries), exchanges, len(s.recent.entries)
}

// Fit truncates content.
func Fit(s string, limit int) (string, int) { return fit(s, limit) }

// ErrorLabel returns the label of an error type.
func ErrorLabel(s string) string { return errorLabel(s) }

// MaxRecent is the number of events held for deduplication.
const MaxRecent = maxRecent
