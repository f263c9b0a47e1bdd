package otel_test

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	colmetric "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/otel"
	"github.com/parleyrun/parley/observability/sinktest"
)

// collector is an OTLP receiver over HTTP that records its input.
type collector struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request) bool // false: not recorded, and answered; may be nil

	mu       sync.Mutex
	spans    map[string]int // count by trace/span name
	requests int            // of spans, accepted or not
	metrics  map[string]bool
	services map[string]bool
	headers  http.Header // of the last request
	bad      []string
}

func newCollector(t *testing.T) *collector {
	c := &collector{spans: map[string]int{}, metrics: map[string]bool{}, services: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := bodyOf(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = r.Header
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.bad = append(c.bad, fmt.Sprintf("%s %s %s %v", r.Method, r.URL, r.Header.Get("Content-Type"), err))
	}
	switch r.URL.Path {
	case "/base/v1/traces":
		c.requests++
		if c.answer == nil || c.answer(w, r) {
			err = c.takeSpans(body)
		}
	case "/base/v1/metrics":
		err = c.takeMetrics(body)
	default:
		err = errors.New("no such path")
	}
	if err != nil {
		c.bad = append(c.bad, fmt.Sprintf("%s: %v", r.URL, err))
	}
}

func bodyOf(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func (c *collector) takeSpans(body []byte) error {
	var req coltrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		return err
	}
	for _, rs := range req.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.services[a.Key+"="+a.Value.GetStringValue()] = true
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans[fmt.Sprintf("%x/%s", s.TraceId, s.Name)]++
			}
		}
	}
	return nil
}

func (c *collector) takeMetrics(body []byte) error {
	var req colmetric.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		return err
	}
	for _, rm := range req.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				c.metrics[m.Name] = true
			}
		}
	}
	return nil
}

func sinkTo(t *testing.T, c *collector) *otel.Sink {
	t.Helper()
	s, err := otel.New(t.Context(), &otel.Options{
		Endpoint: c.URL + "/base/", Headers: map[string]string{"X-Key": "k"}, Content: true, ServiceVersion: "1.2.3", ServiceInstance: "node1",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestCollector(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.version=0")
	c := newCollector(t)
	s := sinkTo(t, c)
	if s.Name() != "otel" {
		t.Errorf("got name %q", s.Name())
	}
	if err := s.Write(t.Context(), append(plain(caller).events, sinktest.Sample()...)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close: got %v, want os.ErrClosed", err)
	}
	if len(c.bad) > 0 {
		t.Errorf("got bad requests %q", c.bad)
	}
	want := map[string]int{"chat gpt-5": 2, "invoke_agent support": 1, "invoke_agent researcher": 1, "execute_tool label": 1, "parley.compaction": 1}
	for name, n := range want {
		if c.spans[callerTrace+"/"+name] != n {
			t.Errorf("got spans %v, want %d of %s", c.spans, n, name)
		}
	}
	for _, want := range []string{"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration", "parley.submission.settled", "parley.submission.admission.duration", "parley.submission.queue.duration"} {
		if !c.metrics[want] {
			t.Errorf("metric %s is missing after Close", want)
		}
	}
	for _, want := range []string{"service.name=parley", "service.version=1.2.3", "service.instance.id=node1", "deployment.environment.name=test"} {
		if !c.services[want] {
			t.Errorf("got resource %v, want %s in it", c.services, want)
		}
	}
	if got := c.headers.Get("X-Key"); got != "k" {
		t.Errorf("header X-Key is %q", got)
	}
}

// TestCollectorRefuses checks which rejections are errors, so that the events are retried, and which
// are permanent.
func TestCollectorRefuses(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return false }
	}
	partial := func(w http.ResponseWriter, _ *http.Request) bool {
		b, err := proto.Marshal(&coltrace.ExportTraceServiceResponse{
			PartialSuccess: &coltrace.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too (old)\nby far"},
		})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, writeErr := w.Write(b)
		return errors.Join(err, writeErr) == nil
	}
	page := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, err := io.WriteString(w, "<!doctype html><title>Sign in</title>")
		return err != nil
	}
	login := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/login" {
			return page(w, r)
		}
		http.Redirect(w, r, "/login", http.StatusFound)
		return false
	}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		again  bool
		want   otel.Counts
		reason string // of the rejection
	}{
		{"unavailable", status(503), true, otel.Counts{Spans: 2, Repeated: 2}, ""},
		{"busy", status(429), true, otel.Counts{Spans: 2, Repeated: 2}, ""},
		{"broken", status(500), true, otel.Counts{Spans: 2, Repeated: 2}, ""},
		{"forbidden", status(403), true, otel.Counts{Spans: 2, Repeated: 2}, "unauthorized"},
		{"page", page, true, otel.Counts{Spans: 2, Repeated: 2}, "page"},
		{"login", login, true, otel.Counts{Spans: 2, Repeated: 2}, "page"},
		{"bad request", status(400), false, otel.Counts{Rejected: 2}, "invalid"},
		{"too large", status(413), false, otel.Counts{Rejected: 2}, "too_large"},
		{"partial", partial, false, otel.Counts{Spans: 1, Rejected: 1}, "partial_success"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCollector(t)
			s := sinkTo(t, c)
			c.answer = tt.answer
			events := plain("").events
			err := s.Write(t.Context(), events)
			var rejected *observability.RejectedError
			switch is := errors.As(err, &rejected); {
			case is != (tt.reason != "") || !is && (err != nil) != tt.again:
				t.Errorf("got error %v, want an error: %t, of reason %q", err, tt.again, tt.reason)
			case is && (rejected.Again != tt.again || !tt.again && rejected.Events[tt.reason] != int(tt.want.Rejected) || tt.again && rejected.Events[tt.reason] == 0):
				t.Errorf("got %v rejected, retryable %t; want %d for %q, retryable %t", rejected.Events, rejected.Again, tt.want.Rejected, tt.reason, tt.again)
			}
			if want := map[string]int{"too_large": 3}[tt.reason]; c.requests != max(1, want) {
				t.Errorf("got %d requests, want %d: the caller repeats", c.requests, max(1, want))
			}
			c.answer = nil
			if tt.again {
				if err := s.Write(t.Context(), events); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.Counts(); got != tt.want {
				t.Errorf("counts are %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestTooLarge checks that requests above the collector's limit are split.
func TestTooLarge(t *testing.T) {
	c := newCollector(t)
	s := sinkTo(t, c)
	c.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength <= 2500 {
			return true
		}
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return false
	}
	var events []observability.Event
	for i := range int64(20) {
		events = append(events, turn(i)...)
	}
	if err := s.Write(t.Context(), events); err != nil {
		t.Errorf("Write: got %v, want nil", err)
	}
	if got := s.Counts(); got.Rejected != 0 || got.Spans != 20 || c.requests < 3 {
		t.Errorf("got counts %+v after %d requests, want 20 spans in parts", got, c.requests)
	}
}

// TestClientOfTheEnvironment checks that the variables of the OTLP exporter apply, and that invalid
// ones are errors.
func TestClientOfTheEnvironment(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, value string
		of, write   string // errors of New and of Write
	}{
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", ca, "", ""},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "", "", "certificate"},
		{"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", ca + ".none", "read OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", ""},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "read OTEL_EXPORTER_OTLP_TIMEOUT", ""},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", ca, "read OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", ""},
	} {
		t.Run(tt.name+"="+filepath.Base(tt.value), func(t *testing.T) {
			t.Setenv(tt.name, tt.value)
			s, err := otel.New(t.Context(), &otel.Options{Endpoint: secure.URL})
			if tt.of != "" {
				if err == nil || !strings.Contains(err.Error(), tt.of) {
					t.Errorf("New: got %v, want %q", err, tt.of)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = s.Write(t.Context(), turn(1))
			if (err != nil) != (tt.write != "") || err != nil && !strings.Contains(err.Error(), tt.write) {
				t.Errorf("Write: got %v, want %q", err, tt.write)
			}
			_ = s.Close(t.Context()) // Metrics have the same fault.
		})
	}
}

// TestCollectorHangs checks that a Write ends with its context, as does one that waits for it.
func TestCollectorHangs(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer hang.Close()
	defer close(release)
	s, err := otel.New(t.Context(), &otel.Options{Endpoint: hang.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 2)
	for range 2 {
		go func() { result <- s.Write(ctx, plain("").events) }()
	}
	<-arrived
	cancel()
	for range 2 {
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("Write: got %v, want context.Canceled", err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: got %v, want context.Canceled", err)
	}
}

// flaky rejects the requests whose numbers are in fails, from 1.
type flaky struct {
	*tracetest.InMemoryExporter
	fails map[int]bool
	n     int
	sizes []int
}

func (f *flaky) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	f.n++
	if f.fails[f.n] {
		return errors.New("connection refused")
	}
	f.sizes = append(f.sizes, len(spans))
	return f.InMemoryExporter.ExportSpans(ctx, spans)
}

// TestFailsHalfway checks that no span is lost or counted twice when a Write fails after some of its
// spans.
func TestFailsHalfway(t *testing.T) {
	down := &flaky{InMemoryExporter: tracetest.NewInMemoryExporter(), fails: map[int]bool{2: true, 3: true}}
	f := newFixtureWith(t, nil, down, down.InMemoryExporter)
	s := begin("")
	for i := range 1200 {
		s.add(int64(100+i), within("turn_1"), call("stop"))
	}
	s.end(2000, 1900, "completed", nil)
	var seen []string
	for try := range 3 {
		err := f.Write(t.Context(), s.events)
		if (err != nil) != (try < 2) {
			t.Fatalf("try %d: %v", try, err)
		}
		seen = append(seen, strings.Join(f.metrics(t), "\n"))
	}
	if seen[0] != seen[1] || seen[1] != seen[2] {
		t.Errorf("got different metrics per try:\n%s", strings.Join(seen, "\n--\n"))
	}
	if diff := cmp.Diff([]int{512, 512, 177}, down.sizes); diff != "" {
		t.Errorf("sizes of requests (-want +got):\n%s", diff)
	}
	ids := map[string]int{}
	for _, s := range f.spans.GetSpans() {
		ids[s.SpanContext.SpanID().String()]++
	}
	if len(ids) != 1201 || len(f.spans.GetSpans()) != 1201 || f.Counts().Spans != 1201 {
		t.Errorf("got %d spans with %d ids, count %d, want 1201", len(f.spans.GetSpans()), len(ids), f.Counts().Spans)
	}
}

// TestLargeSpans checks that a request is bounded by bytes too.
func TestLargeSpans(t *testing.T) {
	large := &flaky{InMemoryExporter: tracetest.NewInMemoryExporter()}
	f := newFixtureWith(t, &otel.Options{Content: true}, large, large.InMemoryExporter)
	s := begin("")
	for range 200 {
		s.add(100, within("turn_1"), &observability.Tool{ToolName: "read", Result: content(strings.Repeat("x", budget))})
	}
	f.write(t, s.events)
	if len(large.sizes) < 3 {
		t.Errorf("got requests of %v spans of 56 KiB, want at most 4 MiB each", large.sizes)
	}
}

func TestOptions(t *testing.T) {
	for _, endpoint := range []string{"collector:4318", "ftp://a", "http://", "http://user:secret@a", "http://a?b", "http://a b", "::"} {
		_, err := otel.New(t.Context(), &otel.Options{Endpoint: endpoint})
		if err == nil {
			t.Errorf("endpoint %q: got no error", endpoint)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("error contains a password: %v", err)
		}
	}
	if _, err := otel.New(t.Context(), &otel.Options{MaxOpen: -1}); err == nil {
		t.Error("negative MaxOpen: got no error")
	}
	s, err := otel.New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close without a Write: got %v", err)
		}
	}
}

// exports counts span requests.
type exports struct {
	*tracetest.InMemoryExporter
	requests, spans int
}

func (e *exports) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.requests++
	e.spans += len(spans)
	return e.InMemoryExporter.ExportSpans(ctx, spans)
}

// TestSpansAreBatched checks that, behind a buffer, successive submissions share requests to the
// collector, and that none waits longer than the schedule delay.
func TestSpansAreBatched(t *testing.T) {
	const submissions, pause = 900, 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		spans := &exports{InMemoryExporter: tracetest.NewInMemoryExporter()}
		f := newFixtureWith(t, nil, spans, spans.InMemoryExporter)
		b := observability.NewBuffer(f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		first := plain("").events
		b.Put(first...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if spans.requests != 1 || spans.spans != 2 {
			t.Errorf("5 s after the first submission: got %d requests with %d spans, want 1 with 2", spans.requests, spans.spans)
		}
		for i := range submissions {
			for _, e := range first {
				e.ID = fmt.Sprintf("%d/%s", i, e.ID)
				e.Submission = conversation.SubmissionID(fmt.Sprintf("sub_%d", i))
				b.Put(e)
			}
			time.Sleep(pause)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// One per 5 s, and one at the end.
		if want := int(submissions*pause/(5*time.Second)) + 2; spans.requests > want || spans.spans != 2*(submissions+1) {
			t.Errorf("%d submissions in %v: got %d requests with %d spans, want at most %d with %d", submissions, submissions*pause, spans.requests, spans.spans, want, 2*(submissions+1))
		}
	})
}

// TestScheduleDelay checks that the delay comes from the OpenTelemetry environment.
func TestScheduleDelay(t *testing.T) {
	for _, test := range []struct {
		value, problem string
		want           time.Duration
	}{
		{"", "", 5 * time.Second}, {"250", "", 250 * time.Millisecond}, {"0", "", 0},
		{"5s", `read OTEL_BSP_SCHEDULE_DELAY: "5s" is not a number of milliseconds`, 0},
	} {
		t.Setenv("OTEL_BSP_SCHEDULE_DELAY", test.value)
		s, err := otel.New(t.Context(), nil)
		if err != nil {
			if err.Error() != test.problem {
				t.Errorf("OTEL_BSP_SCHEDULE_DELAY=%q: got error %v, want %q", test.value, err, test.problem)
			}
			continue
		}
		if _, got := s.Batch(); got != test.want || test.problem != "" {
			t.Errorf("OTEL_BSP_SCHEDULE_DELAY=%q: got %v, want %v and error %q", test.value, got, test.want, test.problem)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
