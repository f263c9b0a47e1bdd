package model_test

// The model of posts: a function enqueues two posts for one target and settles. An activation delivers
// them and records for each that it is done, or deferred. Then a timer is stored, and the conversation
// is suspended as in a wait.
//
// Not modeled: several targets, and failed posts, which are recorded like deliveries.

// posts are the facts: the number of posts enqueued and done, and the number of the deferral that the
// next one waits for, 0 if it is due now.
type posts struct{ sent, done, deferral uint8 }

// due reports whether the next post must be sent.
func (c poster) due(w *world, f posts) bool {
	return f.sent > f.done && (f.deferral == 0 || f.deferral <= w.target.late)
}

// target is the receiver of the posts, with the posts in flight and the timers.
type target struct {
	got    uint8
	under  [2]uint8 // the post in flight from a node
	late   uint8    // the deferrals up to it have elapsed
	count  uint8    // of deferrals
	timers set      // stored, of deferrals
	asked  [2]set   // timers about which a node is probed
}

type poster struct{ *cluster }

func newPosts(c *cluster) app { return poster{c} }

// undelivered returns a world with pending posts whose node has crashed.
func undelivered() world {
	w := orphanedWorld()
	w.log.sent, w.log.settled = 2, true
	return w
}

// deferredWorld returns a world with a deferred post that only its timer records.
func deferredWorld() world {
	w := idleWorld()
	w.log.sent, w.log.settled, w.log.deferral = 2, true, 1
	w.target.count, w.target.timers = 1, of(1)
	return w
}

func (c poster) apply(f facts, b batch) facts {
	switch b {
	case post1, post2:
		f.sent = uint8(b - post1 + 1)
	case done1, done2:
		f.done, f.deferral = uint8(b-done1+1), 0
	case defer1, defer2:
		f.deferral = uint8(b - defer1 + 1)
	case outcome:
		f.settled = true
	}
	return f
}

func (c poster) hasWork(f facts) bool {
	return !f.settled || f.sent > f.done && f.deferral == 0 && c.holds(postHolds)
}
func (c poster) begins(f facts) bool          { return !f.settled }
func (c poster) quiet(w *world, n uint8) bool { return w.target.asked[n] == 0 }
func (c poster) ended(w *world, n uint8)      { w.target.asked[n] = 0 }

func (c poster) opened(w *world, n uint8) {
	if c.due(w, w.nodes[n].act.facts.posts) {
		c.list(w, n)
	}
}

func (c poster) idle(w *world, n uint8) bool {
	a := w.nodes[n].act
	switch {
	case !a.facts.settled || a.pending != 0:
		return false
	case a.facts.sent == a.facts.done, !c.holds(postHolds):
		return true
	}
	return !c.due(w, a.facts.posts) && (a.stored || !c.holds(postTimed))
}

func (c poster) answersEarly(w *world, n uint8) bool {
	return !c.holds(postSwept) && w.nodes[n].act.facts.settled
}

func (c poster) learned(w *world, n uint8, b batch) {
	a := &w.nodes[n].act
	switch b {
	case attempt:
		a.run = runs
	case outcome:
		a.run = rests
	case defer1, defer2:
		a.stored, a.pending = false, 0
	case done1, done2:
		a.pending = 0
	}
}

func (c poster) moves(w *world, yield func(move)) {
	if d := w.log.deferral; d > w.target.late {
		c.do(w, yield, true, "deferral %d elapses", d, 0, func(w *world) { w.target.late = d })
	}
	for n := range uint8(2) {
		if w.target.under[n] != 0 {
			c.deliverMoves(w, n, yield)
		}
		if !w.nodes[n].up {
			continue
		}
		c.timerMoves(w, n, yield)
		if w.nodes[n].act.writer != 0 && w.writing(n) == nothing {
			c.workMoves(w, n, yield)
			c.postMoves(w, n, yield)
		}
	}
}

// workMoves are the moves of the function.
func (c poster) workMoves(w *world, n uint8, yield func(move)) {
	a := w.nodes[n].act
	switch {
	case a.run != runs:
	case a.facts.sent < 2:
		c.do(w, yield, true, "the function at node %d enqueues post %d", n, a.facts.sent+1, func(w *world) { w.send(n, post1+batch(a.facts.sent)) })
	default:
		c.do(w, yield, true, "the function at node %d has ended", n, 0, func(w *world) { w.send(n, outcome) })
	}
}

// Knowledge of an activation about its post in flight.
const (
	postGot = iota + 1
	postLost
)

// postMoves send due posts and record the outcomes.
func (c poster) postMoves(w *world, n uint8, yield func(move)) {
	a := w.nodes[n].act
	f := a.facts.posts
	switch {
	case a.pending == postGot && c.holds(postRecorded):
		c.do(w, yield, true, "node %d records that post %d is done", n, f.done+1, func(w *world) { w.send(n, done1+batch(f.done)) })
	case a.pending == postLost:
		c.do(w, yield, true, "node %d records that post %d is deferred", n, f.done+1, func(w *world) {
			w.target.count++
			w.send(n, defer1+batch(w.target.count-1))
		})
	}
	if a.pending != 0 || w.target.under[n] != 0 || !c.due(w, f) {
		return
	}
	for post := f.done + 1; post <= f.sent; post++ {
		c.do(w, yield, true, "node %d sends post %d", n, post, func(w *world) {
			w.target.under[n] = post
			if !c.holds(postThenDone) {
				w.nodes[n].act.pending = postGot
			}
		})
		if c.holds(postInOrder) {
			break
		}
	}
}

// deliverMoves are the outcomes of a delivery.
func (c poster) deliverMoves(w *world, n uint8, yield func(move)) {
	post := w.target.under[n]
	learn := func(w *world, desc uint8) {
		w.target.under[n] = 0
		if a := &w.nodes[n].act; a.writer != 0 && a.pending == 0 && c.due(w, a.facts.posts) && a.facts.done+1 == post {
			a.pending = desc
		}
	}
	c.do(w, yield, true, "the target receives the request of node %d, post %d", n, post, func(w *world) {
		if post > w.target.got+1 {
			w.wrong = wrongOrder
		}
		w.target.got = max(w.target.got, post)
		learn(w, postGot)
	})
	if w.faults.retries > 0 {
		c.do(w, yield, false, "the request of node %d is lost, post %d", n, post, func(w *world) { w.faults.retries--; learn(w, postLost) })
	}
}

// timerMoves store timers, probe due ones, and answer.
func (c poster) timerMoves(w *world, n uint8, yield func(move)) {
	a := w.nodes[n].act
	d := a.facts.deferral
	if a.writer != 0 && d != 0 && !a.stored && w.writing(n) == nothing {
		c.do(w, yield, true, "node %d stores the timer of deferral %d", n, d, func(w *world) {
			w.nodes[n].act.stored = true
			w.target.timers |= of(d)
		})
	}
	for d := uint8(1); d <= w.target.late; d++ {
		if w.target.timers&of(d) != 0 && w.target.asked[n]&of(d) == 0 && w.owns(n) {
			c.do(w, yield, true, "node %d is probed about the timer of deferral %d", n, d, func(w *world) {
				c.open(w, n)
				w.target.asked[n] |= of(d)
				if c.due(w, w.nodes[n].act.facts.posts) {
					c.list(w, n)
				}
			})
		}
	}
	if asked := w.target.asked[n]; asked != 0 && w.writing(n) == nothing {
		switch over := c.idle(w, n); {
		case over || a.claimed && c.listed(w, n) || !c.holds(timerStays):
			c.do(w, yield, true, "node %d deletes obsolete timers", n, 0, func(w *world) {
				w.target.timers &^= asked
				w.target.asked[n] = 0
			})
		case !a.claimed:
			c.do(w, yield, true, "node %d claims the log for a timer", n, 0, func(w *world) { c.list(w, n); w.send(n, claim) })
		}
	}
}

func (c poster) unfinished(w *world) string {
	switch {
	case !w.log.settled:
		return "the submission is not settled"
	case w.target.got < 2:
		return "the target misses a post"
	case w.log.done < 2:
		return "delivered posts are sent again whenever the log is opened"
	case w.target.timers != 0:
		return "a node is probed about a timer"
	}
	return ""
}
