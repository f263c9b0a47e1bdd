package console_test

import (
	"context"
	"flag"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
)

// nodeTimeout bounds a hanging script, and longTimeout one that takes minutes. They only matter when a
// test fails.
const (
	nodeTimeout = 10 * time.Minute
	longTimeout = 30 * time.Minute
)

// long makes TestBrowser run the folder e2e/long instead of e2e, for make soak.
var long = flag.Bool("long", false, "look for minutes: deaths, an endless reply, hostile messages")

// needModules fails with the remedy unless the pinned packages are installed.
func needModules(t *testing.T) {
	t.Helper()
	for _, name := range []string{"package.json", ".npmrc", "vitest.config.ts"} { // The scripts depend on them.
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
	}
	installed, err := os.Stat("node_modules/.package-lock.json")
	if err != nil {
		t.Fatalf("the packages of the console are not installed: run make console (%v)", err)
	}
	lock, err := os.Stat("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if installed.ModTime().Before(lock.ModTime()) {
		t.Fatalf("the packages of the console are older than package-lock.json: run make console")
	}
}

// node runs a script of the packages and returns its output.
func node(t *testing.T, env []string, args ...string) ([]byte, error) {
	t.Helper()
	timeout := nodeTimeout
	if *long {
		timeout = longTimeout
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PARLEY_") || strings.HasPrefix(v, "NODE_") || strings.HasPrefix(v, "MODEL_")
	}), env...)
	return cmd.CombinedOutput()
}

// The build is reproducible: the sources produce the embedded bytes.
func TestBuildIsReproducible(t *testing.T) {
	needModules(t)
	sources(t) // The result depends on them.
	dir := t.TempDir()
	if out, err := node(t, nil, "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn", "--outDir", dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !maps.EqualFunc(tree(t, "dist"), tree(t, dir), func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Error("the embedded build differs from the build of the sources: run make page")
	}
}

// TestTypes runs the type checker.
func TestTypes(t *testing.T) {
	needModules(t)
	sources(t)
	tree(t, "test")
	if out, err := node(t, nil, "node_modules/typescript/bin/tsc", "--noEmit"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestComponents runs the tests in the folder test, which need no server.
func TestComponents(t *testing.T) {
	needModules(t)
	sources(t)
	tree(t, "test")
	out, err := node(t, nil, "node_modules/vitest/vitest.mjs", "run", "--reporter=dot")
	if err != nil || strings.Contains(string(out), "skipped") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// browser returns the path of Debian's browser, or of another one.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	t.Fatal("Chromium not found: apt-get install chromium-headless-shell fonts-dejavu-core")
	return ""
}

// TestBrowser runs the tests in the folder e2e with a real browser and the program.
func TestBrowser(t *testing.T) {
	needModules(t)
	model := httptest.NewServer(fakemodel.New(&fakemodel.Options{Key: "the-model-s-key", MaxRequests: 100_000}))
	t.Cleanup(func() {
		model.CloseClientConnections()
		model.Close()
	})
	author, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := proc.Root()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"MODEL_URL=" + model.URL, "CONSOLE_BROWSER=" + browser(t), "CONSOLE_PROGRAM=" + proc.Program(t, "cmd/parley", sample.Raced()),
		"CONSOLE_AUTHOR=" + author, "CONSOLE_ROOT=" + root, "CONSOLE_HOST=" + proc.Host(),
	}
	tree(t, "e2e")
	for _, name := range []string{"../go.sum", "../test/clients/node_modules/.package-lock.json"} {
		_, _ = os.Stat(name) // The programs copied from the page are compiled with them.
	}
	pattern := "e2e/*.test.mjs"
	if *long {
		pattern = "e2e/long/*.test.mjs"
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("find the tests of the browser: %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test.mjs"), func(t *testing.T) {
			out, err := node(t, env, "--test-reporter=tap", file)
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "usable after") || strings.Contains(line, "# heap ") {
					t.Log(strings.TrimSpace(line))
				}
			}
			if err != nil || !strings.Contains(string(out), "\n# fail 0\n") || !strings.Contains(string(out), "\n# skipped 0\n") || strings.Contains(string(out), "\n# pass 0\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
