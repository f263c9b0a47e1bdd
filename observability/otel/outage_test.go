package otel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	colmetric "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/otel"
)

// outage is a collector that a test makes unavailable.
type outage struct {
	*httptest.Server
	traces, metrics atomic.Int64  // status of responses
	asked           chan struct{} // receives a value after each response to metrics
	log             bytes.Buffer  // log of a sink; read after its Close
}

func newOutage(t *testing.T) *outage {
	o := &outage{asked: make(chan struct{}, 1)}
	o.traces.Store(http.StatusOK)
	o.metrics.Store(http.StatusOK)
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			w.WriteHeader(int(o.traces.Load()))
			return
		}
		w.WriteHeader(int(o.metrics.Load()))
		select {
		case o.asked <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *outage) sink(t *testing.T) *otel.Sink {
	t.Helper()
	s, err := otel.New(t.Context(), &otel.Options{Endpoint: o.URL, Logger: slog.New(slog.NewTextHandler(&o.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exports waits until at least one export of metrics has begun and ended.
func (o *outage) exports() {
	for range 4 { // The first may be old, the second may have begun before, and the last may be running.
		<-o.asked
	}
}

// checkLog checks the count of each text in the log.
func (o *outage) checkLog(t *testing.T, want map[string]int) {
	t.Helper()
	for text, n := range want {
		if got := strings.Count(o.log.String(), text); got != n {
			t.Errorf("%q is in the log %d times, want %d:\n%s", text, got, n, o.log.String())
		}
	}
}

// turn and words return an event that ends a span and one that does not, with the id n.
func turn(n int64) []observability.Event { return event(n, call("stop")) }

func textDelta(n int64) []observability.Event { return event(n, &observability.TextDelta{Bytes: 5}) }

func event(n int64, p observability.Payload) []observability.Event {
	s := &script{}
	s.add(n, within("turn_1"), p)
	s.events[0].ID = fmt.Sprintf("key/%d/0", n)
	return s.events
}

// TestOutageIsLoggedOnce writes events with and without spans to a collector that is unavailable for
// 18 requests.
func TestOutageIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := newCollector(t)
	c.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if c.requests <= 18 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		}
		return true
	}
	s := sinkTo(t, c)
	b := observability.NewBuffer(s, &observability.BufferOptions{
		BatchEvents: 1, Attempts: 2, Backoff: time.Millisecond, DrainTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for i := range int64(5) {
		b.Put(textDelta(2*i + 1)...)
		b.Put(turn(2*i + 2)...)
	}
	b.Put(textDelta(11)...) // The collector recovers.
	b.Put(textDelta(12)...)
	b.Put(turn(13)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sink write failed", "sink recovered", "check the collector and its exporters ("} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%q: got %d log records, want 1:\n%s", want, n, log.String())
		}
	}
	got := b.Counts()
	if got.Failures != 18 || got.Dropped != 9 || got.Stored != 4 || c.requests != 20 {
		t.Errorf("counts %+v after %d requests", got, c.requests)
	}
	// The probing span is one of those that were dropped.
	if got := s.Counts(); got.Spans != 2 {
		t.Errorf("counts %+v", got)
	}
}

// TestNoResponse checks the error for a port without a server.
func TestNoResponse(t *testing.T) {
	o := newOutage(t)
	s := o.sink(t)
	o.Close()
	err := s.Write(t.Context(), turn(1))
	if err == nil || !strings.HasPrefix(err.Error(), "export 1 spans: is the collector running, is this its port of OTLP over HTTP (4318; gRPC has 4317)") {
		t.Errorf("Write: %v", err)
	}
	if err := s.Close(t.Context()); err == nil {
		t.Error("Close after lost metrics: got no error")
	}
}

func TestMetricsLossIsLoggedOnce(t *testing.T) {
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "5")
	const away, back = "collector rejects metrics", "collector accepts metrics again"
	write := func(t *testing.T, s *otel.Sink, events []observability.Event, taken bool) {
		t.Helper()
		if err := s.Write(t.Context(), events); (err == nil) != taken {
			t.Errorf("Write: got %v, want accepted: %t", err, taken)
		}
	}
	t.Run("metrics alone", func(t *testing.T) {
		o := newOutage(t)
		s := o.sink(t)
		o.metrics.Store(http.StatusNotFound)
		for i := range int64(5) {
			write(t, s, turn(i), true)
			write(t, s, textDelta(100+i), true)
			o.exports()
		}
		o.metrics.Store(http.StatusOK)
		o.exports()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.checkLog(t, map[string]int{away: 1, back: 1, "check the endpoint, the base of /v1/traces": 1})
	})
	t.Run("with spans", func(t *testing.T) {
		o := newOutage(t)
		s := o.sink(t)
		write(t, s, turn(1), true)
		for part, status := range []int64{http.StatusServiceUnavailable, http.StatusOK, http.StatusBadGateway, http.StatusOK} {
			o.traces.Store(status)
			o.metrics.Store(status)
			for i := range int64(3) {
				write(t, s, turn(10*int64(part+1)+i), status == http.StatusOK)
				o.exports()
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.checkLog(t, map[string]int{"metrics": 0})
	})
	t.Run("without spans", func(t *testing.T) {
		t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
		o := newOutage(t)
		s := o.sink(t)
		o.metrics.Store(http.StatusForbidden)
		for i := range int64(3) {
			write(t, s, turn(i), true)
			o.exports()
		}
		if err := s.Close(t.Context()); err == nil {
			t.Error("Close after lost metrics: got no error")
		}
		o.checkLog(t, map[string]int{away: 1, back: 0, "check the headers": 1})
	})
}

// TestRejectionsAreLoggedOnce uses a collector that rejects everything.
func TestRejectionsAreLoggedOnce(t *testing.T) {
	o := newOutage(t)
	s := o.sink(t)
	o.traces.Store(http.StatusBadRequest)
	for i := range int64(3) {
		var rejected *observability.RejectedError
		if err := s.Write(t.Context(), turn(i)); !errors.As(err, &rejected) || rejected.Events["invalid"] != 1 {
			t.Fatalf("Write: got %v, want one event rejected as invalid", err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.checkLog(t, map[string]int{"collector rejects spans": 1, `msg="spans were rejected" spans=3`: 1})
}

// TestWarningsAreLoggedOnce uses a collector that accepts everything with a warning each time.
func TestWarningsAreLoggedOnce(t *testing.T) {
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "5")
	o := newOutage(t)
	o.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		var answer proto.Message = &coltrace.ExportTraceServiceResponse{
			PartialSuccess: &coltrace.ExportTracePartialSuccess{ErrorMessage: "your quota ends soon"},
		}
		if r.URL.Path == "/v1/metrics" {
			answer = &colmetric.ExportMetricsServiceResponse{
				PartialSuccess: &colmetric.ExportMetricsPartialSuccess{ErrorMessage: "your quota ends soon"},
			}
			defer func() {
				select {
				case o.asked <- struct{}{}:
				default:
				}
			}()
		}
		b, err := proto.Marshal(answer)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(b)
	})
	s := o.sink(t)
	for i := range int64(3) {
		if err := s.Write(t.Context(), turn(i)); err != nil {
			t.Fatal(err)
		}
		o.exports()
	}
	if got, want := s.Counts(), (otel.Counts{Spans: 3}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close without losses: got %v", err)
	}
	o.checkLog(t, map[string]int{"your quota ends soon": 1, "rejects": 0, "does not take metrics": 0})
}
