package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/storage"
)

// mine is a bucket behind an endpoint that kills every process that begins to read one log.
type mine struct {
	http.Handler
	log    string // prefix of its batches
	armed  atomic.Bool
	victim chan *os.Process
}

func (m *mine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if m.armed.Load() && r.Method == http.MethodGet && q.Get("prefix") == m.log && q.Get("start-after") == "" {
		select {
		case p := <-m.victim:
			_ = p.Kill()
		case <-r.Context().Done():
		}
		return
	}
	m.Handler.ServeHTTP(w, r)
}

// maxCrashes bounds the crashes before a quarantine: one process opens another conversation as well,
// one works on that one, and three do nothing else.
const maxCrashes = 5

// crashes reports whether a process opens the conversation and crashes. A process that quarantines it
// instead is stopped.
func (m *mine) crashes(t *testing.T, cmd *exec.Cmd, store storage.Bucket) bool {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for late := time.After(clitest.Timeout); ; {
		select {
		case m.victim <- cmd.Process:
			<-ended
			return true
		case err := <-ended:
			t.Fatalf("a start has ended without opening the conversation: %v", err)
		case <-late:
			_ = cmd.Process.Kill()
			t.Fatal("a start has neither opened the conversation nor quarantined it")
		case <-poll.C:
			if keys, err := storage.ListQuarantine(t.Context(), store); err != nil || len(keys) == 0 {
				continue
			}
			_ = cmd.Process.Kill()
			<-ended
			return false
		}
	}
}

// A conversation crashes every process that opens it, until a start quarantines it and serves all
// others. After its release it continues.
func TestOpeningEndsTheProcess(t *testing.T) {
	t.Parallel()
	sick := conversation.Address{Agent: "echo", ID: "sick"}
	store := clitest.NewStore(t)
	bucket := &mine{Handler: s3front.New(store), log: storage.FolderOf(sick.Key()) + "log/", victim: make(chan *os.Process)}
	endpoint := httptest.NewServer(bucket)
	t.Cleanup(endpoint.Close)
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: parley, secure: false}", endpoint.Listener.Addr().String()))
	n := program.Start(t, "serve", "--quiet", "--config", file)
	lost := clitest.Admitted(t, n.URL(t, "sick"), "k", "long 60")
	fine := clitest.Admitted(t, n.URL(t, "fine"), "k", "long 60")
	n.Kill()

	bucket.armed.Store(true)
	crashes := 0
	for ; crashes <= maxCrashes; crashes++ {
		cmd := program.Command("serve", "--quiet", "--config", file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !bucket.crashes(t, cmd, store) {
			break
		}
	}
	if crashes < 3 || crashes > maxCrashes {
		t.Errorf("%d starts crashed, want 3 to %d", crashes, maxCrashes)
	}
	n = program.Start(t, "serve", "--quiet", "--config", file)
	clitest.NewReader(t, fine.Offset).Until(n.URL(t, "fine"), fine.Offset, clitest.Settled(fine.SubmissionID))
	for name, status := range map[string]func() (*http.Response, error){
		"snapshot": func() (*http.Response, error) { return http.Get(n.Base + "/sick") },
		"updates":  func() (*http.Response, error) { return http.Get(n.Base + "/sick?view=updates&offset=-1&live=sse") },
		"message": func() (*http.Response, error) {
			return http.Post(n.Base+"/sick", "application/json", strings.NewReader(`{"kind":"user","body":"hello"}`))
		},
	} {
		resp, err := status()
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusLocked {
			t.Errorf("%s of a quarantined conversation: status %d", name, resp.StatusCode)
		}
	}
	run := func(want string, args ...string) {
		t.Helper()
		code, out, errOut := program.Output(t, append([]string{"log", "quarantine", "--config", file}, args...)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("log quarantine %v: exit %d\n%s%s", args, code, out, errOut)
		}
	}
	run(`"sick" of agent "echo"`)
	run("after 3 failures")
	run(`"failures":3`, "--json")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	bucket.armed.Store(false)
	run("is released", "--release", "--agent", "echo", "--id", "sick")
	run("0 conversations quarantined")
	if code, _, errOut := program.Output(t, "log", "quarantine", "--config", file, "--release", "--conv", string(sick.Key())); code == 0 || !strings.Contains(errOut, "is not quarantined") {
		t.Errorf("put back once more: exit %d, %s", code, errOut)
	}
	if code, _, errOut := program.Output(t, "log", "quarantine", "--config", file, "--release"); code == 0 || !strings.Contains(errOut, "take one conversation") {
		t.Errorf("put back nothing: exit %d, %s", code, errOut)
	}
	n = program.Start(t, "serve", "--quiet", "--config", file)
	clitest.NewReader(t, lost.Offset).Until(n.URL(t, "sick"), lost.Offset, clitest.Settled(lost.SubmissionID))
	run("is quarantined", "--set", "--agent", "echo", "--id", "fine")
	run("quarantined by an operator")
}
