package parley_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestTimesSayTheContent: in every clone the same content has the same time, another content another
// one, and what is not committed keeps its own.
func TestTimesSayTheContent(t *testing.T) {
	script, err := os.ReadFile("scripts/times.sh")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	first, second := filepath.Join(root, "first"), filepath.Join(root, "second")
	in := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(first, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := func(dir, name string) time.Time {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	commit := func() {
		t.Helper()
		in(first, "git", "add", ".")
		in(first, "git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "commit", "-qm", "x")
	}

	if err := os.MkdirAll(filepath.Join(first, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("scripts/times.sh", string(script))
	write("two words.go", "package a")
	write("same.go", "package a")
	write("package-lock.json", "{}")
	in(first, "git", "init", "-q")
	commit()
	in(root, "git", "clone", "-q", first, second)
	began := time.Now().Add(-time.Hour)
	for _, dir := range []string{first, second} {
		in(dir, "scripts/times.sh")
	}
	for _, name := range []string{"two words.go", "scripts", "scripts/times.sh"} {
		if a, b := at(first, name), at(second, name); !a.Equal(b) || a.After(began) {
			t.Errorf("%s is of %v in one clone and of %v in the other", name, a, b)
		}
	}
	if !at(first, "same.go").Equal(at(first, "two words.go")) {
		t.Error("the same content has two times")
	}
	if at(first, "package-lock.json").Before(began) {
		t.Error("make would take npm's packages for newer than what they rest on")
	}

	before := at(first, "same.go")
	write("same.go", "package b")
	edited := at(first, "same.go")
	in(first, "scripts/times.sh")
	if !at(first, "same.go").Equal(edited) {
		t.Error("what is not committed has the time of what is")
	}
	commit()
	in(first, "scripts/times.sh")
	if after := at(first, "same.go"); after.Equal(before) || after.After(began) {
		t.Errorf("the time is %v for another content, %v before", after, before)
	}
	if err := os.Rename(filepath.Join(first, ".git"), filepath.Join(root, "git")); err != nil {
		t.Fatal(err)
	}
	in(first, "scripts/times.sh") // What is no clone is left alone.
}
