package killrun_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

const (
	someAnswers = .3               // Share of answers that are replaced while a server runs.
	allAnswers  = 10 * time.Second // How long all are, in the first cycle of a run.
)

// TestKillRunAnswers is the kill run over an S3 server whose answers a proxy replaces: errors
// and pages with a status of success, halves, other bytes. Nothing acknowledged is lost, no
// server ends by itself, no answer but 503 is a refusal, and no conversation is quarantined.
func TestKillRunAnswers(t *testing.T) {
	s := s3server.Versitygw(t)
	began, cycles := time.Now(), 0
	for i, seeds := range groups(t, max(2, *cyclesFlag/7), 5) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			store := noderun.NewBucket(t, s)
			a := newAnswers(t, store.Endpoint, seeds[0])
			behind := store
			behind.Endpoint = a.endpoint
			a.probe(t, behind)
			rep := performWith(t, behind, seeds, func(r *run) {
				r.answers = a
				for i := range r.cycles {
					r.cycles[i].Kill = laterKill(i, r.cycles[i].Kill)
				}
			})
			a.setHonest()
			bucket, closeBucket, err := store.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer closeBucket()
			if aside, err := storage.ListQuarantine(t.Context(), bucket); err != nil || len(aside) > 0 {
				t.Errorf("got %v quarantined, %v, want none; seeds %v", aside, err, seeds)
			}
			t.Logf("answers replaced: %v\n%s", a.counts, rep)
			if len(a.counts) == 0 {
				t.Errorf("no answer was replaced; seeds %v", seeds)
			}
		})
		cycles += len(seeds)
	}
	t.Logf("%d cycles, %v", cycles, time.Since(began).Round(time.Second))
}

// laterKill is a kill while the server runs: what starts does so over a store that is well.
// In the first cycle it waits until all answers have been replaced for a while.
func laterKill(i int, k kill) kill {
	switch {
	case i == 0:
		return kill{At: atDelay, Extra: allAnswers + 1500*time.Millisecond}
	case k.At == atStart, k.At == atReady, k.At == atDrain:
		return kill{At: atDelay, Extra: k.Extra + 800*time.Millisecond}
	}
	return k
}

// answers is a proxy before an S3 server that replaces answers.
type answers struct {
	endpoint string
	next     http.Handler

	mu     sync.Mutex
	random *rand.Rand
	lying  bool
	all    time.Time // Until when every answer is replaced.
	counts schedule.Shown
}

func newAnswers(t *testing.T, endpoint string, seed uint64) *answers {
	a := &answers{random: rand.New(rand.NewPCG(seed, 0x616e73)), counts: schedule.Shown{}}
	a.next = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", endpoint, r.In.Host // The host is signed.
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	a.endpoint = s.Listener.Addr().String()
	return a
}

// probe has the bucket pass its probe, so that no start has to under these answers.
func (a *answers) probe(t *testing.T, p noderun.Place) {
	t.Helper()
	bucket, closeBucket, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer closeBucket()
	if err := storage.EnsureFormat(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.EnsureProbed(t.Context(), bucket, a.endpoint, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
}

// setLying has some answers replaced from now on, and all of them for a time. A run without
// a proxy has none.
func (a *answers) setLying(all time.Duration) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lying, a.all = true, time.Now().Add(all)
}

// setHonest ends that.
func (a *answers) setHonest() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lying = false
}

// draw returns the name of what replaces the answer to a request, "" for nothing, and a number.
func (a *answers) draw(op string) (string, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	share := a.random.Float64()
	if !a.lying || share >= someAnswers && time.Now().After(a.all) {
		return "", 0
	}
	var names []string
	for name, r := range replacements() {
		if slices.Contains(strings.Fields(r.ops), op) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	name := names[a.random.IntN(len(names))]
	a.counts[schedule.Event(name)]++
	return name, a.random.IntN(1 << 30)
}

// ServeHTTP implements http.Handler.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := r.Method
	if r.URL.Query().Has("list-type") {
		op = "LIST"
	}
	name, n := a.draw(op)
	switch r2 := replacements()[name]; {
	case name == "":
		a.next.ServeHTTP(w, r)
	case r2.answer != nil:
		_, _ = io.Copy(io.Discard, r.Body) // The store never gets it.
		r2.answer(w)
	default:
		got := httptest.NewRecorder()
		a.next.ServeHTTP(got, r)
		status, body := r2.change(got.Code, got.Header(), got.Body.Bytes(), n)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(status)
		if got.Header().Get("Content-Length") == "" && status != http.StatusNoContent {
			w.(http.Flusher).Flush() // It is sent in chunks.
		}
		_, _ = w.Write(body)
	}
}

// replacement is one kind of bad answer: in place of the store's, without asking it, or made
// of the store's.
type replacement struct {
	ops    string
	answer func(w http.ResponseWriter)
	change func(status int, h http.Header, body []byte, n int) (int, []byte)
}

const loginPage = "<!DOCTYPE html><html><body>Please log in</body></html>"

// replacements are the kinds by name.
func replacements() map[string]replacement {
	const all = "GET PUT DELETE LIST"
	text := func(status int, kind, body string, headers ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	failure := func(code string) string { return "<Error><Code>" + code + "</Code><Message>text</Message></Error>" }
	without := func(names ...string) func(int, http.Header, []byte, int) (int, []byte) {
		return func(status int, h http.Header, body []byte, _ int) (int, []byte) {
			for _, name := range names {
				h.Del(name)
			}
			return status, body
		}
	}
	return map[string]replacement{
		"error inside":    {ops: all, answer: text(200, "application/xml", failure("InternalError"))},
		"error, ETag":     {ops: "GET PUT", answer: text(200, "application/xml", failure("InternalError"), "ETag", `"1"`, "Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")},
		"page":            {ops: all, answer: text(200, "text/html", loginPage)},
		"page, ETag":      {ops: "GET PUT", answer: text(200, "text/html", loginPage, "ETag", `"1"`, "Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")},
		"page of absence": {ops: all, answer: text(404, "text/html", loginPage)},
		"page of refusal": {ops: all, answer: text(403, "text/html", loginPage)},
		"login":           {ops: all, answer: text(302, "text/html", "", "Location", "http://login.invalid/")},
		"slow down":       {ops: all, answer: text(503, "application/xml", failure("SlowDown"))},
		"nothing":         {ops: "GET PUT LIST", answer: text(204, "", "")},
		"done, error inside": {ops: "PUT DELETE", change: func(_ int, h http.Header, _ []byte, _ int) (int, []byte) {
			h.Del("Content-Length")
			return 200, []byte(failure("InternalError"))
		}},
		"done, no ETag":     {ops: "PUT", change: without("Etag")},
		"no ETag":           {ops: "GET", change: without("Etag")},
		"no Last-Modified":  {ops: "GET", change: without("Last-Modified")},
		"no Content-Length": {ops: "GET", change: without("Content-Length")},
		"half, in chunks": {ops: "GET LIST", change: func(s int, h http.Header, b []byte, _ int) (int, []byte) {
			h.Del("Content-Length")
			return s, b[:len(b)/2]
		}},
		"half, as if whole": {ops: "GET LIST", change: func(s int, h http.Header, b []byte, _ int) (int, []byte) { return s, sized(h, b[:len(b)/2]) }},
		"another bit":       {ops: "GET", change: flip},
		"compressed":        {ops: "GET LIST", change: compress},
	}
}

func sized(h http.Header, body []byte) []byte {
	h.Set("Content-Length", strconv.Itoa(len(body)))
	return body
}

// flip changes a bit of an object. Of a range the header proves nothing, and the same bit is
// never changed twice.
func flip(status int, _ http.Header, body []byte, n int) (int, []byte) {
	body = slices.Clone(body)
	if status/100 == 2 && len(body) > 0 {
		body[n%len(body)] ^= 1 << (n / 7 % 8)
	}
	return status, body
}

func compress(status int, h http.Header, body []byte, _ int) (int, []byte) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // Into memory.
	_ = w.Close()
	h.Set("Content-Encoding", "gzip")
	return status, sized(h, b.Bytes())
}
