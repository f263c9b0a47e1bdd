package actors

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// longEnough is the timeout of expected events. It matters only for failures.
const longEnough = time.Minute

// valve is a bucket in memory. While it is shut, the chosen requests block until their context ends.
type valve struct {
	store  *local.Store
	shut   func(storagetest.Op) bool
	held   chan string // receives the keys of blocked requests; may overflow
	within atomic.Int32
}

func newValve(t *testing.T, shut func(storagetest.Op) bool) *valve {
	t.Helper()
	v := &valve{store: local.NewMemory(), shut: shut, held: make(chan string, 100)}
	t.Cleanup(func() {
		if err := v.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func (v *valve) bucket() storage.Bucket { return storagetest.Through(v.store, v.carry) }

func (v *valve) carry(ctx context.Context, c *storagetest.Call) error {
	if !v.shut(c.Op) {
		return c.Do(ctx)
	}
	v.within.Add(1)
	defer v.within.Add(-1)
	select {
	case v.held <- c.Key:
	default:
	}
	<-ctx.Done()
	return c.Unanswered(ctx.Err())
}

// flaky is a randomness source that fails once on demand, which makes a machine panic.
type flaky struct{ broken atomic.Bool }

func (f *flaky) Read(p []byte) (int, error) {
	if f.broken.Swap(false) {
		return 0, errors.New("no randomness")
	}
	return rand.Read(p)
}

// serve runs a runtime until the test ends or stop is called.
func serve(t *testing.T, r *Runtime) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return within(t, done, "the end of a node")
	})
	t.Cleanup(func() { _ = stop() }) // tests that check the result call stop themselves
	within(t, r.Ready(), "a node")
	return stop
}

func within[T any](t *testing.T, ch <-chan T, desc string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(longEnough):
		t.Errorf("timed out waiting for %s", desc)
	}
	return v
}

func hello(key string) conversation.Admission {
	return conversation.Admission{
		Address: conversation.Address{Agent: "chat", ID: "c"}, Key: key,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hello"},
	}
}

// TestPanicAnswersWaitingCallers panics an activation while callers wait for its first append, which never
// arrives. They are retried, and its pending work is recovered long before the next regular sweep.
func TestPanicAnswersWaitingCallers(t *testing.T) {
	const callers = 3
	var first atomic.Bool
	v := newValve(t, func(op storagetest.Op) bool {
		return op.Method == http.MethodPut && strings.Contains(op.Key, "/log/") && first.CompareAndSwap(false, true)
	})
	bucket := v.bucket()
	r, err := New(bucket, &Options{
		Agents:     []*agent.Agent{{Name: "chat", Model: "test/none"}}, // every submission fails
		SweepEvery: 24 * time.Hour, AppendTimeout: 24 * time.Hour, AdmitTimeout: longEnough / 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	random := &flaky{}
	r.world.entropy = func(conversation.Key) io.Reader { return random }
	stop := serve(t, r)

	admitted := make(chan error, callers+1)
	admit := func(key string) {
		_, err := r.Admit(t.Context(), hello(key))
		admitted <- err
	}
	for i := range callers {
		go admit(fmt.Sprint(i))
	}
	within(t, v.held, "an append")
	random.broken.Store(true)
	go admit("last")
	for range callers + 1 {
		if err := within(t, admitted, "an admission"); err != nil {
			t.Error(err)
		}
	}
	if random.broken.Load() {
		t.Fatal("got no panic")
	}
	keys := map[string]int{}
	for b, err := range r.logs.Batches(t.Context(), hello("").Address.Key(), storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if a, ok := rec.(*conversation.SubmissionAdmitted); ok {
				keys[a.Key]++
			}
		}
	}
	for key, n := range keys {
		if n != 1 {
			t.Errorf("got admissions of %q: %d, want 1", key, n)
		}
	}
	if len(keys) != callers+1 {
		t.Errorf("got admitted keys %v", keys)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(longEnough); len(r.sweeper.Journal.Held()) > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("got remaining journal entries %v", r.sweeper.Journal.Held())
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestAdmissionIsRepeatedOnce: one panic of an owner is retried, a second is not. A moved owner is
// always retried.
// covers: protocol/200
func TestAdmissionIsRepeatedOnce(t *testing.T) {
	panicked := fmt.Errorf("request: %w", grain.ErrPanicked)
	unknown := fmt.Errorf("request: %w", grain.ErrOutcomeUnknown)
	moved := &wire.OwnerReply{Result: &wire.OwnerReply_Moved{Moved: true}}
	untouched := &wire.OwnerReply{Result: &wire.OwnerReply_Moved{Moved: true}, Untouched: true}
	receipt := &wire.OwnerReply{Result: &wire.OwnerReply_Receipt{Receipt: &wire.Receipt{SubmissionId: "sub_1"}}}
	noOwner := fmt.Errorf("request: %w", grain.ErrNoOwner)
	failure := func(code conversation.Code) *wire.OwnerReply {
		return &wire.OwnerReply{Result: &wire.OwnerReply_Failure{Failure: &wire.Failure{Code: string(code)}}}
	}
	away, exists := failure(conversation.CodeUnavailable), failure(conversation.CodeInstanceExists)
	for name, tc := range map[string]struct {
		answers []any // replies and errors; the last repeats
		asked   int
		want    conversation.Code // "" for a receipt
	}{
		"one panic":                {[]any{panicked, receipt}, 2, ""},
		"a panic among others":     {[]any{moved, unknown, panicked, moved, unknown, receipt}, 6, ""},
		"panics":                   {[]any{panicked}, 2, conversation.CodeInternal},
		"panics with others":       {[]any{panicked, moved, unknown, panicked, receipt}, 4, conversation.CodeInternal},
		"unknown outcome":          {[]any{unknown}, 0, conversation.CodeAdmissionUnknown},
		"all moved":                {[]any{moved}, 0, conversation.CodeAdmissionUnknown},
		"untouched, then no owner": {[]any{untouched, noOwner, receipt}, 2, conversation.CodeUnavailable},
		"all leave it untouched":   {[]any{untouched}, 0, conversation.CodeUnavailable},
		"moved, then untouched":    {[]any{moved, untouched, noOwner}, 3, conversation.CodeAdmissionUnknown},
		"no owner":                 {[]any{noOwner, receipt}, 1, conversation.CodeUnavailable},
		"no owner later":           {[]any{unknown, noOwner, receipt}, 2, conversation.CodeAdmissionUnknown},
		"moved, then no owner":     {[]any{moved, noOwner, receipt}, 2, conversation.CodeAdmissionUnknown},
		"a panic, then no owner":   {[]any{panicked, noOwner, receipt}, 2, conversation.CodeAdmissionUnknown},
		"away":                     {[]any{away, receipt}, 1, conversation.CodeUnavailable},
		"unavailable later":        {[]any{unknown, away, receipt}, 2, conversation.CodeAdmissionUnknown},
		"a decision later":         {[]any{unknown, exists, receipt}, 2, conversation.CodeInstanceExists},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				o := &fakeHost{answer: func(string) (proto.Message, error) {
					a := tc.answers[min(n, len(tc.answers)-1)]
					n++
					if err, ok := a.(error); ok {
						return nil, err
					}
					return a.(proto.Message), nil
				}}
				r := runtimeWithHost(t, blank{}, o, &Options{AdmitTimeout: time.Hour})
				r.edge.serving.Store(true)
				began := time.Now()
				got, err := r.Admit(t.Context(), hello("k"))
				if tc.want == "" && (err != nil || got.SubmissionID != "sub_1") {
					t.Errorf("got %+v, %v", got, err)
				}
				if tc.want != "" && (err == nil || conversation.CodeOf(err) != tc.want) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				checkUnknown(t, err, "k")
				if tc.want == conversation.CodeInternal && !errors.Is(err, grain.ErrPanicked) {
					t.Errorf("got %v, want the cause", err)
				}
				took := time.Since(began)
				if tc.asked != 0 && (n != tc.asked || took > time.Minute) || tc.asked == 0 && took < time.Hour {
					t.Errorf("got %d requests within %v, want %d", n, took, tc.asked)
				}
			})
		})
	}
}

// checkUnknown: a caller with an unknown outcome gets the key for its retry, and a delay.
func checkUnknown(t *testing.T, err error, key string) {
	t.Helper()
	var e *conversation.Error
	if !errors.As(err, &e) || e.Code != conversation.CodeAdmissionUnknown {
		return
	}
	if e.Meta["idempotencyKey"] != key || e.RetryAfter <= 0 {
		t.Errorf("got meta %v and retry-after %v, want key %q and a delay", e.Meta, e.RetryAfter, key)
	}
}

// TestUnknownOutcomeOfOtherRequests: an abort that may have been recorded is reported as unknown, too. A
// precheck records nothing, so its outcome is never unknown.
// covers: protocol/200
func TestUnknownOutcomeOfOtherRequests(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want conversation.Code
		ask  func(r *Runtime) error
	}{
		{"abort", grain.ErrOutcomeUnknown, conversation.CodeAbortUnknown, aborts},
		{"abort without owner", grain.ErrNoOwner, conversation.CodeUnavailable, aborts},
		{"precheck", grain.ErrOutcomeUnknown, conversation.CodeUnavailable, prechecks},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &fakeHost{answer: func(string) (proto.Message, error) { return nil, tc.err }}
				r := runtimeWithHost(t, blank{}, o, &Options{})
				r.edge.serving.Store(true)
				if err := tc.ask(r); conversation.CodeOf(err) != tc.want {
					t.Errorf("got %v, want %s", err, tc.want)
				}
			})
		})
	}
}

func aborts(r *Runtime) error {
	_, err := r.Abort(context.Background(), hello("k").Address)
	return err
}

func prechecks(r *Runtime) error {
	_, err := r.Precheck(context.Background(), hello("k"))
	return err
}

// TestDrainOfAHangingBucket stops a node whose bucket does not answer: late conversations are stopped,
// and nothing outlives Run.
func TestDrainOfAHangingBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shut atomic.Bool
		v := newValve(t, func(storagetest.Op) bool { return shut.Load() })
		bucket := v.bucket()
		running := make(chan context.Context, 1)
		r, err := New(bucket, &Options{
			Agents: []*agent.Agent{{Name: "chat", Model: "test/none", InstructionsFunc: func(ctx context.Context, _ *agent.Turn) (string, error) {
				running <- ctx
				<-ctx.Done()
				return "", ctx.Err()
			}}},
			AppendTimeout: 24 * time.Hour, DrainTimeout: 200 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := serve(t, r)
		if _, err := r.Admit(t.Context(), hello("k")); err != nil {
			t.Fatal(err)
		}
		turn := within(t, running, "a turn")
		shut.Store(true)
		if err := stop(); err != nil {
			t.Errorf("run: got %v", err)
		}
		select {
		case path := <-v.held:
			t.Logf("blocked: %s", path)
		default:
			t.Error("got no blocked request")
		}
		if turn.Err() == nil || r.tasks.ctx.Err() == nil {
			t.Errorf("got turn context error %v, activations' context error %v", turn.Err(), r.tasks.ctx.Err())
		}
		if got := r.Activations(); got != 0 {
			t.Errorf("got %d activations after the stop", got)
		}
		if got := v.within.Load(); got != 0 {
			t.Errorf("got %d requests after the stop", got)
		}
		if got := r.nodes.host.(*grain.Cluster).ActiveCount(); got != 0 {
			t.Errorf("got %d activations in the cluster", got)
		}
	})
}

// hangingHost is a host that cannot be stopped.
type hangingHost struct{ host }

var errUnresponsive = errors.New("deaf")

func (hangingHost) Stop(context.Context) error { return errUnresponsive }

// TestStopWithHangingHost stops a node whose host does not stop, during a blocked append: its
// activations still write nothing more.
func TestStopWithHangingHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve(t, func(op storagetest.Op) bool {
			return op.Method == http.MethodPut && strings.Contains(op.Key, "/log/")
		})
		bucket := v.bucket()
		r, err := New(bucket, &Options{
			Agents:        []*agent.Agent{{Name: "chat", Model: "test/none"}},
			AppendTimeout: 24 * time.Hour, DrainTimeout: 200 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		real := r.nodes.host
		r.nodes.host = hangingHost{real}
		t.Cleanup(func() {
			if err := real.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		stop := serve(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answered := make(chan error, 1)
		go func() {
			_, err := r.Admit(ctx, hello("k"))
			answered <- err
		}()
		within(t, v.held, "an append")
		if err := stop(); !errors.Is(err, errUnresponsive) {
			t.Errorf("run: got %v", err)
		}
		if got := v.within.Load(); got != 0 {
			t.Errorf("got %d requests after the stop", got)
		}
		cancel() // no host is left to answer
		if err := within(t, answered, "the caller"); conversation.CodeOf(err) != conversation.CodeAdmissionUnknown {
			t.Errorf("got error %v", err)
		}
	})
}

// TestPanicWhileOpening makes every activation panic on its own log: waiting callers get an error long
// before their admission times out. (A caller that comes after the activation's end reaches the next
// one.)
func TestPanicWhileOpening(t *testing.T) {
	v := newValve(t, func(storagetest.Op) bool { return false })
	bucket := v.bucket()
	r, err := New(bucket, &Options{Agents: []*agent.Agent{{Name: "chat", Model: "test/none"}}, AdmitTimeout: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r.world.entropy = func(conversation.Key) io.Reader { return unopened{} }
	stop := serve(t, r)
	if _, err := r.Admit(t.Context(), hello("k")); err == nil || conversation.CodeOf(err) != conversation.CodeInternal {
		t.Errorf("got %v, want %s", err, conversation.CodeInternal)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// unopened is a randomness source that fails only in the step that opens a conversation.
type unopened struct{}

func (unopened) Read(p []byte) (int, error) {
	if bytes.Contains(debug.Stack(), []byte("(*activation).opened")) {
		panic("no randomness")
	}
	return rand.Read(p)
}

// TestOpeningThatPanics: a panic caused by a client's request does not count against the log. If the
// log alone causes it, it counts, for any caller.
func TestOpeningThatPanics(t *testing.T) {
	for name, tt := range map[string]struct {
		panics func(n int32) bool // on the n-th opening
		counts bool
	}{
		"once": {func(n int32) bool { return n == 1 }, false},
		"each": {func(int32) bool { return true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := memoryBucket(t)
			opts := &Options{Agents: []*agent.Agent{{Name: "chat", Model: "test/none"}}, AdmitTimeout: 24 * time.Hour, QuarantineAfter: 1}
			r, err := New(bucket, opts)
			if err != nil {
				t.Fatal(err)
			}
			var openings atomic.Int32
			r.world.entropy = func(conversation.Key) io.Reader {
				return entropy(func() {
					if bytes.Contains(debug.Stack(), []byte("(*activation).opened")) && tt.panics(openings.Add(1)) {
						panic("mine")
					}
				})
			}
			stop := serve(t, r)
			if _, err := r.Admit(t.Context(), hello("k")); err == nil || conversation.CodeOf(err) != conversation.CodeInternal {
				t.Errorf("got %v, want %s", err, conversation.CodeInternal)
			}
			quarantined := func() bool {
				_, err := storage.ReadQuarantine(t.Context(), bucket, hello("k").Address.Key())
				return err == nil
			}
			for deadline := time.Now().Add(longEnough); openings.Load() < 2 || tt.counts && !quarantined(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("got no probe, or no quarantine")
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if n := r.Activations(); n != 0 {
				t.Errorf("got %d remaining activations", n)
			}
			if got := quarantined(); got != tt.counts {
				t.Errorf("got quarantined %t, want %t", got, tt.counts)
			}
		})
	}
}

// entropy is a randomness source that is called at each read.
type entropy func()

func (e entropy) Read(p []byte) (int, error) {
	e()
	return rand.Read(p)
}
