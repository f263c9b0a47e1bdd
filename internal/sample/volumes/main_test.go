package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArguments(t *testing.T) {
	tests := map[string]set{"./a": {"TestA": true}, "./b": {"TestB": true, "TestC": true}, "./c": {"TestA": true}}
	got, err := arguments(tests, []string{"./c"})
	if diff := cmp.Diff([]string{"-run", "^(TestA|TestB|TestC)$", "./c", "./a", "./b"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := arguments(tests, []string{"./d"}); err == nil {
		t.Errorf("a package without samples: %q", got)
	}
	if got, err := arguments(nil, nil); err == nil {
		t.Errorf("without any: %q", got)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go": `package a
			var volume, other = sample.Of(10, 2), 1
			func TestItself(t *testing.T)  { _ = sample.Of(1, 2) }
			func TestByAFlag(t *testing.T) { run(t) }
			func TestOther(t *testing.T)   { _ = other + plan{}.size() }
			func TestMain(m *testing.M)    { _ = volume }
			func helper() int              { return volume }`,
		"a/run_test.go":        "package a_test\nfunc run(t *testing.T) { for range helper() {} }\nfunc TestFar(t *testing.T) { new(plan).perform() }",
		"a/plan_test.go":       "package a\ntype plan struct{}\nfunc (p plan) size() int { return 1 }\nfunc (p *plan) perform() { run(nil) }",
		"a/testdata/b_test.go": "package b\nfunc TestData(t *testing.T) { sample.Of(1, 2) }",
		"c/c_test.go":          "package c\nfunc TestNothing(t *testing.T) { another.Of(1, 2) }",
		"c/c.go":               "package c\nfunc TestNoTest() { sample.Of(1, 2) }",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	got, err := find(".")
	// A specification of several names counts as a whole.
	want := map[string]set{"./a": {"TestItself": true, "TestByAFlag": true, "TestOther": true, "TestFar": true}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := os.WriteFile(filepath.Join(dir, "c", "c_test.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := find("."); err == nil || !strings.Contains(err.Error(), "c_test.go") {
		t.Errorf("invalid Go file: %v", err)
	}
}
