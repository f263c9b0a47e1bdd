package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers/catalog"
)

// output runs the program in this process.
func output(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), systemTimeout)
	defer cancel()
	var out, errOut bytes.Buffer
	code = run(ctx, args, &out, &errOut)
	if ctx.Err() != nil {
		t.Fatalf("%v goes on and on: %s%s", args, out.String(), errOut.String())
	}
	return code, out.String(), errOut.String()
}

func TestVersion(t *testing.T) {
	code, out, _ := output(t, "version")
	if code != 0 || !strings.HasPrefix(out, "parley ") || !strings.Contains(out, "stored format 8") {
		t.Errorf("exit %d, %q", code, out)
	}
}

// withoutKeys empties the variables that hold keys, or name other servers.
func withoutKeys(t *testing.T) {
	t.Helper()
	t.Setenv("OPENAI_BASE_URL", "")
	t.Setenv("ANTHROPIC_BASE_URL", "")
	for _, p := range catalog.Builtin() {
		for _, k := range p.EnvKeys {
			t.Setenv(k.Name, "")
		}
		for _, set := range p.EnvSets {
			for _, name := range set {
				t.Setenv(name, "")
			}
		}
	}
}

func TestMistakesSayWhatToDo(t *testing.T) {
	withoutKeys(t)
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
		"model of a file":      {[]string{"dev", "--config", "x.yaml", "--model", "demo/parrot"}, "set the models in x.yaml"},
		"flag is unknown":      {[]string{"serve", "--confg", "x"}, "parley serve --help lists the flags"},
		"tail of nothing":      {[]string{"tail", "http://" + busy.Listener.Addr().String() + "/x"}, "the server answered 404"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := output(t, tt.args...)
			if code != 1 || !strings.Contains(errOut, tt.want) {
				t.Errorf("exit %d, %q; want exit 1 and %q", code, errOut, tt.want)
			}
		})
	}
}

func TestMistakesWithFilesSayWhatToDo(t *testing.T) {
	withoutKeys(t)
	t.Chdir(t.TempDir())
	busy := httptest.NewServer(http.NotFoundHandler())
	defer busy.Close()
	const agents = "agents:\n  echo: {mounts: [/agents/echo], model: demo/parrot}\n"
	write(t, "good.yaml", "listen: 127.0.0.1:0\n"+agents)
	write(t, "busy.yaml", "listen: "+busy.Listener.Addr().String()+"\n"+agents)
	write(t, "keyless.yaml", "agents:\n  echo: {mounts: [/agents/echo], model: openai/gpt-5}\n")
	write(t, "keyless-fallback.yaml", "agents:\n  echo: {model: demo/parrot, fallbacks: [openai/gpt-5]}\n")
	write(t, "keyless-subagent.yaml", "agents:\n  echo:\n    model: demo/parrot\n    subagents: [{name: sub, description: d, compaction: {model: anthropic/claude-opus-4-6}}]\n")
	write(t, "lost-subagent.yaml", "agents:\n  echo:\n    model: demo/parrot\n    subagents:\n      - {name: sub, description: d, model: nobody/m}\n")
	write(t, "single-fallback.yaml", "model: demo/parrot\nfallbacks:\n  - nobody/m\n")
	write(t, "typo.yaml", "listn: 127.0.0.1:0\n"+agents)
	write(t, "file", "")
	write(t, "nowhere.yaml", "listen: 127.0.0.1:0\nbucket: {dir: file}\n"+agents)
	write(t, "single.yaml", "model: demo/parrot\n")
	write(t, "single-keyless.yaml", "model: anthropic/claude-opus-4-6\n")
	write(t, "unlisted.yaml", "model: anthropic/new\n")
	write(t, "unspoken.yaml", "model: google/gemini-2.5-flash\n")
	write(t, "codex.yaml", "model: openai-codex/gpt-5.6-luna\n")
	write(t, "allowed.yaml", "model: groq/new\nproviders: {groq: {}}\n")
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"serve without file":    {[]string{"serve"}, []string{"./parley.yaml", "create it"}},
		"serve with arguments":  {[]string{"serve", "good.yaml"}, []string{"parley serve --config good.yaml"}},
		"serve with a typo":     {[]string{"serve", "--config", "typo.yaml"}, []string{"typo.yaml:1", "listn"}},
		"serve without key":     {[]string{"serve", "--config", "keyless.yaml"}, []string{"keyless.yaml: agent \"echo\"", "set OPENAI_API_KEY"}},
		"serve without key 2":   {[]string{"serve", "--config", "keyless-fallback.yaml"}, []string{"keyless-fallback.yaml: agent \"echo\": model \"openai/gpt-5\"", "set OPENAI_API_KEY"}},
		"serve without key 3":   {[]string{"serve", "--config", "keyless-subagent.yaml"}, []string{"agent \"echo\": subagent \"sub\"", "set ANTHROPIC_API_KEY"}},
		"serve of no provider":  {[]string{"serve", "--config", "lost-subagent.yaml"}, []string{"lost-subagent.yaml:5: agents.echo.subagents[0].model", "add it to providers"}},
		"dev of no provider":    {[]string{"dev", "--config", "lost-subagent.yaml"}, []string{"lost-subagent.yaml:5: agents.echo.subagents[0].model"}},
		"run of no provider":    {[]string{"run", "single-fallback.yaml", "-m", "x"}, []string{"single-fallback.yaml:3: fallbacks[0]"}},
		"serve on a taken port": {[]string{"serve", "--config", "busy.yaml"}, []string{busy.Listener.Addr().String(), "at listen in busy.yaml"}},
		"serve without folder":  {[]string{"serve", "--config", "nowhere.yaml"}, []string{"nowhere.yaml", "open the data folder", "file"}},
		"log format is unknown": {[]string{"serve", "--config", "good.yaml", "--log-format", "xml"}, []string{"use text or json"}},
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
		"run with too much":     {[]string{"run", "single.yaml", "-m", strings.Repeat("x", maxMessageBytes+1)}, []string{"limit of 4194304 bytes"}},
		"run of a missing file": {[]string{"run", "none.yaml", "-m", "x"}, []string{"none.yaml", "create it"}},
		"run of a parley.yaml":  {[]string{"run", "good.yaml", "-m", "x"}, []string{"good.yaml:1"}},
		"run of a new model":    {[]string{"run", "unlisted.yaml", "-m", "x"}, []string{"parley models --provider anthropic", "providers: {anthropic: {}}"}},
		"run in no format":      {[]string{"run", "unspoken.yaml", "-m", "x"}, []string{"google-generative-ai", "does not speak"}},
		"run without token":     {[]string{"run", "codex.yaml", "-m", "x"}, []string{"needs a token", "apiKeyEnv of openai-codex"}},
		"run of what may be":    {[]string{"run", "allowed.yaml", "-m", "x"}, []string{"set GROQ_API_KEY"}},
		"run without key":       {[]string{"run", "single-keyless.yaml", "-m", "x"}, []string{"single-keyless.yaml: agent \"single-keyless\"", "set ANTHROPIC_API_KEY"}},
		"run with a blank id":   {[]string{"run", "single.yaml", "-m", "x", "--id", " "}, []string{"--id is blank"}},
		"run with a long id":    {[]string{"run", "single.yaml", "-m", "x", "--id", strings.Repeat("x", 513)}, []string{"at most 512"}},
		"run with no folder":    {[]string{"run", "single.yaml", "-m", "x", "--data", "file"}, []string{"open the data folder"}},
		"run with a broken id":  {[]string{"run", "single.yaml", "-m", "x", "--id", "\xff"}, []string{"--id is not valid UTF-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := output(t, tt.args...)
			for _, want := range tt.want {
				if code != 1 || out != "" || !strings.Contains(errOut, want) {
					t.Errorf("exit %d, %q, %q; want exit 1 and %q", code, out, errOut, want)
				}
			}
		})
	}
}

func TestSecondServerOnOneFolder(t *testing.T) {
	data := t.TempDir()
	startDev(t, data)
	file := echoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {dir: %q}", data))
	for _, args := range [][]string{
		{"dev", "--listen", "127.0.0.1:0", "--data", data},
		{"dev", "--config", file},
		{"serve", "--config", file},
	} {
		code, _, errOut := output(t, args...)
		if code != exitRefused || !strings.Contains(errOut, data) {
			t.Errorf("%v: exit %d, %q; want exit %d and the folder's name", args, code, errOut, exitRefused)
		}
	}
}

func TestConversationURLKeepsEscapes(t *testing.T) {
	for given, want := range map[string]string{
		"http://h/agents/echo/a%2Fb":              "http://h/agents/echo/a%2Fb",
		"http://h/agents/echo/a%2Fb c":            "http://h/agents/echo/a%2Fb%20c",
		"http://h/agents/echo/a%2Fb 会":            "http://h/agents/echo/a%2Fb%20%E4%BC%9A",
		`http://h/agents/echo/a%2F"<>\^` + "`{|}": "http://h/agents/echo/a%2F%22%3C%3E%5C%5E%60%7B%7C%7D",
		"http://h/agents/echo/%25x%2F?a=é#f":      "http://h/agents/echo/%25x%2F",
		"http://h/agents/echo/x?":                 "http://h/agents/echo/x",
		"https://[::1]:3000/echo/x":               "https://[::1]:3000/echo/x",
	} {
		if got, err := conversationURL(given); err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v; want %s", given, got, err, want)
		}
	}
}

// TestSendIsInterrupted interrupts a reply: the line on the screen is ended, and
// the exit code is not that of a failure.
func TestSendIsInterrupted(t *testing.T) {
	n := startDev(t, t.TempDir())
	ctx, stop := context.WithTimeout(t.Context(), systemTimeout)
	defer stop()
	var out, errOut bytes.Buffer
	seen := writerFunc(func(p []byte) (int, error) {
		if out.Write(p); strings.Contains(out.String(), " 5") {
			stop()
		}
		return len(p), nil
	})
	code := run(ctx, []string{"send", n.base + "/x", "long 400"}, seen, &errOut)
	if code != exitInterrupted || !strings.Contains(errOut.String(), "parley tail "+n.base+"/x") || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("exit %d, %q, %q; want exit %d", code, out.String(), errOut.String(), exitInterrupted)
	}
	code = run(ctx, []string{"send", "--key", "k1", n.base + "/x", "more"}, io.Discard, &errOut)
	if code != exitInterrupted || !strings.Contains(errOut.String(), "send it again with --key k1") {
		t.Errorf("exit %d, %q; want exit %d", code, errOut.String(), exitInterrupted)
	}
}

func TestSend(t *testing.T) {
	n := startDev(t, t.TempDir())
	code, out, errOut := output(t, "send", n.base+"/a%2Fb", "help")
	if code != 0 || !strings.Contains(out, "assistant: I am a demo model") || !strings.HasSuffix(out, "[completed]\n") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	code, out, _ = output(t, "send", "--no-wait", "--key", "k", n.base+"/a%2Fb", "hello")
	var first receipt
	if err := json.Unmarshal([]byte(out), &first); code != 0 || err != nil || first.Deduplicated {
		t.Fatalf("exit %d, %v, %q", code, err, out)
	}
	if !strings.HasSuffix(first.StreamURL, "/a%2Fb") {
		t.Errorf("stream URL is %s, want the id as it was written", first.StreamURL)
	}
	code, out, _ = output(t, "send", "--json", "--key", "k", n.base+"/a%2Fb", "hello")
	last := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
	var c conversation.Chunk
	if err := json.Unmarshal([]byte(last), &c); code != 0 || err != nil || c.SubmissionID != first.SubmissionID {
		t.Errorf("exit %d, %v, last line %q; want the settlement of %s", code, err, last, first.SubmissionID)
	}
	code, _, errOut = output(t, "send", "--key", "k", n.base+"/a%2Fb", "other")
	if code != 1 || !strings.Contains(errOut, "submission_conflict") {
		t.Errorf("exit %d, %q; want a conflict", code, errOut)
	}
}

func TestFailedModelIsExitCode(t *testing.T) {
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"vendor secret words"}}`, http.StatusUnauthorized)
	}))
	defer vendor.Close()
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	t.Setenv("OPENAI_API_KEY", "k")
	n := startDev(t, t.TempDir(), "--model", "openai/m")
	code, out, _ := output(t, "send", n.base+"/x", "hello")
	if code != exitFailed || !strings.Contains(out, "[failed:") || strings.Contains(out, "vendor secret words") {
		t.Errorf("exit %d, %q; want %d and our own words", code, out, exitFailed)
	}
}

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
	banner(&out, devConfig{data: "./.parley", model: demoModel}, &net.TCPAddr{IP: net.IPv6zero, Port: 7})
	for _, want := range []string{"http://127.0.0.1:7/agents/assistant/hello", " send http://127.0.0.1:7/agents", "OPENAI_API_KEY", "./.parley"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("banner lacks %q:\n%s", want, out.String())
		}
	}
	if isLoopback(&net.TCPAddr{IP: net.IPv6zero}) || !isLoopback(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}) {
		t.Error("causes of errors are for this machine only")
	}
	for _, path := range []string{"/tmp/go-build12/b001/exe/parley", "/cache/ed/" + strings.Repeat("e0", 32) + "-d/parley"} {
		if got := invocation([]string{path}); got != "go run ./cmd/parley" {
			t.Errorf("called by go run, the program tells %q", got)
		}
	}
	if got := invocation([]string{"bin/parley"}); got != "bin/parley" {
		t.Errorf("called as bin/parley, the program tells %q", got)
	}
}

func TestTailSaysThatNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // the port is free: nobody answers
	ctx, cancel := context.WithCancel(t.Context())
	said := writerFunc(func(p []byte) (int, error) {
		if !strings.Contains(string(p), "is the server running?") {
			t.Errorf("said %q", p)
		}
		cancel()
		return len(p), nil
	})
	if code := run(ctx, []string{"tail", "http://" + l.Addr().String() + "/x"}, io.Discard, said); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// writerFunc is an io.Writer.
type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestPrinterShowsEveryPart(t *testing.T) {
	text, thought, failure, size := "hello", "hm", "no", int64(3)
	var out bytes.Buffer
	p := &printer{out: &out}
	p.chunk(conversation.Chunk{Type: conversation.ChunkReset, Snapshot: &conversation.Snapshot{
		Messages: []conversation.Message{
			{Role: conversation.RoleUser, Parts: []conversation.Part{
				{Type: conversation.PartTypeText, Text: &text}, {Type: conversation.PartTypeFile, MediaType: "image/png", Size: &size},
			}},
			{Role: conversation.RoleAssistant, Parts: []conversation.Part{
				{Type: conversation.PartTypeReasoning, Text: &thought},
				{Type: "data-card", Data: json.RawMessage(`{"a":1}`)},
				{Type: conversation.PartTypeTool, ToolName: "t", Input: json.RawMessage(`{}`), State: conversation.StateOutputError, ErrorText: &failure},
			}},
			{Role: conversation.RoleSystem, Display: conversation.DisplayHidden, Parts: []conversation.Part{{Type: conversation.PartTypeText, Text: &text}}},
		},
		Settlements: []conversation.Settlement{{Outcome: conversation.OutcomeFailed, Error: &conversation.SettlementError{
			Message: "It failed.", Meta: map[string]any{"reason": "network"},
		}}},
	}})
	want := "user: hello\nuser: (file image/png, 3 bytes)\nthinking: hm\ndata card: {\"a\":1}\n" +
		"tool t called with {}\ntool failed: no\n[failed: It failed. Reason: network; the server's log tells more.]\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
