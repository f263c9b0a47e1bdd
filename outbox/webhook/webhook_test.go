package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/outbox/webhook"
)

func post(url string) outbox.Post {
	return outbox.Post{ID: "post_1", Target: url, Body: json.RawMessage(`{"type":"submission.settled","n":1}`), Attempt: 1}
}

func secret(letter string) (webhook.Secret, string) {
	raw := []byte(strings.Repeat(letter, 32))
	return raw, "whsec_" + base64.StdEncoding.EncodeToString(raw)
}

// deliver delivers a post to a URL on this machine.
func deliver(t *testing.T, url string, secrets ...webhook.Secret) error {
	t.Helper()
	c := webhook.New(&webhook.Options{Private: true})
	t.Cleanup(c.Close)
	to, err := c.Target(url, secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return to.Deliver(t.Context(), post(url))
}

// TestReceiversVerify checks that the receivers' library of Standard Webhooks accepts a delivery with
// each of the secrets, and rejects it with another.
func TestReceiversVerify(t *testing.T) {
	a, textA := secret("a")
	b, textB := secret("b")
	_, textC := secret("c")
	var got http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	if err := deliver(t, server.URL, a, b); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{textA: true, textB: true, textC: false} {
		wh, err := standardwebhooks.NewWebhook(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(body, got); (err == nil) != want {
			t.Errorf("secret %s: got %v", text, err)
		}
		parsed, err := webhook.ParseSecret(text)
		if err != nil || parsed.String() != "(secret)" {
			t.Errorf("%s: got %v, %v", text, parsed, err)
		}
	}
	if string(body) != `{"type":"submission.settled","n":1}` || got.Get("Content-Type") != "application/json" || got.Get("Webhook-Id") != "post_1" {
		t.Errorf("it got %s with %v", body, got)
	}
}

// TestAnswers maps responses of a receiver to results of the delivery.
// covers: channels/157
func TestAnswers(t *testing.T) {
	var others atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	defer other.Close()
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
	}
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string // of the error, empty for a delivery
		gone   bool
		after  time.Duration
	}{
		"200":                   {status(200), "", false, 0},
		"204":                   {status(204), "", false, 0},
		"400":                   {status(400), "target returned status 400", false, 0},
		"410":                   {status(410), "target returned status 410", true, 0},
		"500":                   {status(500), "target returned status 500", false, 0},
		"429 with a time":       {status(429, "Retry-After", "90"), "target returned status 429", false, 90 * time.Second},
		"503 with a long time":  {status(503, "Retry-After", "99999999"), "target returned status 503", false, 24 * time.Hour},
		"503 with nonsense":     {status(503, "Retry-After", "soon"), "target returned status 503", false, 0},
		"to this machine":       {redirect(other.URL), "target returned status 307; redirects are not followed", false, 0},
		"to metadata":           {redirect("http://169.254.169.254/latest/meta-data/"), "target returned status 307; redirects are not followed", false, 0},
		"it hangs up":           {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "request failed: EOF", false, 0},
		"an answer without end": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }, "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			err := deliver(t, server.URL)
			got := ""
			if err != nil {
				got = err.Error()
			}
			var gone *outbox.GoneError
			var later *outbox.LaterError
			if got != c.want || errors.As(err, &gone) != c.gone || errors.As(err, &later) != (c.after > 0) || later != nil && later.After != c.after {
				t.Errorf("%q, %#v", got, err)
			}
		})
	}
	if n := others.Load(); n > 0 {
		t.Errorf("got %d followed redirects, want 0", n)
	}
}

// traced is a transport that a program installs as the default.
type traced struct{ http.RoundTripper }

// TestReplacedTransport checks that deliveries work without a replaced default transport.
func TestReplacedTransport(t *testing.T) {
	old := http.DefaultTransport
	http.DefaultTransport = traced{}
	defer func() { http.DefaultTransport = old }()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	if err := deliver(t, server.URL); err != nil {
		t.Error(err)
	}
}

// TestReceiverThatStalls checks that an attempt ends with its context.
func TestReceiverThatStalls(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	c := webhook.New(&webhook.Options{Private: true})
	defer c.Close()
	to, err := c.Target(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if err := to.Deliver(ctx, post(server.URL)); err == nil || err.Error() != "no response within 20s" {
		t.Error(err)
	}
}

// TestGuard checks that addresses outside the public internet are not connected to, by name or by
// address.
func TestGuard(t *testing.T) {
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	c := webhook.New(nil)
	defer c.Close()
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1.2.3", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
		"169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "[64:ff9b::7f00:1]", "224.0.0.1", "255.255.255.255", "168.63.129.16",
	} {
		url := "http://" + host + port + "/secret-path"
		to, err := c.Target(url)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		err = to.Deliver(t.Context(), post(url))
		if err == nil || !strings.Contains(err.Error(), "not on the public internet") || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("got %d calls of this machine, want 0", n)
	}
}

// TestURLs checks which URLs callers may name, and which may be configured.
func TestURLs(t *testing.T) {
	c := webhook.New(nil)
	defer c.Close()
	urls := c.URLs([]string{"hooks.example.com", "*.Example.org"})
	for url, want := range map[string]string{
		"https://hooks.example.com/a":        "",
		"https://HOOKS.example.com:8443/a":   "",
		"https://hooks.example.com./a":       "",
		"https://a.b.example.org":            "",
		"https://example.org":                "host example.org is not allowed",
		"https://evilexample.org":            "is not allowed",
		"https://example.com":                "is not allowed",
		"https://x.hooks.example.com":        "is not allowed",
		"http://hooks.example.com":           "scheme is not https",
		"https://user:pw@hooks.example.com":  "contains a user name",
		"ftp://hooks.example.com":            "scheme is not https or http",
		"https://":                           "missing host",
		"https://hooks.example.com\x00":      "not a URL",
		"https://hooks.example.com@10.0.0.1": "contains a user name",
		"https://[::1%25.example.org]":       "address has a zone",
	} {
		err := urls.Check(url)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", url, err, want)
		}
	}
	if err := c.URLs(nil).Check("https://hooks.example.com"); err == nil {
		t.Error("without allowed hosts: got an accepted URL")
	}
}

func TestSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"whsec_":         "want 24 to 64 bytes in base64, got 0",
		"whsec_%%%":      "want \"whsec_\" followed by base64",
		"whsec_c2hvcnQ=": "got 5",
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)): "got 65",
	} {
		if _, err := webhook.ParseSecret(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
