package clusterrun_test

import (
	"fmt"

	"github.com/parleyrun/parley/internal/noderun"
)

// evidence is what is known of one conversation in the end.
type evidence struct {
	story   *story
	history history
	sights  []noderun.Sight
	heads   []glimpse
}

// check returns what does not fit together.
func (e *evidence) check() []string {
	flaws := e.history.check()
	for _, s := range e.sights {
		if lack := e.story.Lacks(s); lack != "" {
			flaws = append(flaws, e.history.ID+": "+lack)
		}
	}
	for _, g := range e.heads {
		if lack := e.story.kept(g); lack != "" {
			flaws = append(flaws, "the log forks: "+lack)
		}
	}
	for _, a := range e.story.Order {
		if !a.Completed() {
			flaws = append(flaws, fmt.Sprintf("%s: %s is settled as %q, want once as completed", e.history.ID, a.Key, a.Settled))
		}
	}
	return flaws
}
