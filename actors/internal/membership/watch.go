package membership

import "github.com/parleyrun/parley/storage"

// mark is the result of one check of a heartbeat: its count, or one of the constants.
type mark int64

const (
	absent     mark = 0
	unreadable mark = -1 // stored, but not a valid heartbeat
)

type verdict int

const (
	undecided verdict = iota
	alive
	dead
)

// watch decides about one node by its heartbeat. It uses no clock: checks are evenly spaced, so that
// their number is the time, and a pause of the whole process counts as one.
type watch struct {
	observed bool
	last     mark
	quiet    int // unchanged checks after the first
}

// observe adds the next mark. A node counts as crashed after enough unchanged checks; a change restarts the
// count. A heartbeat that disappears is no change, because a leaving node removes it.
func (w *watch) observe(m mark, enough int) verdict {
	if !w.observed {
		w.observed, w.last = true, m
		return undecided
	}
	if m != w.last && m != absent {
		w.last, w.quiet = m, 0
		return alive
	}
	w.last = m
	w.quiet++
	if w.quiet >= enough {
		return dead
	}
	return undecided
}

// combine adds the next check of all members. The result is alive, with the index, if one of them is
// alive, and crashed if all are.
func combine(watches []watch, marks []mark, enough int) (verdict, int) {
	all := dead
	for i := range watches {
		switch watches[i].observe(marks[i], enough) {
		case alive:
			return alive, i
		case undecided:
			all = undecided
		}
	}
	return all, 0
}

// observation is the result of one check: a mark, or an error.
type observation struct {
	mark mark
	beat storage.Heartbeat // zero if unreadable
	err  error
}

// ring decides about the members that a node checks. The zero ring checks none.
type ring struct {
	watches map[string]*watch // by member
	missed  int64             // own heartbeats not stored until the last check
}

// observe adds one check of exactly these members and returns the crashed ones. missed counts the own
// heartbeats that were not stored; an increase discards all previous observations.
func (r *ring) observe(ids []string, observations []observation, missed int64, enough int) []string {
	if missed != r.missed {
		r.watches, r.missed = nil, missed
	}
	next := make(map[string]*watch, len(ids))
	var gone []string
	for i, id := range ids {
		if observations[i].err != nil {
			continue // restarts with the next check
		}
		w := r.watches[id]
		if w == nil {
			w = &watch{}
		}
		next[id] = w
		if w.observe(observations[i].mark, enough) == dead {
			gone = append(gone, id)
		}
	}
	r.watches = next
	return gone
}

// still reports whether a crashed member is unchanged since the last check.
func (r *ring) still(id string, s observation) bool {
	w := r.watches[id]
	return w != nil && s.err == nil && (s.mark == w.last || s.mark == absent)
}
