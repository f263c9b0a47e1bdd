package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/waiting"
)

// workshop is a reloader with fake nodes: each responds with the name of its first agent.
type workshop struct {
	*reloader
	logs    waiting.Log
	content []byte
	// next is the content of the file, and failure its error.
	next    *config.Server
	failure error
	// building receives every start, which waits for built.
	building chan *config.Server
	built    chan error
	stopped  []string
	changes  chan struct{}
}

func named(name string) *config.Server {
	return &config.Server{
		Listen: "127.0.0.1:1", Bucket: config.Bucket{Dir: "data"},
		Agents: []config.Agent{{Agent: &agent.Agent{Name: name, Model: cli.DemoModel}, Mounts: []string{"/" + name}}},
	}
}

// open starts a workshop in the current bubble that serves the first configuration. The channel
// receives the result of run.
func open(ctx context.Context, w *workshop) <-chan error {
	w.building, w.built, w.changes = make(chan *config.Server), make(chan error), make(chan struct{})
	w.reloader = &reloader{
		file: "parley.yaml", log: slog.New(slog.NewTextHandler(&w.logs, nil)),
		read:  func() ([]byte, error) { return w.content, nil },
		load:  func() (*config.Server, error) { return w.next, w.failure },
		start: w.start,
	}
	ended := make(chan error, 1)
	up := make(chan struct{})
	go func() { ended <- w.run(ctx, named("first"), w.changes, up) }()
	<-w.building
	w.built <- nil
	<-up
	return ended
}

func (w *workshop) start(_ context.Context, conf *config.Server) (*generation, error) {
	w.building <- conf
	if err := <-w.built; err != nil {
		return nil, err
	}
	name, done := conf.Agents[0].Agent.Name, make(chan struct{})
	g := &generation{conf: conf, drain: func() {}, done: done}
	g.handler = http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, name) })
	g.stop = func() error {
		w.stopped = append(w.stopped, name)
		return nil
	}
	return g, nil
}

// change replaces the content of the file.
func (w *workshop) change(conf *config.Server, failure error) {
	w.next, w.failure = conf, failure
	w.content = append(w.content, 'x')
	w.changes <- struct{}{}
}

// get returns the current response of the handler.
func (w *workshop) get() *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Origin", "http://localhost:5000")
	out := httptest.NewRecorder()
	w.serving.ServeHTTP(out, r)
	return out
}

// covers: protocol/185
func TestRequestsDuringAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := &workshop{}
		ended := open(ctx, w)
		if got := w.get(); got.Body.String() != "first" {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		w.change(named("second"), nil)
		if conf := <-w.building; conf != w.next {
			t.Fatalf("builds %+v", conf)
		}
		got := w.get()
		if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" || !strings.Contains(got.Body.String(), `"runtime_unavailable"`) {
			t.Errorf("while it reloads: %d %v %s", got.Code, got.Header(), got.Body)
		}
		if got.Header().Get("Access-Control-Allow-Origin") == "" {
			t.Error("a page cannot read why it was refused")
		}
		w.built <- nil
		synctest.Wait()
		if got := w.get(); got.Body.String() != "second" {
			t.Errorf("%d %s", got.Code, got.Body)
		}
		if w.logs.With("configuration reloaded", "/second (second, model demo/parrot)") == "" {
			t.Errorf("logged %s", w.logs.String())
		}
		stop()
		if err := <-ended; err != nil || fmt.Sprint(w.stopped) != "[first second]" {
			t.Errorf("%v, stopped %v", err, w.stopped)
		}
	})
}

func TestReloadIsRefused(t *testing.T) {
	elsewhere, otherBucket := named("second"), named("second")
	elsewhere.Listen = "127.0.0.1:2"
	otherBucket.Bucket.Dir = "other"
	for _, tt := range []struct {
		name    string
		conf    *config.Server
		failure error
		output  string
	}{
		{"bad file", nil, errors.New("parley.yaml:3: agents.echo.model: unknown provider"), "parley.yaml:3"},
		{"other address", elsewhere, nil, "listen is now 127.0.0.1:2, was 127.0.0.1:1: that needs a restart"},
		{"other bucket", otherBucket, nil, "bucket is now folder other, was folder data: that needs a restart"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				w := &workshop{}
				ended := open(ctx, w)
				w.change(tt.conf, tt.failure)
				synctest.Wait()
				if got := w.get(); got.Body.String() != "first" {
					t.Errorf("%d %s", got.Code, got.Body)
				}
				if w.logs.With("level=ERROR", "configuration rejected, keeping the previous one", tt.output) == "" {
					t.Errorf("logged %s", w.logs.String())
				}
				// Events about other files of the folder must be ignored.
				before := len(w.logs.String())
				w.changes <- struct{}{}
				synctest.Wait()
				if got := w.logs.String()[before:]; got != "" {
					t.Errorf("logged without a change: %s", got)
				}
				stop()
				if err := <-ended; err != nil || fmt.Sprint(w.stopped) != "[first]" {
					t.Errorf("%v, stopped %v", err, w.stopped)
				}
			})
		})
	}
}

// Every event in the folder, for example a log line, finds the file missing, but the error is logged
// once.
func TestReloadOfAMissingFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := &workshop{}
		ended := open(ctx, w)
		read, missing := w.reloader.read, func() ([]byte, error) { return nil, os.ErrNotExist }
		for range 2 { // It is logged again if the file existed in between.
			w.reloader.read = missing
			for range 3 {
				w.changes <- struct{}{}
				synctest.Wait()
			}
			w.reloader.read = read
			w.changes <- struct{}{}
			synctest.Wait()
		}
		if got := strings.Count(w.logs.String(), "configuration rejected"); got != 2 {
			t.Errorf("got %d log lines, want 2: %s", got, w.logs.String())
		}
		stop()
		if err := <-ended; err != nil || fmt.Sprint(w.stopped) != "[first]" {
			t.Errorf("%v, stopped %v", err, w.stopped)
		}
	})
}

func TestReloadReverts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := &workshop{}
		ended := open(ctx, w)
		w.change(named("second"), nil)
		<-w.building
		w.built <- errors.New("mount /second: no")
		if conf := <-w.building; conf.Agents[0].Agent.Name != "first" {
			t.Errorf("goes back to %+v", conf)
		}
		w.built <- nil
		synctest.Wait()
		if got := w.get(); got.Body.String() != "first" {
			t.Errorf("%d %s", got.Code, got.Body)
		}
		if w.logs.With("configuration start failed", "mount /second: no") == "" || w.logs.With("configuration reverted", "/first") == "" {
			t.Errorf("logged %s", w.logs.String())
		}
		// If neither can be started, the reloader fails.
		w.change(named("third"), nil)
		<-w.building
		w.built <- errors.New("third fails")
		<-w.building
		w.built <- errors.New("first fails")
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "first fails") {
			t.Errorf("ends with %v", err)
		}
		stop()
	})
}

func TestReloadIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := &workshop{}
		ended := open(ctx, w)
		w.change(named("second"), nil)
		<-w.building
		stop()
		w.built <- context.Canceled
		if err := <-ended; err != nil {
			t.Errorf("ends with %v", err)
		}
	})
}

// A request ends at its handler, and set reports when the handler has no request left.
func TestSwapKeepsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s swap
		<-s.set(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			io.WriteString(w, "old")
		}))
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan string)
		go func() {
			out := httptest.NewRecorder()
			s.ServeHTTP(out, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			answered <- out.Body.String()
		}()
		synctest.Wait()
		left := s.set(teapot())
		out := httptest.NewRecorder()
		s.ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/", nil))
		select {
		case <-left:
			t.Error("the handler reports no open request, although one is open")
		default:
		}
		leave()
		if got := <-answered; got != "old" || out.Code != http.StatusTeapot {
			t.Errorf("%q and %d", got, out.Code)
		}
		<-left
		<-s.set(teapot())
	})
}

// eventually polls until done returns true.
func eventually(t *testing.T, desc string, done func() bool) {
	t.Helper()
	waiting.Until(t, desc, done)
}

// status sends a GET and returns the status and the error type.
func status(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, ""
	}
	return resp.StatusCode, clitest.Into[struct{ Error clitest.Refusal }](t, string(b)).Error.Type
}

// replace replaces a file as editors do.
func replace(t *testing.T, file, content string) {
	t.Helper()
	if err := os.Rename(clitest.Write(t, file+".new", content), file); err != nil {
		t.Fatal(err)
	}
}

func TestDevReloadsItsFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	const head = "listen: 127.0.0.1:0\nbucket: {dir: data}\n"
	const one = head + "agents:\n  echo: {mounts: [/agents/echo], model: demo/parrot}\n"
	const two = one + "  other: {mounts: [/other], model: demo/parrot}\n"
	clitest.Write(t, "parley.yaml", one)
	n := program.Start(t, "dev", "--quiet", "--config", "parley.yaml")
	at := n.URL(t, "x")
	first := clitest.Admitted(t, at, "k1", "hello")
	other := strings.TrimSuffix(n.Base, "/agents/echo") + "/other/x"
	if code, kind := status(t, other); code != http.StatusNotFound || kind != string(conversation.CodeRouteNotFound) {
		t.Fatalf("before: %d %s", code, kind)
	}
	live, err := http.Get(at.String() + "?view=updates&offset=-1&live=sse")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Body.Close()

	replace(t, "parley.yaml", two)
	eventually(t, "the new mount", func() bool {
		_, kind := status(t, other)
		return kind == string(conversation.CodeStreamNotFound)
	})
	if _, err := io.Copy(io.Discard, live.Body); err != nil {
		t.Errorf("the live stream ended with %v", err)
	}
	client := clitest.NewReader(t, first.Offset)
	client.Until(at, first.Offset, clitest.Settled(first.SubmissionID))
	if second := clitest.Admitted(t, at, "k2", "hello"); second.UID != first.UID {
		t.Errorf("the conversation is another: %+v, %+v", first, second)
	}
	eventually(t, "the line of it", func() bool {
		return n.Logs.With("configuration reloaded", "/agents/echo (echo, model demo/parrot), /other (other") != ""
	})

	replace(t, "parley.yaml", two+"  wrong: {mounts: [/wrong], model: nobody/m}\n")
	eventually(t, "the refusal", func() bool {
		return n.Logs.With("level=ERROR", "configuration rejected, keeping the previous one") != "" && n.Logs.With("  err: ", "parley.yaml:", "nobody") != ""
	})
	if code, kind := status(t, other); code != http.StatusNotFound || kind != string(conversation.CodeStreamNotFound) {
		t.Errorf("after a bad file: %d %s", code, kind)
	}
	replace(t, "parley.yaml", strings.Replace(two, "127.0.0.1:0", "127.0.0.1:1", 1))
	eventually(t, "the refusal", func() bool { return n.Logs.With("  err: ", "that needs a restart") != "" })
	if code, _ := status(t, at.String()); code != http.StatusOK {
		t.Errorf("after a refused file: %d", code)
	}
	replace(t, "parley.yaml", one)
	eventually(t, "the mount to go", func() bool {
		_, kind := status(t, other)
		return kind == string(conversation.CodeRouteNotFound)
	})
	if err := n.End(os.Interrupt); err != nil {
		t.Errorf("interrupt: %v, logged %s", err, n.Logs.String())
	}
}

func TestDevOverridesItsFile(t *testing.T) {
	dir := t.TempDir()
	file := clitest.EchoConfig(t, dir, "bucket: {dir: /dev/null/nowhere}")
	out, _ := program.Serving(t, "dev", "--config", file, "--data", filepath.Join(dir, "mine"), "--listen", "localhost:0")
	if !strings.Contains(out, filepath.Join(dir, "mine")) || !strings.Contains(out, "/agents/echo/<any id>") {
		t.Errorf("printed %s", out)
	}
}

// The file is replaced as by editors, and by a deployment that replaces a link.
func TestWatchReportsReplacement(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	real, link := clitest.Write(t, filepath.Join(dir, "real", "a.yaml"), "1"), filepath.Join(dir, "parley.yaml")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	w, err := watchFolders(link)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		watch(ctx, w, slog.New(slog.DiscardHandler), changes)
	}()
	for i, change := range []func(){
		func() { replace(t, real, "2") },
		func() { clitest.Write(t, real, "3") },
		func() {
			next := filepath.Join(dir, "next")
			if err := os.Symlink(clitest.Write(t, filepath.Join(dir, "real", "b.yaml"), "4"), next); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(next, link); err != nil {
				t.Fatal(err)
			}
		},
	} {
		change()
		content := []byte(fmt.Sprint(i + 2))
		eventually(t, "a change", func() bool {
			select {
			case <-changes:
				got, err := os.ReadFile(link)
				return err == nil && bytes.Equal(got, content)
			default:
				return false
			}
		})
	}
	cancel()
	waiting.For(t, done, "the end")
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// dev serves ./parley.yaml by default, and flags override its model and its locations.
func TestDevFindsItsFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	clitest.EchoConfig(t, dir, "bucket: {dir: kept}")
	t.Setenv("OPENAI_API_KEY", "k")
	out, errOut := program.Serving(t, "dev", "--model", "openai/gpt-5")
	if !strings.Contains(out, "parley dev: ./parley.yaml and its changes, conversations in folder kept") || !strings.Contains(out, `/agents/echo/<any id>  agent "echo", model openai/gpt-5`) {
		t.Errorf("%q, %q", out, errOut)
	}
	if out, errOut = program.Serving(t, "dev", "--data", "own"); !strings.Contains(out, "conversations in folder own") || !strings.Contains(out, `agent "echo", model demo/parrot`) {
		t.Errorf("%q, %q", out, errOut)
	}
}
