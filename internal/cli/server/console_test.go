package server

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/console"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/jsonl"
)

func loopbackAt(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// dev serves the console on a loopback address, serve if it is configured.
func TestConsoleIsServedWhere(t *testing.T) {
	open := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 80}
	own := cli.Program{Mounts: map[string]http.Handler{"/": http.NotFoundHandler()}}
	mounted := cli.Program{Mounts: map[string]http.Handler{"/hooks/": http.NotFoundHandler()}}
	for _, tt := range []struct {
		name    string
		at      net.Addr
		dev, on bool
		program *cli.Program
		root    int
		page    int
	}{
		{"dev", loopbackAt(80), true, false, &cli.Program{}, 200, 200},
		{"dev that others reach", open, true, false, &cli.Program{}, 418, 418},
		{"dev that others reach, and told", open, true, true, &cli.Program{}, 418, 418},
		{"serve", loopbackAt(80), false, false, &cli.Program{}, 418, 418},
		{"serve that is told", loopbackAt(80), false, true, &cli.Program{}, 200, 200},
		{"a program with a page", loopbackAt(80), true, false, &own, 404, 200},
		{"a program with hooks", loopbackAt(80), true, false, &mounted, 200, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf := &config.Server{Console: tt.on}
			h := guarded(newPage(conf, tt.at, manner{program: tt.program, dev: tt.dev}), teapot())
			for path, want := range map[string]int{"/": tt.root, console.Prefix: tt.page} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
				if w.Code != want {
					t.Errorf("GET %s: %d, want %d", path, w.Code, want)
				}
			}
		})
	}
}

// The page is public, its API is not.
func TestConsoleBehindAuth(t *testing.T) {
	conf := &config.Server{Console: true, Auth: config.Auth{Bearer: "secret"}, Agents: []config.Agent{
		{Agent: &agent.Agent{Name: "a", Model: "demo/parrot"}, Mounts: []string{"/agents/a"}}, {Agent: &agent.Agent{Name: "hidden", Model: "demo/parrot"}},
	}}
	h := guarded(newPage(conf, loopbackAt(80), manner{program: &cli.Program{}}), teapot())
	get := func(path, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://agents.example.com"+path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := get("/", ""); w.Code != http.StatusOK {
		t.Errorf("the page answers %d", w.Code)
	}
	for _, token := range []string{"", "wrong"} {
		if w := get(console.Prefix+"api/server", token); w.Code != http.StatusUnauthorized {
			t.Errorf("token %q: %d %s", token, w.Code, w.Body)
		}
	}
	w := get(console.Prefix+"api/server", "secret")
	var s console.Server
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v %s", w.Code, err, w.Body)
	}
	want := console.Server{Mode: "serve", Version: cli.Version(), Agents: []console.Agent{{Name: "a", Model: "demo/parrot", Mounts: []string{"/agents/a"}}}}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestConsoleForEverybodyIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.yaml")
	src := "listen: 0.0.0.0:0\nconsole: true\nbucket: {dir: data}\nagents: {echo: {mounts: [/agents/echo], model: demo/parrot}}\n"
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(file))
	code, _, errOut := program.Output(t, "serve", "--config", file)
	for _, want := range []string{file + ": console: ", "auth: {bearerEnv: PARLEY_TOKEN}", "127.0.0.1"} {
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("exit %d, %q; want 1 and %q", code, errOut, want)
		}
	}
}

// The console is served in addition to the protocol, whose other responses do not change.
func TestDevShowsTheConsole(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	base, err := url.Parse(n.Base)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string, header http.Header) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, base.Scheme+"://"+base.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range header {
			r.Header[name] = values
		}
		r.Host = header.Get("Host")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, tt := range []struct {
		method, path string
		header       http.Header
		status       int
		body         string
	}{
		{"GET", "/", nil, 200, "<title>Parley</title>"},
		{"GET", "/", http.Header{"Host": {"rebound.example.com"}}, 403, "loopback"},
		{"GET", console.Prefix + "api/server", nil, 200, `"demo":true`},
		{"GET", console.Prefix + "api/server", http.Header{"Origin": {"http://localhost:3000"}}, 403, "another origin"},
		{"GET", console.Prefix + "api/server", http.Header{"Host": {"rebound.example.com"}}, 403, "loopback"},
		{"POST", "/", nil, 404, "route_not_found"},
		{"GET", "/nothing", nil, 404, "route_not_found"},
		{"GET", console.Prefix + "nothing", nil, 404, "route_not_found"},
		{"GET", cli.MountPath + "/x", nil, 404, "stream_not_found"},
		{"DELETE", cli.MountPath + "/x", nil, 405, "method_not_allowed"},
	} {
		if status, body := ask(tt.method, tt.path, tt.header); status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s %v: %d %s", tt.method, tt.path, tt.header, status, body)
		}
	}
}

// A mistake in the file is shown with its position until it is corrected.
func TestConsoleShowsMistakes(t *testing.T) {
	dir := t.TempDir()
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir))
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := program.Start(t, "dev", "--quiet", "--listen", "127.0.0.1:0", "--config", file)
	base, err := url.Parse(n.Base)
	if err != nil {
		t.Fatal(err)
	}
	until := func(desc string, is func(console.Server) bool) console.Server {
		t.Helper()
		var s console.Server
		eventually(t, desc, func() bool {
			resp, err := http.Get(base.Scheme + "://" + base.Host + console.Prefix + "api/server")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			s = console.Server{}
			return json.NewDecoder(resp.Body).Decode(&s) == nil && resp.StatusCode == http.StatusOK && is(s)
		})
		return s
	}
	replace(t, file, string(good)+"nonsense: 1\n")
	s := until("the mistake", func(s console.Server) bool { return len(s.Problems) > 0 })
	if p := s.Problems[0]; s.File != file || p.Line == 0 || !strings.Contains(p.Text, "nonsense") {
		t.Errorf("got problem %+v of %s", p, s.File)
	}
	replace(t, file, string(good))
	until("no mistake", func(s console.Server) bool { return s.File == file && len(s.Problems) == 0 })
}

// dev records prompts if events go only into the data folder.
func TestDevRecordsPrompts(t *testing.T) {
	elsewhere := config.Events{Live: true, JSONL: &config.JSONL{File: filepath.Join(t.TempDir(), "events.jsonl")}}
	for name, tt := range map[string]struct {
		events  config.Events
		program cli.Program
		dev     bool
		want    bool
	}{
		"dev":                    {config.Events{Live: true}, cli.Program{}, true, true},
		"serve":                  {config.Events{Live: true}, cli.Program{}, false, false},
		"standard output":        {config.Events{Live: true, Stdout: true}, cli.Program{}, true, false},
		"a file of one's own":    {elsewhere, cli.Program{}, true, false},
		"a program that listens": {config.Events{Live: true}, cli.Program{Observers: []observability.Sink{jsonl.NewWriter("test", io.Discard)}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			conf := &config.Server{Bucket: config.Bucket{Dir: t.TempDir()}, Events: tt.events, Agents: []config.Agent{{Agent: assistant(cli.DemoModel), Mounts: []string{"/a"}}}}
			how := manner{program: &tt.program, dev: tt.dev, out: io.Discard, outcomes: io.Discard, secrets: &cli.Secrets{}}
			n, err := newConfigured(t.Context(), conf, loopbackAt(80), how, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if got := n.events.options.Prompts; got != tt.want {
				t.Errorf("got prompts in events: %t", got)
			}
			if err := n.close(); err != nil {
				t.Error(err)
			}
		})
	}
}
