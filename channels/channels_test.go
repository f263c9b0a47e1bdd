package channels_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	parleyhttp "github.com/parleyrun/parley/http"
)

type routes []channels.Route

func (r routes) Routes() []channels.Route { return r }

func respond(text string) channels.Handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// covers: channels/1, channels/30
func TestDeclarations(t *testing.T) {
	ok := respond("")
	for name, tt := range map[string]struct {
		routes routes
		want   string
	}{
		"none":                 {nil, "declares no route"},
		"method in lower case": {routes{{Method: "post", Path: "/webhook", Handler: ok}}, "upper case"},
		"no method":            {routes{{Path: "/webhook", Handler: ok}}, "upper case"},
		"no path":              {routes{{Method: "POST", Handler: ok}}, "plain segments"},
		"root":                 {routes{{Method: "POST", Path: "/", Handler: ok}}, "plain segments"},
		"relative":             {routes{{Method: "POST", Path: "webhook", Handler: ok}}, "plain segments"},
		"two slashes":          {routes{{Method: "POST", Path: "//webhook", Handler: ok}}, "plain segments"},
		"dots":                 {routes{{Method: "POST", Path: "/a/../b", Handler: ok}}, "plain segments"},
		"query":                {routes{{Method: "POST", Path: "/a?b", Handler: ok}}, "plain segments"},
		"no handler":           {routes{{Method: "POST", Path: "/webhook"}}, "no handler"},
		"twice":                {routes{{Method: "POST", Path: "/a", Handler: ok}, {Method: "POST", Path: "/a", Handler: ok}}, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{Channels: map[string]channels.Channel{"mine": tt.routes}})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `channel "mine"`) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	for _, name := range []string{"", "a/b", "a:b", "..", "a b"} {
		c := routes{{Method: "POST", Path: "/webhook", Handler: ok}}
		if _, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{Channels: map[string]channels.Channel{name: c}}); err == nil {
			t.Errorf("channel name %q: got no error, want one", name)
		}
	}
}

// covers: channels/2, channels/25, channels/26, channels/27, channels/28, upgrade/15
func TestListed(t *testing.T) {
	c := routes{
		{Method: "PUT", Path: "/a", Handler: respond("put")}, {Method: "POST", Path: "/a", Handler: respond("post")},
		{Method: "HEAD", Path: "/b/c", Handler: func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusNoContent); return nil }},
	}
	h, err := parleyhttp.New(nil, nil, []parleyhttp.Mount{{Path: "/", Agent: "a"}}, &parleyhttp.Options{Channels: map[string]channels.Channel{"mine": c}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path string
		status       int
		allow, body  string
	}{
		{"PUT", "/channels/mine/a", 200, "", "put"},
		{"POST", "/channels/mine/a", 200, "", "post"},
		{"GET", "/channels/mine/a", 405, "PUT, POST", "method_not_allowed"},
		{"HEAD", "/channels/mine/b/c", 204, "", ""},
		{"POST", "/channels/mine/b/c", 405, "HEAD", "method_not_allowed"},
		{"POST", "/channels/mine", 404, "", "route_not_found"},
		{"POST", "/channels/mine/b", 404, "", "route_not_found"},
		{"POST", "/channels/mine/a/", 404, "", "route_not_found"},
		{"POST", "/channels/other/a", 404, "", "route_not_found"},
		{"POST", "/channels//a", 404, "", "route_not_found"},
		{"POST", "/channels/mine/%61", 404, "", "route_not_found"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.status || w.Header().Get("Allow") != tt.allow || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s %s: got %d, Allow %q, body %s", tt.method, tt.path, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
}

// covers: channels/15
func TestIncompleteResponse(t *testing.T) {
	broken := channels.Endpoint{Method: "POST", Path: "/a", Silent: true, Accept: func(*http.Request, []byte) (channels.Call, error) {
		return func(context.Context) (any, error) {
			res := channels.Respond(200, "text/plain", "half")
			res.ContentLength = 8
			res.Body = io.NopCloser(io.MultiReader(res.Body, failing{}))
			return res, nil
		}, nil
	}}.Route()
	srv := httptest.NewServer(broken)
	defer srv.Close()
	res, err := http.Post(srv.URL, "text/plain", nil)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("incomplete response: got no error, want one")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// covers: channels/89
func TestSecretIsHidden(t *testing.T) {
	const text = "xoxb-very-secret"
	s := channels.Secret(text)
	opts := struct {
		Secret  channels.Secret
		Pointer *channels.Secret
	}{s, &s}
	encoded, err := json.Marshal(opts)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "secret", s, "opts", fmt.Sprint(s))
	for _, shown := range []string{
		string(encoded), log.String(), fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s, s, s), fmt.Sprintf("%v %+v %#v", opts, opts, opts),
	} {
		if strings.Contains(shown, "very") || strings.Contains(shown, hex.EncodeToString([]byte("very"))) {
			t.Errorf("secret is visible in %s", shown)
		}
	}
	if s.Reveal() != text || !s.Equal(text) || s.Equal(text+"x") || s.Equal("") {
		t.Error("Reveal or Equal does not match the original secret")
	}
}

// FuzzCodes verifies that a signature has one accepted encoding, except for the case of hexadecimal
// digits.
// covers: channels/45, channels/59
func FuzzCodes(f *testing.F) {
	sum := sha256.Sum256(nil)
	f.Add("sha256=" + hex.EncodeToString(sum[:]))
	f.Add(base64.StdEncoding.EncodeToString(sum[:]))
	f.Add(strings.Replace(base64.StdEncoding.EncodeToString(sum[:]), "U=", "V=", 1)) // non-zero padding bits
	f.Add("sha256=" + strings.Repeat("G", 64))
	f.Fuzz(func(t *testing.T, value string) {
		if code, ok := channels.HexCode(value, "sha256=", sha256.Size); ok &&
			(len(code) != sha256.Size || "sha256="+hex.EncodeToString(code) != "sha256="+strings.ToLower(value[7:]) || value[:7] != "sha256=") {
			t.Errorf("%q: got code %x, want another encoding rejected", value, code)
		}
		if code, ok := channels.Base64Code(value); ok && (len(code) != sha256.Size || base64.StdEncoding.EncodeToString(code) != value) {
			t.Errorf("%q: got code %x, want another encoding rejected", value, code)
		}
	})
}

// FuzzEscape verifies that Escape and Unescape are inverse.
// covers: channels/86
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"a:b", "é", "%3A", "%3a", "a b", "", "\xff", "%", "%4", "%4G", "%ED%A0%80", "-_.!~*'()"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if segment, ok := channels.Escape(s); ok {
			if back, ok := channels.Unescape(segment); !ok || back != s || strings.ContainsAny(segment, ":/ ?#") {
				t.Errorf("Escape(%q): got %q, which decodes to %q", s, segment, back)
			}
		}
		if text, ok := channels.Unescape(s); ok {
			if again, _ := channels.Escape(text); again != s {
				t.Errorf("Unescape(%q): got %q, which encodes to %q", s, text, again)
			}
		}
	})
}

func sum(s string) string {
	b := sha256.Sum256([]byte(s))
	return hex.EncodeToString(b[:])
}

// covers: channels/173
func TestHandlerPanics(t *testing.T) {
	for name, tt := range map[string]struct {
		handler channels.Handler
		status  int // 0 for a closed connection
	}{
		"panic":     {func(http.ResponseWriter, *http.Request) error { panic("confidential") }, http.StatusTeapot},
		"no return": {func(http.ResponseWriter, *http.Request) error { runtime.Goexit(); return nil }, http.StatusTeapot},
		"abort":     {func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }, 0},
		"half way": {func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = w.Write([]byte("half"))
			panic("confidential")
		}, 0},
		"with a head": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusOK)
			panic("confidential")
		}, 0},
		"no panic": {func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusAccepted); return nil }, http.StatusAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			route := channels.Route{Method: http.MethodPost, Path: "/webhook", Handler: tt.handler, Fail: func(w http.ResponseWriter, _ *http.Request, _ error) {
				w.WriteHeader(http.StatusTeapot)
			}}
			w := httptest.NewRecorder()
			aborted := func() (v any) {
				defer func() { v = recover() }()
				route.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/webhook", nil))
				return nil
			}()
			if (aborted == http.ErrAbortHandler) != (tt.status == 0) || tt.status != 0 && w.Code != tt.status {
				t.Errorf("got status %d and panic %v, want %d", w.Code, aborted, tt.status)
			}
		})
	}
}

type brokenRoutes struct{ act func() }

func (c brokenRoutes) Routes() []channels.Route { c.act(); return nil }

// covers: channels/173
func TestRoutesOfFailingChannel(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func()
		want string
	}{
		"panics":       {func() { panic("a defect") }, "panic: a defect"},
		"exits":        {runtime.Goexit, "ended its goroutine"},
		"returns none": {func() {}, "declares no route"},
	} {
		if routes, err := channels.RoutesOf(brokenRoutes{tt.act}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Routes %s: got %v, %v, want an error with %q", name, routes, err, tt.want)
		}
	}
}
