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
	errReset  = errors.New("simulated: connection reset")
	errKilled = errors.New("simulated: process crashed")
)

const journalRoot = "pending/"

type op struct {
	member, method, key string // a LIST has its prefix as key
	after               string // start-after of a LIST
	caller              string // the caller it serves, "" if the node acts on its own
	attempt             int    // earlier requests that equal this one
}

func (o op) writes() bool { return o.method == http.MethodPut || o.method == http.MethodDelete }

// id distinguishes a request from all others of its schedule.
func (o op) id() string { return fmt.Sprintln(o.member, o.method, o.key, o.after, o.caller, o.attempt) }

func (o op) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s #%d %s", o.method, o.key, o.after, o.attempt, o.caller)), " ")
}

// course is the delay of a request, the delay of its answer, and its outcome.
type course struct {
	outcome     schedule.Outcome
	there, back time.Duration
	late        time.Duration // delay until a late request, or a copy, lands
}

type network struct {
	*world
	conditions atomic.Pointer[conditions]
	late       schedule.Late
	landing    sync.Mutex // held while a request changes the store, so that the ledger has the order
}

// conditions is the rate of faults and, during an outage, the outcome of every request.
type conditions struct {
	rate   float64
	outage schedule.Outcome
}

// setOutage sets the outcome of every request. Delivered ends the outage.
func (n *network) setOutage(f schedule.Outcome) {
	n.conditions.Store(&conditions{n.conditions.Load().rate, f})
	n.trace.Add("", "outcome of all requests: %v", f)
}

func (n *network) course(o op) course {
	id := o.id()
	draw := func(desc string, from, to time.Duration) time.Duration {
		return schedule.Between(schedule.Draw(n.Seed, desc, id), from, to)
	}
	c := course{
		outcome: schedule.Delivered, there: draw("there", time.Millisecond, 40*time.Millisecond),
		back: draw("back", time.Millisecond, 40*time.Millisecond), late: draw("late", 0, 25*time.Second),
	}
	conditions := n.conditions.Load()
	if schedule.Share(schedule.Draw(n.Seed, "fate", id)) < n.Profile.rate(conditions.rate, o) {
		c.outcome = schedule.Fault(schedule.Draw(n.Seed, "which", id))
	}
	if c.outcome == schedule.Slow {
		c.there = draw("slow", 500*time.Millisecond, 6*time.Second)
	}
	if conditions.outage != schedule.Delivered {
		c.outcome = conditions.outage
	}
	if !o.writes() {
		c.outcome = c.outcome.Reads()
	}
	if c.outcome != schedule.Delivered {
		n.trace.Did("fault: " + string(c.outcome))
		if o.writes() && strings.HasPrefix(o.key, journalRoot) {
			n.trace.Did("journal " + o.method + " " + string(c.outcome))
		}
		if name, err := storage.ParseKey(o.key); o.method == http.MethodGet && err == nil && name.Kind == storage.KindPage {
			n.ledger.unread.Next(name.Conv)
		}
		n.trace.Add(o.member, "%v: %v", c.outcome, o)
	}
	return c
}

// heal ends the faults. Late requests land now, or never.
func (n *network) heal() {
	n.conditions.Store(&conditions{0, schedule.Delivered})
	n.late.Stop(func(_ int, id string) bool { return schedule.Draw(n.Seed, "drop", id)%3 == 0 })
}

// request is a call that can be repeated.
type request struct {
	*storagetest.Call
	op    op
	batch *storage.Batch // set for the PUT of a batch
	again func(context.Context) error
}

// later lands a request after d, without an answer.
func (n *network) later(d time.Duration, r *request) {
	n.late.After(d, &schedule.LateRequest{ID: r.op.id(), Sender: r.op.member, Description: r.op.String(), Land: func() string {
		_ = n.land(context.Background(), r) // Its answer is dropped.
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

// link is the network of one process.
type link struct {
	net      *network
	slot     int
	member   string
	attempts schedule.Counter[op]
	killed   atomic.Bool
	watched  atomic.Pointer[watch]

	mu     sync.Mutex
	resume chan struct{} // non-nil while paused
}

// moment is a point at which a fault does most harm: the store has a write that the node does not yet
// know of.
type moment string

const (
	anyTime      moment = "any time"
	claimLands   moment = "claim lands"
	batchLands   moment = "batch lands"
	journalLands moment = "journal lands"
	receiptSeen  moment = "receipt seen" // by a client
	sweepReads   moment = "sweep reads"  // the journal of another node, before any probe
)

type watch struct {
	moment moment
	come   chan struct{}
}

// next returns a channel that is closed when the moment comes. A link has one watch at a time.
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

// has signals the moments that a landed request brings about.
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

// kill fails every request from now on, and reports whether the process was running.
func (l *link) kill() (alive bool) {
	alive = l.killed.CompareAndSwap(false, true)
	l.pause(false)
	return alive
}

// pause holds every request and every answer, or releases them.
func (l *link) pause(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && l.resume == nil && !l.killed.Load():
		l.resume = make(chan struct{})
	case !on && l.resume != nil:
		close(l.resume)
		l.resume = nil
	}
}

// pass waits while the process is paused. A resumed process continues its requests one by one.
func (l *link) pass(ctx context.Context, o op) error {
	for held := false; ; {
		l.mu.Lock()
		resume := l.resume
		l.mu.Unlock()
		switch {
		case l.killed.Load():
			return errKilled
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
		return c.Unanswered(errKilled)
	}
	r := &request{Call: c, op: o, again: again}
	way := l.net.course(o)
	if o.method == http.MethodPut && storage.KindOf(o.key) == storage.KindBatch {
		body, _ := c.Body() // later has copied it.
		r.batch = l.net.ledger.sent(l.member, o.key, body)
	}
	result, lost := l.send(ctx, r, way)
	if lost == nil {
		lost = l.wait(ctx, o, way.back)
	}
	if lost != nil {
		return c.Unanswered(lost)
	}
	if r.batch != nil && (result == nil || errors.Is(result, storage.ErrExists)) {
		l.net.ledger.answered(r.batch)
	}
	return result
}

// send performs a request with its outcome. It returns the answer of the store as result, or the reason
// for a missing answer as lost.
func (l *link) send(ctx context.Context, r *request, c course) (result, lost error) {
	switch c.outcome {
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
			l.net.later(max(c.there-time.Since(began), 0), r) // It has left the process and cannot be recalled.
		}
		return nil, err
	}
	answer := l.net.land(ctx, r)
	l.has(r)
	switch c.outcome {
	case schedule.Duplicated:
		l.net.later(c.late, r)
	case schedule.LostAnswer:
		return nil, errReset
	case schedule.ErrorAfter:
		return r.Answered(http.StatusInternalServerError, "InternalError", nil), nil
	}
	return answer, nil
}

// wait sleeps as this process.
func (l *link) wait(ctx context.Context, o op, d time.Duration) error {
	if err := schedule.Sleep(ctx, d); err != nil {
		return err
	}
	return l.pass(ctx, o)
}

// Events of one nanosecond happen in the order of the goroutine scheduler, which no seed decides. So
// no two dependent events share a nanosecond: every request, message, answer and client
// action is delayed. The delay depends on the seed, the name of the event and the number of earlier
// events of that name, not on the order of arrival.

// tremble bounds the delay of an event that has no duration of its own.
const tremble = time.Millisecond

// begin waits one nanosecond before a request starts. A request cancelled within it has not happened,
// whether or not the cancellation was noticed.
func begin(ctx context.Context) error { return schedule.Sleep(ctx, 1) }

type callerKey struct{}

// as puts the name of the caller into a context. It distinguishes equal requests of concurrent callers
// on every path.
func as(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// callerOf returns the caller in a context, "" if there is none.
func callerOf(ctx context.Context) string {
	s, _ := ctx.Value(callerKey{}).(string)
	return s
}

// apart sleeps until a moment that no other event has.
func (w *world) apart(desc ...any) {
	name := fmt.Sprintln(desc...)
	time.Sleep(schedule.Between(schedule.Draw(w.Seed, "apart", name, w.moments.Next(name)), 1, tremble))
}

// message decides the delays and the loss of a message to the owner of a conversation.
func (w *world) message(ctx context.Context, member, conv, desc string) Course {
	if begin(ctx) != nil {
		return Course{}
	}
	if strings.Contains(desc, "ProbeRequest") {
		w.trace.Did("probe")
	}
	name := fmt.Sprintln(member, conv, desc, callerOf(ctx))
	id := fmt.Sprintln(name, w.messages.Next(name))
	return Course{
		There: schedule.Between(schedule.Draw(w.Seed, "message there", id), 0, tremble),
		Back:  schedule.Between(schedule.Draw(w.Seed, "message back", id), 0, tremble),
		Lost:  schedule.Share(schedule.Draw(w.Seed, "message lost", id)) < w.net.conditions.Load().rate/3,
	}
}
