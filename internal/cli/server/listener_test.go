package server

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/waiting"
)

// A node of a cluster serves for 5 s after SIGTERM, a single node ends at once, and the configuration
// overrides both.
func TestDrainDelayDefaults(t *testing.T) {
	cluster := &config.Cluster{}
	for name, tt := range map[string]struct {
		conf config.Server
		want time.Duration
	}{
		"alone":               {config.Server{}, 0},
		"alone, configured":   {config.Server{Drain: config.Drain{Delay: new(time.Second)}}, time.Second},
		"cluster":             {config.Server{Cluster: cluster}, 5 * time.Second},
		"cluster, no delay":   {config.Server{Cluster: cluster, Drain: config.Drain{Delay: new(time.Duration)}}, 0},
		"cluster, long delay": {config.Server{Cluster: cluster, Drain: config.Drain{Delay: new(time.Minute)}}, time.Minute},
	} {
		if got := drainDelay(&tt.conf); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// A node without peers drains: /readyz returns 503, and requests are served for --drain-delay. A
// second signal ends it.
func TestDrainingNodeServes(t *testing.T) {
	dir, admin := t.TempDir(), noderun.Refusing(t)
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir), fmt.Sprintf("admin: {listen: %q}", admin), "drain: {delay: 0s}")
	n := program.Start(t, "serve", "--quiet", "--config", file, "--drain-delay", "10m")
	ready := func() int {
		resp, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			t.Fatalf("GET /readyz: %v\n%s", err, n.Logs)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Errorf("/readyz before the end: status %d, want 200", got)
	}
	if err := n.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waiting.Until(t, "/readyz answers 503", func() bool { return ready() == http.StatusServiceUnavailable })
	if code, out, errOut := program.Output(t, "send", n.Base+"/x", "hello"); code != 0 {
		t.Errorf("send to a node that drains: exit %d, %q, %q; want 0", code, out, errOut)
	}
	if err := n.End(syscall.SIGTERM); err == nil {
		t.Error("the second signal let the node end in order, want it to end at once")
	}
	if code, _, errOut := program.Output(t, "serve", "--config", file, "--drain-delay", "-1s"); code != 1 {
		t.Errorf("--drain-delay -1s: exit %d, %q; want 1", code, errOut)
	}
}
