package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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

// mine is a bucket behind an endpoint that ends whoever begins to read one log.
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

// TestOpeningEndsTheProcess has a conversation end every process that opens it. The fourth
// start leaves it alone and serves all others; put back, it goes on where it was.
func TestOpeningEndsTheProcess(t *testing.T) {
	t.Parallel()
	sick := conversation.Address{Agent: "echo", ID: "sick"}
	bucket := &mine{Handler: s3front.New(clitest.NewStore(t)), log: storage.FolderOf(sick.Key()) + "log/", victim: make(chan *os.Process)}
	endpoint := httptest.NewServer(bucket)
	t.Cleanup(endpoint.Close)
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: parley, secure: false}", endpoint.Listener.Addr().String()))
	n := program.Start(t, "serve", "--quiet", "--config", file)
	lost := clitest.Admitted(t, n.URL(t, "sick"), "k", "long 60")
	fine := clitest.Admitted(t, n.URL(t, "fine"), "k", "long 60")
	n.Kill()

	bucket.armed.Store(true)
	for range 3 {
		cmd := program.Command("serve", "--quiet", "--config", file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case bucket.victim <- cmd.Process:
			<-ended
		case err := <-ended:
			t.Fatalf("a start has ended without opening the conversation: %v", err)
		case <-time.After(clitest.Timeout):
			_ = cmd.Process.Kill()
			t.Fatal("a start has not opened the conversation")
		}
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
			t.Errorf("%s of what is set aside: status %d", name, resp.StatusCode)
		}
	}
	aside := func(want string, args ...string) {
		t.Helper()
		code, out, errOut := program.Output(t, append([]string{"log", "aside", "--config", file}, args...)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("log aside %v: exit %d\n%s%s", args, code, out, errOut)
		}
	}
	aside(`"sick" of agent "echo"`)
	aside("after 3 failures")
	aside(`"failures":3`, "--json")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	bucket.armed.Store(false)
	aside("is put back", "--put-back", "--agent", "echo", "--id", "sick")
	aside("0 conversations set aside")
	if code, _, errOut := program.Output(t, "log", "aside", "--config", file, "--put-back", "--conv", string(sick.Key())); code == 0 || !strings.Contains(errOut, "is not set aside") {
		t.Errorf("put back once more: exit %d, %s", code, errOut)
	}
	if code, _, errOut := program.Output(t, "log", "aside", "--config", file, "--put-back"); code == 0 || !strings.Contains(errOut, "take one conversation") {
		t.Errorf("put back nothing: exit %d, %s", code, errOut)
	}
	n = program.Start(t, "serve", "--quiet", "--config", file)
	clitest.NewReader(t, lost.Offset).Until(n.URL(t, "sick"), lost.Offset, clitest.Settled(lost.SubmissionID))
	aside("is set aside", "--set", "--agent", "echo", "--id", "fine")
	aside("an operator has set it aside")
}
