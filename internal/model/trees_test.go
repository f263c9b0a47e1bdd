package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/model"
)

// The model of dispatch trees: the log of the root, whose batches land late or are lost with its node,
// two senders whose dispatches may be in flight for any time, their members, and one abort of the
// tree.
//
// Not modeled: costs, and the members' own logs, in which an abort covers all unsettled work.

// treeRule is one of the rules in actors/internal/machine/tree.go.
type treeRule uint8

const (
	allTreeRules treeRule = iota
	joinFirst
	askTree
	abortFirst
	refuseClosed
)

var treeRules = []string{
	joinFirst:    "T1: a member joins durably before it is dispatched",
	askTree:      "T2: an attempt of a member asks before anything runs",
	abortFirst:   "T3: an abort is durable before the members are read",
	refuseClosed: "T4: an aborted tree takes no members",
}

// Phases of a dispatch and of the submission that it leads to.
const (
	isSent       = iota
	joins        // the root has enqueued it
	isOnItsWay   // the sender has its answer
	isRefused    // likewise
	isAdmitted   // nothing runs for it
	isRunning    // the author's code, or a model
	isAborted    // settled
	treeMembers  = 2
	treeBudget   = 1 // without an abort
	treeCrashes  = 2
	noAbort      = 0
	abortsTree   = 1 // the root has enqueued it
	readsMembers = 2
	abortIsDone  = 3
)

type treeWorld struct {
	phase           [treeMembers]uint8
	joined, joining [treeMembers]bool // durably, and in flight
	closed, closing bool              // likewise
	late            bool              // a member joined a closed tree
	abort           uint8
	listed          [treeMembers]bool // members that the abort has yet to reach
	crashes         uint8
}

type treeModel struct {
	off    treeRule
	aborts bool
}

func (m treeModel) has(r treeRule) bool { return m.off != r }

func (m treeModel) Start() treeWorld { return treeWorld{} }

// used returns the number of members that the root counts.
func (w treeWorld) used() (n int) {
	for i := range treeMembers {
		if w.joined[i] || w.joining[i] {
			n++
		}
	}
	return n
}

func (m treeModel) Moves(w treeWorld, yield func(model.Move[treeWorld])) {
	move := func(desc string, subject int, fair bool, change func(*treeWorld)) {
		next := w
		change(&next)
		yield(model.Move[treeWorld]{Label: desc, Subject: uint8(subject), Fair: fair, Next: next})
	}
	inFlight := w.closing
	for _, j := range w.joining {
		inFlight = inFlight || j
	}
	if inFlight {
		move("the root's batch lands", 0, true, m.land)
	}
	if inFlight && w.crashes < treeCrashes {
		move("the root's node ends", 0, false, func(w *treeWorld) {
			w.crashes++
			w.joining, w.closing = [treeMembers]bool{}, false
			if w.abort == abortsTree { // the caller retries
				w.abort = noAbort
			}
			for i, p := range w.phase {
				if p == joins { // the sender retries
					w.phase[i] = isSent
				}
			}
		})
	}
	if m.aborts && w.abort == noAbort {
		move("the tree is aborted", 0, true, func(w *treeWorld) {
			w.closing, w.abort = true, abortsTree
			if !m.has(abortFirst) {
				m.read(w)
			}
		})
	}
	if w.abort == readsMembers && w.listed == ([treeMembers]bool{}) {
		move("the abort is answered", 0, true, func(w *treeWorld) { w.abort = abortIsDone })
	}
	for i := range treeMembers {
		m.of(w, i, move)
	}
}

// land makes the batch in flight durable and answers the callers.
func (m treeModel) land(w *treeWorld) {
	for i, p := range w.phase {
		w.joined[i] = w.joined[i] || w.joining[i]
		if p == joins {
			w.phase[i] = isOnItsWay
		}
	}
	w.joining = [treeMembers]bool{}
	if w.closing {
		w.closed, w.closing = true, false
	}
	if w.abort == abortsTree {
		m.read(w)
	}
}

// read lists the members for an abort.
func (m treeModel) read(w *treeWorld) {
	w.abort = readsMembers
	for i := range treeMembers {
		w.listed[i] = w.joined[i] || w.joining[i]
	}
}

func (m treeModel) of(w treeWorld, i int, move func(string, int, bool, func(*treeWorld))) {
	isClosed := w.closed || w.closing
	if w.listed[i] && w.abort == readsMembers {
		move("the abort reaches %d", i, true, func(w *treeWorld) {
			w.listed[i] = false
			if w.phase[i] == isAdmitted || w.phase[i] == isRunning {
				w.phase[i] = isAborted
			}
		})
	}
	switch w.phase[i] {
	case isSent:
		switch {
		case isClosed && m.has(refuseClosed), !m.aborts && w.used() >= treeBudget:
			move("%d is refused", i, true, func(w *treeWorld) { w.phase[i] = isRefused })
		default:
			move("%d joins", i, true, func(w *treeWorld) {
				w.joining[i], w.phase[i] = true, joins
				w.late = w.late || isClosed
				if !m.has(joinFirst) {
					w.phase[i] = isOnItsWay
				}
			})
		}
	case isOnItsWay:
		move("%d is admitted", i, true, func(w *treeWorld) { w.phase[i] = isAdmitted })
	case isAdmitted:
		switch { // The answer is confirmed, from the durable log.
		case w.closed && m.has(askTree):
			move("%d finds its tree aborted", i, true, func(w *treeWorld) { w.phase[i] = isAborted })
		default:
			move("%d runs", i, true, func(w *treeWorld) { w.phase[i] = isRunning })
		}
	}
}

func (m treeModel) Wrong(w treeWorld) string {
	admitted := 0
	for i, p := range w.phase {
		if p == isRunning && w.abort == abortIsDone {
			return fmt.Sprintf("%d runs after the abort of its tree", i)
		}
		if p >= isAdmitted {
			admitted++
		}
	}
	switch {
	case !m.aborts && admitted > treeBudget:
		return "the tree exceeds its budget"
	case w.late:
		return "a member joins an aborted tree"
	}
	return ""
}

func (m treeModel) Unfinished(w treeWorld) string {
	if m.aborts && w.abort != abortIsDone {
		return "the abort never ends"
	}
	for i, p := range w.phase {
		if p == isSent || p == joins || p == isOnItsWay || p == isAdmitted {
			return fmt.Sprintf("%d has no outcome", i)
		}
	}
	return ""
}

// TestTrees checks that a tree never exceeds its budget, and that no member runs after its abort is
// answered, whatever lands late or is lost. Each rule is needed.
func TestTrees(t *testing.T) {
	for name, tt := range map[string]struct {
		model treeModel
		want  string // text of the violation, empty if there is none
	}{
		"budget":              {treeModel{}, ""},
		"abort":               {treeModel{aborts: true}, ""},
		"dispatch first":      {treeModel{off: joinFirst}, "exceeds its budget"},
		"nothing is asked":    {treeModel{off: askTree, aborts: true}, "runs after the abort"},
		"members first":       {treeModel{off: abortFirst, aborts: true}, "runs after the abort"},
		"a closed tree takes": {treeModel{off: refuseClosed, aborts: true}, "joins an aborted tree"},
	} {
		t.Run(name, func(t *testing.T) {
			r := model.Explore(tt.model, bound)
			t.Logf("%d worlds, %d moves to: %s", r.Worlds, len(r.Path), r.Violation)
			if (tt.want == "") != (r.Violation == "") || !strings.Contains(r.Violation, tt.want) {
				for i, m := range r.Path {
					t.Logf("%3d  %v", i+1, m)
				}
				t.Errorf("without %q: got %q, want %q", treeRules[tt.model.off], r.Violation, tt.want)
			}
		})
	}
}
