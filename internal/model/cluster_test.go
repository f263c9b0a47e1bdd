package model_test

import (
	"math/bits"

	"github.com/parleyrun/parley/internal/model"
)

// Common parts of the three models: one conversation whose log takes batches by conditional creates,
// two nodes that may both believe to own it, and their pending-work journals. A batch lands, is
// answered late or never, or is lost; its writer crashes, or steps down. Journals are composed at one
// time and land at another. Sweeps probe conversations that are listed under crashed writers, and
// owners fence before they answer.
//
// Not modeled, but covered elsewhere: numbers of journals, compaction, membership.
//
// Positions are not needed. A writer is current as long as no other has written since it read the log,
// and only a current writer's batch lands.

const (
	writers      = 7 // concurrent; slots are reused when nothing refers to them
	incarnations = 5 // incarnations of nodes with journals
	both         = 2 // the view in which both nodes own the conversation
)

type (
	set   uint8 // of writers
	batch uint8 // content of a batch
)

const (
	nothing batch = iota
	claim
	attempt
	// of waits; signals have their number appended
	wait
	waitTakes
	suspend
	endTimeout
	end1
	end2
	keep1
	keep2
	queue1
	queue2
	outcome
	message
	answer
	// of replies
	admit
	settle
	delivered
	// of posts
	post1
	post2
	done1
	done2
	defer1
	defer2
)

func of(writer uint8) set { return 1 << writer }

// facts is the fold of a log.
type facts struct {
	waits
	replies
	posts
	settled bool
}

// put is a batch in flight. After it has landed its writer does not know yet.
type put struct {
	desc   batch
	landed bool
}

// activation is a writer with its state in memory. Its facts are durable.
type activation struct {
	writer  uint8 // 0 for none
	claimed bool
	knows   set // writers whose fencing its facts show
	probes  set // writers that a sweep probes
	facts   facts
	run     uint8 // state of the author's function
	stored  bool  // the timer, by this activation
	pending uint8 // next to be written, or sent and not answered
}

// self returns the writer of an activation, empty if there is none.
func (a *activation) self() set { return of(a.writer) &^ 1 }

// node is a process: the set of its journal, the writers about to leave it, and the landed journals.
type node struct {
	up                   bool
	incarnation          uint8
	act                  activation
	set, leaving, landed set
}

// flight is a journal in flight.
type flight struct {
	on  bool
	set set
}

// faults are the remaining faults.
type faults struct {
	crashes uint8
	downs   uint8 // step-downs of writers with a batch in flight
	moves   uint8 // after which both nodes own the conversation for a while
	asks    uint8 // probes of sweeps in that time
	retries uint8 // of clients
	extra   uint8 // of each model: timeouts
	// messages of users, in the first model
	messages uint8
}

type world struct {
	log             facts
	fresh, answered set
	puts            [writers + 1]put
	nodes           [2]node
	journals        [incarnations]set
	flights         [incarnations]flight
	view            uint8
	faults          faults
	wrong           uint8

	clients clients
	sender  sender
	target  target
}

// app is the part of one model.
type app interface {
	log
	memory
	moves(w *world, yield func(move))
	// unfinished describes unfinished work, "" if there is none.
	unfinished(w *world) string
}

// log interprets the facts of a conversation.
type log interface {
	apply(facts, batch) facts
	// hasWork reports whether the opener of the log must be listed; begins whether it begins an attempt.
	hasWork(facts) bool
	begins(facts) bool
}

// memory is the state of a node in memory.
type memory interface {
	// opened is called when a node has read the log, learned when it knows that a batch is durable,
	// and ended when its activation ends.
	opened(w *world, n uint8)
	learned(w *world, n uint8, b batch)
	ended(w *world, n uint8)
	// idle reports whether a writer may leave the journal and memory; answersEarly whether it answers
	// a sweep before that.
	idle(w *world, n uint8) bool
	answersEarly(w *world, n uint8) bool
	// quiet reports whether no caller waits for a node.
	quiet(w *world, n uint8) bool
}

type move = model.Move[world]

// cluster is a model with disabled rules.
type cluster struct {
	app
	start     world
	off, also rule
}

// idleWorld returns a world without pending work.
func idleWorld() (w world) {
	w.nodes = [2]node{{up: true}, {up: true, incarnation: 1}}
	return w
}

// atWork returns a world in which node 0 works and is listed in its journal.
func atWork() world {
	w := idleWorld()
	w.nodes[0].act = activation{writer: 1, claimed: true, run: runs}
	w.nodes[0].set, w.nodes[0].landed = of(1), of(1)
	w.journals[0], w.fresh = of(1), of(1)
	return w
}

// orphanedWorld returns a world in which a node has crashed and its journal lists a writer.
func orphanedWorld() world {
	w := idleWorld()
	w.journals[2], w.fresh = of(1), of(1)
	return w
}

func (c *cluster) holds(r rule) bool { return c.off != r && c.also != r }

func (c *cluster) Start() world         { return c.start }
func (c *cluster) Wrong(w world) string { return violations[w.wrong] }

func (c *cluster) Unfinished(w world) string {
	for _, n := range w.nodes {
		if n.up && n.set != 0 {
			return "a node's set is not empty"
		}
	}
	for i := range w.journals {
		if w.journals[i] != 0 || w.flights[i].on {
			return "a journal lists a writer"
		}
	}
	return c.unfinished(&w)
}

func (c *cluster) Moves(w world, yield func(move)) {
	if c.atOnce(&w, yield) {
		return
	}
	c.faultMoves(&w, yield)
	c.viewMoves(&w, yield)
	for v := uint8(1); v <= writers; v++ {
		if w.puts[v].desc != nothing {
			c.putMoves(&w, v, yield)
		}
	}
	for n := range uint8(2) {
		if w.nodes[n].up {
			c.journalMoves(&w, n, yield)
			c.activationMoves(&w, n, yield)
		}
	}
	c.landMoves(&w, yield)
	c.sweepMoves(&w, yield)
	c.app.moves(&w, yield)
}

// do yields a move that changes a world.
func (c *cluster) do(w *world, yield func(move), fair bool, desc string, subject, which uint8, change func(*world)) {
	next := *w
	change(&next)
	next.expire()
	yield(move{Label: desc, Subject: subject, Object: which, Fair: fair, Next: next})
}

// named returns the writers that anything refers to.
func (w *world) named() (named set) {
	for v := uint8(1); v <= writers; v++ {
		if w.puts[v].desc != nothing {
			named |= of(v)
		}
	}
	for _, n := range w.nodes {
		named |= n.set | n.landed | n.act.probes
		named |= n.act.self()
	}
	for i := range w.journals {
		named |= w.journals[i] | w.flights[i].set
	}
	return named
}

// expire discards state without further effect.
func (w *world) expire() {
	named := w.named()
	w.fresh &= named
	w.answered &= named
	for n := range w.nodes {
		w.nodes[n].act.knows &= named
	}
	for i, s := range w.clients.state {
		if !open(s) {
			w.clients.at[i] = 0
		}
	}
	if !open(w.sender.state) {
		w.sender.at = 0
	}
	w.sortIncarnations()
	w.sortWriters(named)
}

// sortIncarnations names the incarnations of running nodes after them, and orders the others, because names
// make no difference.
func (w *world) sortIncarnations() {
	swap := func(a, b uint8) {
		w.journals[a], w.journals[b] = w.journals[b], w.journals[a]
		w.flights[a], w.flights[b] = w.flights[b], w.flights[a]
		for n := range w.nodes {
			switch here := &w.nodes[n]; {
			case here.up && here.incarnation == a:
				here.incarnation = b
			case here.up && here.incarnation == b:
				here.incarnation = a
			}
		}
	}
	first := uint8(0)
	for n := range w.nodes {
		if w.nodes[n].up {
			if w.nodes[n].incarnation != first {
				swap(w.nodes[n].incarnation, first)
			}
			first++
		}
	}
	weight := func(incarnation uint8) int {
		f := w.flights[incarnation]
		return int(w.journals[incarnation])<<8 | int(f.set)
	}
	for i := first + 1; i < incarnations; i++ {
		for k := i; k > first && weight(k) > weight(k-1); k-- {
			swap(k, k-1)
		}
	}
}

// sortWriters orders the writers by their references.
func (w *world) sortWriters(named set) {
	var place [writers + 1]uint64
	for v := uint8(1); v <= writers && named>>v != 0; v++ {
		if named&of(v) == 0 {
			continue
		}
		for _, s := range w.sets() {
			place[v] = place[v]<<1 | uint64(*s>>v&1)
		}
		place[v] = place[v]<<7 | uint64(w.puts[v].desc)<<2 | 1
		if w.puts[v].landed {
			place[v] |= 2
		}
		for n := range w.nodes {
			place[v] <<= 1
			if w.nodes[n].act.writer == v {
				place[v] |= 1
			}
		}
	}
	for i := uint8(2); i <= writers; i++ {
		for v := i; v > 1 && place[v] > place[v-1]; v-- {
			place[v], place[v-1] = place[v-1], place[v]
			w.puts[v], w.puts[v-1] = w.puts[v-1], w.puts[v]
			for _, s := range w.sets() {
				if *s>>v&1 != *s>>(v-1)&1 {
					*s ^= of(v) | of(v-1)
				}
			}
			for n := range w.nodes {
				switch a := &w.nodes[n].act; a.writer {
				case v:
					a.writer = v - 1
				case v - 1:
					a.writer = v
				}
			}
		}
	}
}

// sets returns all sets of a world.
func (w *world) sets() [12 + 2*incarnations]*set {
	a, b := &w.nodes[0], &w.nodes[1]
	all := [12 + 2*incarnations]*set{&w.fresh, &w.answered, &a.set, &b.set, &a.leaving, &b.leaving, &a.landed, &b.landed, &a.act.knows, &b.act.knows, &a.act.probes, &b.act.probes}
	for i := range w.journals {
		all[12+2*i], all[13+2*i] = &w.journals[i], &w.flights[i].set
	}
	return all
}

// open reads the log at a node unless it is open there.
func (c *cluster) open(w *world, n uint8) {
	a := &w.nodes[n].act
	if a.writer != 0 {
		return
	}
	named := w.named()
	v := uint8(bits.TrailingZeros8(uint8(^(named | 1))))
	if v > writers {
		panic("model: too many concurrent writers")
	}
	*a = activation{writer: v, knows: named &^ w.fresh, facts: w.log}
	w.fresh |= of(v)
	c.opened(w, n)
	c.takeOver(w, n)
}

// takeOver lists the writer that has found pending work.
func (c *cluster) takeOver(w *world, n uint8) {
	if c.hasWork(w.nodes[n].act.facts) {
		c.list(w, n)
	}
}

// list adds a writer to the set of its node and cancels its pending removal.
func (c *cluster) list(w *world, n uint8) {
	v := of(w.nodes[n].act.writer)
	w.nodes[n].set |= v
	if c.holds(resumeStays) {
		w.nodes[n].leaving &^= v
	}
}

// listed reports whether the newest landed journal and the one in flight list a writer.
func (c *cluster) listed(w *world, n uint8) bool {
	here, v := &w.nodes[n], of(w.nodes[n].act.writer)
	f := w.flights[here.incarnation]
	return here.set&v != 0 && here.landed&v != 0 && (!f.on || f.set&v != 0 || !c.holds(resumeInFlight))
}

// send makes a writer send a batch.
func (w *world) send(n uint8, b batch) { w.puts[w.nodes[n].act.writer] = put{desc: b} }

func (w *world) writing(n uint8) batch { return w.puts[w.nodes[n].act.writer].desc }

// kill ends an activation. Its batch may still land.
func (c *cluster) kill(w *world, n uint8) {
	v := w.nodes[n].act.writer
	if v == 0 {
		return
	}
	if w.puts[v].landed {
		w.puts[v] = put{}
	}
	c.ended(w, n)
	w.nodes[n].act = activation{}
}

// runs returns the node at which a writer runs.
func (w *world) runs(v uint8) (uint8, bool) {
	for n := range uint8(2) {
		if w.nodes[n].up && w.nodes[n].act.writer == v {
			return n, true
		}
	}
	return 0, false
}

func (w *world) owns(n uint8) bool { return w.nodes[n].up && (w.view == n || w.view == both) }

// alive returns whether an incarnation is running.
func (w *world) alive(incarnation uint8) bool {
	for _, n := range w.nodes {
		if n.up && n.incarnation == incarnation {
			return true
		}
	}
	return false
}

func (c *cluster) faultMoves(w *world, yield func(move)) {
	for n := range uint8(2) {
		here := &w.nodes[n]
		if w.faults.crashes > 0 && here.up {
			c.do(w, yield, false, "node %d crashes", n, 0, func(w *world) {
				w.faults.crashes--
				c.kill(w, n)
				w.nodes[n] = node{}
			})
		}
		if !here.up && !w.nodes[1-n].up {
			c.do(w, yield, true, "node %d starts", n, 0, func(w *world) { c.boot(w, n) })
		}
		if w.faults.downs > 0 && here.act.writer != 0 && w.writing(n) != nothing {
			c.do(w, yield, false, "the writer at node %d steps down with its batch in flight", n, 0, func(w *world) {
				w.faults.downs--
				c.kill(w, n)
			})
		}
	}
}

// boot starts a node under the first incarnation without traces.
func (c *cluster) boot(w *world, n uint8) {
	for incarnation := range uint8(incarnations) {
		if !w.alive(incarnation) && w.journals[incarnation] == 0 && !w.flights[incarnation].on {
			w.nodes[n] = node{up: true, incarnation: incarnation}
			return
		}
	}
	panic("model: too many incarnations")
}

func (c *cluster) viewMoves(w *world, yield func(move)) {
	if w.faults.moves > 0 && w.view != both {
		c.do(w, yield, false, "both nodes own the conversation", 0, 0, func(w *world) { w.faults.moves--; w.view = both })
	}
	for n := range uint8(2) {
		if w.nodes[n].up && (w.view == both || w.view != n && !w.nodes[1-n].up) {
			c.do(w, yield, true, "node %d owns the conversation", n, 0, func(w *world) { w.view = n })
		}
	}
}

// putMoves are the outcomes of a batch.
func (c *cluster) putMoves(w *world, v uint8, yield func(move)) {
	p, fresh := w.puts[v], w.fresh&of(v) != 0
	n, runs := w.runs(v)
	switch {
	case p.landed:
		c.do(w, yield, true, "node %d knows that its batch has landed", n, 0, func(w *world) {
			a := &w.nodes[n].act
			w.puts[v] = put{}
			a.claimed, a.facts = true, c.apply(a.facts, p.desc)
			c.learned(w, n, p.desc)
		})
	case fresh:
		c.do(w, yield, true, "the batch of writer %d lands: "+batchNames[p.desc], v, 0, func(w *world) {
			w.log = c.apply(w.log, p.desc)
			w.fresh &= of(v)
			w.puts[v] = put{}
			if runs {
				w.puts[v] = put{p.desc, true}
				w.nodes[n].act.knows |= ^of(v)
			}
		})
		if !runs {
			c.do(w, yield, true, "the batch of ended writer %d is lost", v, 0, func(w *world) { w.puts[v] = put{} })
		}
	default:
		c.do(w, yield, true, "writer %d finds its key taken and ends", v, 0, func(w *world) {
			w.puts[v] = put{}
			if runs {
				c.kill(w, n)
			}
		})
	}
}

// journalMoves are the moves of a node's own set.
func (c *cluster) journalMoves(w *world, n uint8, yield func(move)) {
	here := &w.nodes[n]
	if !w.flights[here.incarnation].on && (here.leaving != 0 || here.set != here.landed) {
		c.do(w, yield, true, "node %d composes its journal", n, 0, func(w *world) {
			h := &w.nodes[n]
			h.set &^= h.leaving
			h.leaving = 0
			w.flights[h.incarnation] = flight{true, h.set}
		})
	}
}

// landMoves are the outcomes of journals.
func (c *cluster) landMoves(w *world, yield func(move)) {
	for incarnation := range uint8(incarnations) {
		if !w.flights[incarnation].on {
			continue
		}
		c.do(w, yield, true, "the journal of incarnation %d lands", incarnation, 0, func(w *world) {
			s := w.flights[incarnation].set
			w.journals[incarnation], w.flights[incarnation] = s, flight{}
			for n := range w.nodes {
				if w.nodes[n].up && w.nodes[n].incarnation == incarnation {
					w.nodes[n].landed = s
				}
			}
		})
		if !w.alive(incarnation) {
			c.do(w, yield, true, "the journal of ended incarnation %d is lost", incarnation, 0, func(w *world) { w.flights[incarnation] = flight{} })
		}
	}
}

// swept reports whether a sweep takes the journal of an incarnation for that of a crashed node.
func (w *world) swept(incarnation uint8) bool { return !w.alive(incarnation) || w.view == both }

func (c *cluster) sweepMoves(w *world, yield func(move)) {
	var ask set
	for incarnation := range uint8(incarnations) {
		s := w.journals[incarnation]
		if s == 0 || !w.swept(incarnation) {
			continue
		}
		ask |= s
	}
	for _, n := range w.nodes {
		if n.up {
			ask |= n.set &^ n.leaving &^ n.act.self()
		}
	}
	ask &^= w.answered
	for n := range uint8(2) {
		a := &w.nodes[n].act
		early := w.view == both
		if ask := ask &^ a.probes &^ a.self(); ask != 0 && w.owns(n) && (!early || w.faults.asks > 0) {
			c.do(w, yield, !early, "a sweep probes node %d about ended writers", n, 0, func(w *world) {
				if early {
					w.faults.asks--
				}
				c.open(w, n)
				w.nodes[n].act.probes |= ask
				c.takeOver(w, n)
			})
		}
	}
}

// activationMoves are the common moves of a writer.
func (c *cluster) activationMoves(w *world, n uint8, yield func(move)) {
	here := &w.nodes[n]
	a, v := &here.act, here.act.self()
	if v == 0 {
		return
	}
	idle := c.idle(w, n)
	if w.writing(n) != nothing {
		return
	}
	if idle && a.probes == 0 && here.set&^here.leaving&v == 0 && c.quiet(w, n) {
		c.do(w, yield, true, "the activation at node %d leaves memory", n, 0, func(w *world) { c.kill(w, n) })
	}
	if c.begins(a.facts) && a.run == 0 {
		c.do(w, yield, true, "node %d begins an attempt", n, 0, func(w *world) { c.list(w, n); w.send(n, attempt) })
	}
	if a.probes&^a.knows != 0 {
		c.do(w, yield, true, "node %d claims the log", n, 0, func(w *world) { w.send(n, claim) })
	}
	idle = idle || c.answersEarly(w, n)
	shown := a.knows
	if idle && !c.holds(fenceSuspended) {
		shown = a.probes
	}
	if shown &= a.probes; shown != 0 && (idle || a.claimed && c.listed(w, n)) {
		c.do(w, yield, true, "node %d answers about ended writers", n, 0, func(w *world) {
			w.nodes[n].act.probes &^= shown
			w.answered |= shown
		})
	}
}

// atOnce yields the moves that need not wait, and reports whether there is one: a journal that lists a
// writer longer is found anyway.
func (c *cluster) atOnce(w *world, yield func(move)) bool {
	for incarnation := range uint8(incarnations) {
		if s := w.journals[incarnation]; s != 0 && w.swept(incarnation) && s&^w.answered == 0 {
			c.do(w, yield, true, "a sweep deletes the journal of incarnation %d", incarnation, 0, func(w *world) { w.journals[incarnation] = 0 })
			return true
		}
	}
	for n := range uint8(2) {
		here := &w.nodes[n]
		if gone := here.set & w.answered &^ here.act.self(); gone != 0 {
			c.do(w, yield, true, "node %d drops the answered writers", n, 0, func(w *world) {
				w.nodes[n].set &^= gone
				w.nodes[n].leaving &^= gone
			})
			return true
		}
		idle := here.act.writer != 0 && c.idle(w, n) && w.writing(n) == nothing
		early := w.writing(n) == suspend && !c.holds(suspendDurable) || (w.writing(n) == defer1 || w.writing(n) == defer2) && !c.holds(deferDurable)
		if v := here.act.self(); (idle || early) && here.set&^here.leaving&v != 0 {
			c.do(w, yield, true, "node %d schedules the removal of its writer from the journal", n, 0, func(w *world) { w.nodes[n].leaving |= v })
			return true
		}
	}
	return false
}
