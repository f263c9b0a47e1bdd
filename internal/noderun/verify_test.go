package noderun_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/noderun"
)

func TestVerified(t *testing.T) {
	const sum = `{"summary":{"damage":0}}` + "\n"
	for name, c := range map[string]struct {
		out  string
		code int
		want string
	}{
		"clean":                      {sum, 0, ""},
		"a note":                     {`{"severity":"note","kind":"reader"}` + "\n" + sum, 0, ""},
		"merged and not deleted":     {`{"severity":"note","kind":"duplicate-segment"}` + "\n" + sum, 0, ""},
		"a segment that is in doubt": {`{"severity":"repairable","kind":"duplicate-segment"}` + "\n" + sum, 1, "duplicate-segment"},
		"a lost head":                {`{"severity":"repairable","kind":"lost-head"}` + "\n" + sum, 1, "lost-head"},
		"corruption":                 {`{"severity":"damage","kind":"gap"}` + "\n" + sum, 2, "gap"},
		"aborted":                    {"", 3, "ended with 3"},
		"no findings":                {"parley: what?\n", 1, "what?"},
	} {
		if got := fmt.Sprint(noderun.Verified([]byte(c.out), c.code)); (got == "[]") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %s, want %q", name, got, c.want)
		}
	}
}
