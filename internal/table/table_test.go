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
