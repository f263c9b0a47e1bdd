package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

var (
	errReset = errors.New("simulated: connection reset")
	errDead  = errors.New("simulated: process is dead")
)

// journalRoot is where journals are.
const journalRoot = "pending/"

type op struct {
	member, method, key string // the key of a LIST is its prefix
	after               string // what a LIST starts after
	caller              string // on whose behalf, "" if a node acts by itself
	attempt             int    // how many requests of all these came before
}

func (o op) writes() bool { return o.method == http.MethodPut || o.method == http.MethodDelete }

// id tells a request from all others of its schedule.
func (o op) id() string { return fmt.Sprintln(o.member, o.method, o.key, o.after, o.caller, o.attempt) }

func (o op) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s #%d %s", o.method, o.key, o.after, o.attempt, o.caller)), " ")
}

// course is when a request arrives, how long its answer takes, and its fate.
type course struct {
	fate        schedule.Outcome
	there, back time.Duration
	late        time.Duration // until a delayed request, or a copy, lands
}

type network struct {
	*world
	weather atomic.Pointer[weather]
	late    schedule.Late
	landing sync.Mutex // held while a request changes the store, so that the ledger knows the order
}

// weather is the share of requests that something happens to, and the fate of all, delivered if there
// is none.
type weather struct {
	rate   float64
	outage schedule.Outcome
}

// setOutage decides the fate of every request, or of none in particular.
func (n *network) setOutage(f schedule.Outcome) {
	n.weather.Store(&weather{n.weather.Load().rate, f})
	n.trace.Add("", "fate of all requests: %v", f)
}

func (n *network) course(o op) course {
	id := o.id()
	draw := func(what string, from, to time.Duration) time.Duration {
		return schedule.Between(schedule.Draw(n.Seed, what, id), from, to)
	}
	c := course{
		fate: schedule.Delivered, there: draw("there", time.Millisecond, 40*time.Millisecond),
		back: draw("back", time.Millisecond, 40*time.Millisecond), late: draw("late", 0, 25*time.Second),
	}
	weather := n.weather.Load()
	if schedule.Share(schedule.Draw(n.Seed, "fate", id)) < n.Profile.rate(weather.rate, o) {
		c.fate = schedule.Fault(schedule.Draw(n.Seed, "which", id))
	}
	if c.fate == schedule.Slow {
		c.there = draw("slow", 500*time.Millisecond, 6*time.Second)
	}
	if weather.outage != schedule.Delivered {
		c.fate = weather.outage
	}
	if !o.writes() {
		c.fate = c.fate.Reads()
	}
	if c.fate != schedule.Delivered {
		n.trace.Did("fault: " + string(c.fate))
		if o.writes() && strings.HasPrefix(o.key, journalRoot) {
			n.trace.Did("journal " + o.method + " " + string(c.fate))
		}
		if name, err := storage.ParseKey(o.key); o.method == http.MethodGet && err == nil && name.Kind == storage.KindPage {
			n.ledger.unread.Next(name.Conv)
		}
		n.trace.Add(o.member, "%v: %v", c.fate, o)
	}
	return c
}

// heal ends the faults. What is still under way lands now, or never.
func (n *network) heal() {
	n.weather.Store(&weather{0, schedule.Delivered})
	n.late.Stop(func(_ int, id string) bool { return schedule.Draw(n.Seed, "drop", id)%3 == 0 })
}

// request is a call that can be performed again.
type request struct {
	*storagetest.Call
	op    op
	batch *storage.Batch // of the PUT of one
	again func(context.Context) error
}

// later lands a request nobody waits for after d.
func (n *network) later(d time.Duration, r *request) {
	n.late.After(d, &schedule.LateRequest{ID: r.op.id(), Who: r.op.member, What: r.op.String(), Land: func() string {
		_ = n.land(context.Background(), r) // Nobody waits for it.
		return ""
	}})
}

func (n *network) land(ctx context.Context, r *request) error {
	o := r.op
	if o.writes() {
		n.landing.Lock()
		defer n.landing.Unlock()
	}
	err := r.again(context.WithoutCancel(ctx))
	if o.method == http.MethodGet && cached(o.key) {
		n.cacheRead(o.key, r.Got())
	}
	if err != nil {
		return err
	}
	switch {
	case r.batch != nil:
		n.ledger.landed(o.key, r.batch)
	case o.method == http.MethodPut && storage.KindOf(o.key) == storage.KindSegment:
		n.trace.Did("segment")
	case o.method == http.MethodDelete && storage.KindOf(o.key) == storage.KindBatch:
		n.ledger.freed.Next(o.key)
		n.trace.Did("batch deleted")
	case o.method == http.MethodDelete && strings.HasPrefix(o.key, journalRoot) && !strings.HasPrefix(o.key, journalRoot+o.member+"/"):
		n.trace.Did("journal swept")
	}
	return nil
}

// link is the network as one process sees it.
type link struct {
	net      *network
	slot     int
	member   string
	attempts schedule.Counter[op]
	dead     atomic.Bool
	watched  atomic.Pointer[watch]

	mu     sync.Mutex
	resume chan struct{} // non-nil while paused
}

// moment is a landing at which a disturbance does most harm: the store has it,
// and the node does not know yet.
type moment string

const (
	anyTime      moment = "any time"
	claimLands   moment = "claim lands"
	batchLands   moment = "batch lands"
	journalLands moment = "journal lands"
	receiptSeen  moment = "receipt seen" // by a client
	sweepReads   moment = "sweep reads"  // the journal of another, and nobody is asked yet
)

// watch is that somebody waits for a moment.
type watch struct {
	moment moment
	come   chan struct{}
}

// next returns a channel that is closed when the moment comes. One is watched for at a time.
func (l *link) next(m moment) <-chan struct{} {
	w := &watch{m, make(chan struct{})}
	l.watched.Store(w)
	return w.come
}

func (l *link) came(m moment) {
	if w := l.watched.Load(); w != nil && w.moment == m && l.watched.CompareAndSwap(w, nil) {
		close(w.come)
	}
}

// has lets the moments come that are when a request has landed.
func (l *link) has(r *request) {
	switch o := r.op; {
	case r.batch != nil:
		l.came(batchLands)
		if r.batch.First {
			l.came(claimLands)
		}
	case o.method == http.MethodPut:
		l.came(journalLands)
	case o.method == http.MethodGet && strings.HasPrefix(o.key, journalRoot):
		l.came(sweepReads)
	}
}

// kill fails every request from now on, and reports whether the process lived.
func (l *link) kill() (lived bool) {
	lived = l.dead.CompareAndSwap(false, true)
	l.pause(false)
	return lived
}

// pause holds up every request and every answer, or lets them go again.
func (l *link) pause(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && l.resume == nil && !l.dead.Load():
		l.resume = make(chan struct{})
	case !on && l.resume != nil:
		close(l.resume)
		l.resume = nil
	}
}

// pass waits until the process runs. What a pause has held up goes on one by one.
func (l *link) pass(ctx context.Context, o op) error {
	for held := false; ; {
		l.mu.Lock()
		resume := l.resume
		l.mu.Unlock()
		switch {
		case l.dead.Load():
			return errDead
		case resume == nil && !held:
			return ctx.Err()
		case resume == nil:
			held = false
			if err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(l.net.Seed, "held up", o.id()), 0, tremble)); err != nil {
				return err
			}
			continue
		}
		select {
		case <-resume:
			held = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *link) carry(ctx context.Context, c *storagetest.Call) error {
	again, err := c.Later()
	if err == nil {
		err = begin(ctx)
	}
	if err != nil {
		return c.Unanswered(err)
	}
	o := op{member: l.member, method: c.Method, key: c.Key, after: strings.TrimPrefix(c.After, c.Key), caller: callerOf(ctx)}
	o.attempt = l.attempts.Next(o)
	if err := l.pass(ctx, o); err != nil {
		return c.Unanswered(err)
	}
	if l.net.opensDeadly(l, o) {
		return c.Unanswered(errDead)
	}
	r := &request{Call: c, op: o, again: again}
	way := l.net.course(o)
	if o.method == http.MethodPut && storage.KindOf(o.key) == storage.KindBatch {
		body, _ := c.Body() // Later has copied it.
		r.batch = l.net.ledger.sent(l.member, o.key, body)
	}
	heard, lost := l.send(ctx, r, way)
	if lost == nil {
		lost = l.wait(ctx, o, way.back)
	}
	if lost != nil {
		return c.Unanswered(lost)
	}
	if r.batch != nil && (heard == nil || errors.Is(heard, storage.ErrExists)) {
		l.net.ledger.answered(r.batch)
	}
	return heard
}

// send performs a request under its fate. Heard is what the store answers, lost why no
// answer comes.
func (l *link) send(ctx context.Context, r *request, c course) (heard, lost error) {
	switch c.fate {
	case schedule.Delayed:
		l.net.later(c.late, r)
		return nil, cmp.Or(l.wait(ctx, r.op, c.there), os.ErrDeadlineExceeded)
	case schedule.Dropped:
		return nil, cmp.Or(l.wait(ctx, r.op, time.Hour), os.ErrDeadlineExceeded)
	case schedule.ErrorBefore:
		return r.Answered(http.StatusServiceUnavailable, "SlowDown", nil), l.wait(ctx, r.op, c.there)
	}
	began := time.Now()
	if err := l.wait(ctx, r.op, c.there); err != nil {
		if r.op.writes() {
			l.net.later(max(c.there-time.Since(began), 0), r) // It left the process; nobody calls it back.
		}
		return nil, err
	}
	answer := l.net.land(ctx, r)
	l.has(r)
	switch c.fate {
	case schedule.Duplicated:
		l.net.later(c.late, r)
	case schedule.LostAnswer:
		return nil, errReset
	case schedule.ErrorAfter:
		return r.Answered(http.StatusInternalServerError, "InternalError", nil), nil
	}
	return answer, nil
}

// wait lets time pass for this process.
func (l *link) wait(ctx context.Context, o op, d time.Duration) error {
	if err := schedule.Sleep(ctx, d); err != nil {
		return err
	}
	return l.pass(ctx, o)
}

// What happens at one nanosecond happens in the order in which goroutines are
// scheduled, which no seed decides. So nothing that could tell the difference
// happens at the same nanosecond: every request, message, answer and deed of a
// client is a little late, by a time that depends on the seed, on its name and on
// how many of that name there were before, and not on the order of arrival.

// tremble bounds the delay of what has no duration of its own.
const tremble = time.Millisecond

// begin lets pass the nanosecond in which something was asked for. What is taken
// back before it is over did not happen, whether it was noticed or not.
func begin(ctx context.Context) error { return schedule.Sleep(ctx, 1) }

type callerKey struct{}

// as names the caller in a context, so that two who ask for the same at the same
// time are told apart wherever their requests go.
func as(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// callerOf returns the caller in a context, "" if nobody is named.
func callerOf(ctx context.Context) string {
	s, _ := ctx.Value(callerKey{}).(string)
	return s
}

// apart lets a moment pass which nobody else has.
func (w *world) apart(what ...any) {
	name := fmt.Sprintln(what...)
	time.Sleep(schedule.Between(schedule.Draw(w.Seed, "apart", name, w.moments.Next(name)), 1, tremble))
}

// message decides the course of a message to the owner of a conversation.
func (w *world) message(ctx context.Context, member, conv, what string) Course {
	if begin(ctx) != nil {
		return Course{}
	}
	if strings.Contains(what, "ProbeRequest") {
		w.trace.Did("poke")
	}
	name := fmt.Sprintln(member, conv, what, callerOf(ctx))
	id := fmt.Sprintln(name, w.messages.Next(name))
	return Course{
		There: schedule.Between(schedule.Draw(w.Seed, "message there", id), 0, tremble),
		Back:  schedule.Between(schedule.Draw(w.Seed, "message back", id), 0, tremble),
		Lost:  schedule.Share(schedule.Draw(w.Seed, "message lost", id)) < w.net.weather.Load().rate/3,
	}
}
