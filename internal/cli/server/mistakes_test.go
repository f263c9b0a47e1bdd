package server

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
)

// wrongLines lists the cases below whose command line is wrong regardless of files and environment.
var wrongLines = []string{
	"send without host", "send is not quoted", "tail without URL", "flag is unknown",
	"serve with arguments", "log format is unknown", "run without file", "run is not quoted",
}

func exitOf(name string) int {
	if slices.Contains(wrongLines, name) {
		return cli.ExitUsage
	}
	return 1
}

func TestMistakesNameRemedy(t *testing.T) {
	clitest.WithoutKeys(t)
	busy := httptest.NewServer(http.NotFoundHandler())
	defer busy.Close()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"key is missing":       {[]string{"dev", "--data", t.TempDir(), "--model", "openai/m"}, "set OPENAI_API_KEY"},
		"other key is missing": {[]string{"dev", "--data", t.TempDir(), "--model", "anthropic/m"}, "set ANTHROPIC_API_KEY"},
		"provider is unknown":  {[]string{"dev", "--data", t.TempDir(), "--model", "nobody/m"}, "try \"demo/parrot\""},
		"model has no slash":   {[]string{"dev", "--data", t.TempDir(), "--model", "m"}, "openai/<model>"},
		"port is taken":        {[]string{"dev", "--data", t.TempDir(), "--listen", busy.Listener.Addr().String()}, "--listen 127.0.0.1:0"},
		"send without host":    {[]string{"send", "hello", "text"}, "is not a conversation URL"},
		"send is not quoted":   {[]string{"send", "http://127.0.0.1:1/x", "long", "100"}, "put the message in quotes"},
		"tail without URL":     {[]string{"tail"}, "tail takes one conversation URL"},
		"tail of bad offset":   {[]string{"tail", "--offset", "7", "http://127.0.0.1:1/agents/assistant/x"}, "want -1 or"},
		"token is missing":     {[]string{"send", "--token-env", "TEST_PARLEY_NONE", "http://127.0.0.1:1/x", "hi"}, "--token-env TEST_PARLEY_NONE: the variable is not set"},

		"flag is unknown": {[]string{"serve", "--confg", "x"}, "parley serve --help lists the flags"},
		"tail of nothing": {[]string{"tail", "http://" + busy.Listener.Addr().String() + "/x"}, "the server answered 404"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := program.Output(t, tt.args...)
			if code != exitOf(name) || !strings.Contains(errOut, tt.want) {
				t.Errorf("exit %d, %q; want exit %d and %q", code, errOut, exitOf(name), tt.want)
			}
		})
	}
}

// covers: providers/113, providers/80 run_of_a_parley.yaml
func TestFileMistakesNameRemedy(t *testing.T) {
	clitest.WithoutKeys(t)
	t.Chdir(t.TempDir())
	busy := httptest.NewServer(http.NotFoundHandler())
	defer busy.Close()
	const agents = "agents:\n  echo: {mounts: [/agents/echo], model: demo/parrot}\n"
	clitest.Write(t, "good.yaml", "listen: 127.0.0.1:0\n"+agents)
	clitest.Write(t, "busy.yaml", "listen: "+busy.Listener.Addr().String()+"\n"+agents)
	clitest.Write(t, "keyless.yaml", "agents:\n  echo: {mounts: [/agents/echo], model: openai/gpt-5}\n")
	clitest.Write(t, "blank-key.yaml", "providers: {openai: {apiKeyEnv: NOT_SET_ANYWHERE}}\nagents:\n  echo: {mounts: [/agents/echo], model: openai/gpt-5}\n")
	clitest.Write(t, "keyless-fallback.yaml", "agents:\n  echo: {model: demo/parrot, fallbacks: [openai/gpt-5]}\n")
	clitest.Write(t, "keyless-subagent.yaml", "agents:\n  echo:\n    model: demo/parrot\n    subagents: [{name: sub, description: d, compaction: {model: anthropic/claude-opus-4-6}}]\n")
	clitest.Write(t, "lost-subagent.yaml", "agents:\n  echo:\n    model: demo/parrot\n    subagents:\n      - {name: sub, description: d, model: nobody/m}\n")
	clitest.Write(t, "single-fallback.yaml", "model: demo/parrot\nfallbacks:\n  - nobody/m\n")
	clitest.Write(t, "typo.yaml", "listn: 127.0.0.1:0\n"+agents)
	clitest.Write(t, "file", "")
	clitest.Write(t, "nowhere.yaml", "listen: 127.0.0.1:0\nbucket: {dir: file}\n"+agents)
	clitest.Write(t, "single.yaml", "model: demo/parrot\n")
	clitest.Write(t, "single-keyless.yaml", "model: anthropic/claude-opus-4-6\n")
	clitest.Write(t, "unlisted.yaml", "model: anthropic/new\n")
	clitest.Write(t, "codex.yaml", "model: openai-codex/gpt-5.6-luna\n")
	clitest.Write(t, "allowed.yaml", "model: groq/new\nproviders: {groq: {}}\n")
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"serve without file":    {[]string{"serve"}, []string{"./parley.yaml", "create it"}},
		"serve with arguments":  {[]string{"serve", "good.yaml"}, []string{"parley serve --config good.yaml"}},
		"serve with a typo":     {[]string{"serve", "--config", "typo.yaml"}, []string{"typo.yaml:1", "listn"}},
		"serve without key":     {[]string{"serve", "--config", "keyless.yaml"}, []string{"keyless.yaml: agent \"echo\"", "set OPENAI_API_KEY"}},
		"serve of a blank key":  {[]string{"serve", "--config", "blank-key.yaml"}, []string{"set OPENAI_API_KEY", "export the environment variable NOT_SET_ANYWHERE"}},
		"serve without key 2":   {[]string{"serve", "--config", "keyless-fallback.yaml"}, []string{"keyless-fallback.yaml: agent \"echo\": model \"openai/gpt-5\"", "set OPENAI_API_KEY"}},
		"serve without key 3":   {[]string{"serve", "--config", "keyless-subagent.yaml"}, []string{"agent \"echo\": subagent \"sub\"", "set ANTHROPIC_API_KEY"}},
		"serve of no provider":  {[]string{"serve", "--config", "lost-subagent.yaml"}, []string{"lost-subagent.yaml:5: agents.echo.subagents[0].model", "add it to providers"}},
		"dev of no provider":    {[]string{"dev", "--config", "lost-subagent.yaml"}, []string{"lost-subagent.yaml:5: agents.echo.subagents[0].model"}},
		"run of no provider":    {[]string{"run", "single-fallback.yaml", "-m", "x"}, []string{"single-fallback.yaml:3: fallbacks[0]"}},
		"serve on a taken port": {[]string{"serve", "--config", "busy.yaml"}, []string{busy.Listener.Addr().String(), "at listen in busy.yaml"}},
		"serve without folder":  {[]string{"serve", "--config", "nowhere.yaml"}, []string{"nowhere.yaml", "open the data folder", "file"}},
		"log format is unknown": {[]string{"serve", "--config", "good.yaml", "--log-format", "xml"}, []string{"use text, json or dev"}},
		"dev without file":      {[]string{"dev", "--config", "none.yaml"}, []string{"none.yaml", "create it"}},
		"dev with a typo":       {[]string{"dev", "--config", "typo.yaml"}, []string{"typo.yaml:1", "listn"}},
		"dev without key":       {[]string{"dev", "--config", "keyless.yaml"}, []string{"set OPENAI_API_KEY"}},
		"dev on a taken port":   {[]string{"dev", "--config", "busy.yaml"}, []string{"at listen in busy.yaml", "--listen"}},
		"dev without folder":    {[]string{"dev", "--config", "nowhere.yaml"}, []string{"open the data folder"}},
		"run without file":      {[]string{"run"}, []string{"run takes one file", "-m 'hello'"}},
		"run is not quoted":     {[]string{"run", "single.yaml", "-m", "two", "words"}, []string{"put the message in quotes"}},
		"run without message":   {[]string{"run", "single.yaml"}, []string{"parley run single.yaml -m 'hello'"}},
		"run with nothing":      {[]string{"run", "single.yaml", "-m", ""}, []string{"the message is empty"}},
		"run with no UTF-8":     {[]string{"run", "single.yaml", "-m", "\xff"}, []string{"not valid UTF-8"}},
		"run with too much":     {[]string{"run", "single.yaml", "-m", strings.Repeat("x", 4<<20+1)}, []string{"limit of 4194304 bytes"}},
		"run of a missing file": {[]string{"run", "none.yaml", "-m", "x"}, []string{"none.yaml", "create it"}},
		"run of a parley.yaml":  {[]string{"run", "good.yaml", "-m", "x"}, []string{"good.yaml:1"}},
		"run of a new model":    {[]string{"run", "unlisted.yaml", "-m", "x"}, []string{"parley models --provider anthropic", "providers: {anthropic: {}}"}},
		"run without token":     {[]string{"run", "codex.yaml", "-m", "x"}, []string{"needs a token", "apiKeyEnv of openai-codex"}},
		"run of what may be":    {[]string{"run", "allowed.yaml", "-m", "x"}, []string{"set GROQ_API_KEY"}},
		"run without key":       {[]string{"run", "single-keyless.yaml", "-m", "x"}, []string{"single-keyless.yaml: agent \"single-keyless\"", "set ANTHROPIC_API_KEY"}},
		"run with a blank id":   {[]string{"run", "single.yaml", "-m", "x", "--id", " "}, []string{"--id is blank"}},
		"run with a long id":    {[]string{"run", "single.yaml", "-m", "x", "--id", strings.Repeat("x", 513)}, []string{"at most 512"}},
		"run with no folder":    {[]string{"run", "single.yaml", "-m", "x", "--data", "file"}, []string{"open the data folder"}},
		"run with a broken id":  {[]string{"run", "single.yaml", "-m", "x", "--id", "\xff"}, []string{"--id is not valid UTF-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := program.Output(t, tt.args...)
			for _, want := range tt.want {
				if code != exitOf(name) || out != "" || !strings.Contains(errOut, want) {
					t.Errorf("exit %d, %q, %q; want exit %d and %q", code, out, errOut, exitOf(name), want)
				}
			}
		})
	}
}

func TestSecondServerOnOneFolder(t *testing.T) {
	data := t.TempDir()
	program.StartDev(t, data)
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {dir: %q}", data))
	for _, args := range [][]string{
		{"dev", "--listen", "127.0.0.1:0", "--data", data},
		{"dev", "--config", file},
		{"serve", "--config", file},
	} {
		code, _, errOut := program.Output(t, args...)
		if code != cli.ExitRefused || !strings.Contains(errOut, data) {
			t.Errorf("%v: exit %d, %q; want exit %d and the folder's name", args, code, errOut, cli.ExitRefused)
		}
	}
}

// covers: protocol/149, protocol/153
func TestLoopbackCORS(t *testing.T) {
	h := origins{loopback: true}.middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for origin, want := range map[string]string{
		"http://localhost:3000": "http://localhost:3000", "http://127.0.0.1:8080": "http://127.0.0.1:8080",
		"http://[::1]:1": "http://[::1]:1", "https://evil.example": "", "http://localhost.evil.example": "", "null": "", "": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.Header.Set("Origin", origin)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != want || w.Code != http.StatusTeapot {
			t.Errorf("origin %q: allowed %q, status %d", origin, got, w.Code)
		}
		r.Method = http.MethodOptions
		r.Header.Set("Access-Control-Request-Method", "POST")
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if preflight := w.Code == http.StatusNoContent; preflight != (want != "") {
			t.Errorf("origin %q: preflight answered %d", origin, w.Code)
		}
	}
}

func TestBanner(t *testing.T) {
	var out bytes.Buffer
	banner(&out, devConfig{program: &cli.Program{}, data: "./.parley", model: cli.DemoModel}, &net.TCPAddr{IP: net.IPv6zero, Port: 7}, []string{"In a browser: here"})
	for _, want := range []string{"http://127.0.0.1:7/agents/assistant/hello", "\n\nIn a browser: here\n\nTry", " send http://127.0.0.1:7/agents", "OPENAI_API_KEY", "./.parley"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("banner lacks %q:\n%s", want, out.String())
		}
	}
	if isLoopback(&net.TCPAddr{IP: net.IPv6zero}) || !isLoopback(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}) {
		t.Error("causes of errors are for this machine only")
	}
	for _, path := range []string{"/tmp/go-build12/b001/exe/parley", "/cache/ed/" + strings.Repeat("e0", 32) + "-d/parley"} {
		if got := invocation(&cli.Program{}, []string{path}); got != "go run ./cmd/parley" {
			t.Errorf("with go run, got %q", got)
		}
	}
	if got := invocation(&cli.Program{}, []string{"bin/parley"}); got != "bin/parley" {
		t.Errorf("as bin/parley, got %q", got)
	}
}
