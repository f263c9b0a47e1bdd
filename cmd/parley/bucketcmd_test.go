package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// endpoint is a store behind a network, as an operator has it, and its bucket.
type endpoint struct {
	address string
	bucket  storage.Bucket
	line    string // of a configuration

	mu     sync.Mutex
	probes []string // Requests below probe/.
}

// newEndpoint serves a store. Changed requests are those of a proxy before it; nil
// changes nothing.
func newEndpoint(t *testing.T, change func(*http.Request)) *endpoint {
	t.Helper()
	store := newStore(t)
	front := s3front.New(store)
	e := &endpoint{bucket: store}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		if at := r.URL.Path + r.URL.Query().Get("prefix"); strings.Contains(at, "/probe/") {
			e.probes = append(e.probes, r.Method+" "+at)
		}
		e.mu.Unlock()
		if change != nil {
			change(r)
		}
		front.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	e.address = server.Listener.Addr().String()
	e.line = fmt.Sprintf("bucket: {endpoint: %q, name: %s, secure: false}", e.address, s3front.Bucket)
	return e
}

// take returns the requests below probe/ since the last call.
func (e *endpoint) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.probes
	e.probes = nil
	return taken
}

// keys lists a bucket.
func keys(t *testing.T, b storage.Bucket, prefix string) []string {
	t.Helper()
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: prefix})
	if err != nil || page.More {
		t.Fatal(err, page.More)
	}
	var all []string
	for _, k := range page.Keys {
		all = append(all, k.Key)
	}
	return all
}

// dropCondition is a proxy that does not pass on what makes a create one.
func dropCondition(r *http.Request) { r.Header.Del("If-None-Match") }

// TestServeProbesOnceADay: the first start over an endpoint asks for what it needs,
// and the next one only for the result.
func TestServeProbesOnceADay(t *testing.T) {
	e := newEndpoint(t, nil)
	file := echoConfig(t, t.TempDir(), e.line)
	if _, logs := serving(t, "serve", "--config", file); !strings.Contains(logs, "bucket passed the probe") || !strings.Contains(logs, "requests=6") {
		t.Errorf("logged %s", logs)
	}
	if n := len(e.take()); n < 600 || n > 700 {
		t.Errorf("%d requests for the probe", n)
	}
	left := keys(t, e.bucket, "probe/")
	if len(left) != 1 || !strings.HasPrefix(left[0], "probe/result/") {
		t.Errorf("left behind: %v", left)
	}
	if _, logs := serving(t, "serve", "--config", file); strings.Contains(logs, "probe") {
		t.Errorf("the second start logged %s", logs)
	}
	if d := cmp.Diff([]string{"GET /parley/" + left[0]}, e.take()); d != "" {
		t.Errorf("requests of the second start (-want +got):\n%s", d)
	}
}

// TestServeRefusesAStoreThatFailsTheProbe: the process ends before anything but the
// stamp is written, says what to do, and is not talked round by another try.
func TestServeRefusesAStoreThatFailsTheProbe(t *testing.T) {
	e := newEndpoint(t, dropCondition)
	file := echoConfig(t, t.TempDir(), e.line)
	for range 2 {
		code, out, errOut := output(t, "serve", "--config", file)
		for _, want := range []string{`fails the check "create of an existing key"`, "ignores If-None-Match", `bucket "parley"`, e.address, "docs/buckets.md", "proxy"} {
			if code != 1 || out != "" || !strings.Contains(errOut, want) {
				t.Errorf("exit %d, %q, %q; want exit 1 and %q", code, out, errOut, want)
			}
		}
		if n := len(e.take()); n < 600 {
			t.Errorf("only %d requests for the probe", n)
		}
	}
	for _, k := range keys(t, e.bucket, "") {
		if k != "format.json" && !strings.HasPrefix(k, "probe/result/") {
			t.Errorf("stored %s", k)
		}
	}
}

// TestServeNeverProbesAFolder: what is in this process needs no evidence.
func TestServeNeverProbesAFolder(t *testing.T) {
	dir := t.TempDir()
	if _, logs := serving(t, "serve", "--config", echoConfig(t, dir, dirBucket(dir))); strings.Contains(logs, "probe") {
		t.Errorf("logged %s", logs)
	}
	onFolder(t, filepath.Join(dir, "data"), func(b storage.Bucket) {
		if got := keys(t, b, "probe/"); got != nil {
			t.Errorf("stored %v", got)
		}
	})
}

// onFolder opens the bucket of a folder for as long as look runs.
func onFolder(t *testing.T, dir string, look func(storage.Bucket)) {
	t.Helper()
	store, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	look(store)
}

// wantTable checks what "bucket check" prints about a store that answers.
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
	e := newEndpoint(t, nil)
	file := echoConfig(t, t.TempDir(), e.line)
	code, out, errOut := output(t, "bucket", "check", "--config", file)
	if wantTable(t, out); code != 0 || errOut != "" || !strings.Contains(out, e.address) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if got := keys(t, e.bucket, ""); got != nil {
		t.Errorf("in an empty bucket it left %v", got)
	}
	if err := storage.EnsureFormat(t.Context(), e.bucket); err != nil {
		t.Fatal(err)
	}
	for range 2 { // It asks anew each time.
		e.take()
		if code, _, errOut := output(t, "bucket", "check", "--config", file); code != 0 || len(e.take()) < 600 {
			t.Errorf("exit %d, %s", code, errOut)
		}
	}
	if got := keys(t, e.bucket, ""); len(got) != 2 || !strings.HasPrefix(got[1], "probe/result/") {
		t.Errorf("in a bucket of Parley it left %v", got)
	}
	if _, logs := serving(t, "serve", "--config", file); strings.Contains(logs, "probe") {
		t.Errorf("a start did not take the result: %s", logs)
	}
}

// TestBucketCheckRefuses has the table and the reason, and takes back what an
// earlier check found.
func TestBucketCheckRefuses(t *testing.T) {
	var broken atomic.Bool
	e := newEndpoint(t, func(r *http.Request) {
		if broken.Load() {
			dropCondition(r)
		}
	})
	file := echoConfig(t, t.TempDir(), e.line)
	serving(t, "serve", "--config", file)
	broken.Store(true)
	code, out, errOut := output(t, "bucket", "check", "--config", file)
	wantTable(t, out, "create of an existing key", "create race")
	if code != 1 || !strings.Contains(errOut, `fails the check "create of an existing key"`) || !strings.Contains(errOut, e.address) {
		t.Errorf("exit %d, %q", code, errOut)
	}
	if code, _, errOut := output(t, "serve", "--config", file); code != 1 || !strings.Contains(errOut, "fails the check") {
		t.Errorf("the next start: exit %d, %q", code, errOut)
	}
}

func TestBucketCheckOfAFolder(t *testing.T) {
	dir := t.TempDir()
	serving(t, "serve", "--config", echoConfig(t, dir, dirBucket(dir)))
	data := filepath.Join(dir, "data")
	for _, args := range [][]string{{"--data", data}, {"--config", filepath.Join(dir, "parley.yaml")}} {
		code, out, errOut := output(t, append([]string{"bucket", "check"}, args...)...)
		if wantTable(t, out); code != 0 || errOut != "" || !strings.Contains(out, "A start does not probe the embedded bucket") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errOut)
		}
	}
	onFolder(t, data, func(b storage.Bucket) {
		if got := keys(t, b, "probe/"); got != nil {
			t.Errorf("left behind: %v", got)
		}
		code, _, errOut := output(t, "bucket", "check", "--data", data)
		if code != 1 || !strings.Contains(errOut, "is in use by another process") {
			t.Errorf("while it is in use: exit %d, %q", code, errOut)
		}
	})
}

func TestBucketCheckMistakes(t *testing.T) {
	foreign := newEndpoint(t, nil)
	if err := foreign.bucket.Put(t.Context(), "somebody-elses", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	older := newEndpoint(t, nil)
	if err := older.bucket.Put(t.Context(), "format.json", storage.Bytes([]byte(`{"schemaVersion":7}`))); err != nil {
		t.Fatal(err)
	}
	config := func(line string) string { return echoConfig(t, t.TempDir(), line) }
	nowhere := filepath.Join(t.TempDir(), "none")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a bucket of others":    {[]string{"--config", config(foreign.line)}, "use an empty bucket, or a prefix of its own"},
		"another format":        {[]string{"--config", config(older.line)}, "stored format 7, supported format 8"},
		"nobody there":          {[]string{"--config", config(fmt.Sprintf("bucket: {endpoint: %q, name: words, secure: false}", noderun.Refusing(t)))}, "check bucket.endpoint"},
		"no such folder":        {[]string{"--data", nowhere}, "is no folder"},
		"no such file":          {[]string{"--config", nowhere}, "create it"},
		"two buckets":           {[]string{"--config", "x", "--data", "y"}, "[config data]"},
		"an argument":           {[]string{"x"}, "unknown command"},
		"a flag is not known":   {[]string{"--fresh"}, "parley bucket check --help lists the flags"},
		"data folder is a file": {[]string{"--data", write(t, filepath.Join(t.TempDir(), "f"), "")}, "is no folder"},
	} {
		if code, out, errOut := output(t, append([]string{"bucket", "check"}, tt.args...)...); code != 1 || out != "" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q, %q; want exit 1 and %q", name, code, out, errOut, tt.want)
		}
	}
	for _, e := range []*endpoint{foreign, older} {
		if got := keys(t, e.bucket, ""); len(got) != 1 || len(e.take()) != 0 {
			t.Errorf("a bucket that is not ours has %v", got)
		}
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("a mistyped folder was made")
	}
	if code, _, errOut := output(t, "bucket", "chek"); code != 1 || !strings.Contains(errOut, `unknown command "chek"`) {
		t.Errorf("a mistyped command: exit %d, %q", code, errOut)
	}
	if code, out, _ := output(t, "bucket"); code != 0 || !strings.Contains(out, "check") {
		t.Errorf("help: exit %d, %q", code, out)
	}
}
