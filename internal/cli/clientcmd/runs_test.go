package clientcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
)

// startNightly starts a server with the workflow and returns its address.
func startNightly(t *testing.T) string {
	n := program.With(withNightly+"=1").StartDev(t, t.TempDir())
	at, _, _ := strings.Cut(n.Base, "/workflows/")
	return at
}

// times matches times and run ids in the output.
var times = regexp.MustCompile(`\d+(\.\d+)? m?s\b|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|run_[0-9A-Z]{26}`)

// TestRuns starts, reads, follows and signals a run.
func TestRuns(t *testing.T) {
	at := startNightly(t)
	file := filepath.Join(t.TempDir(), "day.json")
	if err := os.WriteFile(file, []byte(`{"day": "monday"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	start := []string{"runs", "start", "nightly", "--server", at, "--input", "@" + file, "--key", "k"}
	code, out, errOut := program.Output(t, start...)
	id := strings.TrimSpace(out)
	if code != 0 || errOut != "" || conversation.RunID(id) != conversation.RunFor("nightly", "k") {
		t.Fatalf("exit %d, %q, %q", code, out, errOut)
	}
	code, out, _ = program.Output(t, append(start, "--json")...)
	var begun client.Begun
	if err := json.Unmarshal([]byte(out), &begun); code != 0 || err != nil || string(begun.RunID) != id || begun.StreamURL != at+"/runs/"+id {
		t.Errorf("exit %d, %q, %v", code, out, err)
	}
	want := func(want string, args ...string) {
		t.Helper()
		code, out, errOut := program.Output(t, append([]string{"runs"}, args...)...)
		if got := times.ReplaceAllString(out, "…"); code != 0 || got != want || errOut != "" {
			t.Errorf("%q: exit %d, %s%s; want %s", args, code, got, errOut, want)
		}
	}
	waiting := followed(t, at+"/runs/"+id, "waits for")
	if want := "… UTC\n… nightly begins with {\"day\":\"monday\"}\n… Step count is recorded.\n… waits for approval\n"; times.ReplaceAllString(waiting, "…") != want {
		t.Errorf("following prints %q, want %q", waiting, want)
	}
	want("run       …\nworkflow  nightly\nstatus    active\nstarted   … … UTC\ninput     {\"day\":\"monday\"}\n", "show", id, "--server", at)
	want("signalled\n", "signal", "--server", at, id, "approval", "Ada")
	want("… UTC\n… nightly begins with {\"day\":\"monday\"}\n… Step count is recorded.\n… waits for approval\n… approval has come\n… completed in …: MONDAY by Ada\n", "follow", at+"/runs/"+id+"?offset=now")
	want("run       …\nworkflow  nightly\nstatus    completed in …\nstarted   … … UTC\nended     … … UTC\ninput     {\"day\":\"monday\"}\nresult    MONDAY by Ada\n", "show", at+"/runs/"+id)
	want("nothing to abort\n", "abort", at+"/runs/"+id)

	code, out, errOut = program.Output(t, append(start, "--wait")...)
	if code != 0 || out != "MONDAY by Ada\n" || errOut != "parley: started "+id+"\n" {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	code, out, _ = program.Output(t, append(start, "--wait", "--json")...)
	var status client.RunStatus
	if err := json.Unmarshal([]byte(out), &status); code != 0 || err != nil || string(status.Result) != `"MONDAY by Ada"` {
		t.Errorf("exit %d, %q, %v", code, out, err)
	}
	code, out, _ = program.Output(t, "runs", "follow", at+"/runs/"+id, "--json", "--offset", conversation.Offset(2).String())
	if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 3 || !strings.Contains(lines[1], `"type":"run_end"`) {
		t.Errorf("exit %d, %q", code, out)
	}
}

// followed returns the output of following a run, which it interrupts once until is printed.
func followed(t *testing.T, at, until string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
	defer stop()
	var out, errOut bytes.Buffer
	seen := clitest.WriterFunc(func(p []byte) (int, error) {
		if out.Write(p); strings.Contains(out.String(), until) {
			stop()
		}
		return len(p), nil
	})
	if code := program.Run(ctx, []string{"runs", "follow", at}, seen, &errOut); code != cli.ExitInterrupted || errOut.String() != "parley: interrupted\n" {
		t.Errorf("exit %d, %q", code, errOut.String())
	}
	return out.String()
}

// The exit code is that of the run, and impossible requests are reported.
func TestRunsOutcomes(t *testing.T) {
	at := startNightly(t)
	begin := func(args ...string) (int, string, string) {
		return program.Output(t, append([]string{"runs", "start", at + "/workflows/nightly"}, args...)...)
	}
	_, out, _ := begin("--input", `{"day":"tuesday"}`)
	aborted := at + "/runs/" + strings.TrimSpace(out)
	if code, out, errOut := program.Output(t, "runs", "abort", aborted); code != 0 || out != "aborting\n" || errOut != "" {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	_, out, _ = begin("--input", `{"day":"doomsday"}`, "--key", "d")
	failed := at + "/runs/" + strings.TrimSpace(out)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"follow", aborted}, cli.ExitAborted, "aborted after "},
		{[]string{"follow", failed}, cli.ExitFailed, "run_failed after "},
		{[]string{"show", failed}, 0, "status    errored in "},
		{[]string{"show", failed}, 0, "\nerror     out of paper\n"},
		{[]string{"start", at + "/workflows/nightly", "--input", `{"day":"doomsday"}`, "--key", "d", "--wait"}, cli.ExitFailed, "failed: run_failed: out of paper\n"},
		{[]string{"start", at + "/workflows/nightly", "--input", `{"day":"doomsday"}`, "--key", "d", "--wait", "--json"}, cli.ExitFailed, `"status":"errored"`},
		{[]string{"start", at + "/workflows/nightly", "--input", `{"day":"x"}`, "--key", "d"}, 1, "start: the server answered 409 submission_conflict"},
		{[]string{"start", at + "/workflows/nightly"}, 1, "start: the server answered 400 invalid_request"},
		{[]string{"start", at + "/workflows/yearly"}, 1, "start: the server answered 404 workflow_not_found"},
		{[]string{"show", at + "/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 1, "404 run_not_found"},
		{[]string{"signal", at + "/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV", "approval"}, 1, "signal: the server answered 404 run_not_found"},
	} {
		code, out, errOut := program.Output(t, append([]string{"runs"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("%q: exit %d, %s%s; want exit %d and %q", c.args, code, out, errOut, c.code, c.want)
		}
	}
}

func TestRunsComplete(t *testing.T) {
	p := &cli.Program{}
	p.Workflows = append(p.Workflows, nightly())
	var out bytes.Buffer
	if code := p.Run(t.Context(), []string{"__complete", "runs", "start", ""}, &out, &bytes.Buffer{}, Commands); code != 0 || !strings.HasPrefix(out.String(), "nightly\n:4") {
		t.Errorf("exit %d, completed with %q", code, out.String())
	}
}

func TestFit(t *testing.T) {
	for in, want := range map[string]string{"short": "short", strings.Repeat("long ", 10): "long long…", "two\nlines": "two lines"} {
		if got := fit(in, 10); got != want || fit(in, 0) != in {
			t.Errorf("%q is cut to %q, want %q", in, got, want)
		}
	}
}
