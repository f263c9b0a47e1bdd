package clusterrun_test

import (
	"fmt"

	"github.com/parleyrun/parley/internal/noderun"
)

// evidence holds the observations of one conversation at the end of a run.
type evidence struct {
	logView *logView
	history history
	sights  []noderun.Sight
	heads   []glimpse
}

func (e *evidence) check() []string {
	flaws := e.history.check()
	for _, s := range e.sights {
		if lack := e.logView.Lacks(s); lack != "" {
			flaws = append(flaws, e.history.ID+": "+lack)
		}
	}
	for _, g := range e.heads {
		if lack := e.logView.kept(g); lack != "" {
			flaws = append(flaws, "the log forks: "+lack)
		}
	}
	for _, a := range e.logView.Order {
		if !a.Completed() {
			flaws = append(flaws, fmt.Sprintf("%s: %s is settled as %q, want once as completed", e.history.ID, a.Key, a.Settled))
		}
	}
	return flaws
}
