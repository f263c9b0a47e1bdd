package model_test

// The model of replies: another conversation sends a submission to this one. The log of the sender is
// one value here that changes atomically; its facts are durable. The model of waits covers that
// whatever ends a wait resumes the waiter.
//
// Not modeled: a rerun of the sender's function after a crash, under the same keys.

// replies are the facts of the receiving conversation. It settles.
type replies struct{ asked, notified bool }

// sender is the sending conversation, and the messages between the two.
type sender struct {
	state, at uint8   // of its question
	waiting   bool    // wait_started
	kept      bool    // the notice, before the wait
	ended     uint8   // by the notice, or timeout
	facts     uint8   // number of times the notice is recorded
	sent      [2]bool // a notice from a node is in flight
}

const notice = 1

// Knowledge of an activation about its notice.
const (
	noticeSent = iota + 1
	noticeDone
)

type replier struct{ *cluster }

func newReplies(c *cluster) app { return replier{c} }

// noticePending returns a world with a pending notice whose node has crashed.
func noticePending() world {
	w := orphanedWorld()
	w.log.asked, w.log.settled = true, true
	w.sender.state = accepted
	return w
}

func (c replier) apply(f facts, b batch) facts {
	switch b {
	case admit:
		f.asked = true
	case settle:
		f.settled = true
	case delivered:
		f.notified = true
	}
	return f
}

func (c replier) hasWork(f facts) bool {
	return c.begins(f) || f.settled && !f.notified && c.holds(noticeHolds)
}
func (c replier) begins(f facts) bool  { return f.asked && !f.settled }
func (c replier) opened(*world, uint8) {}

func (c replier) idle(w *world, n uint8) bool {
	a := w.nodes[n].act
	return !c.hasWork(a.facts) || !c.holds(noticeRecorded) && a.pending == noticeDone
}

func (c replier) answersEarly(w *world, n uint8) bool {
	return !c.holds(noticeSwept) && !c.begins(w.nodes[n].act.facts)
}

func (c replier) quiet(w *world, n uint8) bool {
	return w.sender.at != n || !open(w.sender.state)
}

func (c replier) ended(w *world, n uint8) {
	if !c.quiet(w, n) {
		w.sender.state = unknown
	}
}

func (c replier) learned(w *world, n uint8, b batch) {
	a := &w.nodes[n].act
	switch b {
	case admit, attempt:
		a.run = runs
	case settle:
		a.run = rests
		if !c.holds(noticeResent) {
			a.pending = noticeSent
			w.sender.sent[n] = true
		}
	case delivered:
		a.pending = 0
	}
}

func (c replier) moves(w *world, yield func(move)) {
	c.sendMoves(w, yield)
	for n := range uint8(2) {
		if w.sender.sent[n] {
			c.noticeMoves(w, n, yield)
		}
		if w.nodes[n].up && w.nodes[n].act.writer != 0 {
			c.admitMoves(w, n, yield)
			if w.writing(n) == nothing {
				c.workMoves(w, n, yield)
			}
		}
	}
}

// sendMoves are the moves of the sender: it retries until it has an answer, and waits before or after
// that.
func (c replier) sendMoves(w *world, yield func(move)) {
	a := w.sender
	if a.ended != 0 {
		return
	}
	for n := range uint8(2) {
		if (a.state == unsent || a.state == unknown) && w.owns(n) {
			c.do(w, yield, true, "node %d is probed", n, 0, func(w *world) {
				c.open(w, n)
				w.sender.state, w.sender.at = arrived, n
			})
		}
	}
	if !a.waiting {
		c.do(w, yield, true, "the sender waits", 0, 0, func(w *world) {
			w.sender.waiting = true
			if w.sender.kept {
				w.sender.kept, w.sender.ended = false, notice
			}
		})
	} else if w.faults.extra > 0 {
		c.do(w, yield, false, "the sender's wait times out", 0, 0, func(w *world) { w.faults.extra--; w.sender.ended = timeout })
	}
}

// noticeMoves are the outcomes of a notice.
func (c replier) noticeMoves(w *world, n uint8, yield func(move)) {
	c.do(w, yield, true, "the notice of node %d arrives", n, 0, func(w *world) {
		w.sender.sent[n] = false
		over := c.note(w)
		if a := &w.nodes[n].act; a.pending == noticeSent {
			a.pending = noticeDone
			if over && !c.holds(noticeOver) {
				a.pending = 0
			}
		}
	})
	if w.faults.retries > 0 {
		c.do(w, yield, false, "the notice of node %d is lost", n, 0, func(w *world) {
			w.faults.retries--
			w.sender.sent[n] = false
			if a := &w.nodes[n].act; a.pending == noticeSent {
				a.pending = 0
			}
		})
	}
}

// note applies a notice at the sender. It reports whether the answer is 409.
func (c replier) note(w *world) bool {
	a := &w.sender
	if a.facts > 0 && c.holds(noticeKey) {
		return false
	}
	switch {
	case (a.ended != 0 || a.kept) && c.holds(noticeFirst):
		return true
	case a.waiting:
		a.ended = notice
	case !c.holds(noticeKept):
		return true
	default:
		a.kept = true
	}
	if a.facts++; a.facts > 1 {
		w.wrong = wrongTwice
	}
	return false
}

// admitMoves decide on the submission and answer it.
func (c replier) admitMoves(w *world, n uint8, yield func(move)) {
	if w.sender.at != n || w.writing(n) != nothing {
		return
	}
	f := w.nodes[n].act.facts
	switch w.sender.state {
	case arrived:
		c.do(w, yield, true, "node %d decides on the question", n, 0, func(w *world) {
			w.sender.state = admitted
			if !f.asked {
				w.send(n, admit)
				c.list(w, n)
			}
			c.takeOver(w, n)
		})
	case admitted:
		late := !c.hasWork(f) || c.listed(w, n) || f.settled && !c.holds(noticeReplayed)
		if f.asked && late {
			c.do(w, yield, true, "node %d answers 202 to the question", n, 0, func(w *world) { w.sender.state = accepted })
		}
	}
}

// workMoves are the moves of the receiver: it settles and sends a notice.
func (c replier) workMoves(w *world, n uint8, yield func(move)) {
	a := w.nodes[n].act
	unfinished := a.facts.settled && !a.facts.notified
	switch {
	case a.run == runs:
		c.do(w, yield, true, "node %d settles", n, 0, func(w *world) { w.send(n, settle) })
	case unfinished && a.pending == 0 && c.holds(noticeResent) && !w.sender.sent[n]:
		c.do(w, yield, true, "node %d sends its notice", n, 0, func(w *world) {
			w.nodes[n].act.pending = noticeSent
			w.sender.sent[n] = true
		})
	case unfinished && c.holds(noticeRecorded) && (a.pending == noticeDone || a.pending == noticeSent && !c.holds(noticeAnswered)):
		c.do(w, yield, true, "node %d records that its notice is delivered", n, 0, func(w *world) { w.send(n, delivered) })
	}
}

func (c replier) unfinished(w *world) string {
	switch {
	case w.sender.state == accepted && w.sender.ended == 0:
		return "the sender waits"
	case w.sender.state == accepted && !w.log.notified:
		return "a notice will be sent whenever the log is opened"
	case w.sender.state != accepted && w.sender.ended == 0:
		return "the sender asks"
	}
	return ""
}
