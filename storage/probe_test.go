package storage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// probed checks the report of a store that passes, and that no object of the probe remains.
func probed(t *testing.T, b storage.Bucket, report *storage.ProbeReport, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range report.Checks {
		if names[c.Name] = true; !c.OK || c.Found == "" {
			t.Errorf("check %+v", c)
		}
	}
	for _, name := range []string{"get after put", "overwrite", "get of a range", "create", "create of an existing key", "create race",
		"delete of an absent key", "create after delete", "list after create", "list after delete", "list prefix", "list start-after", "list pages"} {
		if !names[name] {
			t.Errorf("check %q was not made", name)
		}
	}
	requests := 0
	for _, l := range report.Latencies {
		if requests += l.Count; l.P50 > l.P99 || l.P99 > l.Max || l.Max > report.Took {
			t.Errorf("latency %+v of %v", l, report.Took)
		}
	}
	if len(report.Latencies) != 5 || requests != report.Requests || requests < 550 || requests > 800 {
		t.Errorf("%d requests of %+v", report.Requests, report.Latencies)
	}
	wantKeys(t, b, "")
}

// wantKeys checks that a bucket has exactly these keys below probe/, separated by spaces.
func wantKeys(t *testing.T, b storage.Bucket, want string) {
	t.Helper()
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: "probe/"})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, k := range page.Keys {
		keys = append(keys, k.Key)
	}
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("stored: %q, want %q", got, want)
	}
}

func TestProbe(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		counter := storagetest.NewCounter()
		b := counter.Bucket(memory(t))
		report, err := storage.Probe(t.Context(), b, nil)
		sent := 0
		for _, n := range counter.Counts() {
			sent += n
		}
		if sent != report.Requests {
			t.Errorf("%d requests were sent, %d reported", sent, report.Requests)
		}
		probed(t, b, report, err)
	})
	t.Run("folder", func(t *testing.T) {
		store, err := local.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		report, err := storage.Probe(t.Context(), store, nil)
		probed(t, store, report, err)
	})
	t.Run("versitygw", func(t *testing.T) {
		b := onServer(t, s3server.Versitygw(t))
		report, err := storage.Probe(t.Context(), b, nil)
		probed(t, b, report, err)
	})
	t.Run("at once", func(t *testing.T) { // Concurrent probes do not interfere.
		b := memory(t)
		reports, errs := make([]*storage.ProbeReport, 4), make([]error, 4)
		var wg sync.WaitGroup
		for i := range reports {
			wg.Go(func() { reports[i], errs[i] = storage.Probe(t.Context(), b, nil) })
		}
		wg.Wait()
		for i := range reports {
			probed(t, b, reports[i], errs[i])
		}
	})
}

// TestProbeToleratesLostAnswers checks that lost answers do not fail the store.
func TestProbeToleratesLostAnswers(t *testing.T) {
	type rates = map[storagetest.Kind]float64
	for name, r := range map[string]rates{
		"lost":    {storagetest.LostAck: .1},
		"500":     {storagetest.ErrorAfter: .1},
		"503":     {storagetest.ErrorBefore: .1},
		"timeout": {storagetest.Timeout: .1},
		"delayed": {storagetest.Delayed: .1},
		"all":     {storagetest.LostAck: .05, storagetest.ErrorAfter: .05, storagetest.Timeout: .05, storagetest.Delayed: .05},
	} {
		for seed := range sample.Of[uint64](6, 1) {
			synctest.Test(t, func(t *testing.T) {
				faulty := storagetest.Faulty(memory(t), storagetest.Plan{Seed: seed, Rates: r, Latency: 50 * time.Millisecond})
				// Enough attempts that random faults never use them up.
				opts := &storage.ProbeOptions{Timeout: time.Hour, Retry: storage.Retry{Reads: 20}}
				report, err := storage.Probe(t.Context(), faulty, opts)
				if err != nil {
					t.Errorf("seed %d, %s: %v", seed, name, err)
				}
				if len(report.Checks) != 13 || len(faulty.Injected()) != len(r) {
					t.Errorf("seed %d, %s: %d checks, %v injected", seed, name, len(report.Checks), faulty.Injected())
				}
			})
		}
	}
}

// TestProbeToleratesLateWrites makes a timed-out write land between the two requests that a check
// compares, after any number of others.
func TestProbeToleratesLateWrites(t *testing.T) {
	for _, method := range []string{"PUT", "DELETE"} {
		for after := range sample.Of(6, 2) {
			synctest.Test(t, func(t *testing.T) {
				faulty := storagetest.Faulty(memory(t), storagetest.Plan{DelayRequests: after + 1, Decide: func(op storagetest.Op) storagetest.Kind {
					if op.Method == method && op.Attempt == 0 && !strings.Contains(op.Key, "/race/") {
						return storagetest.Delayed
					}
					return storagetest.None
				}})
				if _, err := storage.Probe(t.Context(), faulty, nil); err != nil {
					t.Errorf("%s lands %d requests later: %v", method, after+1, err)
				}
			})
		}
	}
}

// TestProbeRefuses checks that each defect of a store is detected and named.
func TestProbeRefuses(t *testing.T) {
	for name, tt := range flaws() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory(t)
				report, err := storage.Probe(t.Context(), tt.of(t, store), nil)
				var refused *storage.ProbeError
				if !errors.As(err, &refused) || refused.Check != tt.check {
					t.Fatalf("got %v, want a failure of the check %q", err, tt.check)
				}
				for _, want := range []string{tt.check, refused.Found, "Parley needs " + refused.Need, "docs/buckets.md", "If-None-Match"} {
					if want == "" || !strings.Contains(err.Error(), want) {
						t.Errorf("%q lacks %q", err, want)
					}
				}
				for _, c := range report.Checks {
					if !c.OK {
						if c.Name != tt.check || c.Found != refused.Found {
							t.Errorf("the first failure is %+v, want %q", c, tt.check)
						}
						break
					}
				}
				if len(report.Checks) != 13 {
					t.Errorf("only %d checks were made", len(report.Checks))
				}
				if name != "never deletes" {
					wantKeys(t, store, "")
				}
			})
		})
	}
}

// TestProbeWithoutAnswers checks that a bucket that does not answer, or rejects the caller, is not
// reported as broken, and that the probe ends in time.
func TestProbeWithoutAnswers(t *testing.T) {
	silent := func(_ *testing.T, b storage.Bucket) storage.Bucket {
		return storagetest.Through(b, func(ctx context.Context, c *storagetest.Call) error {
			<-ctx.Done()
			return c.Unanswered(ctx.Err())
		})
	}
	for name, tt := range map[string]struct {
		of   func(*testing.T, storage.Bucket) storage.Bucket
		opts *storage.ProbeOptions
		want error
	}{
		"silent":        {silent, nil, storage.ErrUnavailable},
		"bounded":       {silent, &storage.ProbeOptions{Timeout: time.Second}, storage.ErrUnavailable},
		"unavailable":   {refuses(503, "SlowDown", false), nil, storage.ErrUnavailable},
		"no access":     {refuses(403, "AccessDenied", false), nil, storage.ErrRefused},
		"no bucket":     {refuses(404, "NoSuchBucket", false), nil, storage.ErrRefused},
		"other region":  {refuses(400, "AuthorizationHeaderMalformed", false), nil, storage.ErrRefused},
		"no create":     {refuses(403, "AccessDenied", true), nil, storage.ErrRefused},
		"goes away":     {goesAway, nil, storage.ErrUnavailable},
		"slow to death": {slow, nil, storage.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				report, err := storage.Probe(t.Context(), tt.of(t, memory(t)), tt.opts)
				var refused *storage.ProbeError
				if !errors.Is(err, tt.want) || errors.As(err, &refused) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if took := time.Since(start); took > 2*time.Minute+10*time.Second || name == "bounded" && took > 15*time.Second {
					t.Errorf("took %v", took)
				}
				if report == nil || len(report.Checks) == 13 {
					t.Errorf("report %+v", report)
				}
			})
		})
	}
}

// goesAway stops answering in the middle of a probe.
func goesAway(_ *testing.T, b storage.Bucket) storage.Bucket {
	var sent atomic.Int32
	return storagetest.Through(b, func(ctx context.Context, c *storagetest.Call) error {
		if sent.Add(1) > 300 {
			return c.Answered(503, "SlowDown", nil)
		}
		return c.Do(ctx)
	})
}

// slow answers just before the timeout.
func slow(_ *testing.T, b storage.Bucket) storage.Bucket {
	return storagetest.Through(b, func(ctx context.Context, c *storagetest.Call) error {
		time.Sleep(1900 * time.Millisecond)
		return c.Do(ctx)
	})
}

// TestProbeStopsWithItsCaller checks that a canceled start ends at once.
func TestProbeStopsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int32
		b := storagetest.Through(memory(t), func(ctx context.Context, c *storagetest.Call) error {
			if n.Add(1) == 5 {
				cancel()
			}
			return c.Do(ctx)
		})
		if _, err := storage.Probe(ctx, b, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		wantKeys(t, b, "")
	})
}

func TestEnsureProbed(t *testing.T) {
	b := memory(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ensure := func(endpoint string, at time.Duration, opts *storage.ProbeOptions, wantRun bool) {
		t.Helper()
		report, err := storage.EnsureProbed(t.Context(), b, endpoint, now.Add(at), opts)
		if err != nil || (report != nil) != wantRun {
			t.Errorf("%s after %v: ran %v, %v; want %v", endpoint, at, report != nil, err, wantRun)
		}
	}
	ensure("a:1", 0, nil, true)
	ensure("a:1", 0, nil, false)
	ensure("a:1", 24*time.Hour-1, nil, false)
	ensure("b:1", 0, nil, true)                                // Another endpoint of the same bucket.
	ensure("a:1", 0, &storage.ProbeOptions{Fresh: true}, true) // On request.
	ensure("a:1", -time.Hour, nil, true)                       // A result from the future does not count.
	ensure("a:1", 0, nil, false)
	ensure("a:1", 23*time.Hour, nil, true)
	key := "probe/result/" + sha256Prefix(t, fmt.Sprintf("%x", "a:1"))
	data, err := b.Get(t.Context(), key)
	var kept map[string]any
	if err != nil || json.Unmarshal(data, &kept) != nil || kept["v"] != 1.0 || kept["endpoint"] != "a:1" || kept["ok"] != true ||
		kept["at"] != "2026-01-03T02:04:05Z" || kept["requests"].(float64) < 500 {
		t.Errorf("result %s, %v", data, err)
	}
	at := 23 * time.Hour
	for name, stored := range map[string]string{
		"no JSON":        "x",
		"another probe":  strings.Replace(string(data), `"v":1`, `"v":2`, 1),
		"another's":      strings.Replace(string(data), "a:1", "c:1", 1),
		"a failure":      strings.Replace(string(data), "true", "false", 1),
		"without a time": strings.Replace(string(data), `"at"`, `"x"`, 1),
	} {
		if err := b.Put(t.Context(), key, storage.Bytes([]byte(stored))); err != nil || stored == string(data) {
			t.Fatal(name, err)
		}
		ensure("a:1", at, nil, true)
		ensure("a:1", at, nil, false)
	}
}

// TestEnsureProbedKeepsNoFailure checks that a failure invalidates an earlier success, and is detected
// again each time.
func TestEnsureProbedKeepsNoFailure(t *testing.T) {
	store := memory(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := storage.EnsureProbed(t.Context(), store, "a:1", now, nil); err != nil {
		t.Fatal(err)
	}
	bad := flaws()["ignores If-None-Match"].of(t, store)
	var refused *storage.ProbeError
	if report, err := storage.EnsureProbed(t.Context(), bad, "a:1", now, &storage.ProbeOptions{Fresh: true}); !errors.As(err, &refused) || report == nil {
		t.Errorf("got %v, want a refusal", err)
	}
	for range 2 {
		if report, err := storage.EnsureProbed(t.Context(), bad, "a:1", now, nil); !errors.As(err, &refused) || report == nil {
			t.Errorf("the next start: %v, want a refusal", err)
		}
	}
	if report, err := storage.EnsureProbed(t.Context(), store, "a:1", now, nil); err != nil || report == nil {
		t.Errorf("once it is repaired: %v", err)
	}
}

func TestEnsureProbedCosts(t *testing.T) {
	counter := storagetest.NewCounter()
	b := counter.Bucket(memory(t))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, want := range []int{600, 1} {
		counter.Reset()
		if _, err := storage.EnsureProbed(t.Context(), b, "a:1", now, nil); err != nil {
			t.Fatal(err)
		}
		sent := 0
		for _, n := range counter.Counts() {
			sent += n
		}
		if sent < want || sent > want+want/10 {
			t.Errorf("%d requests, want about %d", sent, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		gone := refuses(503, "SlowDown", false)(t, memory(t))
		var refused *storage.ProbeError
		if _, err := storage.EnsureProbed(t.Context(), gone, "a:1", now, nil); !errors.Is(err, storage.ErrUnavailable) || errors.As(err, &refused) {
			t.Errorf("without answers: %v, want no answer", err)
		}
	})
}
