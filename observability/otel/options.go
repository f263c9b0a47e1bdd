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

// Options configure a [Sink]. The zero value uses the OTEL_* environment.
type Options struct {
	// Endpoint is the base URL of the collector, such as http://127.0.0.1:4318, to which /v1/traces
	// and /v1/metrics are added. If empty, OTEL_EXPORTER_OTLP_ENDPOINT and related variables apply.
	Endpoint string
	// Headers are sent with each export. If empty, OTEL_EXPORTER_OTLP_HEADERS applies.
	Headers map[string]string
	// Content adds the content of events to spans. Content that precedes the end of its span is held
	// for the last 256 spans, at most 57,344 bytes each.
	Content bool
	// ServiceName and ServiceVersion name the service. An empty name uses the OTEL_* environment, else
	// parley.
	ServiceName    string
	ServiceVersion string
	// ServiceInstance distinguishes processes, which have separate metrics. Default: random.
	ServiceInstance string
	// MaxOpen bounds the submissions whose trace context is held, each below 1 KiB. Default 16,384.
	MaxOpen int
	// Logger logs when a collector that accepts spans starts and stops rejecting metrics, and once
	// that it rejects spans. The caller of Write logs outages. Nil discards.
	Logger *slog.Logger
}

const (
	defaultService = "parley"
	defaultMaxOpen = 16_384
)

// withDefaults returns the options with defaults applied, or an error for invalid ones.
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
			return out, fmt.Errorf("endpoint %q: want an http or https URL with only host and path", u.Redacted())
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

// resource describes the process. Options override the environment, which overrides defaults.
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

// traceOptions leave unset options to the environment. The exporter does not retry: the caller of
// Write does, and metrics are cumulative.
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

// at returns the URL of a signal. Precondition: the endpoint is valid.
func (o *Options) at(signal string) string {
	s, err := url.JoinPath(o.Endpoint, signal)
	if err != nil {
		return o.Endpoint
	}
	return s
}
