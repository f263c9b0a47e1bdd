package parley_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// clone is a git work tree that is independent of the user's git configuration.
type clone struct {
	t   *testing.T
	dir string
}

func (c clone) run(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), args[0], args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") }),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

func (c clone) commit() {
	c.t.Helper()
	c.run("git", "add", ".")
	c.run("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x")
}

func (c clone) write(name, content string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(content), 0o755); err != nil {
		c.t.Fatal(err)
	}
}

func (c clone) at(name string) time.Time {
	c.t.Helper()
	info, err := os.Stat(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return info.ModTime()
}

// In every clone the same content has the same modification time, different contents have different
// ones, and uncommitted files keep theirs.
func TestTimesFollowContent(t *testing.T) {
	script, err := os.ReadFile("scripts/times.sh")
	if err != nil {
		t.Fatal(err)
	}
	if ci, err := os.ReadFile(".ci/run"); err != nil || !strings.Contains(string(ci), "\nscripts/times.sh\n") {
		t.Errorf("CI does not set the times: %v", err)
	}
	first, second := clone{t, t.TempDir()}, clone{t, t.TempDir()}
	for _, dir := range []string{"scripts", "x"} {
		if err := os.Mkdir(filepath.Join(first.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	first.write("scripts/times.sh", string(script))
	first.write("x/two words.go", "package a")
	npm := []string{"package.json", "x/package-lock.json", ".npmrc"}
	for _, name := range npm {
		first.write(name, "{}")
	}
	first.run("git", "init", "-q")
	first.commit()
	second.run("git", "clone", "-q", first.dir, ".")
	began := time.Now().Add(-time.Hour)
	for _, c := range []clone{first, second} {
		clone{t, c.dir + "/.."}.run(c.dir + "/scripts/times.sh")
		for _, name := range npm {
			if c.at(name).Before(began) {
				t.Errorf("make would take npm's packages for newer than %s", name)
			}
		}
	}
	for _, name := range []string{"scripts", "x", "scripts/times.sh"} {
		if a, b := first.at(name), second.at(name); !a.Equal(b) || a.After(began) {
			t.Errorf("%s is of %v in one clone and of %v in the other", name, a, b)
		}
	}
	// git hash-object prints d63f93ea49151e.
	if got, want := first.at("x/two words.go"), time.Unix(0xd63f93e, 0xa49151e); !got.Equal(want) {
		t.Errorf("the time is %v, want %v", got, want)
	}

	kept := func(desc, name string, then time.Time) {
		t.Helper()
		first.run("scripts/times.sh")
		if got := first.at(name); !got.Equal(then) {
			t.Errorf("%s: the time of %s is %v, not %v as before", desc, name, got, then)
		}
	}
	first.write("x/newer.go", "package a")
	kept("a file that is not committed", "x", first.at("x"))
	if err := os.Remove(filepath.Join(first.dir, "x/newer.go")); err != nil {
		t.Fatal(err)
	}
	first.write("x/two words.go", "package b")
	edited := first.at("x/two words.go")
	kept("an edited file", "x/two words.go", edited)
	first.run("git", "update-index", "--assume-unchanged", "x/two words.go")
	kept("an edited file that git assumes unchanged", "x/two words.go", edited)
	first.run("git", "update-index", "--no-assume-unchanged", "x/two words.go")
	first.commit()
	first.run("scripts/times.sh")
	if got, a := first.at("x/two words.go"), second.at("x/two words.go"); got.Equal(a) || got.After(began) {
		t.Errorf("the time is %v for another content, %v before", got, a)
	}
	if err := os.RemoveAll(filepath.Join(first.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	kept("no clone", "scripts", first.at("scripts"))
}
