package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/storagetest"
)

// strictAgent accepts only initial data with a repo.
func strictAgent(t *testing.T) *agent.Agent {
	t.Helper()
	schema, err := agent.NewSchema(json.RawMessage(
		`{"type":"object","properties":{"repo":{"type":"string"}},"required":["repo"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	a := chatAgent()
	a.InitialData = schema
	return a
}

// admission returns a message, as changed by the test.
func admission(at conversation.Address, key string, change func(a *conversation.Admission)) conversation.Admission {
	a := message(at, key, "hello")
	a.InitialData = json.RawMessage(`{"repo":"parley"}`)
	change(&a)
	return a
}

func otherUID(a *conversation.Admission) {
	a.Condition = conversation.Condition{Set: true, UID: "inst_other"}
}
func mustBeAbsent(a *conversation.Admission) { a.Condition.Absent = true }
func badData(a *conversation.Admission)      { a.InitialData = json.RawMessage(`{"repo":1}`) }
func noData(a *conversation.Admission)       { a.InitialData = nil }
func otherBody(a *conversation.Admission)    { a.Delivery.Body = "something else" }
func plain(*conversation.Admission)          {}

func both(f, g func(*conversation.Admission)) func(*conversation.Admission) {
	return func(a *conversation.Admission) {
		f(a)
		g(a)
	}
}

// TestDecisions checks the order of decisions: known key, then condition, then schema. Rejections and
// prechecks change no byte.
// covers: protocol/28, protocol/38, protocol/188
func TestDecisions(t *testing.T) {
	const clear = "" // of a precheck: no objection
	cold, warm := chat("cold"), chat("warm")
	w := newWorld(t)
	n := w.start(setup{opts: agents(strictAgent(t)), model: emits(2)})
	first := n.accept(admission(warm, "known", plain))
	w.untilSettled(warm, 1)
	w.untilIdle()
	for _, test := range []struct {
		name   string
		at     conversation.Address
		key    string
		change func(*conversation.Admission)
		want   conversation.Code // or replay, or clear
	}{
		{"new", cold, "new", plain, clear},
		{"new, condition", cold, "new", otherUID, conversation.CodeInstanceNotFound},
		{"new, condition met", cold, "new", mustBeAbsent, clear},
		{"new, schema", cold, "new", badData, conversation.CodeInvalidRequest},
		{"new, no data", cold, "new", noData, conversation.CodeInvalidRequest},
		{"new, condition before schema", cold, "new", both(otherUID, badData), conversation.CodeInstanceNotFound},
		{"new, condition met, schema", cold, "new", both(mustBeAbsent, badData), conversation.CodeInvalidRequest},
		{"known", warm, "known", plain, replay},
		{"known, key before condition", warm, "known", otherUID, replay},
		{"known, key before absence", warm, "known", mustBeAbsent, replay},
		{"known, other payload", warm, "known", otherBody, conversation.CodeSubmissionConflict},
		{"known, other data", warm, "known", badData, conversation.CodeSubmissionConflict},
		{"known, conflict before condition and schema", warm, "known", both(both(otherBody, otherUID), badData), conversation.CodeSubmissionConflict},
		{"existing", warm, "new", plain, clear},
		{"existing, condition", warm, "new", otherUID, conversation.CodeInstanceNotFound},
		{"existing, absence", warm, "new", mustBeAbsent, conversation.CodeInstanceExists},
		{"existing, condition before schema", warm, "new", both(mustBeAbsent, badData), conversation.CodeInstanceExists},
		{"existing, data is not consulted", warm, "new", badData, clear},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := w.listing()
			a := admission(test.at, test.key, test.change)
			receipt, err := n.rt.Precheck(t.Context(), a)
			if test.want == clear {
				if receipt != nil || err != nil {
					t.Errorf("precheck: got %v, %v, want nil", receipt, err)
				}
			} else {
				checkDecision(t, test.want, first, receipt, err)
				r, err := n.rt.Admit(t.Context(), a)
				checkDecision(t, test.want, first, &r, err)
			}
			if diff := cmp.Diff(before, w.listing()); diff != "" {
				t.Errorf("bucket (-before +after):\n%s", diff)
			}
			_, err = n.rt.Reader().Head(t.Context(), cold)
			codeIs(t, err, conversation.CodeStreamNotFound)
		})
	}
	// An admission that passed its precheck is admitted.
	for _, a := range []conversation.Admission{admission(cold, "new", mustBeAbsent), admission(warm, "new", badData)} {
		if r := n.accept(a); r.Deduplicated {
			t.Errorf("after the precheck: got receipt %+v", r)
		}
	}
}

// replay is the decision for a known key.
const replay = "replay"

func checkDecision(t *testing.T, want conversation.Code, first conversation.Receipt, got *conversation.Receipt, err error) {
	t.Helper()
	if want == replay {
		first.Deduplicated = true
		if diff := cmp.Diff(&first, got); err != nil || diff != "" {
			t.Errorf("error %v, receipt (-want +got):\n%s", err, diff)
		}
		return
	}
	e := codeIs(t, err, want)
	if want == conversation.CodeSubmissionConflict && e.Meta["submissionId"] != string(first.SubmissionID) {
		t.Errorf("got conflict meta %v, want %s", e.Meta, first.SubmissionID)
	}
	if want == conversation.CodeInstanceExists && e.Meta["uid"] != string(first.UID) {
		t.Errorf("got rejection meta %v, want %s", e.Meta, first.UID)
	}
}

// covers: protocol/36
func TestConditionOnTheRightIncarnation(t *testing.T) {
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	first := n.accept(admission(chat("c"), "1", mustBeAbsent))
	second := n.accept(admission(chat("c"), "2", func(a *conversation.Admission) {
		a.Condition = conversation.Condition{Set: true, UID: first.UID}
	}))
	if second.UID != first.UID || second.SubmissionID == first.SubmissionID || second.Deduplicated {
		t.Errorf("got receipts %+v and %+v", first, second)
	}
}

// covers: protocol/193
func TestOneKeyIsAdmittedOnce(t *testing.T) {
	const callers = 16
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	receipts := make([]conversation.Receipt, callers)
	var wg sync.WaitGroup
	for i := range receipts {
		wg.Go(func() {
			var err error
			if receipts[i], err = n.rt.Admit(t.Context(), message(chat("c"), "key", "hello")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fresh := 0
	for _, r := range receipts {
		if !r.Deduplicated {
			fresh++
		}
		r.Deduplicated = receipts[0].Deduplicated
		if r != receipts[0] {
			t.Errorf("got receipt %+v, want %+v", r, receipts[0])
		}
	}
	if fresh != 1 {
		t.Errorf("got %d new receipts of %d, want 1", fresh, callers)
	}
	model.next(t).finish()
	records := afterSettlements(w, chat("c"), 1)
	outcomes(t, records)
	if got := len(only[*conversation.SubmissionAdmitted](records)); got != 1 {
		t.Errorf("got %d submissions, want 1", got)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}

	// The key is known after a restart, and its replay writes nothing.
	log := w.lines(chat("c"))
	again := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	want := receipts[0]
	want.Deduplicated = true
	if got := again.admit(chat("c"), "key", "hello"); got != want {
		t.Errorf("got replay %+v, want %+v", got, want)
	}
	_, err := again.rt.Admit(t.Context(), message(chat("c"), "key", "another payload"))
	if e := codeIs(t, err, conversation.CodeSubmissionConflict); e.Meta["submissionId"] != string(want.SubmissionID) {
		t.Errorf("got conflict meta %v, want %s", e.Meta, want.SubmissionID)
	}
	if got := w.lines(chat("c")); got != log {
		t.Errorf("replay wrote:\n%s", strings.TrimPrefix(got, log))
	}
}

// TestReplayOfUnsettledWorkIsListed replays a key at a new writer: the receipt comes only once a
// landed journal lists that writer.
func TestReplayOfUnsettledWorkIsListed(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	first := w.start(setup{opts: agents(chatAgent()), model: model})
	r := first.admit(chat("c"), "key", "hello")
	model.next(t)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := w.start(setup{opts: agents(chatAgent()), model: model})
	got := second.admit(chat("c"), "key", "hello")
	listed := map[string]bool{}
	for _, j := range w.journals() {
		for _, e := range j.Entries {
			listed[string(e.Nonce)] = true
		}
	}
	attempts := only[*conversation.AttemptStarted](w.records(chat("c")))
	if newest := attempts[len(attempts)-1]; len(attempts) != 2 || !listed[newest.Writer] {
		t.Errorf("after the replay: got listed %v, want the newest of %d attempts, by %s", listed, len(attempts), newest.Writer)
	}
	r.Deduplicated = true
	if got != r {
		t.Errorf("got replay %+v, want %+v", got, r)
	}
	model.next(t).finish()
	outcomes(t, afterSettlements(w, chat("c"), 1))
}

func TestUnavailableBucket(t *testing.T) {
	for name, warm := range map[string]bool{"cold conversation": false, "warm conversation": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			opts := agents(chatAgent())
			opts.AdmitTimeout = 100 * time.Millisecond
			n := w.start(setup{opts: opts, model: emits(1)})
			settled := 0
			if warm {
				eventually(t, "a conversation in memory", func() bool {
					_, err := n.rt.Admit(t.Context(), message(chat("c"), "first", "hello"))
					return err == nil
				})
				settled++
				w.untilSettled(chat("c"), settled)
			}
			n.fault.Store(int32(storagetest.ErrorBefore))
			began := time.Now()
			_, err := n.rt.Admit(t.Context(), message(chat("c"), "key", "hello"))
			var e *conversation.Error // depends on its progress
			if !errors.As(err, &e) || e.RetryAfter <= 0 || e.Code != conversation.CodeUnavailable && e.Code != conversation.CodeAdmissionUnknown {
				t.Errorf("got error %v", err)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("got rejection after %v, want within %v", took, opts.AdmitTimeout)
			}
			_, err = n.rt.Reader().Head(t.Context(), chat("elsewhere"))
			codeIs(t, err, conversation.CodeUnavailable)

			n.fault.Store(int32(storagetest.None))
			var receipt conversation.Receipt
			eventually(t, "an admission", func() bool {
				var err error
				receipt, err = n.rt.Admit(t.Context(), message(chat("c"), "key", "hello"))
				return err == nil
			})
			records := afterSettlements(w, chat("c"), settled+1)
			outcomes(t, records)
			times := 0
			for _, a := range only[*conversation.SubmissionAdmitted](records) {
				if a.Key == "key" {
					times++
					if a.Submission != receipt.SubmissionID {
						t.Errorf("got receipt of %s, want %s", receipt.SubmissionID, a.Submission)
					}
				}
			}
			if times != 1 {
				t.Errorf("got %d admissions of the key, want 1", times)
			}
		})
	}
}

func TestFullQueueRefuses(t *testing.T) {
	const most = 3
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.MaxWaiting = most
	model := make(stage)
	n := w.start(setup{opts: opts, model: model})
	var receipts []conversation.Receipt
	for i := range most {
		receipts = append(receipts, n.admit(chat("c"), fmt.Sprint(i), "hello"))
	}
	before := w.lines(chat("c"))
	_, err := n.rt.Admit(t.Context(), message(chat("c"), "more", "hello"))
	if e := codeIs(t, err, conversation.CodeUnavailable); e.RetryAfter <= 0 {
		t.Errorf("got rejection without retry-after: %+v", e)
	}
	if got := n.admit(chat("c"), "0", "hello"); got.SubmissionID != receipts[0].SubmissionID || !got.Deduplicated {
		t.Errorf("full queue: got replay %+v, want %+v", got, receipts[0])
	}
	if got := w.lines(chat("c")); got != before {
		t.Errorf("rejection wrote:\n%s", strings.TrimPrefix(got, before))
	}
	n.admit(chat("another"), "0", "hello") // is not affected
	for range most + 1 {
		go func() { // two conversations come in any order
			(<-model).moves <- finished()
		}()
	}
	w.untilSettled(chat("c"), most)
	w.untilSettled(chat("another"), 1)
	go func() { (<-model).moves <- finished() }()
	n.admit(chat("c"), "more", "hello")
	outcomes(t, afterSettlements(w, chat("c"), most+1))
}

func TestCanceledCallersLoseNothing(t *testing.T) {
	w := newWorld(t)
	stored := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	hold := func(op storagetest.Op) {
		if strings.Contains(op.Key, "/log/") {
			once.Do(func() {
				close(stored)
				<-release
			})
		}
	}
	n := w.start(setup{opts: agents(chatAgent()), model: emits(1), hold: hold})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := n.rt.Admit(ctx, message(chat("c"), "key", "hello"))
		left <- err
	}()
	await(t, stored, "the first batch")
	cancel()
	err := await(t, left, "a canceled caller")
	codeIs(t, err, conversation.CodeAdmissionUnknown)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled caller: got %v", err)
	}
	close(release)
	outcomes(t, afterSettlements(w, chat("c"), 1))
	if r := n.admit(chat("c"), "key", "hello"); !r.Deduplicated {
		t.Errorf("got receipt %+v, want deduplicated", r)
	}
}

// TestStallIsNotRejection: a message whose first batch takes longer than its sender's deadline is not
// reported as rejected. It is admitted in the end, and a retry with the reported key finds the same
// message.
// covers: protocol/200
func TestStallIsNotRejection(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		release := make(chan struct{})
		hold := func(op storagetest.Op) {
			if strings.Contains(op.Key, "/log/") {
				<-release
			}
		}
		opts := agents(chatAgent())
		opts.AdmitTimeout = 100 * time.Millisecond
		n := l.run(part{opts: opts, vendor: onlyModel(emits(1)), hold: hold})
		_, err := n.rt.Admit(t.Context(), message(chat("c"), "minted", "hello"))
		e := codeIs(t, err, conversation.CodeAdmissionUnknown)
		_, err = n.rt.Abort(t.Context(), chat("c"))
		codeIs(t, err, conversation.CodeAbortUnknown)
		close(release)
		key, _ := e.Meta["idempotencyKey"].(string)
		if key != "minted" || e.RetryAfter <= 0 {
			t.Errorf("got meta %v and retry-after %v", e.Meta, e.RetryAfter)
		}
		var receipt conversation.Receipt
		eventually(t, "the receipt", func() bool {
			receipt, err = n.rt.Admit(t.Context(), message(chat("c"), key, "hello"))
			return err == nil
		})
		records := afterSettlements(l.world, chat("c"), 1)
		if got := only[*conversation.SubmissionAdmitted](records); len(got) != 1 || got[0].Submission != receipt.SubmissionID || !receipt.Deduplicated {
			t.Errorf("got admitted %+v, want receipt %+v", got, receipt)
		}
	})
}
