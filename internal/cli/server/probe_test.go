package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/storage"
)

// The first start over an endpoint runs the probe, and the next one only reads its result.
func TestServeProbesOnceADay(t *testing.T) {
	e := clitest.NewEndpoint(t, nil)
	file := clitest.EchoConfig(t, t.TempDir(), e.Line)
	if _, logs := program.Serving(t, "serve", "--config", file); !strings.Contains(logs, "bucket passed the probe") || !strings.Contains(logs, "requests=6") {
		t.Errorf("logged %s", logs)
	}
	if n := strings.Count(e.Take(), "\n"); n < 600 || n > 700 {
		t.Errorf("%d requests for the probe", n)
	}
	left := clitest.Keys(t, e.Bucket, "probe/")
	if len(left) != 1 || !strings.HasPrefix(left[0], "probe/result/") {
		t.Errorf("left behind: %v", left)
	}
	if _, logs := program.Serving(t, "serve", "--config", file); strings.Contains(logs, "probe") {
		t.Errorf("the second start logged %s", logs)
	}
	if d := cmp.Diff("GET /parley/"+left[0]+"\n", e.Take()); d != "" {
		t.Errorf("requests of the second start (-want +got):\n%s", d)
	}
}

// The process ends before anything but the stamp is written, prints the remedy, and fails again at the
// next start.
func TestServeRefusesAStoreThatFailsTheProbe(t *testing.T) {
	e := clitest.NewEndpoint(t, clitest.DropCondition)
	file := clitest.EchoConfig(t, t.TempDir(), e.Line)
	for range 2 {
		code, out, errOut := program.Output(t, "serve", "--config", file)
		for _, want := range []string{`failed the check "create of an existing key"`, "If-None-Match is ignored", `bucket "parley"`, e.Address, "docs/buckets.md", "proxy"} {
			if code != 1 || out != "" || !strings.Contains(errOut, want) {
				t.Errorf("exit %d, %q, %q; want exit 1 and %q", code, out, errOut, want)
			}
		}
		if n := strings.Count(e.Take(), "\n"); n < 600 {
			t.Errorf("only %d requests for the probe", n)
		}
	}
	for _, k := range clitest.Keys(t, e.Bucket, "") {
		if k != "format.json" && !strings.HasPrefix(k, "probe/result/") {
			t.Errorf("stored %s", k)
		}
	}
}

// A folder needs no probe.
func TestServeNeverProbesAFolder(t *testing.T) {
	dir := t.TempDir()
	if _, logs := program.Serving(t, "serve", "--config", clitest.EchoConfig(t, dir, clitest.DirBucket(dir))); strings.Contains(logs, "probe") {
		t.Errorf("logged %s", logs)
	}
	clitest.OnFolder(t, filepath.Join(dir, "data"), func(b storage.Bucket) {
		if got := clitest.Keys(t, b, "probe/"); got != nil {
			t.Errorf("stored %v", got)
		}
	})
}
