package clusterrun_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
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
		if lack := e.story.lacks(s); lack != "" {
			flaws = append(flaws, e.history.ID+": "+lack)
		}
	}
	for _, g := range e.heads {
		if lack := e.story.kept(g); lack != "" {
			flaws = append(flaws, "the log forks: "+lack)
		}
	}
	for _, a := range e.story.order {
		if len(a.Settled) != 1 || a.Settled[0] != conversation.OutcomeCompleted {
			flaws = append(flaws, fmt.Sprintf("%s: %s is settled as %q, want once as completed", e.history.ID, a.Key, a.Settled))
		}
	}
	return flaws
}

// lacks compares what was seen with what the log shows, "" if they are the same.
func (s *story) lacks(w noderun.Sight) string {
	if w.To > s.state.Head() {
		return fmt.Sprintf("%s has read to %s, the log ends at %s", w.Who, w.To, s.state.Head())
	}
	return s.shows.Lacks(w)
}

// verdict is a line that "parley log verify --json" prints.
type verdict struct {
	Severity, Kind, Key, Text string
}

// judged reads the findings of a verification: only what a kill may leave behind, and
// what compaction has merged and not deleted yet, is no flaw.
func judged(out []byte, code int) (flaws []string) {
	if code != 0 && code != 1 {
		flaws = append(flaws, fmt.Sprintf("parley log verify ended with %d", code))
	}
	for line := range strings.Lines(string(out)) {
		var v verdict
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			flaws = append(flaws, fmt.Sprintf("parley log verify printed %q", line))
			continue
		}
		switch {
		case v.Severity == "" || v.Severity == "note":
		case v.Severity == "repairable" && (strings.HasPrefix(v.Kind, "orphan-") || v.Kind == "duplicate-segment"):
		default:
			flaws = append(flaws, "parley log verify: "+strings.TrimSpace(line))
		}
	}
	return flaws
}
