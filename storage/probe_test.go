package storage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// probed checks a report of a store that passes, and that nothing is left of the
// probe.
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

// wantKeys checks that a bucket has these keys below probe/, separated by spaces.
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
		counter := storagetest.NewTransportCounter(memory(t))
		b := bucket(t, counter)
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
		b := unsigned(t, store)
		report, err := storage.Probe(t.Context(), b, nil)
		probed(t, b, report, err)
	})
	t.Run("versitygw", func(t *testing.T) {
		o := onServer(t, s3server.Versitygw(t))
		b := open(t, &o)
		report, err := storage.Probe(t.Context(), b, nil)
		probed(t, b, report, err)
	})
	t.Run("at once", func(t *testing.T) { // Probes do not get into each other's way.
		b := unsigned(t, memory(t))
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

// TestProbeBearsLostAnswers: what a network loses is not the store's fault.
func TestProbeBearsLostAnswers(t *testing.T) {
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
				faulty := storagetest.FaultyTransport(memory(t), storagetest.Plan{Seed: seed, Rates: r, Latency: 50 * time.Millisecond})
				// So many attempts that chance never uses them up.
				opts := &storage.ProbeOptions{Timeout: time.Hour, Retry: storage.Retry{Reads: 20}}
				report, err := storage.Probe(t.Context(), unsigned(t, faulty), opts)
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

// TestProbeBearsLateLandings: a write that was given up lands between the two
// requests that a check compares, after any number of others.
func TestProbeBearsLateLandings(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		for after := range sample.Of(6, 2) {
			synctest.Test(t, func(t *testing.T) {
				faulty := storagetest.FaultyTransport(memory(t), storagetest.Plan{DelayRequests: after + 1, Decide: func(op storagetest.Op) storagetest.Kind {
					if op.Method == method && op.Attempt == 0 && !strings.Contains(op.Key, "/race/") {
						return storagetest.Delayed
					}
					return storagetest.None
				}})
				if _, err := storage.Probe(t.Context(), unsigned(t, faulty), nil); err != nil {
					t.Errorf("%s lands %d requests later: %v", method, after+1, err)
				}
			})
		}
	}
}

// transport is a store that does what the function says.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is the answer of a store that does not do what it is asked.
func answer(r *http.Request, status int, code string) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	body := "<Error><Code>" + code + "</Code></Error>"
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/xml"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// broken are stores that each do one thing wrong, with the check that finds it.
func broken() map[string]struct {
	check string
	make  func(next http.RoundTripper) http.RoundTripper
} {
	type store = struct {
		check string
		make  func(next http.RoundTripper) http.RoundTripper
	}
	return map[string]store{
		"ignores If-None-Match": {"create of an existing key", func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				r.Header.Del("If-None-Match")
				return next.RoundTrip(r)
			})
		}},
		"checks, then puts":         {"create race", checksThenPuts},
		"stores the last of a race": {"create race", storesTheLast},
		"ignores start-after": {"list start-after", func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				q := r.URL.Query()
				q.Del("start-after")
				r.URL.RawQuery = q.Encode()
				return next.RoundTrip(r)
			})
		}},
		"ignores max-keys": {"list pages", func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				q := r.URL.Query()
				q.Del("max-keys")
				r.URL.RawQuery = q.Encode()
				return next.RoundTrip(r)
			})
		}},
		"ignores the prefix": {"list after create", func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				q := r.URL.Query()
				q.Del("prefix")
				r.URL.RawQuery = q.Encode()
				return next.RoundTrip(r)
			})
		}},
		"ignores Range": {"get of a range", func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				r.Header.Del("Range")
				return next.RoundTrip(r)
			})
		}},
		"lists late":   {"list after create", func(next http.RoundTripper) http.RoundTripper { return lags(next, "LIST", http.MethodPut) }},
		"unlists late": {"list after delete", func(next http.RoundTripper) http.RoundTripper { return lags(next, "LIST", http.MethodDelete) }},
		"reads late":   {"get after put", func(next http.RoundTripper) http.RoundTripper { return lags(next, http.MethodGet, http.MethodPut) }},
		"has a cache":  {"overwrite", caches},
		"deletes late": {"create after delete", func(next http.RoundTripper) http.RoundTripper { return lags(next, http.MethodGet, http.MethodDelete) }},
		"never deletes": {"create after delete", func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodDelete {
					return answer(r, http.StatusNoContent, "")
				}
				return next.RoundTrip(r)
			})
		}},
		"answers 412 to every create": {"create", refuses(412, "PreconditionFailed", true)},
		"answers 412":                 {"get after put", refuses(412, "PreconditionFailed", false)},
		"answers 409 to every create": {"create", refuses(409, "OperationAborted", true)},
		"answers 501 to every create": {"create", refuses(501, "NotImplemented", true)},
		"answers 400 to every create": {"create", refuses(400, "InvalidArgument", true)},
		"answers 501":                 {"get after put", refuses(501, "NotImplemented", false)},
	}
}

// refuses answers a status, either to creates or to everything.
func refuses(status int, code string, creates bool) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if creates && r.Header.Get("If-None-Match") == "" {
				return next.RoundTrip(r)
			}
			return answer(r, status, code)
		})
	}
}

// checksThenPuts takes a moment between looking for an object and storing one.
func checksThenPuts(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("If-None-Match") == "" {
			return next.RoundTrip(r)
		}
		look := r.Clone(r.Context())
		look.Method, look.Body, look.ContentLength, look.Header = http.MethodGet, nil, 0, http.Header{}
		found, err := next.RoundTrip(look)
		if err != nil {
			return nil, err
		}
		found.Body.Close()
		if found.StatusCode == http.StatusOK {
			return answer(r, http.StatusPreconditionFailed, "PreconditionFailed")
		}
		time.Sleep(time.Millisecond)
		r.Header.Del("If-None-Match")
		return next.RoundTrip(r)
	})
}

// storesTheLast tells the first create of a key that it won, and keeps the bytes of
// one that came while that was under way.
func storesTheLast(next http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	began := map[string]time.Time{}
	return transport(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("If-None-Match") == "" {
			return next.RoundTrip(r)
		}
		mu.Lock()
		at, late := began[r.URL.Path]
		if !late {
			began[r.URL.Path] = time.Now()
		}
		mu.Unlock()
		time.Sleep(time.Millisecond)
		if late && time.Since(at) > time.Millisecond {
			return next.RoundTrip(r)
		}
		r.Header.Del("If-None-Match")
		resp, err := next.RoundTrip(r)
		if err == nil && late {
			resp.Body.Close()
			return answer(r, http.StatusPreconditionFailed, "PreconditionFailed")
		}
		return resp, err
	})
}

// lags shows what a method of writing did only to the reads of another one that are
// sent a second later: it withholds the write until then, and answers it at once.
func lags(next http.RoundTripper, reads, writes string) http.RoundTripper {
	type write struct {
		at  time.Time
		key string
	}
	var mu sync.Mutex
	var recent []write
	return transport(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		mu.Lock()
		defer mu.Unlock()
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		isRead := r.Method
		if r.URL.Query().Has("list-type") {
			isRead = "LIST"
		}
		switch {
		case err != nil:
		case r.Method == writes:
			recent = append(recent, write{time.Now(), key})
		case isRead == reads:
			for _, w := range recent {
				if time.Since(w.at) >= time.Second {
					continue
				}
				if resp, err = forget(r, resp, w.key, writes == http.MethodDelete); err != nil {
					break
				}
			}
		}
		return resp, err
	})
}

// forget answers a read as if a key had not been stored yet, or not been deleted.
func forget(r *http.Request, resp *http.Response, key string, deleted bool) (*http.Response, error) {
	if !r.URL.Query().Has("list-type") {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/"+key):
			return resp, nil
		case deleted:
			resp.Body.Close()
			return answer200(r, "old"), nil
		}
		resp.Body.Close()
		return answer(r, http.StatusNotFound, "NoSuchKey")
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	text := string(body)
	at := strings.Index(text, "<Contents><Key>"+key+"</Key>")
	switch {
	case at >= 0 && !deleted:
		end := at + strings.Index(text[at:], "</Contents>") + len("</Contents>")
		text = text[:at] + text[end:]
	case at < 0 && deleted && strings.HasPrefix(key, r.URL.Query().Get("prefix")):
		text = strings.Replace(text, "</ListBucketResult>", "<Contents><Key>"+key+"</Key><Size>1</Size></Contents></ListBucketResult>", 1)
	}
	return answer200(r, text), nil
}

func answer200(r *http.Request, body string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Length": {fmt.Sprint(len(body))}, "Etag": {`"x"`}, "Last-Modified": {"Mon, 02 Jan 2006 15:04:05 GMT"}},
		Body:   io.NopCloser(strings.NewReader(body)),
	}
}

// caches keeps what was first stored under a key for every later read.
func caches(next http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	first := map[string]string{}
	return transport(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		known, hit := first[r.URL.Path]
		switch {
		case r.Method == http.MethodPut && !hit:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			first[r.URL.Path] = string(body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
		case r.Method == http.MethodGet && hit:
			return answer200(r, known), nil
		}
		return next.RoundTrip(r)
	})
}

// TestProbeRefuses shows that each flaw of a store is found, and named.
func TestProbeRefuses(t *testing.T) {
	for name, tt := range broken() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory(t)
				report, err := storage.Probe(t.Context(), unsigned(t, tt.make(store)), nil)
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
					wantKeys(t, unsigned(t, store), "")
				}
			})
		})
	}
}

// TestProbeWithoutAnswers: a bucket that does not answer, or does not let one in, is
// not called a broken one, and nobody waits for ever.
func TestProbeWithoutAnswers(t *testing.T) {
	silent := transport(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	for name, tt := range map[string]struct {
		rt   func(*testing.T) http.RoundTripper
		opts *storage.ProbeOptions
		want error
	}{
		"silent":        {func(*testing.T) http.RoundTripper { return silent }, nil, storage.ErrUnavailable},
		"bounded":       {func(*testing.T) http.RoundTripper { return silent }, &storage.ProbeOptions{Timeout: time.Second}, storage.ErrUnavailable},
		"unavailable":   {func(*testing.T) http.RoundTripper { return refuses(503, "SlowDown", false)(nil) }, nil, storage.ErrUnavailable},
		"no access":     {func(*testing.T) http.RoundTripper { return refuses(403, "AccessDenied", false)(nil) }, nil, storage.ErrRefused},
		"no bucket":     {func(*testing.T) http.RoundTripper { return refuses(404, "NoSuchBucket", false)(nil) }, nil, storage.ErrRefused},
		"other region":  {func(*testing.T) http.RoundTripper { return refuses(400, "AuthorizationHeaderMalformed", false)(nil) }, nil, storage.ErrRefused},
		"no create":     {func(t *testing.T) http.RoundTripper { return refuses(403, "AccessDenied", true)(memory(t)) }, nil, storage.ErrRefused},
		"goes away":     {func(t *testing.T) http.RoundTripper { return goesAway(memory(t)) }, nil, storage.ErrUnavailable},
		"slow to death": {func(t *testing.T) http.RoundTripper { return slow(memory(t)) }, nil, storage.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				report, err := storage.Probe(t.Context(), unsigned(t, tt.rt(t)), tt.opts)
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
func goesAway(next http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	left := 300
	return transport(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		left--
		gone := left < 0
		mu.Unlock()
		if gone {
			return answer(r, http.StatusServiceUnavailable, "SlowDown")
		}
		return next.RoundTrip(r)
	})
}

// slow answers just before nobody waits any more.
func slow(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		time.Sleep(1900 * time.Millisecond)
		return next.RoundTrip(r)
	})
}

// TestProbeStopsWithItsCaller: a start that is called off ends at once.
func TestProbeStopsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := memory(t)
		var n atomic.Int32
		b := unsigned(t, transport(func(r *http.Request) (*http.Response, error) {
			if n.Add(1) == 5 {
				cancel()
			}
			return store.RoundTrip(r)
		}))
		if _, err := storage.Probe(ctx, b, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		wantKeys(t, b, "")
	})
}

func TestEnsureProbed(t *testing.T) {
	store := memory(t)
	b := unsigned(t, store)
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
	ensure("b:1", 0, nil, true)                                // Another way to the same bucket.
	ensure("a:1", 0, &storage.ProbeOptions{Fresh: true}, true) // By demand.
	ensure("a:1", -time.Hour, nil, true)                       // A result of the future says nothing.
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

// TestEnsureProbedKeepsNoFailure: a success of yesterday's store does not outlive a
// failure, and a failure is found again each time.
func TestEnsureProbedKeepsNoFailure(t *testing.T) {
	store := memory(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := storage.EnsureProbed(t.Context(), unsigned(t, store), "a:1", now, nil); err != nil {
		t.Fatal(err)
	}
	bad := unsigned(t, broken()["ignores If-None-Match"].make(store))
	var refused *storage.ProbeError
	if report, err := storage.EnsureProbed(t.Context(), bad, "a:1", now, &storage.ProbeOptions{Fresh: true}); !errors.As(err, &refused) || report == nil {
		t.Errorf("got %v, want a refusal", err)
	}
	for range 2 {
		if report, err := storage.EnsureProbed(t.Context(), bad, "a:1", now, nil); !errors.As(err, &refused) || report == nil {
			t.Errorf("the next start: %v, want a refusal", err)
		}
	}
	if report, err := storage.EnsureProbed(t.Context(), unsigned(t, store), "a:1", now, nil); err != nil || report == nil {
		t.Errorf("once it is repaired: %v", err)
	}
}

func TestEnsureProbedCosts(t *testing.T) {
	counter := storagetest.NewTransportCounter(memory(t))
	b := unsigned(t, counter)
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
		gone := unsigned(t, refuses(503, "SlowDown", false)(nil))
		var refused *storage.ProbeError
		if _, err := storage.EnsureProbed(t.Context(), gone, "a:1", now, nil); !errors.Is(err, storage.ErrUnavailable) || errors.As(err, &refused) {
			t.Errorf("without answers: %v, want no answer", err)
		}
	})
}
