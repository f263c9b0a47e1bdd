package s3server

import (
	"bytes"
	"compress/gzip"
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
)

// someAnswers is the share of answers that are replaced.
const someAnswers = .3

// Answers is a proxy before an S3 server that replaces answers by faulty ones: errors and pages with a status of
// success, truncated and corrupt bodies, and answers that lack a header. It is safe for concurrent use.
type Answers struct {
	Endpoint string
	next     http.Handler

	mu        sync.Mutex
	random    *rand.Rand
	replacing bool
	all       time.Time // until then every answer is replaced
	counts    map[string]int
}

// NewAnswers starts a proxy, which ends with t. It replaces nothing yet.
func NewAnswers(t testing.TB, endpoint string, seed uint64) *Answers {
	t.Helper()
	a := &Answers{random: rand.New(rand.NewPCG(seed, 0x616e73)), counts: map[string]int{}}
	a.next = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", endpoint, r.In.Host // The signature covers the host.
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	a.Endpoint = s.Listener.Addr().String()
	return a
}

// Replace starts to replace 30 % of the answers, and every answer for the duration all. On nil it does nothing.
func (a *Answers) Replace(all time.Duration) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replacing, a.all = true, time.Now().Add(all)
}

// Pass stops the replacement of answers. On nil it does nothing.
func (a *Answers) Pass() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replacing = false
}

// Replaced returns the number of replaced answers by kind.
func (a *Answers) Replaced() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counts)
}

// draw returns the name of a replacement for the answer to op, "" for none, and a random number.
func (a *Answers) draw(op string) (string, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	share := a.random.Float64()
	if !a.replacing || share >= someAnswers && time.Now().After(a.all) {
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
	a.counts[name]++
	return name, a.random.IntN(1 << 30)
}

// ServeHTTP implements http.Handler.
func (a *Answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := r.Method
	if r.URL.Query().Has("list-type") {
		op = "LIST"
	}
	name, n := a.draw(op)
	switch r2 := replacements()[name]; {
	case name == "":
		a.next.ServeHTTP(w, r)
	case r2.answer != nil:
		_, _ = io.Copy(io.Discard, r.Body) // The store does not receive it.
		r2.answer(w)
	default:
		got := httptest.NewRecorder()
		a.next.ServeHTTP(got, r)
		status, body := r2.change(got.Code, got.Header(), got.Body.Bytes(), n)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(status)
		if got.Header().Get("Content-Length") == "" && status != http.StatusNoContent {
			w.(http.Flusher).Flush() // Use chunked encoding.
		}
		_, _ = w.Write(body)
	}
}

// replacement is one kind of faulty answer. answer replaces the request to the store; change
// modifies the store's answer.
type replacement struct {
	ops    string
	answer func(w http.ResponseWriter)
	change func(status int, h http.Header, body []byte, n int) (int, []byte)
}

const loginPage = "<!DOCTYPE html><html><body>Please log in</body></html>"

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

// flip changes a bit of the body at a random position.
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
	_, _ = w.Write(body)
	_ = w.Close()
	h.Set("Content-Encoding", "gzip")
	return status, sized(h, b.Bytes())
}
