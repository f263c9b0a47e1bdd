package membership

import (
	"fmt"
	"testing"
)

func TestWatch(t *testing.T) {
	const enough = 3
	for name, tt := range map[string]struct {
		marks []mark
		want  verdict
		after int // number of checks until then
	}{
		"silence":                  {[]mark{7, 7, 7, 7}, dead, 4},
		"one check":                {[]mark{7}, undecided, 1},
		"not long enough":          {[]mark{7, 7, 7}, undecided, 3},
		"a change":                 {[]mark{7, 8}, alive, 2},
		"a change at last":         {[]mark{7, 7, 7, 8}, alive, 4},
		"counts from the start":    {[]mark{7, 1}, alive, 2},
		"never there":              {[]mark{absent, absent, absent, absent}, dead, 4},
		"appears":                  {[]mark{absent, absent, 1}, alive, 3},
		"removed":                  {[]mark{7, absent, absent, absent}, dead, 4},
		"removed and there again":  {[]mark{7, absent, 7}, alive, 3},
		"unreadable":               {[]mark{unreadable, unreadable, unreadable, unreadable}, dead, 4},
		"unreadable, then written": {[]mark{unreadable, 9}, alive, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var w watch
			for i, m := range tt.marks {
				got := w.observe(m, enough)
				if last := i == len(tt.marks)-1; last && (got != tt.want || i+1 != tt.after) || !last && got != undecided {
					t.Errorf("check %d: %v, want %v after %d", i+1, got, tt.want, tt.after)
				}
			}
		})
	}
}

func TestCombine(t *testing.T) {
	for name, tt := range map[string]struct {
		checks [][]mark
		want   verdict
		index  int
	}{
		"all silent":            {[][]mark{{1, 2}, {1, 2}, {1, 2}}, dead, 0},
		"one alive":             {[][]mark{{1, 2}, {1, 3}}, alive, 1},
		"one alive, one silent": {[][]mark{{1, 2}, {1, 2}, {1, 3}}, alive, 1},
		"one appears late":      {[][]mark{{1, absent}, {1, 1}}, alive, 1},
		"too early":             {[][]mark{{1, 2}, {1, 2}}, undecided, 0},
	} {
		t.Run(name, func(t *testing.T) {
			watches := make([]watch, 2)
			var got verdict
			var index int
			for _, marks := range tt.checks {
				got, index = combine(watches, marks, 2)
			}
			if got != tt.want || index != tt.index {
				t.Errorf("got %v of %d, want %v of %d", got, index, tt.want, tt.index)
			}
		})
	}
}

func (v verdict) String() string {
	return [...]string{undecided: "undecided", alive: "alive", dead: "dead"}[v]
}

var _ fmt.Stringer = verdict(0)
