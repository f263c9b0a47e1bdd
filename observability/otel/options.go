package otel

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Options configure a [Sink]. The zero value works: it sends to where the OTEL_*
// environment says.
type Options struct {
	// Endpoint is the base URL of the collector, such as http://127.0.0.1:4318, to which
	// /v1/traces and /v1/metrics are added. Empty: OTEL_EXPORTER_OTLP_ENDPOINT and its
	// kin.
	Endpoint string
	// Headers are sent with each export. Empty: OTEL_EXPORTER_OTLP_HEADERS.
	Headers map[string]string
	// Content puts what people, models and tools have said on spans, where events have
	// it. What is said ahead of the end of a span is held for the last 256 of them, at
	// most 57,344 bytes each.
	Content bool
	// ServiceName and ServiceVersion name the service. An empty name is that of the OTEL_*
	// environment, else parley.
	ServiceName    string
	ServiceVersion string
	// ServiceInstance tells processes apart, whose metrics are theirs alone. Default:
	// random.
	ServiceInstance string
	// MaxOpen bounds the submissions of which the trace context is remembered, each
	// below 1 KiB. Default 16,384.
	MaxOpen int
	// Logger is told when a collector that takes spans begins and ceases to refuse metrics,
	// and once of spans that it rejects. That it is away is for the caller of Write, who
	// has the error, to tell. Nil discards.
	Logger *slog.Logger
}

const (
	defaultService = "parley"
	defaultMaxOpen = 16_384
)

// withDefaults returns the options with every field set, or what is wrong in them.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Endpoint != "" {
		u, err := url.Parse(out.Endpoint)
		if err != nil {
			return out, fmt.Errorf("parse endpoint: %w", err)
		}
		if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return out, fmt.Errorf("endpoint %q is not a URL of http or https with host and path alone", u.Redacted())
		}
	}
	if out.MaxOpen < 0 {
		return out, fmt.Errorf("max open is %d, must not be negative", out.MaxOpen)
	}
	if out.MaxOpen == 0 {
		out.MaxOpen = defaultMaxOpen
	}
	if out.ServiceInstance == "" {
		out.ServiceInstance = rand.Text()
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out, nil
}

// resource describes the process. What is set in code wins over the environment, and
// the environment over defaults.
func (o *Options) resource(ctx context.Context) (*resource.Resource, error) {
	attrs := []attribute.KeyValue{attribute.String(keyServiceInstance, o.ServiceInstance)}
	if o.ServiceName != "" {
		attrs = append(attrs, attribute.String(keyServiceName, o.ServiceName))
	}
	if o.ServiceVersion != "" {
		attrs = append(attrs, attribute.String(keyServiceVersion, o.ServiceVersion))
	}
	r, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String(keyServiceName, defaultService)),
		resource.WithFromEnv(),
		resource.WithAttributes(attrs...))
	if err != nil {
		return nil, fmt.Errorf("read resource of the environment: %w", err)
	}
	return r, nil
}

// traceOptions and metricOptions leave to the environment what is not set. Nothing is
// sent twice by itself: whoever calls Write does that, and metrics are cumulative.
func (o *Options) traceOptions() []otlptracehttp.Option {
	opts := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{})}
	if o.Endpoint != "" {
		opts = append(opts, otlptracehttp.WithEndpointURL(o.at("v1/traces")))
	}
	if len(o.Headers) > 0 {
		opts = append(opts, otlptracehttp.WithHeaders(o.Headers))
	}
	return opts
}

func (o *Options) metricOptions() []otlpmetrichttp.Option {
	opts := []otlpmetrichttp.Option{otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{})}
	if o.Endpoint != "" {
		opts = append(opts, otlpmetrichttp.WithEndpointURL(o.at("v1/metrics")))
	}
	if len(o.Headers) > 0 {
		opts = append(opts, otlpmetrichttp.WithHeaders(o.Headers))
	}
	return opts
}

// at returns the address of a signal. Invariant: the endpoint was checked.
func (o *Options) at(signal string) string {
	s, err := url.JoinPath(o.Endpoint, signal)
	if err != nil {
		return o.Endpoint
	}
	return s
}
