package model_test

// The model of posts: a function enqueues two for one target and settles. A node delivers
// what its activations enqueue, and what it finds in the series of journals of nodes that are
// gone, beside its busy journal.
//
// Left out: several targets, and that a post is given up, which is recorded as its delivery is.

// posts are the facts: how many were enqueued, and how many of them are done.
type posts struct{ sent, done uint8 }

// outbox is what a node delivers.
type outbox struct {
	in             bool
	known          uint8 // how many there are
	done, recorded uint8 // how many are done, and durably so
	landed         uint8 // the entry in its newest landed journal, as in target
}

// target is who gets the posts, what is on its way, and the journals of outboxes: an entry is
// 0, or 1 and how many posts were known when it was composed.
type target struct {
	got     uint8
	under   [2]uint8 // the post that a node sends
	cursor  [2]uint8 // the cursor that a node stores, if any may
	entries [lives]uint8
	flights [lives]struct {
		on    bool
		entry uint8
	}
}

// entry reports whether anything of a life is there.
func (t *target) entry(life uint8) bool { return t.entries[life] != 0 || t.flights[life].on }

// weight is something of what is there of a life, for an order.
func (t *target) weight(life uint8) int { return int(t.entries[life])<<2 | int(t.flights[life].entry) }

func (t *target) swap(a, b uint8) {
	t.entries[a], t.entries[b] = t.entries[b], t.entries[a]
	t.flights[a], t.flights[b] = t.flights[b], t.flights[a]
}

// lateCursor is handedDown where the node has stored a cursor that lands late.
func lateCursor() world {
	w := handedDown()
	w.target.got = 1
	w.target.cursor[0] = 1
	return w
}

type poster struct{ *cluster }

func newPosts(c *cluster) app { return poster{c} }

// undelivered is where the posts are owed, and the node has died that owed them.
func undelivered() world {
	w := leftBehind()
	w.log.sent, w.log.settled = 2, true
	return w
}

// handedDown is undelivered where only an outbox says so.
func handedDown() world {
	w := undelivered()
	w.journals[2], w.fresh, w.target.entries[2] = 0, 0, 3
	return w
}

func (c poster) apply(f facts, b batch) facts {
	switch b {
	case post1, post2:
		f.sent = uint8(b - post1 + 1)
	case cursor1, cursor2:
		f.done = uint8(b - cursor1 + 1)
	case outcome:
		f.settled = true
	}
	return f
}

func (c poster) owes(f facts) bool        { return !f.settled }
func (c poster) begins(f facts) bool      { return !f.settled }
func (c poster) quiet(*world, uint8) bool { return true }
func (c poster) died(*world, uint8)       {}
func (c poster) opened(w *world, n uint8) { c.take(w, n, w.log.posts) }

// take has a node deliver what a log says is owed.
func (c poster) take(w *world, n uint8, p posts) {
	o := &w.nodes[n].outbox
	if !o.in && p.sent > p.done {
		*o = outbox{in: true, done: p.done, recorded: p.done, landed: o.landed}
	}
	o.known = max(o.known, p.sent)
	o.done, o.recorded = max(o.done, p.done), max(o.recorded, p.done)
}

func (c poster) idle(w *world, n uint8) bool {
	a := w.nodes[n].act
	if !a.facts.settled || a.pending != 0 {
		return false
	}
	done := a.facts.done
	if !c.holds(cursorInLog) {
		done = w.log.done
	}
	return done >= a.facts.sent || c.stands(w, n, a.facts.sent) || !c.holds(postListed)
}

// stands reports whether the journals of a node's outbox say what it delivers: the newest
// landed one, and the one in flight.
func (c poster) stands(w *world, n, sent uint8) bool {
	here := w.nodes[n]
	o, f := here.outbox, w.target.flights[here.life]
	covers := func(entry uint8) bool { return entry > sent || entry > 0 && !c.holds(postCovered) }
	return o.in && covers(o.landed) && (!f.on || covers(f.entry) || !c.holds(postInFlight))
}

func (c poster) answersEarly(w *world, n uint8) bool {
	return !c.holds(postSwept) && w.nodes[n].act.facts.settled
}

func (c poster) learned(w *world, n uint8, b batch) {
	a := &w.nodes[n].act
	switch b {
	case attempt:
		a.run = runs
	case post1, post2:
		c.take(w, n, a.facts.posts)
	case outcome:
		a.run = rests
	case cursor1, cursor2:
		a.pending = 0
		c.recorded(w, a.facts.done)
	}
}

// recorded says to the nodes that a cursor is durable.
func (c poster) recorded(w *world, done uint8) {
	for n := range w.nodes {
		if o := &w.nodes[n].outbox; o.in {
			o.recorded = max(o.recorded, done)
		}
	}
}

func (c poster) moves(w *world, yield func(move)) {
	for n := range uint8(2) {
		if w.target.under[n] != 0 {
			c.deliverMoves(w, n, yield)
		}
		if w.target.cursor[n] != 0 {
			c.do(w, yield, true, "the cursor that node %d has sent is stored", n, 0, func(w *world) {
				w.log.done = w.target.cursor[n]
				w.nodes[n].outbox.recorded = w.target.cursor[n]
				w.target.cursor[n] = 0
			})
		}
		if !w.nodes[n].up {
			continue
		}
		c.outboxMoves(w, n, yield)
		c.seriesMoves(w, n, yield)
		if w.nodes[n].act.writer != 0 && w.writing(n) == nothing {
			c.workMoves(w, n, yield)
		}
	}
	c.landEntries(w, yield)
}

// workMoves are the function, and the cursor that is a fact.
func (c poster) workMoves(w *world, n uint8, yield func(move)) {
	a := w.nodes[n].act
	switch {
	case a.pending > a.facts.done:
		c.do(w, yield, true, "node %d records the cursor %d", n, a.pending, func(w *world) { w.send(n, cursor1+batch(a.pending-1)) })
	case a.pending != 0:
		c.do(w, yield, true, "node %d has that cursor", n, 0, func(w *world) { w.nodes[n].act.pending = 0; c.recorded(w, a.facts.done) })
	}
	if a.run != runs {
		return
	}
	if a.facts.sent < 2 {
		c.do(w, yield, true, "the function at node %d enqueues post %d", n, a.facts.sent+1, func(w *world) { w.send(n, post1+batch(a.facts.sent)) })
		return
	}
	c.do(w, yield, true, "the function at node %d has ended", n, 0, func(w *world) { w.send(n, outcome) })
}

// deliverMoves are the fates of a post.
func (c poster) deliverMoves(w *world, n uint8, yield func(move)) {
	post := w.target.under[n]
	c.do(w, yield, true, "the target gets what node %d has sent, post %d", n, post, func(w *world) {
		w.target.under[n] = 0
		if post > w.target.got+1 {
			w.wrong = wrongOrder
		}
		w.target.got = max(w.target.got, post)
		if o := &w.nodes[n].outbox; o.in && o.done < post {
			o.done = post
		}
	})
	if w.faults.retries > 0 {
		c.do(w, yield, false, "what node %d has sent is lost, post %d", n, post, func(w *world) { w.faults.retries--; w.target.under[n] = 0 })
	}
}

// outboxMoves are what a node delivers, and has recorded.
func (c poster) outboxMoves(w *world, n uint8, yield func(move)) {
	o := w.nodes[n].outbox
	if !o.in {
		return
	}
	for post := o.done + 1; post <= o.known && w.target.under[n] == 0; post++ {
		c.do(w, yield, true, "node %d sends post %d", n, post, func(w *world) {
			w.target.under[n] = post
			if !c.holds(postThenDone) {
				w.nodes[n].outbox.done = post
			}
		})
		if c.holds(postInOrder) {
			break
		}
	}
	end := o.done == o.known
	switch {
	case end && o.recorded < o.done && !c.holds(cursorInLog):
		if w.target.cursor[n] == 0 {
			c.do(w, yield, true, "node %d sends the cursor %d", n, o.done, func(w *world) { w.target.cursor[n] = o.done })
		}
	case end && o.recorded < o.done && c.holds(cursorDurable):
		for t := range uint8(2) {
			if w.owns(t) && w.nodes[t].act.pending < o.done {
				c.do(w, yield, true, "node %d is asked to record the cursor %d", t, o.done, func(w *world) {
					c.open(w, t)
					w.nodes[t].act.pending = o.done
				})
			}
		}
	case end:
		c.do(w, yield, true, "node %d has nothing to deliver any more", n, 0, func(w *world) { w.nodes[n].outbox = outbox{landed: o.landed} })
	}
}

// seriesMoves write a node's journal of its outbox, and take over those of others.
func (c poster) seriesMoves(w *world, n uint8, yield func(move)) {
	here := &w.nodes[n]
	entry := uint8(0)
	if here.outbox.in {
		entry = 1 + here.outbox.known
	}
	if !w.target.flights[here.life].on && entry != here.outbox.landed {
		c.do(w, yield, true, "node %d composes the journal of its outbox", n, 0, func(w *world) {
			f := &w.target.flights[w.nodes[n].life]
			f.on, f.entry = true, entry
		})
	}
	for life := range uint8(lives) {
		e := w.target.entries[life]
		if e == 0 || life == here.life || w.alive(life) && w.view != both {
			continue
		}
		o := here.outbox
		adopted := o.in && o.known >= e-1
		if !adopted && w.log.sent > w.log.done {
			c.do(w, yield, true, "node %d takes over the outbox of life %d", n, life, func(w *world) { c.take(w, n, w.log.posts) })
		}
		if w.log.done >= e-1 || adopted && (c.stands(w, n, e-1) || !c.holds(entryTaken)) {
			c.do(w, yield, true, "node %d deletes the outbox of life %d", n, life, func(w *world) { w.target.entries[life] = 0 })
		}
	}
}

// landEntries are the fates of journals of outboxes.
func (c poster) landEntries(w *world, yield func(move)) {
	for life := range uint8(lives) {
		if !w.target.flights[life].on {
			continue
		}
		c.do(w, yield, true, "the journal of the outbox of life %d lands", life, 0, func(w *world) {
			f := &w.target.flights[life]
			w.target.entries[life] = f.entry
			for n := range w.nodes {
				if w.nodes[n].up && w.nodes[n].life == life {
					w.nodes[n].outbox.landed = f.entry
				}
			}
			f.on, f.entry = false, 0
		})
		if !w.alive(life) {
			c.do(w, yield, true, "the journal of the outbox of life %d, which is over, comes to nothing", life, 0, func(w *world) {
				w.target.flights[life].on, w.target.flights[life].entry = false, 0
			})
		}
	}
}

func (c poster) owed(w *world) string {
	for life := range uint8(lives) {
		if w.target.entry(life) {
			return "a journal of an outbox has an entry"
		}
	}
	switch {
	case !w.log.settled:
		return "the submission is not settled"
	case w.target.got < 2:
		return "the target misses a post"
	case w.log.done < 2:
		return "posts that have been delivered will be again whenever the log is opened"
	}
	return ""
}
