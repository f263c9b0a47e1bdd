package server

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

type nightOf struct {
	Day int `json:"day"`
}

// nightly is a workflow that waits for a signal.
func nightly(name string) agent.AnyWorkflow {
	return agent.NewWorkflow(name, func(ctx context.Context, in nightOf) (int, error) {
		lines, err := agent.Step(ctx, "count", func(context.Context) (int, error) { return in.Day * 10, nil })
		if err != nil || in.Day == 1 {
			return lines, err
		}
		_, err = agent.Wait[bool](ctx, "approval", nil)
		return lines, err
	}, nil)
}

var thisMachine = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}

// Workflows are served by default with the token of the server. Without it, a response does not reveal
// whether a run exists.
// covers: beta/96, beta/100
func TestWorkflowsOfAProgram(t *testing.T) {
	p := &cli.Program{Workflows: []agent.AnyWorkflow{nightly("nightly"), nightly("hidden")}}
	conf := named("echo")
	conf.Bucket.Dir, conf.Auth, conf.CORS.Origins = t.TempDir(), config.Auth{Bearer: "of-the-server"}, []string{"https://app.example.com"}
	conf.Workflows, conf.Beta = p.OwnWorkflows(), &config.Beta{Path: "/beta", Agents: []string{"echo"}, Workflows: []string{"nightly"}}
	n, err := newConfigured(t.Context(), conf, thisMachine, manner{program: p}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	<-n.runtime.Ready()
	h := guarded(pageOf{conf: conf, how: manner{program: p}}, n.handler)
	ask := func(method, path, body, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", "https://app.example.com")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Header().Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("%s %s: a page cannot read the answer", method, path)
		}
		return w
	}
	want := func(w *httptest.ResponseRecorder, status int, holds string) {
		t.Helper()
		if w.Code != status || !strings.Contains(w.Body.String(), holds) {
			t.Errorf("%d %s, want %d with %s", w.Code, w.Body, status, holds)
		}
	}
	const ok = "of-the-server"
	begun := ask("POST", "/workflows/nightly", `{"day":2}`, ok)
	want(begun, http.StatusAccepted, `"runId":"run_`)
	var run struct{ RunID string }
	if err := json.Unmarshal(begun.Body.Bytes(), &run); err != nil {
		t.Fatal(err)
	}
	at, none := "/runs/"+run.RunID, "/runs/"+string(conversation.RunFor("nightly", "none"))
	const yes = `{"kind":"signal","type":"parley.wait","attributes":{"name":"approval"},"body":"true"}`
	for _, line := range []string{"", "/beta"} {
		for _, token := range []string{"", "of-another"} {
			want(ask("POST", line+"/workflows/nightly", `{"day":1}`, token), http.StatusUnauthorized, "")
			for _, query := range []string{"", "?meta", "?offset=-1&live=sse"} {
				one, other := ask("GET", line+at+query, "", token), ask("GET", line+none+query, "", token)
				want(one, http.StatusUnauthorized, "")
				if one.Body.String() != other.Body.String() || one.Code != other.Code {
					t.Errorf("%s reveals whether the run exists: %s, %s", at, one.Body, other.Body)
				}
			}
		}
		want(ask("GET", line+at+"?meta", "", ok), http.StatusOK, `"status":"active"`)
		want(ask("POST", line+"/workflows/nightly?wait=result", `{"day":1}`, ok), http.StatusOK, `"result":10,`)
		want(ask("POST", line+"/workflows/nightly", `{"day":"x"}`, ok), http.StatusBadRequest, "day")
		want(ask("POST", line+"/workflows/nightly", ``, ok), http.StatusBadRequest, "day")
		want(ask("GET", line+none, "", ok), http.StatusNotFound, "run_not_found")
	}
	want(ask("POST", "/workflows/hidden?wait=result", `{"day":1}`, ok), http.StatusOK, `"result":10,`)
	want(ask("POST", "/beta/workflows/hidden", `{"day":1}`, ok), http.StatusNotFound, "workflow_not_found")
	want(ask("POST", at, yes, ""), http.StatusUnauthorized, "")
	want(ask("POST", at+"/abort", "", ""), http.StatusUnauthorized, "")
	want(ask("POST", at, yes, ok), http.StatusAccepted, `"submissionId"`)
	if got := ask("GET", at+"?offset=-1&live=sse", "", ok).Body.String(); !strings.Contains(got, `"type":"run_end"`) || !strings.Contains(got, `"step":"count"`) || !strings.HasSuffix(got, "\"streamClosed\":true}\n\n") {
		t.Errorf("the stream is %s", got)
	}
	want(ask("GET", at+"?meta", "", ok), http.StatusOK, `"status":"completed"`)
	want(ask("POST", at+"/abort", "", ok), http.StatusOK, `{"aborted":false}`)
	wantPreflight(t, h)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}

// wantPreflight requires that a page may send a key when it starts a run.
func wantPreflight(t *testing.T, h http.Handler) {
	t.Helper()
	preflight := httptest.NewRequest("OPTIONS", "/workflows/nightly", nil)
	preflight.Header.Set("Origin", "https://app.example.com")
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, preflight); !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), parleyhttp.HeaderKey) {
		t.Errorf("a page may send %v, and no key", w.Header())
	}
}

// The banner lists workflows next to agents, and a program may have workflows only.
// covers: beta/92
func TestWorkflowsAreShown(t *testing.T) {
	p := &cli.Program{Workflows: []agent.AnyWorkflow{nightly("nightly"), nightly("hourly")}}
	cfg := &devConfig{program: p, data: t.TempDir()}
	conf, err := cfg.served(nil)
	if err != nil || len(conf.Agents) > 0 {
		t.Fatalf("%+v, %v", conf, err)
	}
	var out, quiet bytes.Buffer
	serveBanner(&out, "parley dev", conf, thisMachine, false, trial(p, conf, thisMachine)...)
	serveBanner(&quiet, "parley dev", conf, thisMachine, true)
	for _, line := range []string{"  http://127.0.0.1:0/workflows/hourly  workflow \"hourly\"\n", "  http://127.0.0.1:0/workflows/nightly  workflow \"nightly\"\n", "runs start http://127.0.0.1:0/workflows/hourly"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, &out)
		}
	}
	if got := quiet.String(); got != "http://127.0.0.1:0/workflows/hourly\nhttp://127.0.0.1:0/workflows/nightly\n" {
		t.Errorf("for programs: %q", got)
	}
	if got := strings.Join(serves(conf), ", "); got != "/workflows/hourly, /workflows/nightly" {
		t.Errorf("in the log: %s", got)
	}
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(file, []byte("beta: {path: /beta, workflows: [hourly]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if conf, err = p.Config(file, true); err != nil || strings.Join(conf.Beta.Workflows, " ") != "hourly" || strings.Join(conf.Workflows, " ") != "hourly nightly" {
		t.Errorf("by a file: %+v, %v", conf, err)
	}
	out.Reset()
	serveBanner(&out, "parley serve", conf, thisMachine, false)
	if want := "Clients of the beta line: base URL http://127.0.0.1:0/beta, workflows hourly.\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, &out)
	}
}

// Mistakes are reported before anything runs.
func TestWorkflowMistakes(t *testing.T) {
	var none *agent.Workflow[int, int]
	for name, c := range map[string]struct {
		workflows []agent.AnyWorkflow
		agents    []*agent.Agent
		want      string
	}{
		"nil":                  {workflows: []agent.AnyWorkflow{nightly("a"), nil}, want: "Workflows[1]: is nil"},
		"a pointer to nothing": {workflows: []agent.AnyWorkflow{none}, want: "Workflows[0]: is nil"},
		"twice":                {workflows: []agent.AnyWorkflow{nightly("a"), nightly("a")}, want: "Workflows[1]: has the name of another workflow"},
		"an agent's name":      {workflows: []agent.AnyWorkflow{nightly("echo")}, agents: []*agent.Agent{{Name: "echo", Model: "demo/parrot"}}},
	} {
		var out, errOut bytes.Buffer
		p := &cli.Program{Workflows: c.workflows, Agents: c.agents}
		code := p.Run(t.Context(), []string{"version"}, &out, &errOut, Commands)
		if (code != 0) != (c.want != "") || !strings.Contains(errOut.String(), c.want) {
			t.Errorf("%s: exit code %d, %s", name, code, &errOut)
		}
	}
}
