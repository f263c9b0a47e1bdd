package logsim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

var errReset = errors.New("simulated: connection reset")

// request identifies a request of a process, except for its attempts.
type request struct{ verb, key, after string }

func (r request) writes() bool {
	return r.verb == storage.OpCreate || r.verb == storage.OpPut || r.verb == storage.OpDelete
}

// network carries the requests of all processes of a log to the bucket. It implements the faults above
// a bucket that answers at once.
type network struct {
	seed   uint64
	store  storage.Bucket
	folder string // folder of the conversation
	trace  *schedule.Trace
	stale  float64 // share of LISTs that hide new objects
	rate   float64 // share of requests with a fault
	pauses float64 // share of requests at which the process pauses
	late   schedule.Late

	mu   sync.Mutex
	born map[string]int // number of creates before each key was created
	gone map[string]bool
	now  int
}

// course describes the fault of one request.
type course struct {
	outcome            schedule.Outcome
	there, back, late  time.Duration // none if negative
	before, afterwards time.Duration // pause of the process before the request and before its answer
	anyway             bool          // it is sent although its sender has left
	conflict           bool          // a request that never lands is answered as a conflict
}

func (n *network) course(d *schedule.Dice, r request) course {
	c := course{
		outcome: schedule.Delivered,
		there:   d.Between(time.Millisecond, 40*time.Millisecond), back: d.Between(-40*time.Millisecond, 40*time.Millisecond),
		late: d.Between(0, 10*time.Second), anyway: d.Uint64()%2 == 0, conflict: d.Uint64()%2 == 0 && r.verb == storage.OpCreate,
	}
	if d.Uint64()%3 == 0 {
		c.late = d.Between(0, time.Minute)
	}
	if d.Share() < n.rate {
		c.outcome = schedule.Fault(d.Uint64())
		if c.outcome == schedule.Slow {
			c.there = d.Between(500*time.Millisecond, 6*time.Second)
		}
	}
	if !r.writes() {
		c.outcome = c.outcome.Reads()
	}
	if d.Share() < n.pauses {
		stop := d.Between(100*time.Millisecond, 25*time.Second)
		if d.Uint64()%3 == 0 {
			c.afterwards = stop
		} else {
			c.before = stop
		}
	}
	return c
}

// heal ends the faults after the last request of the processes. Requests in transit land now or never.
func (n *network) heal() {
	n.late.Stop(func(i int, _ string) bool { return schedule.DiceOf(n.seed, i, "drop").Uint64()%3 == 0 })
}

func (n *network) short(key string) string { return strings.TrimPrefix(key, n.folder) }

// created records that a key was taken.
func (n *network) created(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now++
	n.born[key] = n.now
	if n.gone[key] {
		n.trace.Did("key taken again")
		n.trace.Add("", "taken again: %s", n.short(key))
	}
	seg, err := storage.ParseKey(key)
	if err != nil || seg.Kind != storage.KindSegment {
		return
	}
	n.trace.Did("segment")
	for other := range n.born {
		if o, err := storage.ParseKey(other); err == nil && o.Kind == seg.Kind && o != seg && seg.First <= o.First && o.Last <= seg.Last {
			n.trace.Did("segments merged")
			return
		}
	}
}

func (n *network) deleted(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, was := n.born[key]; was {
		delete(n.born, key)
		n.gone[key] = true
		n.trace.Did("batch deleted")
	}
}

// staleBucket hides new objects from some pages, like an inconsistent LIST.
type staleBucket struct {
	storage.Bucket
	net    *network
	sender string
	lists  schedule.Counter[storage.ListQuery]
}

// Unwrap returns the underlying bucket.
func (b *staleBucket) Unwrap() storage.Bucket { return b.Bucket }

// List implements storage.Bucket.
func (b *staleBucket) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	page, err := b.Bucket.List(ctx, q)
	d := schedule.DiceOf(b.net.seed, b.lists.Next(q), "stale", b.sender, q.Prefix, q.After)
	b.net.mu.Lock()
	defer b.net.mu.Unlock()
	if d.Share() >= b.net.stale || b.net.now == 0 {
		return page, err
	}
	known := int(d.Uint64() % uint64(b.net.now+1))
	page.Keys = slices.DeleteFunc(page.Keys, func(k storage.ListedKey) bool { return b.net.born[k.Key] > known })
	page.More = page.More && len(page.Keys) > 0
	return page, err
}

// link is one process's connection to the network.
type link struct {
	net      *network
	sender   string
	attempts schedule.Counter[request]
	writes   atomic.Int64 // writes sent by the process
}

// bucket returns the bucket of the process.
func (l *link) bucket() storage.Bucket {
	b := l.net.store
	if l.net.stale > 0 {
		b = &staleBucket{Bucket: b, net: l.net, sender: l.sender}
	}
	return storagetest.ThroughAlways(b, l.carry)
}

// carry performs a request with its fault.
func (l *link) carry(ctx context.Context, call *storagetest.Call) error {
	r := request{call.Verb, call.Key, strings.TrimPrefix(call.After, call.Key)}
	switch {
	case call.Ranged:
		r.verb = "range"
	case r.verb == storage.OpOpen: // The content is sent with the answer.
		r.verb = storage.OpGet
	}
	attempt := l.attempts.Next(r)
	c := l.net.course(schedule.DiceOf(l.net.seed, attempt, l.sender, r.verb, r.key, r.after), r)
	err := l.send(ctx, call, r, c)
	l.net.trace.Add(l.sender, "%s %s%s #%d %v %v: %v", r.verb, l.net.short(r.key), l.net.short(r.after), attempt, c.outcome, max(c.before, -c.afterwards), ending(err))
	return err
}

// send performs a request along its course.
func (l *link) send(ctx context.Context, call *storagetest.Call, r request, c course) error {
	l.standStill(c.before)
	if err := ctx.Err(); err != nil && (c.before == 0 || !c.anyway) {
		if r.writes() {
			return &storage.Error{Op: r.verb, Key: r.key, Err: err}
		}
		return call.Unanswered(err)
	}
	again, err := call.Later()
	if err != nil {
		return err
	}
	if r.writes() {
		l.writes.Add(1)
	}
	land := func() error { return l.land(ctx, r, again) }
	later := func(d time.Duration) {
		l.net.late.After(d, &schedule.LateRequest{
			ID: r.key + "\x00" + l.sender + "\x00" + r.verb, Sender: l.sender, Description: r.verb + " " + l.net.short(r.key),
			Land: func() string { return ": " + ending(land()) },
		})
	}
	if c.outcome != schedule.Delivered {
		l.net.trace.Did("fault: " + schedule.Event(c.outcome))
	}
	switch c.outcome {
	case schedule.Delayed:
		later(c.late)
		schedule.Sleep(ctx, c.there)
		return call.Unanswered(errReset)
	case schedule.Dropped:
		return call.Unanswered(schedule.Sleep(ctx, 20*time.Second))
	case schedule.ErrorBefore:
		schedule.Sleep(ctx, c.there)
		if c.conflict {
			return &storage.Error{Op: r.verb, Key: r.key, Kind: storage.ErrConflict}
		}
		return call.Unanswered(errReset)
	}
	began := time.Now()
	if err := schedule.Sleep(ctx, c.there); err != nil {
		if r.writes() {
			later(max(c.there-time.Since(began), 1)) // It has left the process and cannot be revoked.
		}
		return call.Unanswered(err)
	}
	err = land()
	l.standStill(c.afterwards)
	switch c.outcome {
	case schedule.Duplicated:
		later(c.late)
	case schedule.LostAnswer, schedule.ErrorAfter:
		return call.Unanswered(errReset)
	}
	if c.back > 0 {
		if gone := schedule.Sleep(ctx, c.back); gone != nil {
			return call.Unanswered(gone)
		}
	}
	return err
}

// standStill pauses a process, including its clocks; nothing ends a pause early.
func (l *link) standStill(d time.Duration) {
	if d > 0 {
		l.net.trace.Did("process stood still")
		time.Sleep(d)
	}
}

// land passes a request to the bucket.
func (l *link) land(ctx context.Context, r request, again func(context.Context) error) error {
	err := again(context.WithoutCancel(ctx))
	switch {
	case err == nil && r.verb == storage.OpCreate:
		l.net.created(r.key)
	case err == nil && r.verb == storage.OpDelete:
		l.net.deleted(r.key)
	}
	return err
}
