package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/parleyrun/parley/internal/proc"
)

// module creates a module with a program that prints its build settings, and changes to its folder.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.org/m\n\ngo 1.26\n",
		"cmd/hello/main.go":  "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(word) }\n",
		"cmd/hello/word.go":  "//go:build !other\n\npackage main\n\nconst word = \"plain\"\n",
		"cmd/hello/left.go":  "//go:build left\n\npackage main\n\nconst word = \"left\"\n",
		"cmd/hello/other.go": "//go:build other\n\npackage main\n\nconst word = \"other\"\n",
		"cmd/bad/main.go":    "package main\n\nfunc main() { none() }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "cmd"))
	return dir
}

// TestBuild checks that each variant of a program has its own file, which is replaced only when the
// sources change.
func TestBuild(t *testing.T) {
	dir := module(t)
	build := func(tags ...string) (file, listens string, is os.FileInfo) {
		t.Helper()
		file, err := proc.Build(t.Context(), "cmd/hello", false, tags...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(file).Output()
		if err != nil {
			t.Fatal(err)
		}
		if is, err = os.Stat(file); err != nil {
			t.Fatal(err)
		}
		return file, string(out), is
	}
	plain, listens, first := build()
	if listens != "plain" || plain != filepath.Join(dir, "bin", "built", "hello") {
		t.Errorf("%s printed %q", plain, listens)
	}
	if file, listens, _ := build("other"); listens != "other" || file != plain+"-other" {
		t.Errorf("with a tag, %s printed %q", file, listens)
	}
	if _, listens, again := build(); listens != "plain" || !os.SameFile(first, again) {
		t.Errorf("built again: printed %q, and the file was replaced", listens)
	}
	if err := os.WriteFile(filepath.Join(dir, "cmd/hello/word.go"), []byte("package main\n\nconst word = \"new\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, listens, _ := build(); listens != "new" {
		t.Errorf("after a change: printed %q", listens)
	}
}

func TestBuildFails(t *testing.T) {
	module(t)
	if file, err := proc.Build(t.Context(), "cmd/bad", false); err == nil {
		t.Errorf("%s was built from invalid sources", file)
	}
	t.Chdir("/")
	if file, err := proc.Build(t.Context(), "cmd/hello", false); err == nil {
		t.Errorf("%s was built without a module", file)
	}
}

// TestResultsDependOnSources checks that the sources of programs are inputs of the test for the cache of
// the go command.
func TestResultsDependOnSources(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "log")
	out, err := exec.Command(os.Args[0], "-test.run=^TestBuild$", "-test.testlogfile="+seen).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cmd/hello\n", "cmd/hello/main.go\n", "cmd/hello/word.go\n", "cmd/hello/other.go\n", "cmd/hello/left.go\n"} {
		if !regexp.MustCompile(`(?m)^stat .*/` + file).Match(b) {
			t.Errorf("it has not looked at %s", file)
		}
	}
}
