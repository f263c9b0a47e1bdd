package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Root returns the folder of the module, with go.mod. Tests run in the folder of their package,
// somewhere below it.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if strings.HasSuffix(dir, string(filepath.Separator)) {
			return "", fmt.Errorf("no go.mod at or above %s", wd)
		}
	}
}

// Build returns the file of a program of the module, with or without the race detector, and with build
// tags. It builds the program if the file is missing or its sources have changed. Concurrent builds by
// tests of several packages are serialized; the file is never removed.
func Build(ctx context.Context, pkg string, race bool, tags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	name := path.Base(pkg)
	if race {
		name += "-race"
	}
	file := filepath.Join(root, "bin", "built", strings.Join(append([]string{name}, tags...), "-"))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // Closing unlocks it.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	// VCS stamping would make the program depend on the commit.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", fmt.Sprintf("-race=%t", race),
		"-tags="+strings.Join(tags, ","), "-o", file, "./"+pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return file, readSources(ctx, root, pkg, tags)
}

// Program is [Build] for a test, which fails without the program.
func Program(t Test, pkg string, race bool, tags ...string) string {
	t.Helper()
	file, err := Build(t.Context(), pkg, race, tags...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return file
}

// sources prints the folder of each package of the module and its files, including files excluded by
// build tags, which may be included when they change.
const sources = `{{with .Module}}{{if .Main}}{{$d := $.Dir}}{{$d}}{{"\n"}}{{range $.GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range $.IgnoredGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range $.EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`

// readSources reads each source of a program, so that the go command records them as inputs of the test.
// Otherwise it would return a cached result for a changed program.
func readSources(ctx context.Context, root, pkg string, tags []string) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-tags="+strings.Join(tags, ","), "-f="+sources, "./"+pkg)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the sources of %s: %w", pkg, err)
	}
	for name := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("sources of %s: %w", pkg, err)
		}
	}
	return nil
}
