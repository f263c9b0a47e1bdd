package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage/storagetest"
)

func TestDispatchIsDecidedLikeAnyAdmission(t *testing.T) {
	w := newWorld(t)
	n := w.start(setup{opts: agents(strictAgent(t)), model: emits(1)})
	good := agent.Text("hello")
	good.InitialData = json.RawMessage(`{"repo":"parley"}`)
	good.Key = "k"
	first, err := n.rt.Dispatch(t.Context(), chat("warm"), good)
	if err != nil || first.Deduplicated || first.SubmissionID == "" {
		t.Fatalf("got %+v, %v", first, err)
	}
	w.untilSettled(chat("warm"), 1)
	w.untilIdle()
	change := func(f func(m *agent.Message)) agent.Message {
		m := good
		m.Key = ""
		f(&m)
		return m
	}
	for name, test := range map[string]struct {
		id   string
		m    agent.Message
		want conversation.Code
	}{
		"no id":            {"", agent.Text("x"), conversation.CodeInvalidRequest},
		"attachment":       {"cold", change(func(m *agent.Message) { m.Delivery.Attachments = make([]conversation.Attachment, 1) }), conversation.CodeInvalidRequest},
		"data are no JSON": {"cold", change(func(m *agent.Message) { m.InitialData = json.RawMessage(`{`) }), conversation.CodeInvalidRequest},
		"data do not fit":  {"cold", change(func(m *agent.Message) { m.InitialData = json.RawMessage(`{"repo":1}`) }), conversation.CodeInvalidRequest},
		"no data":          {"cold", agent.Text("x"), conversation.CodeInvalidRequest},
		"is not there": {"cold", change(func(m *agent.Message) {
			m.InitialData, m.IfUID = nil, first.UID
		}), conversation.CodeInstanceNotFound},
		"is there": {"warm", change(func(m *agent.Message) { m.IfAbsent = true }), conversation.CodeInstanceExists},
		"other message of the key": {"warm", change(func(m *agent.Message) {
			m.Delivery.Body, m.Key = "bye", "k"
		}), conversation.CodeSubmissionConflict},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.listing()
			_, err := n.rt.Dispatch(t.Context(), chat(test.id), test.m)
			codeIs(t, err, test.want)
			if diff := cmp.Diff(before, w.listing()); diff != "" {
				t.Errorf("bucket (-before +after):\n%s", diff)
			}
		})
	}
	var unknown *actors.UnknownAgentError
	if _, err := n.rt.Dispatch(t.Context(), conversation.Address{Agent: "nobody", ID: "x"}, good); !errors.As(err, &unknown) || unknown.Agent != "nobody" {
		t.Errorf("unknown agent: got %v", err)
	}
	again, err := n.rt.Dispatch(t.Context(), chat("warm"), good)
	first.Deduplicated = true
	if diff := cmp.Diff(first, again); err != nil || diff != "" {
		t.Errorf("replay: error %v, receipt (-want +got):\n%s", err, diff)
	}
	seen := map[conversation.SubmissionID]bool{}
	for range 2 { // without a key each is a new message
		r, err := n.rt.Dispatch(t.Context(), chat("warm"), agent.Text("hello"))
		if err != nil || r.Deduplicated || seen[r.SubmissionID] {
			t.Errorf("without a key: got %+v, %v", r, err)
		}
		seen[r.SubmissionID] = true
	}
}

// TestReadReturnsTheWholeReply reads it on the node that produced it, and on the next one, which
// activates nothing.
func TestReadReturnsTheWholeReply(t *testing.T) {
	w := newWorld(t)
	written := agent.NewDataWriter[progress]("progress", nil)
	look := agent.NewTool("look", "Look.", func(ctx context.Context, _ struct{}) (string, error) {
		return "sun", errors.Join(written.Write(ctx, progress{50}), written.Write(ctx, progress{100}))
	}, nil)
	a := chatAgent(look)
	a.Data = []agent.Data{written}
	a.Hooks.ResponseStarted = func(context.Context, *agent.Turn) (map[string]any, error) { return map[string]any{"n": 1}, nil }
	n := w.start(setup{opts: agents(a), model: lookUp()})
	receipt, err := n.rt.Dispatch(t.Context(), chat("c"), agent.Text("how is it?"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.rt.Wait(t.Context(), chat("c"), receipt)
	if err != nil {
		t.Fatal(err)
	}
	message := n.response(chat("c"))
	want := &conversation.Reply{
		Submission: receipt.SubmissionID, Message: &message, Text: "Let me see.\n\nIt is sunny.",
		Data:     map[string][]json.RawMessage{"progress": {json.RawMessage(`{"percent":100}`)}},
		Metadata: json.RawMessage(`{"n":1}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.untilIdle()
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	n = w.start(setup{opts: agents(a), model: lookUp()})
	later, err := n.rt.Wait(t.Context(), chat("c"), receipt)
	if diff := cmp.Diff(want, later); err != nil || diff != "" {
		t.Errorf("on the next node: error %v (-want +got):\n%s", err, diff)
	}
	if got := n.rt.Activations(); got != 0 {
		t.Errorf("got %d activations of reads", got)
	}
}

func TestReadWaitsForTheSettlement(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	receipt := n.admit(chat("c"), "1", "hello")
	type result struct {
		reply *conversation.Reply
		err   error
	}
	read := func(ctx context.Context) <-chan result {
		done := make(chan result, 1)
		go func() {
			reply, err := n.rt.Wait(ctx, chat("c"), receipt)
			done <- result{reply, err}
		}()
		return done
	}
	c := model.next(t)
	brief, cancel := context.WithCancel(t.Context())
	early := read(brief)
	whole := read(t.Context())
	c.text("half")
	cancel()
	if got := await(t, early, "the end of a wait"); !errors.Is(got.err, context.Canceled) || got.reply != nil {
		t.Errorf("canceled wait: got %+v", got)
	}
	c.text(" and half")
	c.finish()
	if got := await(t, whole, "the reply"); got.err != nil || got.reply.Text != "half and half" {
		t.Errorf("got %+v, %v", got.reply, got.err)
	}
}

func TestReadOfIncompleteSubmission(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	settles := func(outcome conversation.Outcome, code conversation.Code, end func(*modelCall)) {
		t.Helper()
		receipt := n.admit(chat("c"), string(outcome), "hello")
		c := model.next(t)
		text := "half, then " + string(outcome)
		c.text(text)
		end(c)
		reply, err := n.rt.Wait(t.Context(), chat("c"), receipt)
		var settled *conversation.SettledError
		if !errors.As(err, &settled) {
			t.Fatalf("got %v, want a SettledError", err)
		}
		if settled.Submission != receipt.SubmissionID || settled.Outcome != outcome || settled.Err.Type != code || !strings.Contains(err.Error(), settled.Err.Message) {
			t.Errorf("got settlement %+v, %v", settled, err)
		}
		if reply == nil || reply.Text != text {
			t.Errorf("got reply %+v, want %q", reply, text)
		}
	}
	settles(conversation.OutcomeFailed, conversation.CodeModelFailed, func(c *modelCall) {
		c.fail(&providers.Error{Kind: providers.KindQuota, Status: 402, Err: errors.New("402 no credit")})
	})
	settles(conversation.OutcomeAborted, conversation.CodeAborted, func(*modelCall) {
		// The text must be there before the abort.
		eventually(t, "the text", func() bool { return strings.Contains(transcriptOf(n, chat("c")), "half, then aborted") })
		if any, err := n.rt.Abort(t.Context(), chat("c")); err != nil || !any {
			t.Errorf("abort: got %t, %v", any, err)
		}
	})
}

func TestReadOfUnknownSubmission(t *testing.T) {
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	receipt := n.admit(chat("c"), "1", "hello")
	w.untilSettled(chat("c"), 1)
	_, err := n.rt.Wait(t.Context(), chat("none"), receipt)
	codeIs(t, err, conversation.CodeStreamNotFound)
	_, err = n.rt.Wait(t.Context(), chat("c"), conversation.Receipt{SubmissionID: "sub_none", Offset: receipt.Offset})
	codeIs(t, err, conversation.CodeInvalidRequest)
	_, err = n.rt.Wait(t.Context(), chat("c"), conversation.Receipt{SubmissionID: receipt.SubmissionID, Offset: 1 << 40})
	codeIs(t, err, conversation.CodeStreamStoreFailure)
	// An offset behind the settlement still finds it.
	head, err := n.rt.Reader().Head(t.Context(), chat("c"))
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := n.rt.Wait(t.Context(), chat("c"), conversation.Receipt{SubmissionID: receipt.SubmissionID, Offset: head}); err != nil || reply.Text == "" {
		t.Errorf("from the head: got %+v, %v", reply, err)
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	_, err = n.rt.Wait(t.Context(), chat("c"), receipt)
	codeIs(t, err, conversation.CodeUnavailable)
}

// absent is a bucket that can be made unavailable.
type absent struct {
	away  atomic.Bool
	asked chan struct{}
}

func (a *absent) carry(ctx context.Context, c *storagetest.Call) error {
	if !a.away.Load() {
		return c.Do(ctx)
	}
	select {
	case a.asked <- struct{}{}:
	default:
	}
	return c.Unanswered(errors.New("the bucket is away"))
}

// TestReadSurvivesBucketOutage begins while the bucket is unavailable.
func TestReadSurvivesBucketOutage(t *testing.T) {
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	receipt := n.admit(chat("c"), "1", "hello")
	w.untilSettled(chat("c"), 1)
	w.untilIdle()
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	link := &absent{asked: make(chan struct{}, 1)}
	rt, err := actors.New(storagetest.Through(w.nodes, link.carry), &actors.Options{Agents: []*agent.Agent{chatAgent()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	await(t, rt.Ready(), "a node")
	link.away.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := rt.Wait(t.Context(), chat("c"), receipt)
		done <- err
	}()
	await(t, link.asked, "a request")
	// Once another reader was rejected, the earlier request was, too.
	_, err = rt.Reader().Head(t.Context(), chat("c"))
	codeIs(t, err, conversation.CodeUnavailable)
	link.away.Store(false)
	if err := await(t, done, "the reply"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := await(t, ended, "the end of the node"); err != nil {
		t.Error(err)
	}
}
