package model_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/model"
	"github.com/parleyrun/parley/internal/sample"
)

var (
	paths = flag.Bool("paths", false, "print the shortest path to each violation, with -v")
	deep  = flag.Bool("deep", false, "explore the models under more faults, for minutes, with some GiB of memory")
)

// bound is the maximum number of worlds of an exploration.
const bound = 5_000_000

// scene is a start and faults under which the lack of a rule shows.
type scene struct {
	off    rule
	also   rule
	from   func() world
	faults faults
	want   string // text of the violation, empty if there is none
}

func (s scene) explore(t *testing.T, desc func(*cluster) app) {
	t.Helper()
	c := &cluster{off: s.off, also: s.also, start: s.from()}
	c.app, c.start.faults = desc(c), s.faults
	r := model.Explore(c, bound)
	t.Logf("%d worlds, %d moves to: %s", r.Worlds, len(r.Path), r.Violation)
	if *paths || (s.want == "") != (r.Violation == "") {
		for i, m := range r.Path {
			t.Logf("%3d  %v", i+1, m)
		}
	}
	if s.want == "" && r.Violation != "" || !strings.Contains(r.Violation, s.want) {
		t.Errorf("violation %q, want %q", r.Violation, s.want)
	}
}

// family is one of the models: its part of the cluster, the scenes in which it holds, and those of
// disabled rules.
type family struct {
	desc                 func(*cluster) app
	base, deeper, missed []scene
}

func (f family) run(t *testing.T) {
	if *deep {
		f.base = append(f.base, f.deeper...)
	}
	for _, s := range f.base {
		t.Run(fmt.Sprintf("all rules, %+v", s.faults), func(t *testing.T) { s.explore(t, f.desc) })
	}
	for _, s := range f.missed {
		name := "without " + names[s.off]
		if s.also != none {
			name += ", nor " + names[s.also]
		}
		t.Run(name, func(t *testing.T) { s.explore(t, f.desc) })
	}
}

func TestWaits(t *testing.T)   { sample.Of(waitsFamily(), waitsFamily().few()).run(t) }
func TestReplies(t *testing.T) { sample.Of(repliesFamily(), repliesFamily().few()).run(t) }
func TestPosts(t *testing.T)   { sample.Of(postsFamily(), postsFamily().few()).run(t) }

// few returns a sample: one scene with all rules, and those of rules whose lack shows quickly.
func (f family) few() family {
	f.base = f.base[:1]
	f.missed = slices.DeleteFunc(f.missed, func(s scene) bool { return s.faults != faults{} })
	return f
}

// TestEveryRuleIsNeeded checks that each rule has a scene that shows the effect of its absence, except
// the one that docs/waits.md calls redundant.
func TestEveryRuleIsNeeded(t *testing.T) {
	missed := map[rule]bool{}
	for _, s := range slices.Concat(waitsFamily().missed, repliesFamily().missed, postsFamily().missed) {
		missed[s.off], missed[s.also] = missed[s.off] || s.want != "", missed[s.also] || s.want != ""
	}
	for r := none + 1; int(r) < len(names); r++ {
		if spare := r == recordOnly; missed[r] == spare {
			t.Errorf("rule %q: got needed %v, want %v", names[r], missed[r], !spare)
		}
	}
}
