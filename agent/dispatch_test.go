package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// recordingDispatcher is a Dispatcher that records its admissions.
type recordingDispatcher struct {
	mu     sync.Mutex
	got    []conversation.Admission
	refuse error
}

func (o *recordingDispatcher) Admit(_ context.Context, a conversation.Admission) (conversation.Receipt, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, a)
	return conversation.Receipt{SubmissionID: conversation.SubmissionID(fmt.Sprint("sub_", len(o.got)))}, o.refuse
}

// keys are the idempotency keys of the admissions, in order.
func (o *recordingDispatcher) keys() []string {
	var keys []string
	for _, a := range o.got {
		keys = append(keys, a.Address.ID+" "+a.Key)
	}
	return keys
}

var _ agenthost.Dispatcher = conversation.Dispatcher(nil)

func desk(id string) conversation.Address { return conversation.Address{Agent: "desk", ID: id} }

func TestDispatch(t *testing.T) {
	signal := conversation.Delivery{Kind: conversation.KindSignal, Body: "b", Type: "t", TagName: "tag", Attributes: map[string]string{"a": "b"}}
	for _, tc := range []struct {
		name string
		m    agent.Message
		want conversation.Admission
	}{
		{"text", agent.Text("hi"), conversation.Admission{Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hi"}}},
		{"no kind", agent.Message{Delivery: conversation.Delivery{Body: "hi"}}, conversation.Admission{Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hi"}}},
		{"signal", agent.Message{Delivery: signal, Key: "k"}, conversation.Admission{Delivery: signal, Key: "k"}},
		{"for a new conversation", agent.Message{InitialData: json.RawMessage(`{}`), IfAbsent: true},
			conversation.Admission{Delivery: conversation.Delivery{Kind: conversation.KindUser}, InitialData: json.RawMessage(`{}`), Condition: conversation.Condition{Absent: true}}},
		{"for an incarnation", agent.Message{IfUID: "u"},
			conversation.Admission{Delivery: conversation.Delivery{Kind: conversation.KindUser}, Condition: conversation.Condition{Set: true, UID: "u"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var o recordingDispatcher
			receipt, err := agent.Dispatch(agenthost.WithDispatcher(t.Context(), &o), desk("1"), tc.m)
			if err != nil || receipt.SubmissionID != "sub_1" {
				t.Fatalf("got %+v, %v", receipt, err)
			}
			got := o.got[0]
			if got.Key == "" {
				t.Error("admission has no key")
			}
			if tc.want.Address = desk("1"); tc.want.Key == "" {
				got.Key = ""
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("admission (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDispatchRefuses(t *testing.T) {
	invalid := conversation.CodeInvalidRequest
	conflict := conversation.Errorf(conversation.CodeSubmissionConflict, "taken")
	var o recordingDispatcher
	ctx := agenthost.WithDispatcher(t.Context(), &o)
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		to      conversation.Address
		m       agent.Message
		code    conversation.Code
		message string
	}{
		{"no agent", ctx, conversation.Address{ID: "1"}, agent.Text("x"), invalid, "An address needs"},
		{"no id", ctx, desk(""), agent.Text("x"), invalid, "An address needs"},
		{"long id", ctx, desk(strings.Repeat("x", 513)), agent.Text("x"), invalid, "at most 512 bytes"},
		{"kind", ctx, desk("1"), agent.Message{Delivery: conversation.Delivery{Kind: "mail"}}, invalid, `"mail" is unknown`},
		{"attachments", ctx, desk("1"), agent.Message{Delivery: conversation.Delivery{Attachments: make([]conversation.Attachment, 1)}}, invalid, "Attachments cannot"},
		{"long body", ctx, desk("1"), agent.Text(strings.Repeat("x", conversation.MaxPayloadBytes+1)), invalid, "longer than the limit"},
		{"signal without type", ctx, desk("1"), agent.Message{Delivery: conversation.Delivery{Kind: conversation.KindSignal}}, invalid, "needs a type"},
		{"user with type", ctx, desk("1"), agent.Message{Delivery: conversation.Delivery{Type: "t"}}, invalid, "are a signal's"},
		{"tag name", ctx, desk("1"), agent.Message{Delivery: conversation.Delivery{Kind: conversation.KindSignal, Type: "t", TagName: "a b"}}, invalid, `tag name "a b"`},
		{"uid and data", ctx, desk("1"), agent.Message{IfUID: "u", InitialData: json.RawMessage("1")}, invalid, "contradict"},
		{"uid and none", ctx, desk("1"), agent.Message{IfAbsent: true, IfUID: "u"}, invalid, "contradict each other"},
		{"data", ctx, desk("1"), agent.Message{InitialData: json.RawMessage("{")}, invalid, "initial data is not JSON"},
		{"key", ctx, desk("1"), agent.Message{Key: strings.Repeat("ü", 257)}, invalid, "more than 256 characters"},
		{"admission", agenthost.WithDispatcher(t.Context(), &recordingDispatcher{refuse: conflict}), desk("1"), agent.Text("x"), conflict.Code, "taken"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			receipt, err := agent.Dispatch(tc.ctx, tc.to, tc.m)
			var e *conversation.Error
			if !errors.As(err, &e) || e.Code != tc.code || !strings.Contains(err.Error(), tc.message) || len(err.Error()) > 1000 ||
				!strings.HasPrefix(err.Error(), "dispatch to "+tc.to.Agent+"/") || receipt != (conversation.Receipt{}) {
				t.Errorf("got %+v, %v, want %q", receipt, err, tc.message)
			}
		})
	}
	if len(o.got) != 0 {
		t.Errorf("got admissions %v, want none", o.got)
	}
	if _, err := agent.Dispatch(t.Context(), desk("1"), agent.Text("x")); !errors.Is(err, agent.ErrNoDispatcher) {
		t.Errorf("outside a call: got %v", err)
	}
}

// TestDispatchKeysAreStable checks that a call that runs again sends under the same keys, whether its
// steps are recorded or not.
func TestDispatchKeysAreStable(t *testing.T) {
	send := func(ctx context.Context, id string) {
		if _, err := agent.Dispatch(ctx, desk(id), agent.Text("x")); err != nil {
			t.Error(err)
		}
	}
	tool := durable(func(ctx context.Context) (int, error) {
		send(ctx, "1")
		_, err := agent.Step(ctx, "mail", func(ctx context.Context) (int, error) {
			send(ctx, "1")
			send(ctx, "1")
			return agent.Step(ctx, "mail more", func(ctx context.Context) (int, error) { send(ctx, "1"); return 0, nil })
		})
		send(ctx, "2")
		send(ctx, "1")
		return 0, err
	})
	var records journal
	run := func(call conversation.CallID) []string {
		var o recordingDispatcher
		ctx := agenthost.WithDispatcher(agenthost.WithSteps(t.Context(), &records), &o)
		if _, err := tool.Run(agenthost.WithCall(ctx, agent.Call{ID: call}), nil); err != nil {
			t.Error(err)
		}
		return o.keys()
	}
	first := run("call_1")
	seen := map[string]bool{}
	for _, k := range first {
		if seen[k] || !strings.Contains(k, " call_1/") || len(k) > 256 {
			t.Errorf("key %q is a duplicate or not of the call", k)
		}
		seen[k] = true
	}
	if diff := cmp.Diff([]string{first[0], first[4], first[5]}, run("call_1")); len(first) != 6 || diff != "" {
		t.Errorf("with recorded steps (-first +second):\n%s", diff)
	}
	records = journal{}
	if diff := cmp.Diff(first, run("call_1")); diff != "" {
		t.Errorf("without recorded steps (-first +second):\n%s", diff)
	}
	for _, k := range run("call_2") {
		if seen[k] {
			t.Errorf("key %q is used by another call too", k)
		}
	}
}

func TestDispatchKeysOfHooks(t *testing.T) {
	var o recordingDispatcher
	ctx := agenthost.WithDispatcher(t.Context(), &o)
	send := func(ctx context.Context) error {
		_, err := agent.Dispatch(ctx, desk("1"), agent.Text("x"))
		return err
	}
	a := valid()
	a.Hooks = agent.Hooks{
		DeliveryStarted:  func(ctx context.Context, _ *agent.Turn) error { return send(ctx) },
		ResponseStarted:  func(ctx context.Context, _ *agent.Turn) (map[string]any, error) { return nil, send(ctx) },
		WouldStop:        func(ctx context.Context, _ *agent.Response) (string, error) { return "", send(ctx) },
		ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) { return nil, send(ctx) },
		Settled:          func(ctx context.Context, _ *agent.Settlement) error { return send(ctx) },
	}
	turn := agent.Turn{Submission: "sub_1"}
	all := func() []string {
		o.got = nil
		_, started := agenthost.StartResponse(ctx, a, &turn)
		_, stop := agenthost.BeforeStop(ctx, a, &agent.Response{Turn: turn})
		_, again := agenthost.BeforeStop(ctx, a, &agent.Response{Turn: turn, Continuations: 1})
		_, finished := agenthost.FinishResponse(ctx, a, &agent.Response{Turn: turn})
		if err := errors.Join(agenthost.StartDelivery(ctx, a, &turn), started, stop, again, finished, agenthost.AfterSettlement(ctx, a, &agent.Settlement{Submission: "sub_1"})); err != nil {
			t.Error(err)
		}
		return o.keys()
	}
	first := all()
	seen := map[string]bool{}
	for _, k := range first {
		if seen[k] || !strings.HasPrefix(k, "1 sub_1/") {
			t.Errorf("key %q is a duplicate or not of the submission", k)
		}
		seen[k] = true
	}
	if diff := cmp.Diff(first, all()); len(first) != 6 || diff != "" {
		t.Errorf("keys of repeated hooks (-first +second):\n%s", diff)
	}
}

func TestDispatchKeysOutsideACall(t *testing.T) {
	var o recordingDispatcher
	ctx := agenthost.WithDispatcher(t.Context(), &o)
	tool := durable(func(ctx context.Context) (conversation.Receipt, error) {
		_, err := agent.Step(ctx, "s", func(ctx context.Context) (conversation.Receipt, error) {
			return agent.Dispatch(ctx, desk("1"), agent.Text("x"))
		})
		if err != nil {
			return conversation.Receipt{}, err
		}
		return agent.Dispatch(ctx, desk("1"), agent.Text("x"))
	})
	for range 2 {
		if _, err := tool.Run(agenthost.WithSteps(ctx, &journal{}), nil); err != nil {
			t.Error(err)
		}
	}
	seen := map[string]bool{}
	for _, k := range o.keys() {
		seen[k] = true
	}
	if len(seen) != 4 {
		t.Errorf("got keys %v, want 4 different ones", o.keys())
	}
}
