package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var c bench.Comparison
	table := measured(t, &c, nil, "compare", built(t).parley, built(t).parley, "--rounds", "2",
		"--", "--quick", "--percent", "1", "--only", "turns,start", "--dir", dir)
	for _, side := range []bench.Side{c.Old, c.New} {
		if side.Program != built(t).parley || !strings.HasPrefix(side.Version, "parley ") || len(side.Reports) != 2 {
			t.Errorf("a side is %+v", side)
		}
		for _, r := range side.Reports {
			if len(r.Scenarios) != 3 || r.Failed() != 0 || r.Version != side.Version {
				t.Errorf("a report is %+v", r)
			}
		}
	}
	for _, want := range []string{"old: " + built(t).parley, ", runs: 2\n", "new/old", "\nraw-put-1 ", "\nstart ", "\nturns ", " RSS MB "} {
		if !strings.Contains(table, want) {
			t.Errorf("table lacks %q:\n%s", want, table)
		}
	}
	wantEmpty(t, dir)
}

func TestCompareMistakes(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"one program":      {[]string{built(t).parley}, "compare takes two parley programs"},
		"three programs":   {[]string{built(t).parley, built(t).parley, built(t).parley}, "compare takes two parley programs"},
		"no such program":  {[]string{built(t).parley, none}, "find the program to measure"},
		"another server":   {[]string{built(t).parley, built(t).parley, "--", "--against", "x"}, "flags after --: unknown flag: --against; allowed are --quick"},
		"a word":           {[]string{built(t).parley, built(t).parley, "--", "turns"}, `flags after --: unknown argument "turns"`},
		"before the --":    {[]string{built(t).parley, built(t).parley, "--quick"}, "parley-bench compare --help lists the flags"},
		"unknown scenario": {[]string{built(t).parley, built(t).parley, "--", "--only", "turn"}, `unknown scenario "turn"`},
		"no rounds":        {[]string{built(t).parley, built(t).parley, "--rounds", "0"}, "invalid number of rounds 0"},
	} {
		code, _, errOut := output(t, append([]string{"compare"}, tt.args...)...)
		if code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit 1 and %q", name, code, errOut, tt.want)
		}
	}
}
