package storagetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/storage"
)

// Kind is the fault of one request.
type Kind int

// Kinds of fault. For a read, LostAck, ErrorAfter and Delayed lose the answer; Duplicate and
// ForeignWinner have no effect.
const (
	None          Kind = iota
	LostAck            // It lands; the connection is reset before the answer.
	Delayed            // A timeout is returned; it lands later, see Plan.DelayRequests.
	Duplicate          // It lands and is answered; a copy lands later.
	ErrorBefore        // 503 SlowDown is returned; it never lands.
	ErrorAfter         // It lands; 500 InternalError is returned.
	Timeout            // A timeout is returned; it never lands.
	ForeignWinner      // Plan.ForeignWinner is called before it is sent.
	kinds
)

// String returns the name of the kind.
func (k Kind) String() string {
	names := [kinds]string{"none", "lost ack", "delayed", "duplicate", "error before", "error after", "timeout", "foreign winner"}
	return names[k]
}

// Op is one request as the plan sees it.
type Op struct {
	Method  string // GET, PUT, DELETE or LIST.
	Key     string // Object key, or the prefix of a LIST.
	Attempt int    // Number of earlier requests of this method and key, from 0.
}

func (o Op) writes() bool { return o.Method == http.MethodPut || o.Method == http.MethodDelete }

// Plan selects the faults of requests. The zero Plan injects nothing. Its functions are called
// sequentially with a lock held, so they must not block.
type Plan struct {
	// Seed determines the faults.
	Seed uint64
	// Rates is the share of requests for each kind, 0 to 1, in total at most 1.
	Rates map[Kind]float64
	// Match limits the rates to the requests it accepts. Nil accepts all.
	Match func(Op) bool
	// Decide replaces Rates and Match.
	Decide func(Op) Kind
	// DelayRequests is the number of further requests before a delayed one lands. 0 draws 1 to 16 from
	// the seed; a negative number waits for Release.
	DelayRequests int
	// Latency bounds the one-way time of a request and of its answer; both are drawn from the seed. A
	// context that ends in that time loses the request or the answer.
	Latency time.Duration
	// ForeignWinner is called before a PUT with this fault. It stores an object under the key through
	// another bucket.
	ForeignWinner func(key string)
	// Hold is called after every write that is not delayed, before its answer.
	Hold func(Op)
}

// InjectedError is the error of a request without an answer.
type InjectedError struct {
	Kind Kind
	Op   Op
}

// Error implements error.
func (e *InjectedError) Error() string {
	return fmt.Sprintf("injected: %s on %s %s, attempt %d", e.Kind, e.Op.Method, e.Op.Key, e.Op.Attempt)
}

// Timeout reports whether the request timed out rather than being reset.
func (e *InjectedError) Timeout() bool { return e.Kind == Timeout || e.Kind == Delayed }

// Temporary reports true; with Timeout it makes this a net.Error.
func (e *InjectedError) Temporary() bool { return true }

// FaultBucket is a bucket that injects the faults of a plan.
type FaultBucket struct {
	storage.Bucket

	mu       sync.Mutex
	plan     Plan
	attempts map[Op]int // By method and key; Attempt is 0.
	late     []*lateRequest
	injected map[Kind]int
}

type lateRequest struct {
	land func()
	left int // Requests before it lands; negative waits for Release.
}

// Unwrap returns the decorated bucket.
func (f *FaultBucket) Unwrap() storage.Bucket { return f.Bucket }

// Faulty returns b with the faults of plan.
func Faulty(b storage.Bucket, plan Plan) *FaultBucket {
	f := &FaultBucket{plan: plan, attempts: make(map[Op]int), injected: make(map[Kind]int)}
	f.Bucket = Through(b, f.carry)
	return f
}

// Release lands all delayed requests in the caller's goroutine and returns their number.
func (f *FaultBucket) Release() int {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, l := range late {
		l.land()
	}
	return len(late)
}

// Heal ends all faults and latency. Delayed requests stay delayed.
func (f *FaultBucket) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = Plan{}
}

// Injected returns the number of requests with each fault.
func (f *FaultBucket) Injected() map[Kind]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.injected)
}

// carry performs a call with its fault and the latency of the plan.
func (f *FaultBucket) carry(ctx context.Context, c *Call) error {
	op, kind, plan := f.admit(c.Op)
	draw := plan.draw(op, "latency")
	if err := wait(ctx, plan.latency(draw)); err != nil {
		return c.Unanswered(err)
	}
	err := f.perform(ctx, c, op, kind.of(op), plan)
	if err := wait(ctx, plan.latency(draw/latencySteps)); err != nil {
		return c.Unanswered(err)
	}
	return err
}

// perform performs a call with its fault.
func (f *FaultBucket) perform(ctx context.Context, c *Call, op Op, kind Kind, plan Plan) error {
	injected := &InjectedError{Kind: kind, Op: op}
	switch kind {
	case Timeout:
		return c.Unanswered(injected)
	case ErrorBefore:
		return c.Answered(http.StatusServiceUnavailable, "SlowDown", injected)
	case Delayed, Duplicate:
		later, err := c.Later()
		if err != nil {
			return c.Unanswered(err)
		}
		gone := context.WithoutCancel(ctx)
		f.keep(op, plan, func() { _ = later(gone) }) // The caller has left.
		if kind == Delayed {
			return c.Unanswered(injected)
		}
	case ForeignWinner:
		if plan.ForeignWinner != nil && op.Method == http.MethodPut {
			plan.ForeignWinner(op.Key)
		}
	}
	err := c.Do(ctx)
	if plan.Hold != nil && op.writes() {
		plan.Hold(op)
	}
	switch {
	case kind == LostAck:
		return c.Unanswered(injected)
	case kind == ErrorAfter:
		return c.Answered(http.StatusInternalServerError, "InternalError", injected)
	}
	return err
}

// of maps the kind to its effect on a request.
func (k Kind) of(op Op) Kind {
	if op.writes() {
		return k
	}
	switch k {
	case Delayed:
		return Timeout
	case ErrorAfter:
		return LostAck
	case Duplicate, ForeignWinner:
		return None
	}
	return k
}

const latencySteps = 1 << 16

// latency returns the time of one way.
func (p *Plan) latency(draw uint64) time.Duration {
	return time.Duration(draw%latencySteps) * p.Latency / latencySteps
}

// admit counts a request, lands the requests that are due, and selects the fault of this one.
func (f *FaultBucket) admit(op Op) (_ Op, kind Kind, plan Plan) {
	f.mu.Lock()
	n := f.attempts[op]
	f.attempts[op]++
	op.Attempt = n
	var due []*lateRequest
	f.late = slices.DeleteFunc(f.late, func(l *lateRequest) bool {
		if l.left--; l.left == 0 {
			due = append(due, l)
		}
		return l.left == 0
	})
	plan = f.plan
	if kind = plan.decide(op); kind != None {
		f.injected[kind]++
	}
	f.mu.Unlock()
	for _, l := range due {
		l.land()
	}
	return op, kind, plan
}

func (p *Plan) decide(op Op) Kind {
	if p.Decide != nil {
		return p.Decide(op)
	}
	if p.Match != nil && !p.Match(op) {
		return None
	}
	u := float64(p.draw(op, "kind")>>11) / (1 << 53)
	for k := None + 1; k < kinds; k++ {
		if u -= p.Rates[k]; u < 0 {
			return k
		}
	}
	return None
}

// draw returns 64 bits that depend only on the seed, the request and the purpose.
func (p *Plan) draw(op Op, purpose string) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, p.Seed))
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%d", purpose, op.Method, op.Key, op.Attempt)
	// FNV leaves the high bits of similar inputs similar; mix them.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// keep delays a request.
func (f *FaultBucket) keep(op Op, plan Plan, land func()) {
	left := plan.DelayRequests
	if left == 0 {
		left = 1 + int(plan.draw(op, "delay")%16)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, &lateRequest{land, left})
}

func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
