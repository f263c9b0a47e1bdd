package console_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/console"
)

// maxPage bounds the size of the whole page as it is sent, in bytes.
const maxPage = 200_000

// sources returns the digests of the inputs of the build, in the form of vite.config.ts.
func sources(t *testing.T) string {
	t.Helper()
	files := []string{"index.html", "package-lock.json", "tsconfig.json", "vite.config.ts"}
	err := filepath.WalkDir("src", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var lines strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), file)
	}
	return lines.String()
}

// The embedded build was made from the current sources.
func TestBuildIsCurrent(t *testing.T) {
	built, err := os.ReadFile("dist/sources.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if want := sources(t); string(built) != want {
		t.Errorf("the build is of other sources: run make page\nbuilt of:\n%s\nthere are:\n%s", built, want)
	}
}

// The page with all its files, as sent, is within maxPage.
func TestPageIsLight(t *testing.T) {
	sum := 0
	for name, content := range tree(t, "dist") {
		if name == "sources.sha256" {
			continue
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		sum += b.Len()
	}
	t.Logf("%d bytes", sum)
	if sum == 0 || sum > maxPage {
		t.Errorf("the page weighs %d bytes, want 1 to %d", sum, maxPage)
	}
}

// tree reads the files below a folder.
func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// next handles requests that do not belong to the console.
var next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

func get(h http.Handler, method, path string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, "http://localhost:5173"+path, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// asset returns the path of the script of the page.
func asset(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("dist/index.html")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`/\+console/a/[^"]+\.js`).FindString(string(page))
}

// All other paths are passed to the next handler.
func TestPageServesOnlyItsPaths(t *testing.T) {
	script := asset(t)
	for _, tt := range []struct {
		method, path string
		root         bool
		status       int
		kind         string
	}{
		{"GET", "/", true, 200, "text/html; charset=utf-8"},
		{"HEAD", "/", true, 200, "text/html; charset=utf-8"},
		{"GET", "/", false, 418, ""},
		{"GET", "/?x=1", true, 200, "text/html; charset=utf-8"},
		{"GET", "/+console/", false, 200, "text/html; charset=utf-8"},
		{"GET", script, true, 200, "text/javascript; charset=utf-8"},
		{"POST", "/", true, 418, ""},
		{"DELETE", script, true, 418, ""},
		{"GET", "/+console", true, 418, ""},
		{"GET", "/+console/a/", true, 418, ""},
		{"GET", "/+console/../index.html", true, 418, ""},
		{"GET", "/+console/sources.sha256", true, 418, ""},
		{"GET", "/index.html", true, 418, ""},
		{"GET", "//", true, 418, ""},
		{"GET", strings.TrimPrefix(script, "/+console"), true, 418, ""},
		{"GET", "/agents/assistant/x", true, 418, ""},
	} {
		t.Run(fmt.Sprintf("%s %s %t", tt.method, tt.path, tt.root), func(t *testing.T) {
			resp := get(console.Page(next, tt.root), tt.method, tt.path, nil)
			if resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != tt.kind {
				t.Errorf("answered %d, %q", resp.StatusCode, resp.Header.Get("Content-Type"))
			}
		})
	}
}

// Every file has the policy, and the page needs nothing that the policy forbids.
func TestPageIsHardened(t *testing.T) {
	for _, path := range []string{"/", asset(t)} {
		resp := get(console.Page(next, true), "GET", path, nil)
		policy := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
			t.Errorf("%s: the policy %q lets others in", path, policy)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	page, err := os.ReadFile("dist/index.html")
	if err != nil {
		t.Fatal(err)
	}
	if inline := regexp.MustCompile(`<script(?:[^>]*)>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`).Find(page); inline != nil {
		t.Errorf("the page has %q within", inline)
	}
}

// Immutable files are requested once, the page each time, and both are compressed.
func TestPageIsCached(t *testing.T) {
	h := console.Page(next, true)
	script := get(h, "GET", asset(t), nil)
	if !strings.Contains(script.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("script: %v", script.Header)
	}
	page := get(h, "GET", "/", nil)
	if page.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("page: %v", page.Header)
	}
	again := get(h, "GET", "/", http.Header{"If-None-Match": {page.Header.Get("ETag")}})
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("asked again it answers %d", again.StatusCode)
	}
	packed := get(h, "GET", asset(t), http.Header{"Accept-Encoding": {"gzip"}})
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(script.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unpacked, plain) || len(plain) == 0 {
		t.Errorf("packed %d bytes, plain %d", len(unpacked), len(plain))
	}
}

// Pages of other origins get no response, whatever CORS allows them elsewhere.
func TestAPIRejectsOtherOrigins(t *testing.T) {
	h := console.API(next, map[string]console.Endpoint{
		"a":   func(*http.Request) (any, error) { return map[string]int{"n": 1}, nil },
		"bad": func(*http.Request) (any, error) { return nil, errors.New("why") },
		"no": func(*http.Request) (any, error) {
			return nil, &console.Error{Status: 404, Type: "not_there", Message: "M.", Details: "D."}
		},
	})
	for _, tt := range []struct {
		name, method, path string
		header             http.Header
		status             int
		body               string
	}{
		{"the page", "GET", "/+console/api/a", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200, `{"n":1}`},
		{"a command", "GET", "/+console/api/a", nil, 200, `{"n":1}`},
		{"its own origin", "GET", "/+console/api/a", http.Header{"Origin": {"http://localhost:5173"}}, 200, `{"n":1}`},
		{"another port", "GET", "/+console/api/a", http.Header{"Origin": {"http://localhost:3000"}}, 403, "forbidden"},
		{"another site", "GET", "/+console/api/a", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, "forbidden"},
		{"the same site", "GET", "/+console/api/a", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403, "forbidden"},
		{"no origin", "GET", "/+console/api/a", http.Header{"Origin": {"null"}}, 403, "forbidden"},
		{"a write", "POST", "/+console/api/a", nil, 405, "method_not_allowed"},
		{"a failure", "GET", "/+console/api/bad", nil, 500, "why"},
		{"what is not there", "GET", "/+console/api/no", nil, 404, "not_there"},
		{"no name", "GET", "/+console/api/", nil, 418, ""},
		{"another name", "GET", "/+console/api/b", nil, 418, ""},
		{"another path", "GET", "/api/a", nil, 418, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := get(h, tt.method, tt.path, tt.header)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.body) {
				t.Errorf("answered %d, %s", resp.StatusCode, body)
			}
			if tt.status != 418 && (resp.Header.Get("Content-Type") != "application/json" || !json.Valid(body) ||
				resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Access-Control-Allow-Origin") != "") {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}
