package clusterrun_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// sight is all that somebody saw of a conversation between two offsets.
type sight struct {
	who      string
	from, to conversation.Offset
	seen     []seenChunk
}

// evidence is what is known of one conversation in the end.
type evidence struct {
	story   *story
	history history
	sights  []sight
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
func (s *story) lacks(w sight) string {
	seen := w.seen
	if w.to > s.state.Head() {
		return fmt.Sprintf("%s has read to %s, the log ends at %s", w.who, w.to, s.state.Head())
	}
	for o := w.from + 1; o <= w.to; o++ {
		for index, want := range s.chunks[o] {
			if len(seen) == 0 {
				return fmt.Sprintf("%s never saw %s", w.who, want)
			}
			at := conversation.Position{Batch: o, Index: index}
			if seen[0].chunk.Position != at || !sameJSON(seen[0].raw, want) {
				return fmt.Sprintf("%s saw %s at %v where the log shows %s at %v", w.who, seen[0].raw, seen[0].chunk.Position, want, at)
			}
			seen = seen[1:]
		}
	}
	if len(seen) > 0 {
		return fmt.Sprintf("%s saw %s, which the log does not show", w.who, seen[0].raw)
	}
	return ""
}

func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
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
