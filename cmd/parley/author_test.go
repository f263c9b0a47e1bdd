package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
)

// ownModel is a wire format of an author's program. Every model answers with its own name.
type ownModel struct{}

// Stream implements providers.Protocol.
func (ownModel) Stream(_ context.Context, m providers.Model, _ providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		_ = yield(providers.TextDelta{Text: "I am " + m.ID + " at " + m.BaseURL}, nil) && yield(providers.Done{StopReason: providers.StopStop}, nil)
	}
}

// seen records the types of observed events.
type seen struct {
	mu    sync.Mutex
	types map[observability.Type]int
}

// Name implements observability.Sink.
func (*seen) Name() string { return "seen" }

// Write implements observability.Sink.
func (s *seen) Write(_ context.Context, events []observability.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.types[e.Type]++
	}
	return nil
}

// marked returns middleware that records its name in call order.
func marked(name string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Passed", name)
			next.ServeHTTP(w, r)
		})
	}
}

// authors is a serving program of an author.
type authors struct {
	base  string // of its first agent
	logs  waiting.Log
	stop  context.CancelFunc
	ended chan int
}

// start serves a program in this process.
func start(t *testing.T, p *parley.Program, args ...string) *authors {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
	n := &authors{stop: stop, ended: make(chan int, 1)}
	r, w := io.Pipe()
	go func() {
		n.ended <- p.Run(ctx, append(args, "--quiet"), w, &n.logs)
		w.CloseWithError(errors.New("it has ended"))
	}()
	line := make([]byte, 200)
	read, err := r.Read(line)
	if err != nil {
		t.Fatalf("%v: %s", err, n.logs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	n.base = strings.TrimSpace(string(line[:read]))
	return n
}

// end stops it and waits.
func (n *authors) end(t *testing.T) {
	t.Helper()
	n.stop()
	if code := <-n.ended; code != 0 {
		t.Errorf("exit %d, %s", code, n.logs.String())
	}
}

// TestProgramOfAnAuthor uses every field of a Program.
func TestProgramOfAnAuthor(t *testing.T) {
	watcher := &seen{types: map[observability.Type]int{}}
	p := &parley.Program{
		Agents:    []*agent.Agent{{Name: "desk", Model: "house/large"}},
		Providers: map[string]providers.Registration{"house": {API: "own-words", BaseURL: "http://127.0.0.1:1"}},
		Protocols: map[string]providers.Protocol{"own-words": ownModel{}},
		Middleware: []func(http.Handler) http.Handler{
			marked("first"), marked("second"),
		},
		Mounts: map[string]http.Handler{
			"GET /hello/{name}": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.PathValue("name")) }),
		},
		Observers: []observability.Sink{watcher},
	}
	dir := t.TempDir()
	t.Chdir(dir)
	file := clitest.Write(t, "own.yaml", "listen: 127.0.0.1:0\nbucket: {dir: data2}\nproviders: {house: {api: own-words, baseUrl: \"http://127.0.0.1:2\"}}\n")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"dev":             {[]string{"dev", "--listen", "127.0.0.1:0"}, "I am large at http://127.0.0.1:1"},
		"dev with a file": {[]string{"dev", "--config", file}, "I am large at http://127.0.0.1:2"},
		"serve":           {[]string{"serve", "--listen", "127.0.0.1:0"}, "I am large at http://127.0.0.1:1"},
		"another model":   {[]string{"dev", "--listen", "127.0.0.1:0", "--model", "house/small"}, "I am small at http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, p, tt.args...)
			var out bytes.Buffer
			// A ServeMux would clean this id away.
			if code := p.Run(t.Context(), []string{"send", n.base + "/a%2F..%2Fb", "hello"}, &out, &n.logs); code != 0 || !strings.Contains(out.String(), "assistant: "+tt.want+"\n") {
				t.Errorf("send: exit %d, %s%s", code, out.String(), n.logs.String())
			}
			resp, err := http.Get(strings.TrimSuffix(n.base, "/agents/desk") + "/hello/world")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello world" || strings.Join(resp.Header["Passed"], " ") != "first second" {
				t.Errorf("its own handler: %q, %v, passed %q", body, err, resp.Header["Passed"])
			}
			n.end(t)
			watcher.mu.Lock()
			defer watcher.mu.Unlock()
			if watcher.types[observability.TypeSubmissionSettled] != 1 {
				t.Errorf("observed %v", watcher.types)
			}
			clear(watcher.types)
		})
	}
}

// TestInitialData passes initial data from the command line.
func TestInitialData(t *testing.T) {
	t.Chdir(t.TempDir())
	type guest struct {
		Name string `json:"name"`
	}
	var greeted []string
	p := &parley.Program{Agents: []*agent.Agent{{
		Name: "desk", Model: "demo/parrot", InitialData: agent.SchemaFor[guest](),
		InstructionsFunc: func(_ context.Context, turn *agent.Turn) (string, error) {
			greeted = append(greeted, string(turn.InitialData))
			return "Greet.", nil
		},
	}}}
	var help bytes.Buffer
	if code := p.Run(t.Context(), nil, &help, &help); code != 0 || !strings.Contains(help.String(), "includes the agents: desk.\n") {
		t.Errorf("help: exit %d, %s", code, help.String())
	}
	n := start(t, p, "dev", "--listen", "127.0.0.1:0")
	defer n.end(t)
	for _, command := range [][]string{{"run", "desk", "-m", "hello"}, {"send", n.base + "/ada", "hello"}} {
		for _, tt := range []struct {
			more []string
			code int
			want string
		}{
			{nil, 1, "initialData: is required"},
			{[]string{"--initial-data", "Ada"}, cli.ExitUsage, "it is not JSON"},
			{[]string{"--initial-data", `{"name":"Ada"}`}, 0, "[completed]"},
		} {
			var out bytes.Buffer
			if code := p.Run(t.Context(), append(command, tt.more...), &out, &out); code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("%s %s: exit %d, %s", command, tt.more, code, out.String())
			}
		}
	}
	if got := strings.Join(greeted, " "); got != `{"name":"Ada"} {"name":"Ada"}` {
		t.Errorf("the agent began with %s", got)
	}
}

// Mistakes are reported before anything is served.
func TestAuthorsMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.WithoutKeys(t)
	desk := &agent.Agent{Name: "desk", Model: "demo/parrot"}
	for name, tt := range map[string]struct {
		program parley.Program
		args    []string
		want    string
	}{
		"no name":       {parley.Program{Agents: []*agent.Agent{{Model: "demo/parrot"}}}, []string{"dev"}, "Name"},
		"two names":     {parley.Program{Agents: []*agent.Agent{desk, desk}}, []string{"serve"}, `two agents of the program are named "desk"`},
		"no key":        {parley.Program{Agents: []*agent.Agent{{Name: "desk", Model: "openai/gpt-5"}}}, []string{"dev"}, "set OPENAI_API_KEY"},
		"no key, serve": {parley.Program{Agents: []*agent.Agent{{Name: "desk", Model: "openai/gpt-5"}}}, []string{"serve"}, `parley: the program: agent "desk": model "openai/gpt-5" needs a key: set OPENAI_API_KEY`},
		"no provider":   {parley.Program{Agents: []*agent.Agent{{Name: "desk", Model: "nobody/m"}}}, []string{"dev"}, `model "nobody/m" cannot be used`},
		"no agent":      {parley.Program{}, []string{"serve"}, "create it"},
		"no such agent": {parley.Program{Agents: []*agent.Agent{desk}}, []string{"run", "other", "-m", "x"}, "other is neither an agent of the program nor a file; its agents are desk"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
			defer stop()
			if code := tt.program.Run(ctx, tt.args, &out, &errOut); code != 1 || !strings.Contains(errOut.String(), tt.want) {
				t.Errorf("exit %d, %q, %q; want exit 1 and %q", code, out.String(), errOut.String(), tt.want)
			}
		})
	}
}

// A module that used some packages of Parley, and then imports the whole program, keeps its
// dependencies. It must not get the old genproto that still contained the packages of googleapis/api,
// because then it could not be tidied.
func TestModuleOfAnAuthor(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} { // The result depends on them.
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	version := func(dir, mode, module string) string {
		cmd := exec.Command("go", "list", "-mod="+mode, "-m", "-f", "{{.Version}}", module)
		cmd.Dir = dir
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err, errOut.String())
		}
		return strings.TrimSpace(string(out))
	}
	const asks = "github.com/cockroachdb/errors"
	mod := fmt.Sprintf("module author\n\ngo 1.26\n\nrequire (\n\tgithub.com/parleyrun/parley v0.0.0\n\t%s %s\n)\n\nreplace github.com/parleyrun/parley => %s\n", asks, version(root, "readonly", asks), root)
	if err := os.WriteFile("go.mod", []byte(mod), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := version(".", "mod", "google.golang.org/genproto"); got < "v0.0.0-20230530" {
		t.Errorf("genproto is %s, which has packages that are in modules of their own", got)
	}
}
