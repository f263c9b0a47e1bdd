package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
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
	store   http.RoundTripper
	ledger  *ledger
	trace   *schedule.Trace

	shown *schedule.Tally
	// cacheRead is called for every answer to a read of a shortcut.
	cacheRead func(key string, status int, body []byte)
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
		seed: w.seed, profile: w.profile, rate: rate, store: w.opts.Store, ledger: w.ledger, trace: w.trace, shown: w.shown,
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
			n.land(context.Background(), l.op, l.r).discard()
		}
	}
}

// later lands a request nobody waits for after d.
func (n *network) later(d time.Duration, o op, r *request) {
	n.late.After(d, lateRequest{o, r}, func(l lateRequest) {
		n.shown.Add(didLate)
		n.trace.Add(l.op.member, "lands late: %v", l.op)
		n.land(context.Background(), l.op, l.r).discard()
	})
}

// request is an HTTP request whose body can be sent again.
type request struct {
	*http.Request
	body []byte
}

// reply is what the store answers.
type reply struct {
	resp *http.Response
	err  error
}

func (r reply) discard() {
	if r.err == nil {
		io.Copy(io.Discard, r.resp.Body)
		r.resp.Body.Close()
	}
}

// land hands a request to the store.
func (n *network) land(ctx context.Context, o op, r *request) reply {
	req := r.Clone(context.WithoutCancel(ctx))
	if r.body != nil {
		req.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	if o.writes() {
		n.landing.Lock()
		defer n.landing.Unlock()
	}
	resp, err := n.store.RoundTrip(req)
	if err == nil && o.method == http.MethodPut && resp.StatusCode/100 == 2 {
		n.ledger.landed(o.key, r.body)
	}
	if err == nil && o.method == http.MethodDelete && resp.StatusCode/100 == 2 {
		n.ledger.wasDeleted(o.key)
		n.swept(o)
	}
	if err == nil && o.method == http.MethodPut && resp.StatusCode/100 == 2 && strings.Contains(o.key, "/seg/") {
		n.shown.Add(didSegment)
	}
	if err == nil && o.method == http.MethodGet && cached(o.key) {
		body, readErr := io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		n.cacheRead(o.key, resp.StatusCode, body)
		err = readErr
	}
	return reply{resp, err}
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
	receiptTold // a client has a receipt; struck by Journals alone, as what follows
	sweepReads  // the journal of another is read, and nobody is asked yet
	moments
)

func (m moment) String() string {
	return [moments]string{"any time", "claim lands", "batch lands", "journal lands", "receipt told", "sweep reads"}[m]
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

// RoundTrip implements http.RoundTripper.
func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	r, err := buffered(req)
	if err != nil {
		return nil, err
	}
	if err := begin(req.Context()); err != nil {
		return nil, err
	}
	o := l.count(req)
	if err := l.pass(req.Context(), o); err != nil {
		return nil, err
	}
	if l.net.deadly(o) {
		l.kill()
		return nil, errDead
	}
	c := l.net.course(o)
	if o.method == http.MethodPut {
		l.net.ledger.sent(l.member, o.key, r.body)
	}
	answer, err := l.send(req.Context(), o, c, r)
	if err != nil {
		return nil, err
	}
	if err := l.wait(req.Context(), o, c.back); err != nil {
		answer.discard()
		return nil, err
	}
	if answer.err == nil && o.method == http.MethodPut {
		l.net.ledger.answered(r.body, answer.resp.StatusCode)
	}
	return answer.resp, answer.err
}

// send performs a request under its fate.
func (l *link) send(ctx context.Context, o op, c course, r *request) (reply, error) {
	switch c.fate {
	case schedule.Delayed:
		l.net.later(c.late, o, r)
		if err := l.wait(ctx, o, c.there); err != nil {
			return reply{}, err
		}
		return reply{}, timeoutError{}
	case schedule.Dropped:
		return reply{}, l.wait(ctx, o, time.Hour)
	case schedule.ErrorBefore:
		return failure(r.Request, http.StatusServiceUnavailable, "SlowDown"), l.wait(ctx, o, c.there)
	}
	began := time.Now()
	if err := l.wait(ctx, o, c.there); err != nil {
		if left := c.there - time.Since(began); o.writes() {
			l.net.later(max(left, 0), o, r) // It left the process; nobody calls it back.
		}
		return reply{}, err
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
		answer.discard()
		return reply{}, errReset
	case schedule.ErrorAfter:
		answer.discard()
		return failure(r.Request, http.StatusInternalServerError, "InternalError"), nil
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

func (l *link) count(req *http.Request) op {
	o := op{member: l.member, method: req.Method, caller: callerOf(req.Context())}
	q := req.URL.Query()
	_, o.key, _ = strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	if o.key == "" && req.Method == http.MethodGet {
		o.method, o.key = "LIST", q.Get("prefix")
		o.after = strings.TrimPrefix(q.Get("start-after"), o.key)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.attempts[o]
	l.attempts[o]++
	o.attempt = n
	return o
}

func buffered(req *http.Request) (*request, error) {
	r := &request{Request: req}
	if req.Body == nil || req.Body == http.NoBody {
		return r, nil
	}
	var err error
	r.body, err = io.ReadAll(req.Body)
	req.Body.Close()
	return r, err
}

func failure(req *http.Request, status int, code string) reply {
	body := "<Error><Code>" + code + "</Code><Message>simulated</Message></Error>"
	return reply{resp: &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/xml"}},
		Body:   io.NopCloser(strings.NewReader(body)),
	}}
}
