package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// counted returns a status with a different number in every field.
func counted() actors.Status {
	events := &actors.EventStatus{Shipped: 23, Waiting: 24, Behind: 25, Lag: 3500 * time.Millisecond, Lost: 26, Listed: 34}
	events.Sinks = slices.Grow(events.Sinks, 1)[:1]
	events.Sinks[0].Name, events.Sinks[0].Stored, events.Sinks[0].Failures, events.Sinks[0].Failing = "clickhouse", 27, 28, true
	events.Sinks[0].Rejected = observability.Rejections{"invalid": 60, "page": 2}
	events.Sinks[0].Live = observability.BufferCounts{Rejected: observability.Rejections{"invalid": 1}, Emitted: 35, Stored: 100, Failures: 200, DroppedBy: map[observability.Type]int64{"text_delta": 29}}
	return actors.Status{
		Events: events, MemoryLimit: 500, LargeWork: 39, Memory: []memory.Usage{{Account: "readers", Used: 37, Refused: 38}},
		Certificates: []actors.Certificate{{Name: "node", Expires: time.Now().Add(time.Hour)}, {Name: "ca", Expires: time.Now().Add(-time.Hour)}},
		Idle:         []memory.IdleUsage{{Consumer: "followers", Held: 44, Crowded: 45, Tight: 46}},
		Observers: map[string]observability.BufferCounts{
			"stdout": {Emitted: 36, Stored: 30, Failures: 31, DroppedBy: map[observability.Type]int64{"turn": 32, "log": 33}},
		},
		Ready: true, Member: "01ABC", Address: "10.0.0.5:7946", Epoch: 2, Members: 3, Draining: 4, Unreached: 37, Reachable: 5, Others: 6,
		Active: 7, IdleWriters: 8, Suspended: 38, Busy: 9, Followers: 10, QueuedCallers: 11, QueuedSubmissions: 12, Fences: 13, Sweeps: 14, Probes: 15,
		Posts:     actors.PostCounts{Waiting: 51, Delivered: 52, Failed: 53, DeadLettered: 54},
		TakenOver: 16, HandedOver: 17, Refused: 18, Unchecked: 41, Quarantined: 42, Relayed: 19, RelayGaps: 20, FollowerLag: 2500 * time.Millisecond,
		Follower: follower.Stats{Gaps: 21, Loads: 22}, QueuedDispatches: 39, RefusedDispatches: 40,
	}
}

// newServer returns a server over a status and a metered bucket.
func newServer(t *testing.T, status func() actors.Status) (*admin.Server, storage.Bucket) {
	t.Helper()
	meter := admin.NewMeter()
	agents := admin.NewAgents(nil)
	if err := agents.Write(t.Context(), done()); err != nil {
		t.Fatal(err)
	}
	agents.Middleware(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	agents.Middleware(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?live=sse", nil))
	s, err := admin.New(status, &admin.Options{Version: "v9", Meter: meter, Agents: agents, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	return s, meter.Bucket(newBucket(t))
}

func process() admin.Process {
	return admin.Process{
		Connections: 37, ConnectionsMost: 38, SpoolBytes: 42, SpoolRefused: 43, Deliveries: []admin.Deliveries{{Channel: "notes", Result: "admitted", Count: 44}},
		Volumes: []admin.Volume{{Folder: "data", FreeBytes: 39, ReserveBytes: 40, Refused: 41}},
	}
}

func newBucket(t *testing.T) storage.Bucket {
	t.Helper()
	store := local.NewMemory()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// ask returns the server's response.
func ask(s http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestHealth(t *testing.T) {
	for name, tt := range map[string]struct {
		status actors.Status
		code   int
		text   string
	}{
		"ready":     {actors.Status{Ready: true, Reason: "not shown"}, 200, "ready\n"},
		"starting":  {actors.Status{Reason: "starting"}, 503, "not ready: starting\n"},
		"one line":  {actors.Status{Reason: "passive:\nthe bucket\t is not reachable\n"}, 503, "not ready: passive: the bucket is not reachable\n"},
		"no reason": {actors.Status{}, 503, "not ready: unknown reason\n"},
	} {
		s, _ := newServer(t, func() actors.Status { return tt.status })
		if code, text := ask(s, "GET", "/readyz"); code != tt.code || text != tt.text {
			t.Errorf("%s: GET /readyz: got %d %q, want %d %q", name, code, text, tt.code, tt.text)
		}
		if code, text := ask(s, "GET", "/healthz"); code != 200 || text != "ok\n" {
			t.Errorf("%s: GET /healthz: got %d %q", name, code, text)
		}
		if code, text := ask(s, "HEAD", "/readyz"); code != tt.code {
			t.Errorf("%s: HEAD /readyz: got %d %q", name, code, text)
		}
	}
	s, _ := newServer(t, counted)
	for _, tt := range []struct {
		method, path string
		code         int
	}{{"GET", "/", 200}, {"GET", "/debug/pprof/", 404}, {"GET", "/readyz/x", 404}, {"POST", "/readyz", 405}, {"DELETE", "/metrics", 405}} {
		if code, text := ask(s, tt.method, tt.path); code != tt.code {
			t.Errorf("%s %s: got %d %q, want %d", tt.method, tt.path, code, text, tt.code)
		}
	}
}

// samples parses the text format: the values by metric and labels.
func samples(t *testing.T, s http.Handler) map[string]string {
	t.Helper()
	code, text := ask(s, "GET", "/metrics")
	if code != 200 {
		t.Fatalf("GET /metrics: got %d %s", code, text)
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if i := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") && i > 0 {
			all[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return all
}

func TestMetricsOfTheStatus(t *testing.T) {
	s, _ := newServer(t, counted)
	got := samples(t, s)
	for name, want := range map[string]string{
		"parley_ready": "1", "parley_passive": "0", "parley_leaving": "0", "parley_members_epoch": "2", "parley_members": "3",
		"parley_members_draining": "4", "parley_members_unreached": "37", "parley_suspended": "38", "parley_posts_waiting": "51", "parley_posts_delivered_total": "52", "parley_posts_failed_total": "53", "parley_posts_given_up_total": "54", "parley_members_reachable": "5", "parley_members_others": "6", "parley_activations": "7",
		"parley_resting": "8", "parley_pending": "9", "parley_followers": "10", "parley_queued_callers": "11", "parley_queued_submissions": "12",
		"parley_queued_dispatches": "39", "parley_refused_dispatches_total": "40",
		"parley_fences_total": "13", "parley_sweeps_total": "14", "parley_probes_total": "15", "parley_taken_over_total": "16",
		"parley_handed_over_total": "17", "parley_refused_requests_total": "18", "parley_relayed_batches_total": "19", "parley_unchecked_data_total": "41", "parley_conversations_quarantined": "42",
		"parley_relay_gaps_total": "20", "parley_follower_gaps_total": "21", "parley_follower_loads_total": "22", "parley_follower_lag_seconds": "2.5",
		"parley_events_shipped_total": "23", "parley_events_waiting": "24", "parley_events_behind": "25", "parley_events_listed": "34", `parley_events_emitted_total{sink="clickhouse"}`: "35", `parley_events_emitted_total{sink="stdout"}`: "36", "parley_events_lag_seconds": "3.5",
		"parley_events_lost_total": "26", `parley_events_stored_total{sink="clickhouse"}`: "127", `parley_events_failures_total{sink="clickhouse"}`: "228",
		`parley_events_rejected_total{reason="invalid",sink="clickhouse"}`: "61", `parley_events_rejected_total{reason="page",sink="clickhouse"}`: "2",
		`parley_events_failing{sink="clickhouse"}`: "1", `parley_events_dropped_total{sink="clickhouse",type="text_delta"}`: "29",
		`parley_events_stored_total{sink="stdout"}`: "30", `parley_events_failures_total{sink="stdout"}`: "31",
		`parley_events_dropped_total{sink="stdout",type="turn"}`: "32", `parley_events_dropped_total{sink="stdout",type="log"}`: "33",
		`parley_info{address="10.0.0.5:7946",member="01ABC",version="v9"}`: "1",
		"parley_connections": "37", "parley_connections_limit": "38", `parley_volume_free_bytes{folder="data"}`: "39",
		`parley_volume_reserve_bytes{folder="data"}`: "40", `parley_volume_refusals_total{folder="data"}`: "41",
		"parley_spool_bytes": "42", "parley_spool_refused_total": "43", `parley_channel_deliveries_total{channel="notes",result="admitted"}`: "44",
		`parley_idle_bytes{consumer="followers"}`: "44", `parley_idle_dropped_total{consumer="followers",reason="idle"}`: "45",
		`parley_idle_dropped_total{consumer="followers",reason="memory"}`: "46",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if got[name] == "" {
			t.Errorf("metric %s is missing", name)
		}
	}
}

// TestMeterMeasuresRequests makes every kind of request, with each outcome of a healthy bucket.
func TestMeterMeasuresRequests(t *testing.T) {
	s, b := newServer(t, counted)
	ctx, word := t.Context(), storage.Bytes([]byte("word"))
	conv := "ab/abababababababababababababababab/"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Create(ctx, conv+"log/1", word))
	if err := b.Create(ctx, conv+"log/1", word); !errors.Is(err, storage.ErrExists) {
		t.Fatal(err)
	}
	must(b.Put(ctx, conv+"head", word))
	if _, err := b.Get(ctx, conv+"ckpt/none"); !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	if data, err := b.Get(ctx, conv+"head"); err != nil || string(data) != "word" {
		t.Fatal(data, err)
	}
	if data, err := b.GetRange(ctx, conv+"head", 1, 2); err != nil || string(data) != "or" {
		t.Fatal(data, err)
	}
	r, size, err := b.Open(ctx, conv+"head")
	must(err)
	if data, err := io.ReadAll(r); err != nil || string(data) != "word" || size != 4 {
		t.Fatal(data, size, err)
	}
	must(r.Close())
	page, err := b.List(ctx, storage.ListQuery{Prefix: "pending/"})
	if must(err); len(page.Keys) != 0 {
		t.Fatal(page)
	}
	must(b.Delete(ctx, "probe/x"))
	must(b.Delete(ctx, "timer/0/x"))
	must(b.Delete(ctx, "x"))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Get(ended, "format.json"); err == nil {
		t.Fatal("read succeeded after its context ended")
	}
	got := samples(t, s)
	for _, labels := range []string{
		`class="batch",op="create",outcome="ok"`, `class="batch",op="create",outcome="exists"`, `class="head",op="put",outcome="ok"`,
		`class="checkpoint",op="get",outcome="not_found"`, `class="head",op="get",outcome="ok"`, `class="head",op="get_range",outcome="ok"`,
		`class="head",op="open",outcome="ok"`, `class="journal",op="list",outcome="ok"`, `class="probe",op="delete",outcome="ok"`,
		`class="timer",op="delete",outcome="ok"`, `class="other",op="delete",outcome="ok"`,
	} {
		if n := got["parley_bucket_request_seconds_count{"+labels+"}"]; n != "1" {
			t.Errorf("%s was measured %q times, want 1", labels, n)
		}
	}
	if got["parley_bucket_requests_in_flight"] != "0" {
		t.Errorf("in flight: %q", got["parley_bucket_requests_in_flight"])
	}
}

func TestMeteredBucketIsABucket(t *testing.T) {
	storagetest.RunBucket(t, func(t *testing.T) storage.Bucket { return admin.NewMeter().Bucket(newBucket(t)) })
}

// slowBucket blocks each Get until it is released.
type slowBucket struct {
	storage.Bucket
	asked, answer chan struct{}
}

func (b slowBucket) Get(context.Context, string) ([]byte, error) {
	close(b.asked)
	<-b.answer
	return nil, &storage.Error{Op: "get", Kind: storage.ErrUnavailable}
}

func TestMeterCountsWhatIsInFlight(t *testing.T) {
	meter := admin.NewMeter()
	s, err := admin.New(counted, &admin.Options{Meter: meter})
	if err != nil {
		t.Fatal(err)
	}
	slow := slowBucket{asked: make(chan struct{}), answer: make(chan struct{})}
	done := make(chan error)
	go func() {
		_, err := meter.Bucket(slow).Get(t.Context(), "heartbeat/x")
		done <- err
	}()
	<-slow.asked
	if n := samples(t, s)["parley_bucket_requests_in_flight"]; n != "1" {
		t.Errorf("in flight: %q, want 1", n)
	}
	close(slow.answer)
	if err := <-done; !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
	if n := samples(t, s)[`parley_bucket_request_seconds_count{class="heartbeat",op="get",outcome="unavailable"}`]; n != "1" {
		t.Errorf("measured %q times, want 1", n)
	}
}

// TestDocsListTheMetrics compares names and types of a scrape with the table of the page.
// covers: channels/100
func TestDocsListTheMetrics(t *testing.T) {
	s, b := newServer(t, counted)
	if _, err := b.Get(t.Context(), "format.json"); !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	_, text := ask(s, "GET", "/metrics")
	var have []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (parley_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		have = append(have, m[1]+" "+m[2])
		if !strings.Contains(text, "# HELP "+m[1]+" ") {
			t.Errorf("%s has no help", m[1])
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(parley_\\w+)(?:\\{[^}]*\\})?` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		want = append(want, m[1]+" "+m[2])
	}
	slices.Sort(have)
	slices.Sort(want)
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("docs/metrics.md and /metrics (-page +scrape):\n%s", d)
	}
	var classes []string
	for _, k := range storage.KeyTemplates() {
		classes = append(classes, string(k.Kind))
	}
	listed := "`class` is the kind of object: " + strings.Join(classes, ", ") + " or other."
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), listed) {
		t.Errorf("docs/metrics.md lacks: %s", listed)
	}
}

// TestServe sends requests over a connection, and stops the server while a client holds another
// connection open.
func TestServe(t *testing.T) {
	var ready atomic.Bool
	s, _ := newServer(t, func() actors.Status { return actors.Status{Ready: ready.Load(), Reason: "starting"} })
	l, err := net.Listen("tcp", net.JoinHostPort(proc.Host(), "0")) // an address that no other process uses afterwards
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	get := func() (int, string) {
		resp, err := http.Get("http://" + l.Addr().String() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(bytes.TrimSpace(body))
	}
	if code, text := get(); code != 503 || text != "not ready: starting" {
		t.Errorf("%d %q", code, text)
	}
	ready.Store(true)
	if code, text := get(); code != 200 || text != "ready" {
		t.Errorf("%d %q", code, text)
	}
	idle, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got error %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("listener is still open")
	}
}

func TestServeSaysThatItsListenerFailed(t *testing.T) {
	s, _ := newServer(t, counted)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "serve admin") {
		t.Errorf("got error %v", err)
	}
}

// TestCertificatesExpire checks that the metric counts down for each certificate, and becomes
// negative.
func TestCertificatesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certs := []actors.Certificate{{Name: "node", Expires: time.Now().Add(time.Hour)}, {Name: "ca", Expires: time.Now().Add(48 * time.Hour)}}
		s, err := admin.New(func() actors.Status { return actors.Status{Certificates: certs} }, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			after    time.Duration
			node, ca string
		}{{0, "3600", "172800"}, {2 * time.Hour, "-3600", "165600"}} {
			time.Sleep(tt.after)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			for name, left := range map[string]string{"node": tt.node, "ca": tt.ca} {
				if want := fmt.Sprintf("parley_certificate_expires_in_seconds{certificate=%q} %s\n", name, left); !strings.Contains(w.Body.String(), want) {
					t.Errorf("after %v: metrics lack %q", tt.after, want)
				}
			}
		}
	})
}
