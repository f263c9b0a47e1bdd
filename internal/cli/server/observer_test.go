package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/operator"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/waiting"
)

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func TestServeAdmin(t *testing.T) {
	dir, at := t.TempDir(), noderun.Refusing(t)
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir), fmt.Sprintf("admin: {listen: %q, pprof: true}", at))
	n := program.Start(t, "serve", "--quiet", "--config", file)
	if code, out, errOut := program.Output(t, "send", n.Base+"/x", "hello"); code != 0 {
		t.Fatalf("exit %d, %q, %q", code, out, errOut)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready"} {
		if code, text := fetch(t, "http://"+at+path); code != 200 || text != want {
			t.Errorf("%s answers %d %q", path, code, text)
		}
	}
	code, text := fetch(t, "http://"+at+"/metrics")
	for _, want := range []string{
		"\nparley_ready 1\n", "\nparley_activations 1\n", `parley_bucket_request_seconds_count{class="batch",op="create",outcome="ok"}`,
		"\ngo_goroutines ", "\nprocess_resident_memory_bytes ", "\nparley_info{", "\nparley_http_requests_total{code=\"202\",method=\"post\"} 1\n",
	} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("/metrics answers %d without %q", code, want)
		}
	}
	eventually(t, "the figures of the agent", func() bool { // events arrive a little later
		_, text := fetch(t, "http://"+at+"/metrics")
		return strings.Contains(text, "\nparley_submissions_settled_total{agent=\"echo\",outcome=\"completed\"} 1\n") &&
			strings.Contains(text, "\nparley_model_call_seconds_count{outcome=\"ok\",provider=\"demo\"} 1\n")
	})
	if code, text := fetch(t, "http://"+at+"/debug/pprof/heap?gc=1&debug=1"); code != 200 || !strings.Contains(text, "\n# HeapIdle = ") {
		t.Errorf("/debug/pprof/heap answers %d without the statistics of the memory", code)
	}
	// The agents' listener serves none of it.
	base, _, _ := strings.Cut(n.Base, "/agents/")
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		if code, _ := fetch(t, base+path); code != 404 {
			t.Errorf("the public listener answers %s with %d", path, code)
		}
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	if _, err := net.Dial("tcp", at); err == nil {
		t.Error("the admin listener is open still")
	}
}

// The bucket of the node does not respond yet.
func TestServeAdminWhileStarting(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e := clitest.NewEndpoint(t, func(*http.Request) {
		once.Do(func() { close(asked) })
		<-answer
	})
	at := noderun.Refusing(t)
	file := clitest.EchoConfig(t, t.TempDir(), e.Line, fmt.Sprintf("admin: {listen: %q}", at))
	ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
	defer stop()
	ended, up, errOut := make(chan int), make(chan string), &waiting.Log{}
	go func() {
		var out bytes.Buffer
		seen := clitest.WriterFunc(func(p []byte) (int, error) {
			if out.Write(p); bytes.Contains(p, []byte("Press Ctrl-C to stop.")) {
				up <- out.String()
			}
			return len(p), nil
		})
		ended <- program.Run(ctx, []string{"serve", "--config", file}, seen, errOut)
	}()
	<-asked
	if code, text := fetch(t, "http://"+at+"/readyz"); code != 503 || !strings.HasPrefix(text, "not ready: ") {
		t.Errorf("/readyz answers %d %q", code, text)
	}
	if code, text := fetch(t, "http://"+at+"/healthz"); code != 200 || text != "ok" {
		t.Errorf("/healthz answers %d %q", code, text)
	}
	close(answer)
	if banner := <-up; !strings.Contains(banner, "Health and metrics: http://"+at+"/") {
		t.Errorf("the banner lacks the address:\n%s", banner)
	}
	if code, text := fetch(t, "http://"+at+"/readyz"); code != 200 {
		t.Errorf("/readyz answers %d %q", code, text)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d, %s", code, errOut.String())
	}
}

// The admin listener responds while the node shuts down, and a node ends when its admin listener
// fails.
func TestAdminOutlivesTheNode(t *testing.T) {
	conf := &config.Server{Admin: config.Admin{Listen: "127.0.0.1:0"}}
	for _, failing := range []bool{false, true} {
		o, err := newObserver("p.yaml", conf, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if failing {
			o.close()
		}
		url := "http://" + o.address().String() + "/readyz"
		ctx, stop := context.WithCancel(t.Context())
		err = o.run(ctx, func() actors.Status { return actors.Status{Reason: "draining"} }, func(ctx context.Context) error {
			if !failing {
				stop()
			}
			<-ctx.Done()
			if !failing {
				if code, text := fetch(t, url); code != 503 || text != "not ready: draining" {
					t.Errorf("/readyz answers %d %q", code, text)
				}
			}
			return nil
		})
		stop()
		if failing != (err != nil) {
			t.Errorf("failing %v: ends with %v", failing, err)
		}
	}
	nothing := errors.New("nothing")
	o, err := newObserver("p.yaml", &config.Server{}, slog.New(slog.DiscardHandler))
	if err != nil || o.measure() != nil || o.address() != nil {
		t.Errorf("without an address: %v", err)
	}
	if err := o.run(t.Context(), nil, func(context.Context) error { return nothing }); !errors.Is(err, nothing) {
		t.Errorf("ends with %v", err)
	}
}

// TestClusterOfThree runs three nodes with certificates over one endpoint, inspects them with the
// commands, and drains one.
func TestClusterOfThree(t *testing.T) {
	e := clitest.NewEndpoint(t, nil)
	dir := t.TempDir()
	program.Certificates(t, dir)
	files := fmt.Sprintf("tls: {ca: %q, cert: %q, key: %q}", filepath.Join(dir, operator.CAFile), filepath.Join(dir, operator.NodeFile), filepath.Join(dir, operator.NodeKeyFile))
	var nodes []*clitest.Node
	var admins []string
	var file string
	for range 3 {
		at := noderun.Refusing(t)
		// The suspicion timeout is long, so that a busy machine expels no node.
		file = clitest.EchoConfig(t, t.TempDir(), e.Line, "cluster: {listen: \"127.0.0.1:0\", suspect: 1m, fence: 30s, "+files+"}", "drain: {delay: 0s}", fmt.Sprintf("admin: {listen: %q}", at))
		nodes = append(nodes, program.Start(t, "serve", "--quiet", "--config", file))
		admins = append(admins, at)
	}
	for i, n := range nodes {
		if code, out, errOut := program.Output(t, "send", n.Base+"/x", fmt.Sprintf("hello %d", i)); code != 0 || !strings.HasSuffix(out, "[completed]\n") {
			t.Errorf("node %d: exit %d, %q, %q", i, code, out, errOut)
		}
	}
	var r operator.ClusterReport
	eventually(t, "three members that live and serve", func() bool {
		code, out, errOut := program.Output(t, "cluster", "status", "--json", "--config", file)
		if code != 0 {
			t.Fatalf("exit %d, %s", code, errOut)
		}
		r = clitest.Into[operator.ClusterReport](t, out)
		serving := 0
		for _, m := range r.Members {
			if m.Seen && m.State == "serving" {
				serving++
			}
		}
		return serving == 3
	})
	for _, m := range r.Members {
		if m.Share <= 0.2 || m.Node == "" || len(m.Records) == 0 || len(r.Unread) != 0 {
			t.Errorf("row %+v, unread %v", m, r.Unread)
		}
	}
	if code, out, errOut := program.Output(t, "cluster", "drain", r.Members[0].Node, "--config", file); code != 0 || !strings.Contains(out, "has no conversation left") {
		t.Errorf("drain: exit %d, %q, %q", code, out, errOut)
	}
	for i, n := range nodes {
		if code, out, errOut := program.Output(t, "send", n.Base+"/x", fmt.Sprintf("again %d", i)); code != 0 || !strings.HasSuffix(out, "[completed]\n") {
			t.Errorf("node %d after the drain: exit %d, %q, %q", i, code, out, errOut)
		}
		eventually(t, fmt.Sprintf("node %d to know of 3 members", i), func() bool {
			_, text := fetch(t, "http://"+admins[i]+"/metrics")
			return strings.Contains(text, "\nparley_members 3\n")
		})
	}
	for _, n := range nodes {
		if err := n.End(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v\n%s", err, n.Logs)
		}
	}
	if _, out, _ := program.Output(t, "cluster", "status", "--config", file); !strings.Contains(out, "No node serves it.") {
		t.Errorf("after the end: %s", out)
	}
}

// One node is paused until the other replaces it, and then continues. It has a long suspicion timeout
// itself, because on a busy machine the other one may pause too.
func TestReplacedNodeNamesRemedy(t *testing.T) {
	e := clitest.NewEndpoint(t, nil)
	var nodes []*clitest.Node
	for _, times := range []string{"suspect: 1m, fence: 30s", "suspect: 800ms, fence: 500ms"} {
		line := "cluster: {listen: \"127.0.0.1:0\", heartbeat: 200ms, " + times + "}\ndrain: {delay: 0s}"
		nodes = append(nodes, program.Start(t, "serve", "--quiet", "--insecure-cluster", "--strict-reads", "--config", clitest.EchoConfig(t, t.TempDir(), e.Line, line)))
	}
	_ = nodes[0].Cmd.Process.Signal(syscall.SIGSTOP) // It may have been replaced already.
	ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
	defer stop()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for alone := false; !alone; {
		v, err := actors.ReadCluster(ctx, e.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		if alone = len(v.Members) == 1; !alone {
			select {
			case <-poll.C:
			case <-ctx.Done():
				t.Fatal("the other node does not notice")
			}
		}
	}
	err := nodes[0].End(syscall.SIGCONT)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitRefused || !strings.Contains(nodes[0].Logs.String(), "considered this node crashed") || !strings.Contains(nodes[0].Logs.String(), "start it again") {
		t.Errorf("ends with %v\n%s", err, nodes[0].Logs)
	}
	if code, out, errOut := program.Output(t, "send", nodes[1].Base+"/x", "hello"); code != 0 || !strings.HasSuffix(out, "[completed]\n") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
}

func TestDisplayAddress(t *testing.T) {
	shared := &config.Server{Cluster: &config.Cluster{Advertise: "[fd00::5]:7946"}}
	for _, tt := range []struct {
		conf *config.Server
		ip   net.IP
		want string
	}{
		{shared, net.IPv4zero, "[fd00::5]:3000"}, {shared, net.IPv6zero, "[fd00::5]:3000"},
		{shared, net.IPv4(10, 0, 0, 1), "10.0.0.1:3000"}, {&config.Server{}, net.IPv4zero, "0.0.0.0:3000"},
		{&config.Server{Cluster: &config.Cluster{}}, net.IPv4zero, "0.0.0.0:3000"},
	} {
		if got := advertisedAddress(tt.conf, &net.TCPAddr{IP: tt.ip, Port: 3000}); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.ip, got, tt.want)
		}
	}
}
