package model_test

// The model of waits and signals: a call waits for one name, two signals of that name arrive, and the
// wait may time out. The timer fires only for the timeout: it rescues no signal.
//
// Not modeled: several concurrent calls, aborts, the schema, limits of kept signals.

// waits are the facts about the one name.
type waits struct {
	waiting   bool  // wait_started
	ended     uint8 // 1 or 2 by that signal, timeout
	kept      uint8 // the signal that arrived first
	keys      uint8 // recorded signals, one bit each
	queued    uint8 // queued signals
	suspended bool
	message   uint8 // of a user, that arrived while it was suspended
}

// State of the user's message, which is answered before the suspended call continues.
const (
	asked = iota + 1
	answered
)

const timeout = 3

// State of the function of the call.
const (
	rests   = iota // no attempt is running
	runs           // until its wait
	waiting        // its run has ended because it waits
	given          // it has the result of its wait
	answers        // nothing: the user's message is answered
)

// Knowledge of a signal's sender.
const (
	unsent = iota
	arrived
	admitted
	refused // but not answered yet
	accepted
	conflicted
	unknown
)

// open reports whether a sender waits for an answer.
func open(state uint8) bool { return state == arrived || state == admitted || state == refused }

// clients are the senders of the two signals.
type clients struct {
	state, at [2]uint8
	timer     bool  // is stored
	given     uint8 // first result given to the function
}

type waiter struct{ *cluster }

func newWaits(c *cluster) app { return waiter{c} }

// allSuspended returns a world in which the call waits and no process has it in memory.
func allSuspended() world {
	w := idleWorld()
	w.log.waiting, w.log.suspended, w.clients.timer = true, true, true
	return w
}

// alone is allSuspended with only the first signal.
func alone() world {
	w := allSuspended()
	w.clients.state[1] = conflicted
	return w
}

func (c waiter) apply(f facts, b batch) facts {
	switch b {
	case attempt:
		if f.ended != 0 && !f.suspended && !c.holds(valueStays) {
			f.waiting, f.ended = false, 0
		}
		f.suspended = f.suspended && f.message == asked
	case wait:
		f.waiting = true
	case waitTakes:
		f.waiting, f.ended, f.kept = true, f.kept, 0
	case suspend:
		f.suspended = true
	case endTimeout, end1, end2:
		f.ended = timeout
		if b != endTimeout {
			f.ended = uint8(b - end1 + 1)
			f.keys |= f.ended
		}
		if f.message != asked && c.holds(oneBatch) || !c.holds(recordOnly) {
			f.suspended = false // attempt_started is in the same batch
		}
	case message:
		f.message = asked
	case answer:
		f.message = answered
		if f.ended != 0 && c.holds(answerResumes) {
			f.suspended = false // as in the product
		}
	case keep1, keep2:
		f.kept = uint8(b - keep1 + 1)
		f.keys |= f.kept
	case queue1, queue2:
		f.keys |= uint8(b - queue1 + 1)
		f.queued |= uint8(b - queue1 + 1)
	case outcome:
		f.settled = true
	}
	return f
}

func (c waiter) hasWork(f facts) bool { return !f.settled && (!f.suspended || f.message == asked) }

func (c waiter) begins(f facts) bool             { return c.hasWork(f) }
func (c waiter) opened(*world, uint8)            {}
func (c waiter) answersEarly(*world, uint8) bool { return false }

func (c waiter) idle(w *world, n uint8) bool {
	a := w.nodes[n].act
	return a.facts.settled || !c.hasWork(a.facts) && a.run == rests && a.pending == 0 && (a.stored || !c.holds(timerStored))
}

func (c waiter) quiet(w *world, n uint8) bool {
	for i, s := range w.clients.state {
		if open(s) && w.clients.at[i] == n {
			return false
		}
	}
	return true
}

func (c waiter) ended(w *world, n uint8) {
	for i, s := range w.clients.state {
		if open(s) && w.clients.at[i] == n {
			w.clients.state[i] = unknown
		}
	}
}

// give passes the result of the wait to the function.
func (c waiter) give(w *world, n, value uint8) {
	w.nodes[n].act.run = given
	if w.clients.given != 0 && w.clients.given != value {
		w.wrong = wrongGiven
	}
	w.clients.given = value
}

func (c waiter) learned(w *world, n uint8, b batch) {
	a := &w.nodes[n].act
	switch b {
	case message:
		a.run = answers
	case answer:
		a.run = rests
		if !a.facts.suspended && c.holds(recordOnly) {
			a.run = runs
		}
	case attempt:
		a.run = runs
		if a.facts.message == asked {
			a.run = answers
		}
		if !c.holds(timeoutRecorded) && a.pending == timeout {
			a.pending = 0
			c.give(w, n, timeout)
		}
	case wait:
		a.run = waiting
		if !c.holds(takenAtOnce) {
			a.pending = a.facts.kept
		}
	case waitTakes:
		c.give(w, n, a.facts.ended)
	case suspend, outcome:
		a.run = rests
	case endTimeout, end1, end2:
		switch {
		case a.run == answers:
		case a.facts.suspended: // the attempt is a separate batch
			a.pending = a.facts.ended
		case a.run == rests && c.holds(oneBatch):
			a.run = runs
		}
	}
}

func (c waiter) moves(w *world, yield func(move)) {
	for i := range uint8(2) {
		c.clientMoves(w, i, yield)
	}
	for n := range uint8(2) {
		if w.nodes[n].up && w.nodes[n].act.writer != 0 {
			c.answerMoves(w, n, yield)
			if w.writing(n) == nothing {
				c.workMoves(w, n, yield)
				c.timerMoves(w, n, yield)
			}
		}
	}
}

// clientMoves send a signal, and retry it under the same key.
func (c waiter) clientMoves(w *world, i uint8, yield func(move)) {
	s := w.clients.state[i]
	if s != unsent && (s != unknown || w.faults.retries == 0) {
		return
	}
	for n := range uint8(2) {
		if !w.owns(n) {
			continue
		}
		c.do(w, yield, false, "node %d is sent signal %d", n, i+1, func(w *world) {
			if s == unknown {
				w.faults.retries--
			}
			c.open(w, n)
			w.clients.state[i], w.clients.at[i] = arrived, n
		})
	}
}

// answerMoves decide on signals and answer their senders.
func (c waiter) answerMoves(w *world, n uint8, yield func(move)) {
	for i := range uint8(2) {
		if w.clients.at[i] != n {
			continue
		}
		set := func(w *world, s uint8) { w.clients.state[i] = s }
		writing := w.writing(n)
		switch w.clients.state[i] {
		case arrived:
			if writing == nothing {
				c.do(w, yield, true, "node %d decides on signal %d", n, i+1, func(w *world) { set(w, c.decide(w, n, i)) })
			} else if other := 1 - i; writing == end1+batch(other) || writing == keep1+batch(other) {
				c.do(w, yield, true, "node %d refuses signal %d because of one in flight", n, i+1, func(w *world) { set(w, refused) })
			}
		case refused:
			if writing == nothing || !c.holds(refusalDurable) {
				c.do(w, yield, true, "node %d answers 409 to signal %d", n, i+1, func(w *world) { set(w, conflicted); c.check(w, i) })
			}
		case admitted:
			unfinished := !c.idle(w, n)
			late := c.listed(w, n) || !c.holds(resumeListed) || !unfinished
			if writing == nothing && late {
				c.do(w, yield, true, "node %d answers 202 to signal %d", n, i+1, func(w *world) { set(w, accepted) })
			}
		}
	}
}

// check compares a refusal with the log.
func (c waiter) check(w *world, i uint8) {
	key := i + 1
	switch {
	case w.log.ended == 0 && w.log.kept == 0:
		w.wrong = wrongUndecided
	case w.log.ended == key || w.log.kept == key:
		w.wrong = wrongOwnRefused
	case w.log.keys&key != 0:
		w.wrong = wrongRefusalWrites
	}
}

// decide decides on a signal by the durable facts and returns the outcome.
func (c waiter) decide(w *world, n, i uint8) uint8 {
	f, key := w.nodes[n].act.facts, i+1
	closed := f.ended != 0 || f.kept != 0
	if f.keys&key != 0 && (c.holds(keyFirst) || !closed) {
		if !c.holds(replayListed) {
			return accepted
		}
		c.takeOver(w, n)
		return admitted
	}
	switch {
	case !c.holds(signalsBypassQueue):
		w.send(n, queue1+batch(i))
	case f.ended != 0 && !c.holds(endedNotKept):
		w.send(n, keep1+batch(i))
	case f.waiting && (f.ended == 0 || !c.holds(firstEnds)):
		w.send(n, end1+batch(i))
		c.list(w, n)
		if !c.holds(givenDurable) {
			c.give(w, n, key)
		}
	case f.ended == 0 && !f.waiting && !c.holds(keptEarly):
		return accepted
	case f.ended == 0 && !f.waiting && (f.kept == 0 || !c.holds(firstKept)):
		w.send(n, keep1+batch(i))
	case !c.holds(refusalSilent):
		w.send(n, queue1+batch(i))
		return refused
	default:
		return refused
	}
	return admitted
}

// workMoves are the moves of the call's function and of its activation.
func (c waiter) workMoves(w *world, n uint8, yield func(move)) {
	a := w.nodes[n].act
	f := a.facts
	switch {
	case a.pending != 0 && f.suspended:
		c.do(w, yield, true, "node %d begins an attempt for the wait that has ended", n, 0, func(w *world) { w.nodes[n].act.pending = 0; w.send(n, attempt) })
	case a.pending != 0 && a.run == waiting && f.ended == 0:
		c.do(w, yield, true, "node %d ends the wait with the kept signal", n, 0, func(w *world) { w.send(n, end1+batch(w.nodes[n].act.pending-1)); w.nodes[n].act.pending = 0 })
	case a.run == runs && f.ended != 0, a.run == waiting && f.ended != 0 && c.holds(suspendOpen):
		c.do(w, yield, true, "the function at node %d gets result %d", n, f.ended, func(w *world) { c.give(w, n, f.ended) })
	case a.run == runs && f.waiting:
		c.do(w, yield, true, "the function at node %d waits again", n, 0, func(w *world) { w.nodes[n].act.run = waiting })
	case a.run == runs && f.kept != 0 && c.holds(takenAtOnce):
		c.do(w, yield, true, "the function at node %d waits, and gets the kept signal", n, 0, func(w *world) { w.send(n, waitTakes) })
	case a.run == runs:
		c.do(w, yield, true, "the function at node %d waits", n, 0, func(w *world) { w.send(n, wait) })
	case a.run == waiting:
		c.do(w, yield, true, "node %d suspends", n, 0, func(w *world) { w.send(n, suspend) })
	case a.run == answers:
		c.do(w, yield, true, "node %d has answered the message", n, 0, func(w *world) { w.send(n, answer) })
	case a.run == given:
		c.do(w, yield, true, "the function at node %d has ended", n, 0, func(w *world) { w.send(n, outcome) })
	}
}

// timerMoves store the timer and let it elapse.
func (c waiter) timerMoves(w *world, n uint8, yield func(move)) {
	a := w.nodes[n].act
	if !a.facts.suspended || a.run != rests || a.facts.message == asked {
		return
	}
	if w.faults.messages > 0 {
		c.do(w, yield, false, "node %d is sent a message", n, 0, func(w *world) {
			w.faults.messages--
			c.list(w, n)
			w.send(n, message)
		})
	}
	if !a.stored {
		c.do(w, yield, true, "node %d stores the timer", n, 0, func(w *world) { w.nodes[n].act.stored, w.clients.timer = true, true })
	}
	if w.faults.extra > 0 && a.facts.ended == 0 {
		c.do(w, yield, false, "the wait times out at node %d", n, 0, func(w *world) {
			w.faults.extra--
			c.list(w, n)
			if !c.holds(timeoutRecorded) {
				w.nodes[n].act.pending = timeout
				w.send(n, attempt)
				return
			}
			w.send(n, endTimeout)
			if !c.holds(givenDurable) {
				c.give(w, n, timeout)
			}
		})
	}
}

func (c waiter) unfinished(w *world) string {
	resumed := false
	for i, s := range w.clients.state {
		if s != accepted {
			continue
		}
		resumed = true
		if w.clients.given != uint8(i+1) {
			return "an acknowledged signal resumes no call"
		}
	}
	switch {
	case w.log.settled:
		return ""
	case resumed:
		return "the resumed call does not continue"
	case !w.clients.timer:
		return "no journal or timer finds the pending work"
	}
	return ""
}
