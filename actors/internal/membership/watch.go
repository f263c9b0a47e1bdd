package membership

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

// look takes the next mark into account. A node is dead after enough quiet looks.
// A heartbeat that disappears is no sign of life: a node that leaves removes it.
func (w *watch) look(m mark, enough int) verdict {
	if !w.looked {
		w.looked, w.last = true, m
		return undecided
	}
	if m != w.last && m != absent {
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
