package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

// teapot is the handler behind a middleware.
func teapot() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
}

func TestBearer(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		status       int
	}{
		{"right", "Bearer s3cret", http.StatusTeapot},
		{"scheme in other letters", "bearer s3cret", http.StatusTeapot},
		{"more space", "Bearer  s3cret", http.StatusTeapot},
		{"none", "", http.StatusUnauthorized},
		{"wrong", "Bearer other", http.StatusUnauthorized},
		{"begins the same", "Bearer s3cretX", http.StatusUnauthorized},
		{"is the beginning", "Bearer s3cre", http.StatusUnauthorized},
		{"empty", "Bearer ", http.StatusUnauthorized},
		{"without scheme", "s3cret", http.StatusUnauthorized},
		{"other scheme", "Basic s3cret", http.StatusUnauthorized},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions} {
				r := httptest.NewRequest(method, "/agents/echo/x", nil)
				if tt.header != "" {
					r.Header.Set("Authorization", tt.header)
				}
				w := httptest.NewRecorder()
				bearer("s3cret", teapot()).ServeHTTP(w, r)
				if w.Code != tt.status {
					t.Fatalf("%s: %d, want %d", method, w.Code, tt.status)
				}
				if w.Code == http.StatusUnauthorized {
					checkUnauthorized(t, w)
				}
			}
		})
	}
	w := httptest.NewRecorder()
	bearer("", teapot()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x", nil))
	if w.Code != http.StatusTeapot {
		t.Errorf("without a token configured: %d", w.Code)
	}
}

func checkUnauthorized(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var got struct {
		Error struct{ Type, Message, Details string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if e := got.Error; e.Type != "unauthorized" || e.Message == "" || e.Details == "" {
		t.Errorf("error %+v", e)
	}
	for name, want := range map[string]string{
		"WWW-Authenticate": "Bearer", "Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if h := w.Header().Get(name); h != want {
			t.Errorf("%s is %q, want %q", name, h, want)
		}
	}
}

func TestConfiguredCORS(t *testing.T) {
	const page, other, local = "https://app.example.com", "https://app.example.com.evil.example", "http://localhost:5000"
	for _, tt := range []struct {
		name    string
		pages   origins
		origin  string
		allowed string
		varies  bool
	}{
		{"exact", origins{list: []string{page}}, page, page, true},
		{"other", origins{list: []string{page}}, other, "", true},
		{"other port", origins{list: []string{page}}, page + ":8443", "", true},
		{"loopback is not configured", origins{list: []string{page}}, local, "", true},
		{"loopback beside configured", origins{list: []string{page}, loopback: true}, local, local, true},
		{"configured beside loopback", origins{list: []string{page}, loopback: true}, page, page, true},
		{"no page", origins{list: []string{page}}, "", "", true},
		{"all", origins{list: []string{"*"}}, other, "*", false},
		{"all, also in dev", origins{list: []string{"*"}, loopback: true}, local, "*", false},
		{"none", origins{}, page, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.pages.middleware(teapot())
			r := httptest.NewRequest(http.MethodPost, "/x", nil)
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			head := w.Header()
			if w.Code != http.StatusTeapot || head.Get("Access-Control-Allow-Origin") != tt.allowed || (head.Get("Vary") == "Origin") != tt.varies {
				t.Errorf("%d %v", w.Code, head)
			}
			const exposed = "Stream-Next-Offset, Stream-Up-To-Date, Stream-Closed, Stream-Cursor, ETag, Location, Retry-After, Parley-Error-Ref, Allow, WWW-Authenticate"
			if got := head.Get("Access-Control-Expose-Headers"); (got == exposed) != (tt.allowed != "") {
				t.Errorf("exposes %q", got)
			}
			r.Method = http.MethodOptions
			r.Header.Set("Access-Control-Request-Method", "POST")
			w = httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if preflight := w.Code == http.StatusNoContent; preflight != (tt.allowed != "") {
				t.Errorf("preflight answered %d", w.Code)
			}
			if allow := w.Header().Get("Access-Control-Allow-Headers"); tt.allowed != "" && !strings.Contains(allow, "Authorization") {
				t.Errorf("a page may send %q", allow)
			}
		})
	}
}

// Pages may send and read the headers of the protocol, of tracing libraries and of the configuration,
// which also allows credentials.
func TestCORSHeaders(t *testing.T) {
	const page = "https://app.example.com"
	for name, tt := range map[string]struct {
		conf                 config.CORS
		sends, reads         []string
		credentials, neither string
	}{
		"by default": {
			config.CORS{Origins: []string{page}},
			[]string{"Authorization", "Content-Type", "Idempotency-Key", "Parley-Notify", "If-None-Match", "traceparent", "tracestate", "baggage", "sentry-trace", "Last-Event-ID"},
			[]string{"Retry-After", "Parley-Error-Ref", "Stream-Next-Offset", "Location", "ETag", "WWW-Authenticate"}, "", "X-Tenant",
		},
		"configured": {
			config.CORS{Origins: []string{page}, Headers: []string{"X-Tenant"}, ExposeHeaders: []string{"X-Request-Id"}, Credentials: true},
			[]string{"Authorization", "X-Tenant"}, []string{"Retry-After", "X-Request-Id"}, "true", "X-Other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := originsOf(tt.conf, false).middleware(teapot())
			for _, method := range []string{http.MethodOptions, http.MethodPost} {
				r := httptest.NewRequest(method, "/x", nil)
				r.Header.Set("Origin", page)
				if method == http.MethodOptions {
					r.Header.Set("Access-Control-Request-Method", "POST")
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if got := w.Header().Get("Access-Control-Allow-Credentials"); got != tt.credentials {
					t.Errorf("%s: credentials %q, want %q", method, got, tt.credentials)
				}
				lists := map[string][]string{"Access-Control-Expose-Headers": tt.reads}
				if method == http.MethodOptions {
					lists["Access-Control-Allow-Headers"] = tt.sends
				}
				for list, want := range lists {
					got := strings.Split(w.Header().Get(list), ", ")
					for _, header := range want {
						if !slices.Contains(got, header) {
							t.Errorf("%s: %s is %q, want %s in it", method, list, got, header)
						}
					}
					if slices.Contains(got, tt.neither) {
						t.Errorf("%s: %s is %q, want no %s", method, list, got, tt.neither)
					}
				}
			}
		})
	}
}

// A browser sends no token with a preflight, and a page can read the reason of a rejection.
func TestPreflightPassesBeforeAuth(t *testing.T) {
	conf := &config.Server{CORS: config.CORS{Origins: []string{"https://app.example.com"}}, Auth: config.Auth{Bearer: "t"}}
	h := guarded(pageOf{conf: conf, how: manner{program: &cli.Program{}, dev: false}}, teapot())
	r := httptest.NewRequest(http.MethodOptions, "/x", nil)
	r.Header.Set("Origin", "https://app.example.com")
	r.Header.Set("Access-Control-Request-Method", "POST")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent {
		t.Errorf("preflight: %d", w.Code)
	}
	r.Header.Set("Origin", "https://evil.example")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("preflight without credentials: got %d, want 401", w.Code)
	}
	r = httptest.NewRequest(http.MethodPost, "/x", nil)
	r.Header.Set("Origin", "https://app.example.com")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("refused page: %d %v", w.Code, w.Header())
	}
}

// A rejected request, and a preflight, is answered before its body arrives, and its connection is
// closed if the body does not arrive.
// covers: protocol/199
func TestRejectedRequestsReleaseConnections(t *testing.T) {
	conf := &config.Server{CORS: config.CORS{Origins: []string{"https://app.example.com"}}, Auth: config.Auth{Bearer: "t"}}
	const endless, short = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", "Content-Length: 100\r\n\r\n"
	for name, tt := range map[string]struct {
		dev     bool
		request string
		status  int
	}{
		"wrong token, endless":   {false, "POST /x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n" + endless, 401},
		"wrong token, short":     {false, "POST /x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n" + short, 401},
		"wrong token, announced": {false, "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n" + short, 401},
		"preflight":              {false, "OPTIONS /x HTTP/1.1\r\nHost: h\r\nOrigin: https://app.example.com\r\nAccess-Control-Request-Method: POST\r\n" + short, 204},
		"other host, endless":    {true, "POST /x HTTP/1.1\r\nHost: h\r\n" + endless, 403},
		"other origin, short":    {true, "POST /x HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n" + short, 403},
		"other host, announced":  {true, "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n" + short, 403},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				raw, ended := make(pipes), make(chan error, 1)
				go func() {
					ended <- (&parleyhttp.Server{Handler: guarded(pageOf{conf: conf, how: manner{program: &cli.Program{}, dev: tt.dev}}, teapot())}).Serve(ctx, raw)
				}()
				conn, there := net.Pipe()
				defer conn.Close()
				raw <- there
				go func() { _, _ = io.WriteString(conn, tt.request) }()
				begun, in := time.Now(), bufio.NewReader(conn)
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.StatusCode != tt.status || time.Since(begun) > time.Second {
					t.Fatalf("%v, %v after %v, want %d", res, err, time.Since(begun), tt.status)
				}
				if _, err := io.Copy(io.Discard, in); err != nil || time.Since(begun) > 2*time.Second {
					t.Errorf("the connection ends with %v after %v", err, time.Since(begun))
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
