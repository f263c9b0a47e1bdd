package table_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/table"
)

func TestPrint(t *testing.T) {
	print := func(sparse bool, rows ...[]string) string {
		t.Helper()
		out := table.New([]int{0, 3}, "NAME", "N", "NONE", "NOTE")
		out.Sparse = sparse
		for _, row := range rows {
			out.Add(row...)
		}
		var b strings.Builder
		if err := out.Print(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	rows := [][]string{{"é", "1", "", "a note"}, {"longer", "12,345", "", ""}}
	for name, c := range map[string]struct{ got, want string }{
		"no row":      {print(false), ""},
		"all columns": {print(false, rows...), "\nNAME         N  NONE  NOTE\né            1        a note\nlonger  12,345\n"},
		"sparse":      {print(true, rows...), "\nNAME         N  NOTE\né            1  a note\nlonger  12,345\n"},
	} {
		if c.got != c.want {
			t.Errorf("%s: printed\n%swant\n%s", name, c.got, c.want)
		}
	}
}

// TestFit narrows a table: texts are cut, a spare column is omitted, texts are cut further, and then
// the width stays.
func TestFit(t *testing.T) {
	long := strings.Repeat("x", 40)
	for width, want := range map[int]struct {
		longest int
		spare   bool
	}{0: {92, true}, 100: {92, true}, 70: {70, true}, 60: {60, true}, 59: {59, false}, 40: {40, false}, 5: {21, false}} {
		out := table.New([]int{0, 3}, "NAME", "N", "SPARE", "NOTE")
		out.Width, out.Spare, out.Whole = width, []int{2}, []int{1}
		out.Add(long, "1", "22", long)
		var b strings.Builder
		if err := out.Print(&b); err != nil {
			t.Fatal(err)
		}
		longest := 0
		for line := range strings.Lines(b.String()) {
			longest = max(longest, len([]rune(strings.TrimRight(line, "\n"))))
		}
		if longest != want.longest || strings.Contains(b.String(), "SPARE") != want.spare || strings.Contains(b.String(), "…") != (want.longest < 92) {
			t.Errorf("at %d, want %+v; the longest line has %d characters:\n%s", width, want, longest, b.String())
		}
	}
}
