package operator

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// wantTable checks the output of "bucket check" for a store that responds.
func wantTable(t *testing.T, out string, failed ...string) {
	t.Helper()
	for _, want := range []string{"CHECK", "REQUEST", "COUNT", "P50", "P99", "MAX", "create race ", "list pages ", "\ncreate ", "\nput ", "\nget ", "\nlist ", "\ndelete ", " requests in "} {
		if !strings.Contains(out, want) {
			t.Errorf("table lacks %q:\n%s", want, out)
		}
	}
	if got := strings.Count(out, "FAILED"); got == 0 != (len(failed) == 0) {
		t.Errorf("%d checks failed, want %v:\n%s", got, failed, out)
	}
	for _, name := range failed {
		if _, line, found := strings.Cut(out, "\n"+name+" "); !found || !strings.HasPrefix(strings.TrimSpace(line), "FAILED") {
			t.Errorf("check %q has not failed:\n%s", name, out)
		}
	}
}

func TestBucketCheck(t *testing.T) {
	e := clitest.NewEndpoint(t, nil)
	file := clitest.EchoConfig(t, t.TempDir(), e.Line)
	code, out, errOut := program.Output(t, "bucket", "check", "--config", file)
	if wantTable(t, out); code != 0 || errOut != "" || !strings.Contains(out, e.Address) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if got := clitest.Keys(t, e.Bucket, ""); got != nil {
		t.Errorf("in an empty bucket it left %v", got)
	}
	if err := storage.EnsureFormat(t.Context(), e.Bucket); err != nil {
		t.Fatal(err)
	}
	for range 2 { // Every check sends its requests again.
		e.Take()
		if code, _, errOut := program.Output(t, "bucket", "check", "--config", file); code != 0 || strings.Count(e.Take(), "\n") < 600 {
			t.Errorf("exit %d, %s", code, errOut)
		}
	}
	if got := clitest.Keys(t, e.Bucket, ""); len(got) != 2 || !strings.HasPrefix(got[1], "probe/result/") {
		t.Errorf("in a bucket of Parley it left %v", got)
	}
	if _, logs := program.Serving(t, "serve", "--config", file); strings.Contains(logs, "probe") {
		t.Errorf("a start did not take the result: %s", logs)
	}
}

// A failed check prints the table and the reason, and revokes the result of an earlier check.
func TestBucketCheckRefuses(t *testing.T) {
	var broken atomic.Bool
	e := clitest.NewEndpoint(t, func(r *http.Request) {
		if broken.Load() {
			clitest.DropCondition(r)
		}
	})
	file := clitest.EchoConfig(t, t.TempDir(), e.Line)
	program.Serving(t, "serve", "--config", file)
	broken.Store(true)
	code, out, errOut := program.Output(t, "bucket", "check", "--config", file)
	wantTable(t, out, "create of an existing key", "create race")
	if code != 1 || !strings.Contains(errOut, `failed the check "create of an existing key"`) || !strings.Contains(errOut, e.Address) {
		t.Errorf("exit %d, %q", code, errOut)
	}
	if code, _, errOut := program.Output(t, "serve", "--config", file); code != 1 || !strings.Contains(errOut, "failed the check") {
		t.Errorf("the next start: exit %d, %q", code, errOut)
	}
}

func TestBucketCheckOfAFolder(t *testing.T) {
	dir := t.TempDir()
	program.Serving(t, "serve", "--config", clitest.EchoConfig(t, dir, clitest.DirBucket(dir)))
	data := filepath.Join(dir, "data")
	for _, args := range [][]string{{"--data", data}, {"--config", filepath.Join(dir, "parley.yaml")}} {
		code, out, errOut := program.Output(t, append([]string{"bucket", "check"}, args...)...)
		if wantTable(t, out); code != 0 || errOut != "" || !strings.Contains(out, "A start does not probe the embedded bucket") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errOut)
		}
	}
	code, out, errOut := program.Output(t, "bucket", "check", "--json", "--data", data)
	if r := clitest.Into[probeReport](t, out); code != 0 || errOut != "" || !r.OK || len(r.Checks) < 5 || len(r.Operations) < 4 || r.Requests == 0 || r.DurationMs <= 0 {
		t.Errorf("check --json: exit %d, %q, %q; want one object with checks and operations", code, out, errOut)
	}
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		if got := clitest.Keys(t, b, "probe/"); got != nil {
			t.Errorf("left behind: %v", got)
		}
		code, _, errOut := program.Output(t, "bucket", "check", "--data", data)
		if code != cli.ExitRefused || !strings.Contains(errOut, "is in use by another process") {
			t.Errorf("while it is in use: exit %d, %q", code, errOut)
		}
	})
}

func TestBucketCheckMistakes(t *testing.T) {
	foreign := clitest.NewEndpoint(t, nil)
	if err := foreign.Bucket.Put(t.Context(), "somebody-elses", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	older := clitest.NewEndpoint(t, nil)
	if err := older.Bucket.Put(t.Context(), "format.json", storage.Bytes([]byte(`{"schemaVersion":7}`))); err != nil {
		t.Fatal(err)
	}
	config := func(line string) string { return clitest.EchoConfig(t, t.TempDir(), line) }
	nowhere := filepath.Join(t.TempDir(), "none")
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a bucket of others":    {[]string{"--config", config(foreign.Line)}, 1, "use an empty bucket or another prefix"},
		"another format":        {[]string{"--config", config(older.Line)}, 1, "stored format 7, supported format 8"},
		"nobody there":          {[]string{"--config", config(fmt.Sprintf("bucket: {endpoint: %q, name: words, secure: false}", noderun.Refusing(t)))}, 1, "check bucket.endpoint"},
		"no such folder":        {[]string{"--data", nowhere}, 1, "is not a folder"},
		"no such file":          {[]string{"--config", nowhere}, 1, "create it"},
		"two buckets":           {[]string{"--config", "x", "--data", "y"}, cli.ExitUsage, "--config and --data exclude each other"},
		"an argument":           {[]string{"x"}, cli.ExitUsage, "parley bucket check takes no argument"},
		"a flag is not known":   {[]string{"--fresh"}, cli.ExitUsage, "parley bucket check --help lists the flags"},
		"data folder is a file": {[]string{"--data", clitest.Write(t, filepath.Join(t.TempDir(), "f"), "")}, 1, "is not a folder"},
	} {
		if code, out, errOut := program.Output(t, append([]string{"bucket", "check"}, tt.args...)...); code != tt.code || out != "" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q, %q; want exit %d and %q", name, code, out, errOut, tt.code, tt.want)
		}
	}
	for _, e := range []*clitest.Endpoint{foreign, older} {
		if got := clitest.Keys(t, e.Bucket, ""); len(got) != 1 || e.Take() != "" {
			t.Errorf("a bucket that is not ours has %v", got)
		}
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("a mistyped folder was made")
	}
	if code, _, errOut := program.Output(t, "bucket", "chek"); code != cli.ExitUsage || !strings.Contains(errOut, `no command "chek" (did you mean check?)`) {
		t.Errorf("a mistyped command: exit %d, %q", code, errOut)
	}
	if code, out, _ := program.Output(t, "bucket"); code != 0 || !strings.Contains(out, "check") {
		t.Errorf("help: exit %d, %q", code, out)
	}
}
