package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

var (
	errReset = errors.New("simulated: connection reset")
	errDead  = errors.New("simulated: process is dead")
)

// timeoutError is a time-out as package net reports it.
type timeoutError struct{}

func (timeoutError) Error() string   { return "simulated: i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// op is one request.
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

// network carries the requests of all nodes to the store.
type network struct {
	seed    uint64
	profile Profile
	ledger  *ledger
	trace   *schedule.Trace

	shown *schedule.Tally
	// cacheRead is called for every answer to a read of a shortcut.
	cacheRead func(key string, body []byte)
	// deadly reports whether a request ends its process.
	deadly func(op) bool

	mu     sync.Mutex
	rate   float64
	outage schedule.Fate // of every request, delivered if there is none
	late   schedule.Late[lateRequest]

	landing sync.Mutex // held while a request changes the store, so that the ledger knows the order
}

type lateRequest struct {
	op op
	r  *request
}

func newNetwork(w *world, rate float64) *network {
	return &network{
		seed: w.seed, profile: w.profile, rate: rate, ledger: w.ledger, trace: w.trace, shown: w.shown,
		cacheRead: w.cacheRead, deadly: w.opensDeadly,
	}
}

// setOutage decides the fate of every request, or of none in particular.
func (n *network) setOutage(f schedule.Fate) {
	n.mu.Lock()
	n.outage = f
	n.mu.Unlock()
	n.trace.Add("", "fate of all requests: %v", f)
}

// course decides what happens to a request.
func (n *network) course(o op) course {
	n.mu.Lock()
	rate, outage := n.rate, n.outage
	n.mu.Unlock()
	c := plan(n.seed, n.profile.rate(rate, o), o)
	if outage != schedule.Delivered {
		c.fate = outage
		if !o.writes() {
			c.fate = outage.Reads()
		}
	}
	if c.fate != schedule.Delivered {
		n.shown.Add(didFault + schedule.Deed(c.fate.String()))
		n.fated(o, c.fate)
		n.ledger.lost(o)
		n.trace.Add(o.member, "%v: %v", c.fate, o)
	}
	return c
}

// heal ends the faults. What is still under way lands now, or never.
func (n *network) heal() {
	n.mu.Lock()
	n.rate, n.outage = 0, schedule.Delivered
	n.mu.Unlock()
	land := n.late.Stop()
	slices.SortFunc(land, func(a, b lateRequest) int { return strings.Compare(a.op.id(), b.op.id()) })
	for _, l := range land {
		if schedule.Draw(n.seed, "drop", l.op.id())%3 > 0 {
			n.trace.Add(l.op.member, "lands at the end: %v", l.op)
			_ = n.land(context.Background(), l.op, l.r) // Nobody waits for it.
		}
	}
}

// later lands a request nobody waits for after d.
func (n *network) later(d time.Duration, o op, r *request) {
	n.late.After(d, lateRequest{o, r}, func(l lateRequest) {
		n.shown.Add(didLate)
		n.trace.Add(l.op.member, "lands late: %v", l.op)
		_ = n.land(context.Background(), l.op, l.r) // Nobody waits for it.
	})
}

// request is a call that can be performed again.
type request struct {
	*storagetest.Call
	body  []byte // Of a PUT.
	again func(context.Context) error
}

// land hands a request to the store.
func (n *network) land(ctx context.Context, o op, r *request) error {
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
	switch o.method {
	case http.MethodPut:
		n.ledger.landed(o.key, r.body)
		if strings.Contains(o.key, "/seg/") {
			n.shown.Add(didSegment)
		}
	case http.MethodDelete:
		n.ledger.wasDeleted(o.key)
		n.swept(o)
	}
	return nil
}

// link is the network as one process sees it.
type link struct {
	net    *network
	member string

	mu       sync.Mutex
	attempts map[op]int
	dead     bool
	resume   chan struct{} // non-nil while paused
	watched  map[moment]chan struct{}
}

// moment is a landing at which a disturbance does most harm: the store has it,
// and the node does not know yet.
type moment int

const (
	anyTime moment = iota
	claimLands
	batchLands
	journalLands
	receiptSeen // a client has a receipt; struck by Journals alone, as what follows
	sweepReads  // the journal of another is read, and nobody is asked yet
	moments
)

func (m moment) String() string {
	return [moments]string{"any time", "claim lands", "batch lands", "journal lands", "receipt seen", "sweep reads"}[m]
}

// moments is how many a profile strikes.
func (p Profile) moments() moment {
	if p == Journals {
		return moments
	}
	return journalLands + 1
}

// next returns a channel that is closed when the moment comes.
func (l *link) next(m moment) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[m] == nil {
		l.watched[m] = make(chan struct{})
	}
	return l.watched[m]
}

func (l *link) came(ms ...moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range ms {
		if c := l.watched[m]; c != nil {
			close(c)
			delete(l.watched, m)
		}
	}
}

func (n *network) link(member string) *link {
	return &link{net: n, member: member, attempts: map[op]int{}, watched: map[moment]chan struct{}{}}
}

// kill fails every request from now on.
func (l *link) kill() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.pause(false)
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// pause holds up every request and every answer, or lets them go again.
func (l *link) pause(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && l.resume == nil && !l.dead:
		l.resume = make(chan struct{})
	case !on && l.resume != nil:
		close(l.resume)
		l.resume = nil
	}
}

// pass waits until the process runs. What a pause has held up goes on one by one.
func (l *link) pass(ctx context.Context, o op) error {
	held := false
	for {
		l.mu.Lock()
		dead, resume := l.dead, l.resume
		l.mu.Unlock()
		switch {
		case dead:
			return errDead
		case resume == nil && held:
			held = false
			if err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(l.net.seed, "held up", o.id()), 0, tremble)); err != nil {
				return err
			}
			continue
		case resume == nil:
			return ctx.Err()
		}
		select {
		case <-resume:
			held = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// carry carries a request of the process.
func (l *link) carry(ctx context.Context, c *storagetest.Call) error {
	r, err := repeatable(c)
	if err == nil {
		err = begin(ctx)
	}
	if err != nil {
		return c.Unanswered(err)
	}
	o := l.count(ctx, c)
	if err := l.pass(ctx, o); err != nil {
		return c.Unanswered(err)
	}
	if l.net.deadly(o) {
		l.kill()
		return c.Unanswered(errDead)
	}
	way := l.net.course(o)
	if o.method == http.MethodPut {
		l.net.ledger.sent(l.member, o.key, r.body)
	}
	heard, lost := l.send(ctx, o, way, r)
	if lost == nil {
		lost = l.wait(ctx, o, way.back)
	}
	if lost != nil {
		return c.Unanswered(lost)
	}
	if o.method == http.MethodPut && (heard == nil || errors.Is(heard, storage.ErrExists)) {
		l.net.ledger.answered(r.body)
	}
	return heard
}

// send performs a request under its fate. Heard is what the store answers, lost why no
// answer comes.
func (l *link) send(ctx context.Context, o op, c course, r *request) (heard, lost error) {
	switch c.fate {
	case schedule.Delayed:
		l.net.later(c.late, o, r)
		if err := l.wait(ctx, o, c.there); err != nil {
			return nil, err
		}
		return nil, timeoutError{}
	case schedule.Dropped:
		return nil, cmp.Or(l.wait(ctx, o, time.Hour), error(timeoutError{}))
	case schedule.ErrorBefore:
		return r.Answered(http.StatusServiceUnavailable, "SlowDown", nil), l.wait(ctx, o, c.there)
	}
	began := time.Now()
	if err := l.wait(ctx, o, c.there); err != nil {
		if left := c.there - time.Since(began); o.writes() {
			l.net.later(max(left, 0), o, r) // It left the process; nobody calls it back.
		}
		return nil, err
	}
	answer := l.net.land(ctx, o, r)
	if o.method == http.MethodPut {
		l.came(l.net.ledger.moments(o.key, r.body)...)
	}
	if o.method == http.MethodGet && strings.HasPrefix(o.key, journalRoot) {
		l.came(sweepReads)
	}
	switch c.fate {
	case schedule.Duplicated:
		l.net.later(c.late, o, r)
	case schedule.LostAnswer:
		return nil, errReset
	case schedule.ErrorAfter:
		return r.Answered(http.StatusInternalServerError, "InternalError", nil), nil
	}
	return answer, nil
}

// wait lets time pass for this process.
func (l *link) wait(ctx context.Context, o op, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return l.pass(ctx, o)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) count(ctx context.Context, c *storagetest.Call) op {
	o := op{member: l.member, method: c.Method, key: c.Key, after: strings.TrimPrefix(c.After, c.Key), caller: callerOf(ctx)}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.attempts[o]
	l.attempts[o]++
	o.attempt = n
	return o
}

func repeatable(c *storagetest.Call) (*request, error) {
	body, err := c.Body()
	if err != nil {
		return nil, err
	}
	again, err := c.Later()
	return &request{c, body, again}, err
}
