package membership

import "github.com/parleyrun/parley/storage"

// mark is what one look at a heartbeat shows: its count, or one of the constants.
type mark int64

const (
	absent     mark = 0
	unreadable mark = -1 // It is stored and is no heartbeat.
)

type verdict int

const (
	undecided verdict = iota
	alive
	dead
)

// watch judges one node by its heartbeat. It knows no clock: looks are made at
// even pauses, so that their number is the time, and a pause of the whole process
// counts as one.
type watch struct {
	looked bool
	last   mark
	quiet  int // Looks after the first that showed no life.
}

// look takes the next mark into account. A node is dead after enough quiet looks,
// which a sign of life begins anew. A heartbeat that disappears is none: a node that
// leaves removes it.
func (w *watch) look(m mark, enough int) verdict {
	if !w.looked {
		w.looked, w.last = true, m
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

// judge takes the next look at all members into account: alive, and which, if one
// of them lives, and dead if all are.
func judge(watches []watch, marks []mark, enough int) (verdict, int) {
	all := dead
	for i := range watches {
		switch watches[i].look(marks[i], enough) {
		case alive:
			return alive, i
		case undecided:
			all = undecided
		}
	}
	return all, 0
}

// sight is what came of one look: a mark, or nothing.
type sight struct {
	mark mark
	beat storage.Heartbeat // Zero if there is none to read.
	err  error
}

// ring judges the members that a node watches. The zero ring watches nobody.
type ring struct {
	watches map[string]*watch // By member.
	missed  int64             // Own heartbeats that were not stored until the last look.
}

// look takes one look at these members, and only these, into account and returns
// those that are dead. missed counts the own heartbeats that were not stored: one
// more, and what was seen until then proves nothing.
func (r *ring) look(ids []string, sights []sight, missed int64, enough int) []string {
	if missed != r.missed {
		r.watches, r.missed = nil, missed
	}
	next := make(map[string]*watch, len(ids))
	var gone []string
	for i, id := range ids {
		if sights[i].err != nil {
			continue // Begins anew with the next look.
		}
		w := r.watches[id]
		if w == nil {
			w = &watch{}
		}
		next[id] = w
		if w.look(sights[i].mark, enough) == dead {
			gone = append(gone, id)
		}
	}
	r.watches = next
	return gone
}

// still reports whether a dead member is as it was at the look before.
func (r *ring) still(id string, s sight) bool {
	w := r.watches[id]
	return w != nil && s.err == nil && (s.mark == w.last || s.mark == absent)
}
