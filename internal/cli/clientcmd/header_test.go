package clientcmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
)

// talking lists the commands that call a server, with their arguments.
func talking(base string) [][]string {
	run := base + "/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	return [][]string{
		{"send", base + "/agents/a/x", "hello"}, {"tail", base + "/agents/a/x"}, {"signal", base + "/agents/a/x", "approval", "true"},
		{"abort", base + "/agents/a/x"}, {"runs", "start", base + "/workflows/w"}, {"runs", "show", run}, {"runs", "follow", run},
		{"runs", "signal", run, "approval"}, {"runs", "abort", run},
	}
}

func TestHeaderFlag(t *testing.T) {
	var lock sync.Mutex
	var got []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		got = append(got, r.Header)
		http.Error(w, `{"error":{"type":"invalid_request","message":"Seen."}}`, http.StatusBadRequest)
	}))
	defer server.Close()
	for _, args := range talking(server.URL) {
		got = nil
		code, out, errOut := program.Output(t, append(args, "--header", "x-tenant: acme", "--header", "X-Tenant:b", "--header", "Authorization: Basic eA==")...)
		lock.Lock()
		if code != 1 || !strings.Contains(errOut, "Seen.") || len(got) == 0 {
			t.Errorf("%q: exit %d, %q, %q after %d requests; want exit 1 and the answer", args, code, out, errOut, len(got))
		}
		for _, h := range got {
			if all := strings.Join(h["X-Tenant"], " "); all != "acme b" || h.Get("Authorization") != "Basic eA==" {
				t.Errorf("%q: got X-Tenant %q and Authorization %q, want %q and %q", args, all, h.Get("Authorization"), "acme b", "Basic eA==")
			}
		}
		lock.Unlock()
	}
}

// A malformed or reserved header is a usage error: no request is sent, and the value, which may be a
// credential, is not printed.
func TestHeaderFlagMistakes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request is sent") }))
	defer server.Close()
	for header, want := range map[string]string{
		"X-Key s3cret":             "without a colon",
		": s3cret":                 "not the name of a header",
		"X Key: s3cret":            "not the name of a header",
		"X-Key : s3cret":           "not the name of a header",
		"X-Schlüssel: s3cret":      "not the name of a header",
		"X-Key:  ":                 "no value",
		"X-Key: s3cret\r\nHost: b": "control character",
		"content-type: s3cret":     "reserved",
		"Host: s3cret":             "reserved",
		"parley-notify: s3cret":    "reserved",
		"Idempotency-Key: s3cret":  "reserved",
		"Proxy-Connection: s3cret": "reserved",
	} {
		for _, args := range talking(server.URL) {
			code, out, errOut := program.Output(t, append(args, "--header", header)...)
			if code != cli.ExitUsage || out != "" || !strings.Contains(errOut, want) || strings.Contains(errOut, "s3cret") {
				t.Errorf("%q --header %q: exit %d, %q, %q; want exit %d and %q", args, header, code, out, errOut, cli.ExitUsage, want)
			}
		}
	}
	t.Setenv("A_TOKEN", "t")
	for _, more := range [][]string{{"--token-env", "A_TOKEN", "--header", "Authorization: b"}, {"--header", "Authorization: a", "--header", "Authorization: b"}} {
		code, _, errOut := program.Output(t, append([]string{"abort", server.URL + "/a"}, more...)...)
		if code != cli.ExitUsage || !strings.Contains(errOut, "Authorization") {
			t.Errorf("%q: exit %d, %q; want exit %d", more, code, errOut, cli.ExitUsage)
		}
	}
}

// A redirect to another host sends none of the headers.
func TestHeaderFlagRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host gets a request") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	code, _, errOut := program.Output(t, "abort", server.URL+"/a", "--header", "X-Key: s3cret")
	if code != 1 || !strings.Contains(errOut, "redirects to another host") {
		t.Errorf("exit %d, %q; want exit 1 and the remedy", code, errOut)
	}
}
