package clickhouse_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// falseAnswer is a response of status 200 without success.
type falseAnswer struct {
	header http.Header
	body   string
	want   string // Part of the error.
	code   int32  // Of the exception; 0 is none.
}

var falseAnswers = map[string]falseAnswer{
	"header":           {http.Header{"X-Clickhouse-Exception-Code": {"241"}}, "", "241", 241},
	"header and text":  {http.Header{"X-Clickhouse-Exception-Code": {"241"}}, "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)", "Memory limit exceeded", 241},
	"text":             {nil, "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS)\n", "Too many parts", 252},
	"old text":         {nil, "Code: 252, e.displayText() = DB::Exception: Too many parts", "Too many parts", 252},
	"framed":           {http.Header{"X-Clickhouse-Exception-Tag": {"rnywbxeqhawgxvfb"}}, "__exception__\r\nrnywbxeqhawgxvfb\r\nCode: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)\r\n70 rnywbxeqhawgxvfb\r\n__exception__\r\n", "Unknown table", 60},
	"page":             {http.Header{"Content-Type": {"text/html; charset=utf-8"}}, "<!DOCTYPE html><title>Sign in</title>", "Sign in", 0},
	"page by its text": {nil, "\n<html><body>captive portal</body></html>", "captive portal", 0},
}

// falsifier forwards requests to a server, except those that get a false answer.
type falsifier struct {
	*httptest.Server
	falsify func(query string) bool
	answer  falseAnswer
	asked   atomic.Int32
	on      atomic.Bool
}

func newFalsifier(t *testing.T, server string) *falsifier {
	f := &falsifier{}
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query().Get("query")
		if query == "" {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			query = string(body)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(query)), int64(len(query))
		}
		if !f.on.Load() || !f.falsify(query) {
			pass.ServeHTTP(w, r)
			return
		}
		f.asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // Read the whole request.
		for name, values := range f.answer.header {
			w.Header()[name] = values
		}
		_, _ = io.WriteString(w, f.answer.body)
	}))
	t.Cleanup(f.Close)
	return f
}

// TestFalseAnswers checks that an insert or query fails if the response has status 200 but an
// exception or page. Events written again are stored once.
func TestFalseAnswers(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	events := traffic(5, 1)
	o := overHTTP(s, options(t, s, s.Database(t)))
	f := newFalsifier(t, o.Addresses[0])
	o.Addresses = []string{f.Listener.Addr().String()}
	db := migrated(t, o)
	sink, err := clickhouse.NewSink(db)
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range falseAnswers {
		t.Run(name, func(t *testing.T) {
			s.Ask(t, "TRUNCATE TABLE "+o.Database+".events_raw SYNC")
			f.answer = answer
			check := func(desc string, err error) {
				t.Helper()
				var ex *ch.Exception
				if err == nil || !strings.Contains(err.Error(), answer.want) || (answer.code != 0) != errors.As(err, &ex) || ex != nil && ex.Code != answer.code {
					t.Errorf("%s answered with %+v: got %v, want an error with %q and code %d", desc, answer, err, answer.want, answer.code)
				}
			}
			f.falsify = func(query string) bool { return strings.HasPrefix(query, "INSERT ") }
			f.on.Store(true)
			check("insert", sink.Write(t.Context(), events))
			f.falsify = func(query string) bool { return strings.Contains(query, "FROM events") }
			for _, err := range db.Events(t.Context(), clickhouse.Filter{}) {
				check("query", err)
			}
			f.on.Store(false)
			if f.asked.Swap(0) < 2 {
				t.Fatal("got no request with a false response")
			}
			if err := sink.Write(t.Context(), events); err != nil {
				t.Fatalf("second Write: got %v", err)
			}
			sameEvents(t, events, read(t, db, clickhouse.Filter{}))
		})
	}
}
