package model_test

import (
	"math/bits"

	"github.com/parleyrun/parley/internal/model"
)

// The kit of the three models: one conversation whose log takes batches by conditional
// creates, two nodes that may both believe to own it, and their pending-work journals. A batch lands,
// is answered late or never, or comes to nothing; its writer dies, or steps down. Journals
// are composed at one time and land at another. Sweeps ask about what is listed under writers
// that are gone, and owners fence before they answer.
//
// What is left out holds elsewhere: numbers of journals, compaction, membership.
//
// Positions are not needed. A writer is fresh as long as nobody else has written since it
// read the log, and only a fresh writer's batch lands.

const (
	writers = 7 // at a time; slots are used again when nothing names one any more
	lives   = 5 // of nodes whose journals are there
	both    = 2 // the view in which both nodes own the conversation
)

type (
	set   uint8 // of writers
	batch uint8 // what a batch says
)

const (
	nothing batch = iota
	claim
	attempt
	// of waits; those of signals have their number added
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

// facts are what a log folds to.
type facts struct {
	waits
	replies
	posts
	settled bool
}

// put is a batch under way. Once it has landed its writer does not know yet.
type put struct {
	what   batch
	landed bool
}

// activation is a writer with its memory. Its facts are durable.
type activation struct {
	writer  uint8 // 0 for none
	claimed bool
	knows   set // whose fencing its facts show
	probes  set // about whom it was asked
	facts   facts
	run     uint8 // what the author's function does
	stored  bool  // the timer, by this activation
	pending uint8 // what is to be written next, or was sent and not answered
}

// self is the writer of an activation, nobody's if there is none.
func (a *activation) self() set { return of(a.writer) &^ 1 }

// node is a process: its journal's set, who is about to leave it, and what has landed.
type node struct {
	up                   bool
	life                 uint8
	act                  activation
	set, leaving, landed set
}

// flight is a journal under way.
type flight struct {
	on  bool
	set set
}

// faults are what may still happen.
type faults struct {
	crashes uint8
	downs   uint8 // of writers whose batch is under way
	moves   uint8 // after which both nodes own the conversation for a while
	asks    uint8 // of sweeps, meanwhile
	retries uint8 // of clients
	extra   uint8 // of each model: a time runs out
	// messages of users, of the first model
	messages uint8
}

type world struct {
	log             facts
	fresh, answered set
	puts            [writers + 1]put
	nodes           [2]node
	journals        [lives]set
	flights         [lives]flight
	view            uint8
	faults          faults
	wrong           uint8

	clients clients
	asker   asker
	target  target
}

// app is what one of the models adds to the kit.
type app interface {
	log
	memory
	moves(w *world, yield func(move))
	// owed says what must not stay as it is.
	owed(w *world) string
}

// log is what the facts of a conversation mean.
type log interface {
	apply(facts, batch) facts
	// owes reports whether who opens the log is listed, begins whether it begins an attempt.
	owes(facts) bool
	begins(facts) bool
}

// memory is what a node knows.
type memory interface {
	// opened is called when a node has read the log, learned when it knows that a batch is
	// durable, died when its activation ends.
	opened(w *world, n uint8)
	learned(w *world, n uint8, b batch)
	died(w *world, n uint8)
	// idle reports whether a writer may leave the journal, and memory; answersEarly whether
	// it says so to who sweeps although it may not.
	idle(w *world, n uint8) bool
	answersEarly(w *world, n uint8) bool
	// quiet reports whether nobody waits for an answer of a node.
	quiet(w *world, n uint8) bool
}

type move = model.Move[world]

// cluster is a model, with rules switched off.
type cluster struct {
	app
	start     world
	off, also rule
}

// quietly is where nobody owes anything.
func quietly() (w world) {
	w.nodes = [2]node{{up: true}, {up: true, life: 1}}
	return w
}

// atWork is where node 0 works, and its journal says so.
func atWork() world {
	w := quietly()
	w.nodes[0].act = activation{writer: 1, claimed: true, run: runs}
	w.nodes[0].set, w.nodes[0].landed = of(1), of(1)
	w.journals[0], w.fresh = of(1), of(1)
	return w
}

// leftBehind is where a node has died, and its journal lists a writer.
func leftBehind() world {
	w := quietly()
	w.journals[2], w.fresh = of(1), of(1)
	return w
}

func (c *cluster) holds(r rule) bool { return c.off != r && c.also != r }

func (c *cluster) Start() world         { return c.start }
func (c *cluster) Wrong(w world) string { return wrongs[w.wrong] }

func (c *cluster) Owed(w world) string {
	for _, n := range w.nodes {
		if n.up && n.set != 0 {
			return "a node's set is not empty"
		}
	}
	for i := range w.journals {
		if w.journals[i] != 0 || w.flights[i].on {
			return "a journal lists somebody"
		}
	}
	return c.owed(&w)
}

func (c *cluster) Moves(w world, yield func(move)) {
	if c.atOnce(&w, yield) {
		return
	}
	c.faultMoves(&w, yield)
	c.viewMoves(&w, yield)
	for v := uint8(1); v <= writers; v++ {
		if w.puts[v].what != nothing {
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

// do yields the move that changes a world.
func (c *cluster) do(w *world, yield func(move), fair bool, what string, who, which uint8, change func(*world)) {
	next := *w
	change(&next)
	next.forget()
	yield(move{What: what, Who: who, Which: which, Fair: fair, Next: next})
}

// named are the writers that something names.
func (w *world) named() (named set) {
	for v := uint8(1); v <= writers; v++ {
		if w.puts[v].what != nothing {
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

// forget drops what makes no difference any more.
func (w *world) forget() {
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
	if !open(w.asker.state) {
		w.asker.at = 0
	}
	w.sortLives()
	w.sortWriters(named)
}

// sortLives names the lives of nodes that run after them, and the others in order: their
// names make no difference.
func (w *world) sortLives() {
	swap := func(a, b uint8) {
		w.journals[a], w.journals[b] = w.journals[b], w.journals[a]
		w.flights[a], w.flights[b] = w.flights[b], w.flights[a]
		for n := range w.nodes {
			switch here := &w.nodes[n]; {
			case here.up && here.life == a:
				here.life = b
			case here.up && here.life == b:
				here.life = a
			}
		}
	}
	first := uint8(0)
	for n := range w.nodes {
		if w.nodes[n].up {
			if w.nodes[n].life != first {
				swap(w.nodes[n].life, first)
			}
			first++
		}
	}
	weight := func(life uint8) int {
		f := w.flights[life]
		return int(w.journals[life])<<8 | int(f.set)
	}
	for i := first + 1; i < lives; i++ {
		for k := i; k > first && weight(k) > weight(k-1); k-- {
			swap(k, k-1)
		}
	}
}

// sortWriters names the writers by where something names them.
func (w *world) sortWriters(named set) {
	var place [writers + 1]uint64
	for v := uint8(1); v <= writers && named>>v != 0; v++ {
		if named&of(v) == 0 {
			continue
		}
		for _, s := range w.sets() {
			place[v] = place[v]<<1 | uint64(*s>>v&1)
		}
		place[v] = place[v]<<7 | uint64(w.puts[v].what)<<2 | 1
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

// sets are all that a world has.
func (w *world) sets() [12 + 2*lives]*set {
	a, b := &w.nodes[0], &w.nodes[1]
	all := [12 + 2*lives]*set{&w.fresh, &w.answered, &a.set, &b.set, &a.leaving, &b.leaving, &a.landed, &b.landed, &a.act.knows, &b.act.knows, &a.act.probes, &b.act.probes}
	for i := range w.journals {
		all[12+2*i], all[13+2*i] = &w.journals[i], &w.flights[i].set
	}
	return all
}

// open reads the log at a node unless it runs there.
func (c *cluster) open(w *world, n uint8) {
	a := &w.nodes[n].act
	if a.writer != 0 {
		return
	}
	named := w.named()
	v := uint8(bits.TrailingZeros8(uint8(^(named | 1))))
	if v > writers {
		panic("model: more writers at a time than there is room for")
	}
	*a = activation{writer: v, knows: named &^ w.fresh, facts: w.log}
	w.fresh |= of(v)
	c.opened(w, n)
	c.takeOver(w, n)
}

// takeOver lists who has found something to run.
func (c *cluster) takeOver(w *world, n uint8) {
	if c.owes(w.nodes[n].act.facts) {
		c.list(w, n)
	}
}

// list puts a writer into the set of its node, and takes back that it was about to leave.
func (c *cluster) list(w *world, n uint8) {
	v := of(w.nodes[n].act.writer)
	w.nodes[n].set |= v
	if c.holds(wakeStays) {
		w.nodes[n].leaving &^= v
	}
}

// listed reports whether the newest landed journal and the one in flight list a writer.
func (c *cluster) listed(w *world, n uint8) bool {
	here, v := &w.nodes[n], of(w.nodes[n].act.writer)
	f := w.flights[here.life]
	return here.set&v != 0 && here.landed&v != 0 && (!f.on || f.set&v != 0 || !c.holds(wakeInFlight))
}

// send has a writer write.
func (w *world) send(n uint8, b batch) { w.puts[w.nodes[n].act.writer] = put{what: b} }

func (w *world) writing(n uint8) batch { return w.puts[w.nodes[n].act.writer].what }

// kill ends an activation. What it has sent may land yet.
func (c *cluster) kill(w *world, n uint8) {
	v := w.nodes[n].act.writer
	if v == 0 {
		return
	}
	if w.puts[v].landed {
		w.puts[v] = put{}
	}
	c.died(w, n)
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

// alive returns whether a life is that of a node which runs.
func (w *world) alive(life uint8) bool {
	for _, n := range w.nodes {
		if n.up && n.life == life {
			return true
		}
	}
	return false
}

func (c *cluster) faultMoves(w *world, yield func(move)) {
	for n := range uint8(2) {
		here := &w.nodes[n]
		if w.faults.crashes > 0 && here.up {
			c.do(w, yield, false, "node %d dies", n, 0, func(w *world) {
				w.faults.crashes--
				c.kill(w, n)
				w.nodes[n] = node{}
			})
		}
		if !here.up && !w.nodes[1-n].up {
			c.do(w, yield, true, "node %d starts", n, 0, func(w *world) { c.boot(w, n) })
		}
		if w.faults.downs > 0 && here.act.writer != 0 && w.writing(n) != nothing {
			c.do(w, yield, false, "the writer at node %d gives up, its batch under way", n, 0, func(w *world) {
				w.faults.downs--
				c.kill(w, n)
			})
		}
	}
}

// boot starts a node under the first life that has left nothing.
func (c *cluster) boot(w *world, n uint8) {
	for life := range uint8(lives) {
		if !w.alive(life) && w.journals[life] == 0 && !w.flights[life].on {
			w.nodes[n] = node{up: true, life: life}
			return
		}
	}
	panic("model: more lives than there is room for")
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

// putMoves are the fates of a batch.
func (c *cluster) putMoves(w *world, v uint8, yield func(move)) {
	p, fresh := w.puts[v], w.fresh&of(v) != 0
	n, runs := w.runs(v)
	switch {
	case p.landed:
		c.do(w, yield, true, "node %d knows that its batch has landed", n, 0, func(w *world) {
			a := &w.nodes[n].act
			w.puts[v] = put{}
			a.claimed, a.facts = true, c.apply(a.facts, p.what)
			c.learned(w, n, p.what)
		})
	case fresh:
		c.do(w, yield, true, "the batch of writer %d lands: "+says[p.what], v, 0, func(w *world) {
			w.log = c.apply(w.log, p.what)
			w.fresh &= of(v)
			w.puts[v] = put{}
			if runs {
				w.puts[v] = put{p.what, true}
				w.nodes[n].act.knows |= ^of(v)
			}
		})
		if !runs {
			c.do(w, yield, true, "the batch of writer %d, who is gone, comes to nothing", v, 0, func(w *world) { w.puts[v] = put{} })
		}
	default:
		c.do(w, yield, true, "writer %d finds its key taken, and ends", v, 0, func(w *world) {
			w.puts[v] = put{}
			if runs {
				c.kill(w, n)
			}
		})
	}
}

// journalMoves are those of a node's own set.
func (c *cluster) journalMoves(w *world, n uint8, yield func(move)) {
	here := &w.nodes[n]
	if !w.flights[here.life].on && (here.leaving != 0 || here.set != here.landed) {
		c.do(w, yield, true, "node %d composes its journal", n, 0, func(w *world) {
			h := &w.nodes[n]
			h.set &^= h.leaving
			h.leaving = 0
			w.flights[h.life] = flight{true, h.set}
		})
	}
}

// landMoves are the fates of journals.
func (c *cluster) landMoves(w *world, yield func(move)) {
	for life := range uint8(lives) {
		if !w.flights[life].on {
			continue
		}
		c.do(w, yield, true, "the journal of life %d lands", life, 0, func(w *world) {
			s := w.flights[life].set
			w.journals[life], w.flights[life] = s, flight{}
			for n := range w.nodes {
				if w.nodes[n].up && w.nodes[n].life == life {
					w.nodes[n].landed = s
				}
			}
		})
		if !w.alive(life) {
			c.do(w, yield, true, "the journal of life %d, which is over, comes to nothing", life, 0, func(w *world) { w.flights[life] = flight{} })
		}
	}
}

// swept reports whether a sweep takes the journal of a life for that of a dead node.
func (w *world) swept(life uint8) bool { return !w.alive(life) || w.view == both }

func (c *cluster) sweepMoves(w *world, yield func(move)) {
	var ask set
	for life := range uint8(lives) {
		s := w.journals[life]
		if s == 0 || !w.swept(life) {
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
			c.do(w, yield, !early, "a sweep asks node %d about who is gone", n, 0, func(w *world) {
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

// activationMoves are what every writer does.
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
		c.do(w, yield, true, "node %d answers about who is gone", n, 0, func(w *world) {
			w.nodes[n].act.probes &^= shown
			w.answered |= shown
		})
	}
}

// atOnce makes the moves that do no more harm later, and reports whether there is one:
// whatever a journal lists any longer is found.
func (c *cluster) atOnce(w *world, yield func(move)) bool {
	for life := range uint8(lives) {
		if s := w.journals[life]; s != 0 && w.swept(life) && s&^w.answered == 0 {
			c.do(w, yield, true, "a sweep deletes the journal of life %d", life, 0, func(w *world) { w.journals[life] = 0 })
			return true
		}
	}
	for n := range uint8(2) {
		here := &w.nodes[n]
		if gone := here.set & w.answered &^ here.act.self(); gone != 0 {
			c.do(w, yield, true, "node %d drops those about whom it was answered", n, 0, func(w *world) {
				w.nodes[n].set &^= gone
				w.nodes[n].leaving &^= gone
			})
			return true
		}
		idle := here.act.writer != 0 && c.idle(w, n) && w.writing(n) == nothing
		early := w.writing(n) == suspend && !c.holds(suspendDurable) || (w.writing(n) == defer1 || w.writing(n) == defer2) && !c.holds(deferDurable)
		if v := here.act.self(); (idle || early) && here.set&^here.leaving&v != 0 {
			c.do(w, yield, true, "the writer at node %d is about to leave the journal", n, 0, func(w *world) { w.nodes[n].leaving |= v })
			return true
		}
	}
	return false
}
