package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/storage"
)

// dice are as many draws as one asks for.
type dice uint64

// Uint64 returns the next draw.
func (d *dice) Uint64() uint64 {
	*d += 0x9e3779b97f4a7c15
	x := uint64(*d)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (d *dice) share() float64 { return share(d.Uint64()) }

func (d *dice) between(from, to time.Duration) time.Duration { return between(d.Uint64(), from, to) }

// diceOf returns dice that depend on their arguments only.
func diceOf(seed uint64, n int, names ...string) *dice {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seed), uint64(n)))
	for _, name := range names {
		io.WriteString(h, name)
		h.Write([]byte{0})
	}
	d := dice(h.Sum64())
	return &d
}

// logRequest is one request for an object of the log.
type logRequest struct{ verb, key, after string }

func (r logRequest) writes() bool { return r.verb == "create" || r.verb == "put" || r.verb == "delete" }

func (r logRequest) fail(kind, err error) error {
	return &storage.Error{Op: r.verb, Key: r.key, Kind: kind, Err: err}
}

// lost is what a process gets that hears nothing of its request.
func (r logRequest) lost(err error) error {
	if r.writes() {
		return r.fail(storage.ErrUncertain, err)
	}
	return r.fail(storage.ErrUnavailable, err)
}

// logNet carries the requests of all processes of a log to the bucket. It stands at the
// seam of package storage, below which everything answers at once.
type logNet struct {
	seed   uint64
	store  storage.Bucket
	folder string // of the conversation
	trace  *trace
	shown  *tally
	stale  float64 // share of LISTs that hide what is new
	rate   float64 // share of requests that something happens to
	pauses float64 // share of requests at which the process stands still

	mu   sync.Mutex
	late map[*lateWrite]struct{}
	born map[string]int // how many creates had landed when a key was created
	gone map[string]bool
	now  int
}

// lateWrite is under way although nobody waits for it.
type lateWrite struct {
	req   logRequest
	who   string
	land  func() error
	timer *time.Timer
}

// logCourse is what happens to one request.
type logCourse struct {
	fate               fate
	there, back, late  time.Duration // no time if it is negative
	before, afterwards time.Duration // how long the process stands still before it is sent, and before it is answered
	anyway             bool          // it is sent although its sender has given up meanwhile
	conflict           bool          // what never lands is answered as a conflict
}

func (n *logNet) course(d *dice, r logRequest) logCourse {
	c := logCourse{
		there: d.between(time.Millisecond, 40*time.Millisecond), back: d.between(-40*time.Millisecond, 40*time.Millisecond),
		late: d.between(0, 10*time.Second), anyway: d.Uint64()%2 == 0, conflict: d.Uint64()%2 == 0 && r.verb == "create",
	}
	if d.Uint64()%3 == 0 {
		c.late = d.between(0, time.Minute)
	}
	if d.share() < n.rate {
		c.fate = 1 + fate(d.Uint64()%uint64(fates-1))
		if c.fate == slow {
			c.there = d.between(500*time.Millisecond, 6*time.Second)
		}
	}
	if !r.writes() {
		c.fate = c.fate.reads()
	}
	if d.share() < n.pauses {
		stop := d.between(100*time.Millisecond, 25*time.Second)
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
func (n *logNet) heal() {
	n.mu.Lock()
	var land []*lateWrite
	for l := range n.late {
		if l.timer.Stop() {
			land = append(land, l)
		}
	}
	clear(n.late)
	n.mu.Unlock()
	slices.SortFunc(land, func(a, b *lateWrite) int {
		return cmp.Or(strings.Compare(a.req.key, b.req.key), strings.Compare(a.who, b.who), strings.Compare(a.req.verb, b.req.verb))
	})
	for i, l := range land {
		if diceOf(n.seed, i, "drop").Uint64()%3 > 0 {
			n.trace.add(l.who, "lands at the end: %s %s: %v", l.req.verb, n.short(l.req.key), outcome{l.land()})
		}
	}
}

// later lands a request nobody waits for.
func (n *logNet) later(d time.Duration, who string, r logRequest, land func() error) {
	l := &lateWrite{req: r, who: who, land: land}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.late[l] = struct{}{}
	l.timer = time.AfterFunc(d, func() {
		n.mu.Lock()
		delete(n.late, l)
		n.mu.Unlock()
		n.shown.add(didLate)
		n.trace.add(who, "lands late: %s %s: %v", r.verb, n.short(r.key), outcome{l.land()})
	})
}

func (n *logNet) short(key string) string { return strings.TrimPrefix(key, n.folder) }

// created notes that a key was taken.
func (n *logNet) created(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now++
	n.born[key] = n.now
	if n.gone[key] {
		n.shown.add(didOrphan)
		n.trace.add("", "taken again: %s", n.short(key))
	}
	first, last, ok := segmentSpan(n.short(key))
	if !ok {
		return
	}
	n.shown.add(didSegment)
	for other := range n.born {
		if a, b, ok := segmentSpan(n.short(other)); ok && other != key && first <= a && b <= last {
			n.shown.add(didMerge)
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

func (n *logNet) deleted(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, was := n.born[key]; was {
		delete(n.born, key)
		n.gone[key] = true
		n.shown.add(didDelete)
	}
}

// hide takes what is new from a page, as a LIST does that is not consistent.
func (n *logNet) hide(d *dice, page storage.ListPage) storage.ListPage {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stale == 0 || d.share() >= n.stale || n.now == 0 {
		return page
	}
	known := int(d.Uint64() % uint64(n.now+1))
	page.Keys = slices.DeleteFunc(page.Keys, func(k storage.ListedKey) bool { return n.born[k.Key] > known })
	page.More = page.More && len(page.Keys) > 0
	return page
}

// logLink is the bucket as one process sees it.
type logLink struct {
	net *logNet
	who string

	mu       sync.Mutex
	attempts map[logRequest]int
	writes   int
}

var _ storage.Bucket = (*logLink)(nil)

func (n *logNet) link(who string) *logLink {
	return &logLink{net: n, who: who, attempts: map[logRequest]int{}}
}

// sent returns how many writes have left the process.
func (l *logLink) sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// do performs a request under its fate.
func (l *logLink) do(ctx context.Context, r logRequest, land func(*dice) error) error {
	l.mu.Lock()
	attempt := l.attempts[r]
	l.attempts[r]++
	l.mu.Unlock()
	d := diceOf(l.net.seed, attempt, l.who, r.verb, r.key, r.after)
	c := l.net.course(d, r)
	err := l.send(ctx, r, c, func() error { return land(d) })
	l.net.trace.add(l.who, "%s %s%s #%d %v %v: %v", r.verb, l.net.short(r.key), l.net.short(r.after), attempt, c.fate, max(c.before, -c.afterwards), outcome{err})
	return err
}

func (l *logLink) unsent(r logRequest, err error) error {
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

func (l *logLink) send(ctx context.Context, r logRequest, c logCourse, land func() error) error {
	if c.before > 0 {
		l.net.shown.add(didPause)
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
	if c.fate != delivered {
		l.net.shown.add(didFault + deed(c.fate.String()))
	}
	switch c.fate {
	case delayed:
		l.net.later(c.late, l.who, r, land)
		sleep(ctx, c.there)
		return r.lost(errReset)
	case dropped:
		return r.lost(sleep(ctx, 20*time.Second))
	case errorBefore:
		sleep(ctx, c.there)
		if c.conflict {
			return r.fail(storage.ErrConflict, nil)
		}
		return r.lost(errReset)
	}
	began := time.Now()
	if err := sleep(ctx, c.there); err != nil {
		if r.writes() {
			l.net.later(max(c.there-time.Since(began), 1), l.who, r, land) // It left the process; nobody calls it back.
		}
		return r.lost(err)
	}
	err := land()
	if c.afterwards > 0 {
		l.net.shown.add(didPause)
		time.Sleep(c.afterwards)
	}
	switch c.fate {
	case duplicated:
		l.net.later(c.late, l.who, r, land)
	case lostAnswer, errorAfter:
		return r.lost(errReset)
	}
	if c.back > 0 {
		if gone := sleep(ctx, c.back); gone != nil {
			return r.lost(gone)
		}
	}
	return err
}

// Create implements storage.Bucket.
func (l *logLink) Create(ctx context.Context, key string, body storage.Body) error {
	data, err := contentOf(body)
	if err != nil {
		return err
	}
	return l.do(ctx, logRequest{verb: "create", key: key}, func(*dice) error {
		err := l.net.store.Create(context.WithoutCancel(ctx), key, storage.Bytes(data))
		if err == nil {
			l.net.created(key)
		}
		return err
	})
}

// Put implements storage.Bucket.
func (l *logLink) Put(ctx context.Context, key string, body storage.Body) error {
	data, err := contentOf(body)
	if err != nil {
		return err
	}
	return l.do(ctx, logRequest{verb: "put", key: key}, func(*dice) error {
		return l.net.store.Put(context.WithoutCancel(ctx), key, storage.Bytes(data))
	})
}

// Delete implements storage.Bucket.
func (l *logLink) Delete(ctx context.Context, key string) error {
	return l.do(ctx, logRequest{verb: "delete", key: key}, func(*dice) error {
		err := l.net.store.Delete(context.WithoutCancel(ctx), key)
		if err == nil {
			l.net.deleted(key)
		}
		return err
	})
}

// Get implements storage.Bucket.
func (l *logLink) Get(ctx context.Context, key string) (data []byte, err error) {
	err = l.do(ctx, logRequest{verb: "get", key: key}, func(*dice) (err error) {
		data, err = l.net.store.Get(context.WithoutCancel(ctx), key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// GetRange implements storage.Bucket.
func (l *logLink) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	err = l.do(ctx, logRequest{verb: "range", key: key}, func(*dice) (err error) {
		data, err = l.net.store.GetRange(context.WithoutCancel(ctx), key, offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Open implements storage.Bucket. The content is under way with the answer.
func (l *logLink) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	data, err := l.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
}

// List implements storage.Bucket.
func (l *logLink) List(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	err = l.do(ctx, logRequest{verb: "list", key: q.Prefix, after: strings.TrimPrefix(q.After, q.Prefix)}, func(d *dice) (err error) {
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
