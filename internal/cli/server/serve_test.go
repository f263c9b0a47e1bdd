package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
)

func TestServeResumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir), "publicUrl: https://agents.example.com/v1")
	n := program.Start(t, "serve", "--quiet", "--config", file)
	if !strings.HasSuffix(n.Base, "/agents/echo") {
		t.Fatalf("serves %s", n.Base)
	}
	at := n.URL(t, "a%2Fb")
	rcpt := clitest.Admitted(t, at, "k1", "long 60")
	if want := "https://agents.example.com/v1/agents/echo/a%2Fb"; rcpt.StreamURL != want {
		t.Errorf("stream URL %s, want %s", rcpt.StreamURL, want)
	}
	client := clitest.NewReader(t, rcpt.Offset)
	client.Until(at, rcpt.Offset, func(conversation.Chunk) bool { return strings.Contains(client.Text.String(), " 12") })
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	before := client.Text.String()

	n = program.Start(t, "serve", "--quiet", "--config", file)
	at = n.URL(t, "a%2Fb")
	client.Until(at, client.Offset(), clitest.Settled(rcpt.SubmissionID))
	if got := clitest.Settlements(clitest.History(t, at), rcpt.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
		t.Errorf("settlements are %v", got)
	}
	var want strings.Builder
	for i := 1; i <= 60; i++ {
		fmt.Fprintf(&want, "%d ", i)
	}
	if got := strings.Join(strings.Fields(client.Text.String()), " "); got != strings.TrimSpace(want.String()) {
		t.Errorf("text over the restart is %q, before it %q", got, before)
	}
}

func TestServeWithToken(t *testing.T) {
	t.Setenv("TEST_PARLEY_TOKEN", "s3cret")
	t.Setenv("TEST_PARLEY_OTHER", "wrong")
	dir := t.TempDir()
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir), "auth: {bearerEnv: TEST_PARLEY_TOKEN}", `cors: {origins: ["https://app.example.com"]}`)
	n := program.Start(t, "serve", "--quiet", "--config", file)
	for _, args := range [][]string{
		{"send", n.Base + "/x", "hello"},
		{"tail", n.Base + "/x"},
		{"abort", n.Base + "/x"},
		{"send", "--token-env", "TEST_PARLEY_OTHER", n.Base + "/x", "hello"},
	} {
		if code, _, errOut := program.Output(t, args...); code != 1 || !strings.Contains(errOut, "401 unauthorized") || !strings.Contains(errOut, "--token-env") {
			t.Errorf("%v: exit %d, %q; want 401", args, code, errOut)
		}
	}
	code, out, errOut := program.Output(t, "send", "--token-env", "TEST_PARLEY_TOKEN", n.Base+"/x", "hello")
	if code != 0 || !strings.HasSuffix(out, "[completed]\n") {
		t.Errorf("send: exit %d, %q, %q", code, out, errOut)
	}
	code, out, errOut = program.Output(t, "abort", "--token-env", "TEST_PARLEY_TOKEN", n.Base+"/x")
	if code != 0 || out != "nothing to abort\n" {
		t.Errorf("abort: exit %d, %q, %q", code, out, errOut)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := clitest.WriterFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("[completed]")) {
			cancel()
		}
		return len(p), nil
	})
	if code := program.Run(ctx, []string{"tail", "--token-env", "TEST_PARLEY_TOKEN", n.Base + "/x"}, seen, io.Discard); code != 0 || ctx.Err() == nil {
		t.Errorf("tail: exit %d", code)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, n.Base+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://app.example.com")
	req.Header.Set("Access-Control-Request-Method", "POST")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("preflight: %d", resp.StatusCode)
	}
}

// A node has lost its bucket: only dev returns the cause to clients.
// covers: protocol/173
func TestServeHidesCauses(t *testing.T) {
	for _, dev := range []bool{false, true} {
		conf := named("echo")
		conf.Bucket.Dir = t.TempDir()
		b, err := newConfigured(t.Context(), conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: &cli.Program{}, dev: dev}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/echo/x", nil))
		e := clitest.Into[struct{ Error clitest.Refusal }](t, w.Body.String()).Error
		if w.Code != http.StatusServiceUnavailable || (e.Dev != "") != dev {
			t.Errorf("dev is %v: %d %+v", dev, w.Code, e)
		}
	}
}

func TestServeListsMounts(t *testing.T) {
	dir := t.TempDir()
	file := clitest.Write(t, filepath.Join(dir, "p.yaml"), clitest.DirBucket(dir)+`
listen: 127.0.0.1:0
publicUrl: https://agents.example.com
agents:
  echo: {mounts: [/agents/echo, /e], model: demo/parrot}
  hidden: {mounts: [], model: demo/parrot}
`)
	plain, _ := program.Serving(t, "serve", "--config", file)
	out, errOut := program.Serving(t, "serve", "--config", file, "--log-format", "json")
	var banner []string
	for line := range strings.Lines(out + errOut) {
		var record struct{ Level, Msg, Line string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Level == "" || record.Msg == "" {
			t.Errorf("got a line that is not a JSON log record, %v: %s", err, line)
		}
		if record.Line != "" {
			banner = append(banner, record.Line)
		}
	}
	var want []string
	for line := range strings.Lines(plain) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	if len(banner) != len(want) || banner[0] != want[0] || banner[len(banner)-1] != "Press Ctrl-C to stop." {
		t.Errorf("got the banner %q in the log, want %q", banner, want)
	}
	for _, want := range []string{"/agents/echo/<any id>", "/e/<any id>", `agent "echo", model demo/parrot`, filepath.Join(dir, "data"), "https://agents.example.com"} {
		if !strings.Contains(plain, want) || !strings.Contains(strings.Join(banner, "\n"), want) {
			t.Errorf("banner lacks %q:\n%s\nin the log: %q", want, plain, banner)
		}
	}
	if strings.Contains(plain, "hidden") {
		t.Errorf("banner names an agent that has no mount:\n%s", plain)
	}
}

func TestServeExplainsTheBucket(t *testing.T) {
	answer := func(status int, code string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	otherStore := clitest.NewStore(t)
	foreign := httptest.NewServer(s3front.New(otherStore))
	t.Cleanup(foreign.Close)
	if err := otherStore.Put(t.Context(), "somebody-elses", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, endpoint, bucket, want string
	}{
		{"nobody there", noderun.Refusing(t), "words", "check bucket.endpoint and bucket.secure"},
		{"no such bucket", answer(404, "NoSuchBucket"), "words", "create the bucket, or correct bucket.name"},
		{"unknown key", answer(403, "InvalidAccessKeyId"), "words", "bucket.accessKeyEnv and bucket.secretKeyEnv"},
		{"unknown user", answer(404, "XAdminUserNotFound"), "words", "bucket.accessKeyEnv and bucket.secretKeyEnv"},
		{"not found by a proxy", answer(404, ""), "words", "check bucket.endpoint, bucket.name"},
		{"wrong secret", answer(403, "SignatureDoesNotMatch"), "words", "bucket.accessKeyEnv and bucket.secretKeyEnv"},
		{"other region", answer(400, "AuthorizationHeaderMalformed"), "words", "check bucket.region"},
		{"no S3", answer(400, ""), "words", "check bucket.endpoint, bucket.name"},
		{"throttled", answer(503, "SlowDown"), "words", "throttles requests"},
		{"session is over", answer(400, "ExpiredToken"), "words", "name a permanent key"},
		{"a page", pages(t, "text/html"), "words", "a proxy, gateway or login page answers instead of the store"},
		{"no Last-Modified", pages(t, "application/octet-stream"), "words", "has no Last-Modified"},
		{"of somebody else", foreign.Listener.Addr().String(), "parley", "use an empty bucket or another prefix"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: %s, secure: false}", tt.endpoint, tt.bucket))
			code, _, errOut := program.Output(t, "serve", "--config", file)
			for _, want := range []string{tt.want, tt.endpoint, fmt.Sprintf("bucket %q", tt.bucket)} {
				if code != 1 || !strings.Contains(errOut, want) {
					t.Errorf("exit %d, %q; want exit 1 and %q", code, errOut, want)
				}
			}
		})
	}
}

// pages answers every request with bytes of a type and with an ETag.
func pages(t *testing.T, kind string) (endpoint string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("ETag", `"any"`)
		fmt.Fprint(w, "<html>Please log in</html>")
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// The header is signed, so the store rejects requests without it. The error must not blame the keys.
func TestServeBehindAProxyThatDropsTheCondition(t *testing.T) {
	server := s3server.Versitygw(t)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", server.Endpoint, r.In.Host
		r.Out.Header.Del("If-None-Match")
	}})
	t.Cleanup(proxy.Close)
	t.Setenv("TEST_ACCESS_KEY", server.AccessKey)
	t.Setenv("TEST_SECRET_KEY", server.SecretKey)
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: %s, region: %s, secure: false, accessKeyEnv: TEST_ACCESS_KEY, secretKeyEnv: TEST_SECRET_KEY}",
		proxy.Listener.Addr(), server.Bucket(t), server.Region))
	code, _, errOut := program.Output(t, "serve", "--config", file)
	if want := "a proxy before the store drops or changes If-None-Match"; code != 1 || !strings.Contains(errOut, want) {
		t.Errorf("exit %d, %q; want exit 1 and %q", code, errOut, want)
	}
}

func TestServeOverAnEndpoint(t *testing.T) {
	store := clitest.NewStore(t)
	endpoint := httptest.NewServer(s3front.New(store))
	t.Cleanup(endpoint.Close)
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: parley, prefix: one/two, secure: false}", endpoint.Listener.Addr().String()))
	n := program.Start(t, "serve", "--quiet", "--config", file)
	if code, out, errOut := program.Output(t, "send", n.Base+"/x", "hello"); code != 0 || !strings.HasSuffix(out, "[completed]\n") {
		t.Fatalf("exit %d, %q, %q", code, out, errOut)
	}
	page, err := store.List(t.Context(), storage.ListQuery{})
	if err != nil || len(page.Keys) == 0 {
		t.Fatal(err, page)
	}
	for _, k := range page.Keys {
		if !strings.HasPrefix(k.Key, "one/two/") {
			t.Errorf("key %s is outside the prefix", k.Key)
		}
	}
	// A second node on the folder is rejected with its own exit code.
	code, _, errOut := program.Output(t, "serve", "--config", file)
	if code != cli.ExitRefused || !strings.Contains(errOut, "serves this bucket: stop it") || !strings.Contains(errOut, `bucket "parley"`) {
		t.Errorf("exit %d, %q; want %d and the remedy", code, errOut, cli.ExitRefused)
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	n = program.Start(t, "serve", "--quiet", "--config", file)
	if got := clitest.History(t, n.URL(t, "x")); len(got.Settlements) != 1 {
		t.Errorf("after a restart: %+v", got)
	}
}
