package logsim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

var errReset = errors.New("simulated: connection reset")

// request is one request for an object of the log.
type request struct{ verb, key, after string }

func (r request) writes() bool { return r.verb == "create" || r.verb == "put" || r.verb == "delete" }

func (r request) fail(kind, err error) error {
	return &storage.Error{Op: r.verb, Key: r.key, Kind: kind, Err: err}
}

// lost is what a process gets that hears nothing of its request.
func (r request) lost(err error) error {
	if r.writes() {
		return r.fail(storage.ErrUncertain, err)
	}
	return r.fail(storage.ErrUnavailable, err)
}

// network carries the requests of all processes of a log to the bucket. It stands at the
// seam of package storage, below which everything answers at once.
type network struct {
	seed   uint64
	store  storage.Bucket
	folder string // of the conversation
	trace  *schedule.Trace
	shown  *schedule.Tally
	stale  float64 // share of LISTs that hide what is new
	rate   float64 // share of requests that something happens to
	pauses float64 // share of requests at which the process stands still

	late schedule.Late[lateWrite]

	mu   sync.Mutex
	born map[string]int // how many creates had landed when a key was created
	gone map[string]bool
	now  int
}

// lateWrite is under way although nobody waits for it.
type lateWrite struct {
	req  request
	who  string
	land func() error
}

// course is what happens to one request.
type course struct {
	fate               schedule.Fate
	there, back, late  time.Duration // no time if it is negative
	before, afterwards time.Duration // how long the process stands still before it is sent, and before it is answered
	anyway             bool          // it is sent although its sender has given up meanwhile
	conflict           bool          // what never lands is answered as a conflict
}

func (n *network) course(d *schedule.Dice, r request) course {
	c := course{
		there: d.Between(time.Millisecond, 40*time.Millisecond), back: d.Between(-40*time.Millisecond, 40*time.Millisecond),
		late: d.Between(0, 10*time.Second), anyway: d.Uint64()%2 == 0, conflict: d.Uint64()%2 == 0 && r.verb == "create",
	}
	if d.Uint64()%3 == 0 {
		c.late = d.Between(0, time.Minute)
	}
	if d.Share() < n.rate {
		c.fate = schedule.Fault(d.Uint64())
		if c.fate == schedule.Slow {
			c.there = d.Between(500*time.Millisecond, 6*time.Second)
		}
	}
	if !r.writes() {
		c.fate = c.fate.Reads()
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

// heal ends the faults once no process asks for anything. What is still under way lands
// now, or never.
func (n *network) heal() {
	land := n.late.Stop()
	slices.SortFunc(land, func(a, b lateWrite) int {
		return cmp.Or(strings.Compare(a.req.key, b.req.key), strings.Compare(a.who, b.who), strings.Compare(a.req.verb, b.req.verb))
	})
	for i, l := range land {
		if schedule.DiceOf(n.seed, i, "drop").Uint64()%3 > 0 {
			n.trace.Add(l.who, "lands at the end: %s %s: %v", l.req.verb, n.short(l.req.key), outcome{l.land()})
		}
	}
}

// later lands a request nobody waits for.
func (n *network) later(d time.Duration, who string, r request, land func() error) {
	n.late.After(d, lateWrite{r, who, land}, func(l lateWrite) {
		n.shown.Add(didLate)
		n.trace.Add(l.who, "lands late: %s %s: %v", l.req.verb, n.short(l.req.key), outcome{l.land()})
	})
}

func (n *network) short(key string) string { return strings.TrimPrefix(key, n.folder) }

// created notes that a key was taken.
func (n *network) created(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now++
	n.born[key] = n.now
	if n.gone[key] {
		n.shown.Add(didOrphan)
		n.trace.Add("", "taken again: %s", n.short(key))
	}
	first, last, ok := segmentSpan(n.short(key))
	if !ok {
		return
	}
	n.shown.Add(didSegment)
	for other := range n.born {
		if a, b, ok := segmentSpan(n.short(other)); ok && other != key && first <= a && b <= last {
			n.shown.Add(didMerge)
			return
		}
	}
}

// segmentSpan returns the batches of a segment by its key, as short returns it.
func segmentSpan(key string) (first, last int64, ok bool) {
	name, ok := strings.CutPrefix(key, "seg/")
	if !ok {
		return 0, 0, false
	}
	a, b, _ := strings.Cut(name, "-")
	last, errA := strconv.ParseInt(a, 10, 64)
	first, errB := strconv.ParseInt(b, 10, 64)
	return first, last, errA == nil && errB == nil
}

func (n *network) deleted(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, was := n.born[key]; was {
		delete(n.born, key)
		n.gone[key] = true
		n.shown.Add(didDelete)
	}
}

// hide takes what is new from a page, as a LIST does that is not consistent.
func (n *network) hide(d *schedule.Dice, page storage.ListPage) storage.ListPage {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stale == 0 || d.Share() >= n.stale || n.now == 0 {
		return page
	}
	known := int(d.Uint64() % uint64(n.now+1))
	page.Keys = slices.DeleteFunc(page.Keys, func(k storage.ListedKey) bool { return n.born[k.Key] > known })
	page.More = page.More && len(page.Keys) > 0
	return page
}

// link is the bucket as one process sees it.
type link struct {
	net *network
	who string

	mu       sync.Mutex
	attempts map[request]int
	writes   int
}

var _ storage.Bucket = (*link)(nil)

func (n *network) link(who string) *link {
	return &link{net: n, who: who, attempts: map[request]int{}}
}

// sent returns how many writes have left the process.
func (l *link) sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// do performs a request under its fate.
func (l *link) do(ctx context.Context, r request, land func(*schedule.Dice) error) error {
	l.mu.Lock()
	attempt := l.attempts[r]
	l.attempts[r]++
	l.mu.Unlock()
	d := schedule.DiceOf(l.net.seed, attempt, l.who, r.verb, r.key, r.after)
	c := l.net.course(d, r)
	err := l.send(ctx, r, c, func() error { return land(d) })
	l.net.trace.Add(l.who, "%s %s%s #%d %v %v: %v", r.verb, l.net.short(r.key), l.net.short(r.after), attempt, c.fate, max(c.before, -c.afterwards), outcome{err})
	return err
}

func (l *link) unsent(r request, err error) error {
	if r.writes() {
		return r.fail(nil, err)
	}
	return r.fail(storage.ErrUnavailable, err)
}

// outcome is an error in few words.
type outcome struct{ err error }

func (o outcome) String() string {
	switch e, _ := o.err.(*storage.Error); {
	case o.err == nil:
		return "done"
	case e != nil && e.Kind != nil:
		return e.Kind.Error()
	case e != nil:
		return "not sent"
	}
	return o.err.Error()
}

func (l *link) send(ctx context.Context, r request, c course, land func() error) error {
	if c.before > 0 {
		l.net.shown.Add(didPause)
		time.Sleep(c.before) // Its clocks stand still, too: nothing ends this.
		if err := ctx.Err(); err != nil && !c.anyway {
			return l.unsent(r, err)
		}
	} else if err := ctx.Err(); err != nil {
		return l.unsent(r, err)
	}
	if r.writes() {
		l.mu.Lock()
		l.writes++
		l.mu.Unlock()
	}
	if c.fate != schedule.Delivered {
		l.net.shown.Add(didFault + schedule.Deed(c.fate.String()))
	}
	switch c.fate {
	case schedule.Delayed:
		l.net.later(c.late, l.who, r, land)
		schedule.Sleep(ctx, c.there)
		return r.lost(errReset)
	case schedule.Dropped:
		return r.lost(schedule.Sleep(ctx, 20*time.Second))
	case schedule.ErrorBefore:
		schedule.Sleep(ctx, c.there)
		if c.conflict {
			return r.fail(storage.ErrConflict, nil)
		}
		return r.lost(errReset)
	}
	began := time.Now()
	if err := schedule.Sleep(ctx, c.there); err != nil {
		if r.writes() {
			l.net.later(max(c.there-time.Since(began), 1), l.who, r, land) // It left the process; nobody calls it back.
		}
		return r.lost(err)
	}
	err := land()
	if c.afterwards > 0 {
		l.net.shown.Add(didPause)
		time.Sleep(c.afterwards)
	}
	switch c.fate {
	case schedule.Duplicated:
		l.net.later(c.late, l.who, r, land)
	case schedule.LostAnswer, schedule.ErrorAfter:
		return r.lost(errReset)
	}
	if c.back > 0 {
		if gone := schedule.Sleep(ctx, c.back); gone != nil {
			return r.lost(gone)
		}
	}
	return err
}

// Create implements storage.Bucket.
func (l *link) Create(ctx context.Context, key string, body storage.Body) error {
	data, err := contentOf(body)
	if err != nil {
		return err
	}
	return l.do(ctx, request{verb: "create", key: key}, func(*schedule.Dice) error {
		err := l.net.store.Create(context.WithoutCancel(ctx), key, storage.Bytes(data))
		if err == nil {
			l.net.created(key)
		}
		return err
	})
}

// Put implements storage.Bucket.
func (l *link) Put(ctx context.Context, key string, body storage.Body) error {
	data, err := contentOf(body)
	if err != nil {
		return err
	}
	return l.do(ctx, request{verb: "put", key: key}, func(*schedule.Dice) error {
		return l.net.store.Put(context.WithoutCancel(ctx), key, storage.Bytes(data))
	})
}

// Delete implements storage.Bucket.
func (l *link) Delete(ctx context.Context, key string) error {
	return l.do(ctx, request{verb: "delete", key: key}, func(*schedule.Dice) error {
		err := l.net.store.Delete(context.WithoutCancel(ctx), key)
		if err == nil {
			l.net.deleted(key)
		}
		return err
	})
}

// Get implements storage.Bucket.
func (l *link) Get(ctx context.Context, key string) (data []byte, err error) {
	err = l.do(ctx, request{verb: "get", key: key}, func(*schedule.Dice) (err error) {
		data, err = l.net.store.Get(context.WithoutCancel(ctx), key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Unwrap returns the bucket that the requests are carried to.
func (l *link) Unwrap() storage.Bucket { return l.net.store }

// GetRange implements storage.Bucket.
func (l *link) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	err = l.do(ctx, request{verb: "range", key: key}, func(*schedule.Dice) (err error) {
		data, err = l.net.store.GetRange(context.WithoutCancel(ctx), key, offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Open implements storage.Bucket. The content is under way with the answer.
func (l *link) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	data, err := l.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
}

// List implements storage.Bucket.
func (l *link) List(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	err = l.do(ctx, request{verb: "list", key: q.Prefix, after: strings.TrimPrefix(q.After, q.Prefix)}, func(d *schedule.Dice) (err error) {
		page, err = l.net.store.List(context.WithoutCancel(ctx), q)
		page = l.net.hide(d, page)
		return err
	})
	if err != nil {
		return storage.ListPage{}, err
	}
	return page, nil
}

func contentOf(body storage.Body) ([]byte, error) {
	data := make([]byte, body.Size)
	_, err := io.ReadFull(body.Reader, data)
	return data, err
}
