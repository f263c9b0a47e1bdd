// Package clients_test runs the unmodified public TypeScript client and its React hook against three
// servers. They are a running "parley serve", one that is killed and restarted, and a program that
// uses the library. The tests are the *.test.mjs files in this folder; the Go code starts the servers.
package clients_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
)

const (
	// suiteTimeout is the timeout of one file.
	suiteTimeout = 15 * time.Minute

	modelKey    = "the-model-s-key"
	bearerToken = "the-server-s-token"
)

// place is the set of buckets of one run of the suite, one per server.
type place struct {
	// yaml is the value of bucket in parley.yaml, env the variables that it needs.
	yaml string
	env  []string
	// restarted is the value of bucket for the server that tests restart.
	restarted string
	// library is the bucket of the program in this process.
	library storage.Bucket
}

// TestPublicClient runs the suite against nodes over an S3 server. Under the race detector it runs a
// part of the suite over a folder. Clients behave the same in both.
// covers: beta/1, beta/2, beta/3, beta/4, beta/67, beta/68, beta/69, beta/70, beta/71, beta/72, beta/83, beta/84
// covers: beta/93, beta/94, beta/110, beta/111, beta/112, beta/113, upgrade/16, upgrade/24, upgrade/37
func TestPublicClient(t *testing.T) {
	needModules(t)
	program := proc.Program(t, "cmd/parley", sample.Raced())
	for _, name := range sample.Of([]string{"versitygw"}, []string{"dir"}) {
		t.Run(name, func(t *testing.T) {
			open := map[string]func(t *testing.T) place{"dir": openDir, "versitygw": openGateway}[name]
			at := open(t)
			model := startModel(t)
			completions, messages := startServe(t, newServer(t, program, "127.0.0.1:0", at.yaml, at.env, model.URL))
			restarted := newServer(t, program, steadyAddress(t), at.restarted, at.env, model.URL)
			restartedCompletions, restartedMessages := startServe(t, restarted)
			urls := map[string]string{
				"MODEL_URL":                        model.URL,
				"MODEL_ERROR_TEXT":                 fakemodel.ErrorText,
				"PARLEY_TOKEN":                     bearerToken,
				"PARLEY_COMPLETIONS_URL":           completions,
				"PARLEY_MESSAGES_URL":              messages,
				"PARLEY_LIBRARY_URL":               startLibrary(t, at.library, model.URL),
				"PARLEY_RESTARTED_COMPLETIONS_URL": restartedCompletions,
				"PARLEY_RESTARTED_MESSAGES_URL":    restartedMessages,
				"PARLEY_CONTROL_URL":               startControl(t, restarted),
			}
			files := suiteFiles(t)
			// Start servers that only one file needs for that file only.
			if slices.Contains(files, "page.test.mjs") {
				urls["PARLEY_PROGRAM_URL"], urls["PAGE_FOLDER"] = startHello(t), pageFolder(t)
			}
			if slices.Contains(files, "runs.test.mjs") {
				urls["PARLEY_WORKFLOW_URL"], urls["PARLEY_WORKFLOW_CONTROL_URL"] = startWorkflows(t, model)
			}
			for _, name := range []string{"transport.ts", "tsconfig.json"} {
				_, _ = os.Stat(filepath.Join("../../examples/aisdk", name)) // Record the inputs of aisdk.test.mjs for the test cache.
			}
			runSuite(t, files, urls)
		})
	}
}

func openDir(t *testing.T) place {
	store, err := local.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	yaml := func() string { return fmt.Sprintf("{dir: %q}", t.TempDir()) }
	return place{yaml: yaml(), restarted: yaml(), library: store}
}

func openGateway(t *testing.T) place {
	server := s3server.Versitygw(t)
	bucket, err := s3.New(&s3.Options{
		Endpoint: server.Endpoint, Bucket: server.Bucket(t), Region: server.Region, PathStyle: true,
		AccessKey: server.AccessKey, SecretKey: server.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	yaml := func() string {
		return fmt.Sprintf("{endpoint: %q, name: %q, region: %q, secure: false, accessKeyEnv: BUCKET_ACCESS_KEY, secretKeyEnv: BUCKET_SECRET_KEY}",
			server.Endpoint, server.Bucket(t), server.Region)
	}
	return place{
		yaml:      yaml(),
		env:       []string{"BUCKET_ACCESS_KEY=" + server.AccessKey, "BUCKET_SECRET_KEY=" + server.SecretKey},
		restarted: yaml(),
		library:   bucket,
	}
}

func startModel(t *testing.T) *httptest.Server {
	// Tests search for their own calls among all calls.
	server := httptest.NewServer(fakemodel.New(&fakemodel.Options{Key: modelKey, MaxRequests: 100_000}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// needModules fails, with the remedy, unless the pinned packages are installed.
func needModules(t *testing.T) {
	t.Helper()
	const stamp = "node_modules/.package-lock.json"
	installed, err := os.Stat(stamp)
	if err != nil {
		t.Fatalf("packages of the client suite are not installed; run make clients (%v)", err)
	}
	lock, err := os.Stat("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if installed.ModTime().Before(lock.ModTime()) {
		t.Fatalf("packages of the client suite are older than package-lock.json; run make clients")
	}
}

func suiteFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.test.mjs")
	if err != nil || len(files) == 0 {
		t.Fatalf("find the files of the suite: %q, %v", files, err)
	}
	// Data races need servers with concurrent work.
	return sample.Of(files, []string{"abort.test.mjs", "observe.test.mjs", "reconnect.test.mjs", "restart.test.mjs", "send.test.mjs", "tools.test.mjs"})
}

// runSuite runs each file in a process of its own.
func runSuite(t *testing.T, files []string, urls map[string]string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is missing; install Node.js 20 or later and put it on PATH")
	}
	env := environment()
	for name, value := range urls {
		env = append(env, name+"="+value)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".test.mjs"), func(t *testing.T) {
			t.Parallel()
			runFile(t, node, file, env)
		})
	}
}

// runFile reports node's output of failed tests. A file without tests, or with a skipped one, fails.
func runFile(t *testing.T, node, file string, env []string) {
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	// Without --test it is a single process, which a kill ends completely.
	cmd := exec.CommandContext(ctx, node, "--test-reporter=tap", file)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	passed, left := count(out, "# pass"), max(count(out, "# skipped"), count(out, "# todo"))
	if err != nil || passed < 2 || left != 0 {
		t.Errorf("got %d passed and %d skipped tests: %v\n%s", passed, left, err, onlyFailures(out))
	}
}

// environment returns the environment without variables that name other servers.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		for _, prefix := range []string{"PARLEY_", "MODEL_", "BUCKET_", "OPENAI_", "ANTHROPIC_", "NODE_"} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}

// count returns one number of the summary of a TAP report, or -1.
func count(report []byte, line string) int {
	for l := range strings.Lines(string(report)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l), line+" "); ok {
			if n, err := strconv.Atoi(rest); err == nil {
				return n
			}
		}
	}
	return -1
}

// onlyFailures removes passed tests from a TAP report.
func onlyFailures(report []byte) string {
	var kept []string
	inPassed := false
	for line := range strings.Lines(string(report)) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "ok "):
			inPassed = true
		case strings.HasPrefix(text, "not ok "), strings.HasPrefix(text, "# "), strings.HasPrefix(text, "1.."):
			inPassed = false
		}
		if !inPassed && !strings.HasPrefix(text, "# Subtest") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
