package storagetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/parleyrun/parley/storage"
)

// Kind is what happens to one request.
type Kind int

// The kinds of fault. For a request that only reads, LostAck, ErrorAfter and
// Delayed mean that the answer does not arrive, Duplicate and ForeignWinner that
// nothing happens.
const (
	None          Kind = iota
	LostAck            // It lands; the connection is reset before the answer.
	Delayed            // A time-out is answered; it lands later, see Plan.DelayRequests.
	Duplicate          // It lands and is answered; a copy lands later.
	ErrorBefore        // 503 SlowDown is answered; it never lands.
	ErrorAfter         // It lands; 500 InternalError is answered.
	Timeout            // A time-out is answered; it never lands.
	ForeignWinner      // Plan.ForeignWinner is called, then it is sent.
	kinds
)

// String returns the name of the kind.
func (k Kind) String() string {
	names := [kinds]string{"none", "lost ack", "delayed", "duplicate", "error before", "error after", "timeout", "foreign winner"}
	if k < 0 || k >= kinds {
		return "kind " + strconv.Itoa(int(k))
	}
	return names[k]
}

// Op is one request as a plan sees it.
type Op struct {
	Method  string // GET, HEAD, PUT, DELETE or LIST.
	Key     string // Object key, or the prefix of a LIST.
	Attempt int    // How many requests of this method and key came before, from 0.
}

func (o Op) writes() bool { return o.Method == http.MethodPut || o.Method == http.MethodDelete }

// Plan decides the fate of requests. The zero Plan injects nothing. Its functions
// are called one at a time, with a lock held: they must not wait.
type Plan struct {
	// Seed makes the decisions.
	Seed uint64
	// Rates is the share of requests that each kind hits, 0 to 1, in total at most 1.
	Rates map[Kind]float64
	// Match limits the rates to the requests it accepts. Nil accepts all.
	Match func(Op) bool
	// Decide replaces Rates and Match.
	Decide func(Op) Kind
	// DelayRequests is how many further requests pass before a delayed one lands.
	// 0 draws 1 to 16 from the seed; below 0 it waits for Release.
	DelayRequests int
	// Latency bounds the time a request takes to its destination, and its answer
	// back; both are drawn from the seed. A context that ends meanwhile loses the
	// request, or the answer.
	Latency time.Duration
	// ForeignWinner is called before a PUT is sent that ForeignWinner hits. It
	// stores something under the key by another way.
	ForeignWinner func(key string)
	// Hold is called between the landing of every write that is not delayed and
	// its answer.
	Hold func(Op)
}

// InjectedError is the failure of a request without an answer.
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

// faults decides what happens to the requests of a plan, and keeps what lands late.
type faults struct {
	plan Plan

	mu       sync.Mutex
	attempts map[Op]int // By method and key; Attempt is 0.
	late     []lateRequest
	injected map[Kind]int
	healed   bool
}

type lateRequest struct {
	land func()
	left int // Requests that pass before it lands; below 0 it waits for Release.
}

func newFaults(plan Plan) *faults {
	return &faults{plan: plan, attempts: make(map[Op]int), injected: make(map[Kind]int)}
}

// FaultBucket is a bucket that injects the faults of a plan.
type FaultBucket struct {
	storage.Bucket
	*faults
}

// Unwrap returns the bucket under the plan.
func (f *FaultBucket) Unwrap() storage.Bucket { return f.Bucket }

// Faulty returns b under a plan.
func Faulty(b storage.Bucket, plan Plan) *FaultBucket {
	f := newFaults(plan)
	return &FaultBucket{Through(b, f.carry), f}
}

// FaultTransport injects the faults of a plan into the requests it passes on.
type FaultTransport struct {
	next http.RoundTripper
	*faults
}

// FaultyTransport returns a transport that sends requests to rt under a plan. Keys are
// read from path-style URLs: /bucket/key.
func FaultyTransport(rt http.RoundTripper, plan Plan) *FaultTransport {
	return &FaultTransport{rt, newFaults(plan)}
}

// Release lands, in the caller's goroutine, everything that was delayed, and
// returns how many requests that were.
func (f *faults) Release() int {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, l := range late {
		l.land()
	}
	return len(late)
}

// Heal ends all faults and latency. What was delayed stays so until it lands.
func (f *faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = true
}

// Injected returns how many requests each kind has hit.
func (f *faults) Injected() map[Kind]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := make(map[Kind]int, len(f.injected))
	for k, n := range f.injected {
		counts[k] = n
	}
	return counts
}

// RoundTrip implements http.RoundTripper.
func (f *FaultTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	op, kind, healed := f.admit(opOf(req))
	if healed {
		return f.next.RoundTrip(req)
	}
	there, back := f.latency(op)
	if err := wait(req.Context(), there); err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := f.send(req, op, kind)
	if err := wait(req.Context(), back); err != nil {
		closeResponse(resp)
		return nil, err
	}
	return resp, err
}

// carry is RoundTrip for a bucket.
func (f *faults) carry(ctx context.Context, c *Call) error {
	op, kind, healed := f.admit(c.Op)
	if healed {
		return c.Do(ctx)
	}
	there, back := f.latency(op)
	if err := wait(ctx, there); err != nil {
		return c.Unanswered(err)
	}
	err := f.perform(ctx, c, op, kind)
	if err := wait(ctx, back); err != nil {
		return c.Unanswered(err)
	}
	return err
}

// perform is send for a bucket.
func (f *faults) perform(ctx context.Context, c *Call, op Op, kind Kind) error {
	kind = kind.of(op)
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
		f.keep(op, func() { _ = later(gone) }) // Nobody waits for it.
		if kind == Delayed {
			return c.Unanswered(injected)
		}
	case ForeignWinner:
		if f.plan.ForeignWinner != nil && op.Method == http.MethodPut {
			f.plan.ForeignWinner(op.Key)
		}
	}
	err := c.Do(ctx)
	if f.plan.Hold != nil && op.writes() {
		f.plan.Hold(op)
	}
	switch {
	case kind == LostAck:
		return c.Unanswered(injected)
	case kind == ErrorAfter:
		return c.Answered(http.StatusInternalServerError, "InternalError", injected)
	}
	return err
}

// of is what the kind means for a request.
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

// latency is how long a request takes to its destination, and its answer back.
func (f *faults) latency(op Op) (there, back time.Duration) {
	draw := f.draw(op, "latency")
	return time.Duration(draw%latencySteps) * f.plan.Latency / latencySteps, time.Duration(draw/latencySteps%latencySteps) * f.plan.Latency / latencySteps
}

const latencySteps = 1 << 16

// admit counts a request, lands what is due, and decides the request's fate.
func (f *faults) admit(op Op) (_ Op, kind Kind, healed bool) {
	f.mu.Lock()
	n := f.attempts[op]
	f.attempts[op]++
	op.Attempt = n
	var due []lateRequest
	waiting := f.late[:0:0]
	for _, l := range f.late {
		if l.left > 0 {
			l.left--
		}
		if l.left == 0 {
			due = append(due, l)
		} else {
			waiting = append(waiting, l)
		}
	}
	f.late = waiting
	healed = f.healed
	if !healed {
		kind = f.decide(op)
	}
	if kind != None {
		f.injected[kind]++
	}
	f.mu.Unlock()
	for _, l := range due {
		l.land()
	}
	return op, kind, healed
}

func (f *faults) decide(op Op) Kind {
	if f.plan.Decide != nil {
		return f.plan.Decide(op)
	}
	if f.plan.Match != nil && !f.plan.Match(op) {
		return None
	}
	u := float64(f.draw(op, "kind")>>11) / (1 << 53)
	for k := None + 1; k < kinds; k++ {
		if u -= f.plan.Rates[k]; u < 0 {
			return k
		}
	}
	return None
}

// draw returns 64 bits that depend on the seed, the request and the purpose only.
func (f *faults) draw(op Op, purpose string) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, f.plan.Seed))
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%d", purpose, op.Method, op.Key, op.Attempt)
	// FNV leaves the high bits of similar inputs similar; mix them.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// send performs a request under its fault.
func (f *FaultTransport) send(req *http.Request, op Op, kind Kind) (*http.Response, error) {
	kind = kind.of(op)
	switch kind {
	case Timeout:
		closeBody(req)
		return nil, &InjectedError{Kind: kind, Op: op}
	case ErrorBefore:
		closeBody(req)
		return answer(req, http.StatusServiceUnavailable, "SlowDown"), nil
	case Delayed, Duplicate:
		if err := f.delay(req, op); err != nil || kind == Delayed {
			return nil, orInjected(err, kind, op)
		}
	case ForeignWinner:
		if f.plan.ForeignWinner != nil && op.Method == http.MethodPut {
			f.plan.ForeignWinner(op.Key)
		}
	}
	resp, err := f.next.RoundTrip(req)
	if f.plan.Hold != nil && op.writes() {
		f.plan.Hold(op)
	}
	if err == nil && (kind == LostAck || kind == ErrorAfter) {
		closeResponse(resp)
		if kind == LostAck {
			return nil, &InjectedError{Kind: kind, Op: op}
		}
		return answer(req, http.StatusInternalServerError, "InternalError"), nil
	}
	return resp, err
}

func orInjected(err error, kind Kind, op Op) error {
	if err != nil {
		return err
	}
	return &InjectedError{Kind: kind, Op: op}
}

// delay keeps a copy of the request for later. The body of req stays readable.
func (f *FaultTransport) delay(req *http.Request, op Op) error {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	later := req.Clone(context.WithoutCancel(req.Context()))
	if req.Body != nil {
		later.Body = io.NopCloser(bytes.NewReader(body))
	}
	f.keep(op, func() {
		if resp, err := f.next.RoundTrip(later); err == nil {
			closeResponse(resp)
		}
	})
	return nil
}

// keep lets a request land later.
func (f *faults) keep(op Op, land func()) {
	left := f.plan.DelayRequests
	if left == 0 {
		left = 1 + int(f.draw(op, "delay")%16)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, lateRequest{land, left})
}

func answer(req *http.Request, status int, code string) *http.Response {
	body := "<Error><Code>" + code + "</Code><Message>injected</Message></Error>"
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/xml"}},
		Body:   io.NopCloser(bytes.NewReader([]byte(body))),
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

func closeResponse(resp *http.Response) {
	if resp != nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
