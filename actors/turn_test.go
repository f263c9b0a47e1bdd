package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage/storagetest"
)

// failedSafely waits for the settlement of a conversation's only submission and checks that it failed
// with Parley's own text: the secret is neither in the log nor public.
func failedSafely(t *testing.T, w *world, at conversation.Address, want *conversation.SettlementError, secret string) {
	t.Helper()
	settled := w.untilSettled(at, 1)
	whole := *settled[0]
	if want.Message == "" {
		want.Message = whole.Error.Message
		if !strings.HasPrefix(want.Message, "test") && !strings.HasPrefix(want.Message, "The model") || !strings.HasSuffix(want.Message, ".") {
			t.Errorf("got message %q", want.Message)
		}
	}
	whole.Outcome, whole.Error = conversation.OutcomeFailed, want
	if diff := cmp.Diff([]*conversation.SubmissionSettled{&whole}, settled); diff != "" {
		t.Errorf("settlement (-want +got):\n%s", diff)
	}
	if strings.Contains(w.lines(at), secret) {
		t.Errorf("got the raw text in the log:\n%s", w.lines(at))
	}
}

// modelFailed is the settlement error of a failed model call, with any text.
func modelFailed(reason string) *conversation.SettlementError {
	return &conversation.SettlementError{
		Type: conversation.CodeModelFailed, Meta: map[string]any{"reason": reason},
	}
}

// snapshot returns the public snapshot of a conversation.
func (n *node) snapshot(at conversation.Address) conversation.Snapshot {
	n.w.tb.Helper()
	page, err := n.rt.Reader().Snapshot(context.Background(), at)
	if err != nil {
		n.w.tb.Fatal(err)
	}
	var s conversation.Snapshot
	if err := json.Unmarshal(page.JSON, &s); err != nil {
		n.w.tb.Fatal(err)
	}
	return s
}

// covers: protocol/65
func TestProviderErrorsAreSanitized(t *testing.T) {
	const raw = "vendor says: key sk-123 of org acme is out of credit"
	emitted := []conversation.RecordType{conversation.TypeResponseStarted, conversation.TypeDelta}
	kept := append(slices.Clone(emitted), conversation.TypeStepCompleted)
	withdrawn := append(slices.Clone(emitted), conversation.TypeStepDropped)
	quota := &providers.Error{Kind: providers.KindQuota, Status: 402, Body: []byte(raw), Err: errors.New(raw)}
	for name, test := range map[string]struct {
		err    error
		reason string
		before func(c *modelCall)
		calls  int                       // a transient failure is tried four times
		want   []conversation.RecordType // between attempt_started and submission_settled
	}{
		"at once":    {quota, "quota", func(*modelCall) {}, 1, nil},
		"unknown":    {errors.New(raw), "network", func(*modelCall) {}, 4, nil},
		"after text": {quota, "quota", func(c *modelCall) { c.text("Partial") }, 1, kept},
		"truncated": {nil, "truncated", func(c *modelCall) { c.text("Partial") }, 4,
			slices.Concat(withdrawn, withdrawn, withdrawn, kept)},
		"in a call": {quota, "quota", func(c *modelCall) { c.call("p", "quick", "{}") }, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ts := newTools()
			w := newWorld(t)
			model := make(stage)
			n := w.start(setup{opts: agents(ts.agent()), model: model})
			n.admit(chat("c"), "1", "hello")
			for range test.calls {
				c := model.next(t)
				test.before(c)
				c.fail(test.err)
			}
			failedSafely(t, w, chat("c"), modelFailed(test.reason), raw)
			var got []conversation.RecordType
			for _, typ := range types(w.records(chat("c")))[3:] {
				if typ != conversation.TypeSubmissionSettled {
					got = append(got, typ)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("records of the failed step (-want +got):\n%s", diff)
			}
			if ts.quick.Load() != 0 {
				t.Error("got a tool run for a broken stream")
			}

			// The conversation continues.
			n.admit(chat("c"), "2", "again")
			model.next(t).finish()
			settled := w.untilSettled(chat("c"), 2)
			if settled[1].Outcome != conversation.OutcomeCompleted {
				t.Errorf("next submission: got settlement %+v", settled[1])
			}
		})
	}
}

func TestToolFailuresReachModelAndClient(t *testing.T) {
	const secret = "panic value with a secret"
	type in struct {
		N int `json:"n"`
	}
	var ran atomic.Int32
	strict := agent.NewTool("strict", "Wants a number.", func(context.Context, in) (int, error) {
		ran.Add(1)
		return 0, nil
	}, nil)
	failing := agent.NewTool("failing", "Fails.", func(context.Context, struct{}) (int, error) {
		return 0, errors.New("the disk is full, ask the user to free some space")
	}, nil)
	panicking := agent.NewTool("panicking", "Panics.", func(context.Context, struct{}) (int, error) { panic(secret) }, nil)
	nothing := agent.NewTool("nothing", "Returns nothing.", func(context.Context, struct{}) (any, error) { return nil, nil }, nil)

	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent(strict, failing, panicking, nothing)), model: model})
	n.admit(chat("c"), "k", "go")
	c := model.next(t)
	c.call("p0", "missing", "{}")
	c.call("p1", "strict", `{"n":`)
	c.call("p2", "strict", `{"n":"one","m":1}`)
	c.call("p3", "failing", "{}")
	c.call("p4", "panicking", "{}")
	c.call("p5", "nothing", "")
	c.finish()
	c = model.next(t)
	wants := []struct{ mark, text string }{
		{"p0!", `no tool named "missing"`}, {"p1!", "invalid input for tool strict"}, {"p2!", "/n"},
		{"p3!", "the disk is full, ask the user to free some space"}, {"p4!", "tool panicking crashed"}, {"p5=", "null"},
	}
	seen := c.seen()
	results := strings.Split(strings.TrimPrefix(seen[len(seen)-1], "tool: "), "|")
	if len(results) != len(wants) {
		t.Fatalf("got results %q", results)
	}
	c.finish()
	outcomes(t, afterSettlements(w, chat("c"), 1))
	parts := toolParts(n.snapshot(chat("c")))
	for i, want := range wants {
		if !strings.HasPrefix(results[i], want.mark) || !strings.Contains(results[i], want.text) {
			t.Errorf("got prompt %q, want %s…%s", results[i], want.mark, want.text)
		}
		if failed := strings.HasSuffix(want.mark, "!"); failed != (parts[i].State == conversation.StateOutputError) ||
			failed && !strings.HasSuffix(results[i], *parts[i].ErrorText) {
			t.Errorf("got public part %+v, model result %q", parts[i], results[i])
		}
	}
	if ran.Load() != 0 {
		t.Error("got a tool run with invalid input")
	}
	if strings.Contains(w.lines(chat("c")), secret) {
		t.Error("got the value of a panic in the log")
	}
}

// toolParts returns the tool parts of a transcript.
func toolParts(s conversation.Snapshot) []conversation.Part {
	var out []conversation.Part
	for _, m := range s.Messages {
		for _, p := range m.Parts {
			if p.Type == conversation.PartTypeTool {
				out = append(out, p)
			}
		}
	}
	return out
}

func TestToolKnowsItsCall(t *testing.T) {
	facts := make(chan agent.Call, 1)
	tool := agent.NewTool("facts", "Tells its call.", func(ctx context.Context, _ struct{}) (int, error) {
		c, _ := agent.CallFrom(ctx)
		facts <- c
		return 1, nil
	}, nil)
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent(tool)), model: model})
	r := n.admit(chat("c"), "k", "go")
	c := model.next(t)
	c.call("p", "facts", "{}")
	c.finish()
	model.next(t).finish()
	w.untilSettled(chat("c"), 1)
	called := only[*conversation.ToolCalled](w.records(chat("c")))[0]
	started := only[*conversation.ResponseStarted](w.records(chat("c")))[0]
	want := agent.Call{
		Address: chat("c"), UID: r.UID, Submission: r.SubmissionID, Attempt: 1, Turn: started.Turn, ID: called.Call,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "go"},
	}
	if diff := cmp.Diff(want, await(t, facts, "the tool")); diff != "" {
		t.Errorf("facts of the call (-want +got):\n%s", diff)
	}
}

func TestTimeBudgetEndsATurn(t *testing.T) {
	ts := newTools()
	a := ts.agent()
	a.Durability.Timeout = 1 // ns: elapsed as soon as the attempt began
	w := newWorld(t)
	n := w.start(setup{opts: agents(a), model: make(stage)})
	n.admit(chat("c"), "k", "hello")
	settled := w.untilSettled(chat("c"), 1)
	if e := settled[0].Error; settled[0].Outcome != conversation.OutcomeFailed || e == nil || e.Type != conversation.CodeTimeout {
		t.Errorf("got settlement %+v", settled[0])
	}
	w.untilIdle()
}

func TestNoProviderFailsTheSubmission(t *testing.T) {
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent())})
	n.admit(chat("c"), "k", "hello")
	failedSafely(t, w, chat("c"), modelFailed(string(providers.KindUnresolved)), "not registered")
}

func TestUnknownAgentIsRefused(t *testing.T) {
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	before := w.listing()
	_, err := n.rt.Admit(t.Context(), message(conversation.Address{Agent: "nobody", ID: "c"}, "k", "hello"))
	codeIs(t, err, conversation.CodeRouteNotFound)
	if diff := cmp.Diff(before, w.listing()); diff != "" {
		t.Errorf("rejection: bucket (-before +after):\n%s", diff)
	}
}

// TestConversationOfAMissingAgentWaits starts a node without the agent of a stored conversation: the
// node leaves it unchanged, and its pending work listed.
func TestConversationOfAMissingAgentWaits(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	n.admit(chat("c"), "k", "hello")
	model.next(t)
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	log := w.lines(chat("c"))

	other := w.start(setup{opts: agents(&agent.Agent{Name: "other", Model: spec}), model: emits(1)})
	_, err := other.rt.Admit(t.Context(), message(chat("c"), "k2", "hello"))
	codeIs(t, err, conversation.CodeUnavailable)
	if err := other.stop(); err != nil {
		t.Fatal(err)
	}
	if got := w.lines(chat("c")); got != log {
		t.Errorf("got additional log lines:\n%s", strings.TrimPrefix(got, log))
	}

	successor := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	outcomes(t, afterSettlements(w, chat("c"), 1))
	w.untilIdle()
	if err := successor.stop(); err != nil {
		t.Error(err)
	}
}

// TestLongReplyBackpressure streams more than feed and batch may hold while the bucket does not answer,
// and loses nothing.
func TestLongReplyBackpressure(t *testing.T) {
	// 4 MiB may wait for an append and 1 MiB in the feed; one read takes at most a feed and a piece
	// more.
	const pieces, size = 40, 256 << 10
	var taken atomic.Int32
	all := make(chan struct{})
	emitted := make(chan struct{})
	resume := make(chan struct{})
	long := script(func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
		a.Text("first ")
		<-emitted // the first append is in flight, and its answer is held
		for i := range pieces {
			a.Text(fmt.Sprintf("%0*d", size, i))
			taken.Add(1)
		}
		close(all)
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: long, hold: holdSecondBatch(emitted, resume)})
	n.admit(chat("c"), "k", "hello")
	<-emitted
	eventually(t, "a full batch", func() bool { return taken.Load() >= (4<<20)/size })
	select {
	case <-all:
		t.Error("got all output accepted while no append succeeded")
	case <-time.After(100 * time.Millisecond): // a shorter time could only hide a failure
	}
	close(resume)
	w.untilSettled(chat("c"), 1)
	var text strings.Builder
	for _, d := range only[*conversation.Delta](w.records(chat("c"))) {
		text.WriteString(d.Text)
	}
	rest, ok := strings.CutPrefix(text.String(), "first ")
	if !ok || len(rest) != pieces*size {
		t.Fatalf("got %d bytes of text stored, want %d", len(rest), pieces*size)
	}
	for i := range pieces {
		if got := rest[i*size : (i+1)*size]; got != fmt.Sprintf("%0*d", size, i) {
			t.Fatalf("piece %d: got %q…", i, got[:32])
		}
	}
}

// holdSecondBatch holds the answer to the second batch from closing reached until resume is closed.
func holdSecondBatch(reached chan<- struct{}, resume <-chan struct{}) func(storagetest.Op) {
	var batches atomic.Int32
	return func(op storagetest.Op) {
		if strings.Contains(op.Key, "/log/") && batches.Add(1) == 2 {
			close(reached)
			<-resume
		}
	}
}

// TestModelCallIsRepeated fails a call in each transient way: the reply is that of the successful
// call, and clients see nothing of the others.
func TestModelCallIsRepeated(t *testing.T) {
	busy := &providers.Error{Kind: providers.KindOverloaded, Status: 503}
	for name, fail := range map[string]script{
		"refused": func(context.Context, providers.Request, *providers.Assembler) error { return busy },
		"broken": func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
			a.Text("half a sen")
			return busy
		},
		"silent": func(ctx context.Context, _ providers.Request, _ *providers.Assembler) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"silent after text": func(ctx context.Context, _ providers.Request, a *providers.Assembler) error {
			a.Text("half a sen")
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			calls := 0
			opts := agents(chatAgent())
			opts.FirstEvent, opts.BetweenEvents = 500*time.Millisecond, 500*time.Millisecond
			n := w.start(setup{opts: opts, model: script(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
				if calls++; calls == 1 {
					return fail(ctx, req, a)
				}
				return emits(2)(ctx, req, a)
			})})
			n.admit(chat("c"), "1", "hello")
			if s := w.untilSettled(chat("c"), 1)[0]; s.Outcome != conversation.OutcomeCompleted {
				t.Errorf("got settlement %+v", s)
			}
			messages := n.snapshot(chat("c")).Messages
			if parts := messages[len(messages)-1].Parts; len(parts) != 1 || *parts[0].Text != "token token " {
				t.Errorf("got reply %+v", parts)
			}
		})
	}
}
