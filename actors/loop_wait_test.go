package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// verdict is the value of the signal.
type verdict struct {
	OK bool `json:"ok"`
}

// approves is a durable tool that requests something, and waits for a verdict.
func approves(k *work, o *agent.WaitOptions) agent.Tool {
	return agent.NewTool("approve", "Asks a person.", func(ctx context.Context, in struct {
		Name string `json:"name,omitempty"`
	}) (string, error) {
		k.did("approve")
		if _, err := agent.Step(ctx, "ask", func(context.Context) (bool, error) {
			k.did("ask")
			return true, nil
		}); err != nil {
			return "", err
		}
		name := in.Name
		if name == "" {
			name = "approval"
		}
		v, err := agent.Wait[verdict](ctx, name, o)
		if errors.Is(err, agent.ErrWaitTimeout) {
			return "nobody answered", nil
		}
		return fmt.Sprintf("ok is %v", v.OK), err
	}, &agent.ToolOptions{Durable: true})
}

// signals sends a signal and retries while that may help.
func (n *actorNode) signals(name, key string, value any) (conversation.Receipt, error) {
	n.w.tb.Helper()
	m, err := agent.Signal(name, value)
	if err != nil {
		n.w.tb.Fatal(err)
	}
	m.Key = key
	for {
		receipt, err := n.rt.Dispatch(context.Background(), chat("c"), m)
		if conversation.CodeOf(err) != conversation.CodeUnavailable {
			return receipt, err
		}
		time.Sleep(time.Second)
	}
}

// TestWaitForSignal lets a call wait for three days. Its process crashes; the next one opens the
// conversation when the signal arrives.
func TestWaitForSignal(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k := &work{}
		a := chatAgent(approves(k, &agent.WaitOptions{Timeout: 4 * 24 * time.Hour}))
		a.Durability.Timeout = time.Minute // suspended time does not count
		c := onlyModel(inTurn(toolCalls("approve"), replies("done")))
		first := l.run(part{opts: agents(a), vendor: c})
		first.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		l.journalsAreEmpty()
		first.crash()

		next := l.run(part{opts: agents(a), vendor: c})
		time.Sleep(72 * time.Hour)
		if got := len(l.attemptTimes(chat("c"))); got != 1 {
			t.Errorf("got %d attempts before the signal", got)
		}
		sent := time.Now()
		receipt, err := next.signals("approval", "s", verdict{OK: true})
		if err != nil {
			t.Fatal(err)
		}
		l.completes(chat("c"), 2)
		if took := time.Since(sent); took > 10*time.Second {
			t.Errorf("got continuation after %v", took)
		}
		wants(t, "the prompt", strings.Join(c.last(t, "model"), "\n"), "ok is true")
		lacks(t, "the prompt", strings.Join(c.last(t, "model"), "\n"), "parley.wait")
		wants(t, "the public view", next.public(chat("c")), `"name":"wait-call_`, `"state":"waiting"`, `"state":"signal"`)
		if got := k.counts(); got["ask"] != 1 || got["approve"] != 2 {
			t.Errorf("got runs %v", got)
		}
		resumed := batchWith(l, chat("c"), func(r *conversation.WaitEnded) bool { return r.Signal == receipt.SubmissionID })
		if len(only[*conversation.SubmissionSettled](resumed)) != 1 || len(only[*conversation.AttemptStarted](resumed)) != 1 {
			t.Errorf("got the signal in a batch with %v", resumed)
		}
		for key, want := range map[string]conversation.Code{"s": "", "late": conversation.CodeAlreadyDecided} {
			again, err := next.signals("approval", key, verdict{OK: true})
			if code := codeOf(err); code != want || err == nil && (again.SubmissionID != receipt.SubmissionID || !again.Deduplicated) {
				t.Errorf("signal %q replayed: got %+v, %v", key, again, err)
			}
		}
		time.Sleep(2 * 24 * time.Hour) // until the timer of the wait is due
		l.checkNothingLeft()
	})
}

func codeOf(err error) conversation.Code {
	if err == nil {
		return ""
	}
	return conversation.CodeOf(err)
}

// TestSignals sends signals before, during and after the wait of a call.
func TestSignals(t *testing.T) {
	type sent struct {
		after time.Duration // since the previous signal, or since the message for the first
		name  string
		value any
		want  conversation.Code
	}
	for name, c := range map[string]struct {
		first   []sent
		then    []sent
		timeout time.Duration
		want    string
	}{
		"before": {first: []sent{
			{0, "approval", verdict{OK: true}, ""},
			{0, "approval", verdict{}, conversation.CodeAlreadyDecided},
		}, want: "ok is true"},
		"before, and unfit": {first: []sent{{0, "approval", "perhaps", ""}}, then: []sent{
			{time.Minute, "approval", verdict{OK: true}, ""},
		}, want: "ok is true"},
		"while it waits in memory": {then: []sent{{time.Second, "approval", verdict{}, ""}}, want: "ok is false"},
		"unfit": {then: []sent{
			{time.Hour, "approval", "perhaps", conversation.CodeInvalidRequest},
			{0, "approval", map[string]any{"ok": true, "by": "me"}, conversation.CodeInvalidRequest},
			{time.Hour, "approval", `{"ok":true}`, ""},
		}, want: "ok is true"},
		"of another name": {then: []sent{
			{time.Hour, "other", true, ""},
			{0, "", true, conversation.CodeInvalidRequest},
			{0, "approval", strings.Repeat("x", conversation.MaxSignalBytes+1), conversation.CodeInvalidRequest},
			{time.Hour, "approval", verdict{OK: true}, ""},
		}, want: "ok is true"},
		"too late": {timeout: time.Hour, then: []sent{
			{2 * time.Hour, "approval", verdict{OK: true}, conversation.CodeAlreadyDecided},
		}, want: "nobody answered"},
		"kept too long": {first: []sent{{0, "approval", verdict{OK: true}, ""}, {8 * 24 * time.Hour, "other", true, ""}},
			timeout: time.Hour, then: []sent{{2 * time.Hour, "third", true, ""}}, want: "nobody answered"},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				vendor := onlyModel(inTurn(toolCalls("approve"), replies("done")))
				n := l.run(part{opts: agents(chatAgent(approves(&work{}, &agent.WaitOptions{Timeout: c.timeout}))), vendor: vendor})
				taken := 0
				send := func(when string, list []sent) {
					for i, s := range list {
						time.Sleep(s.after)
						_, err := n.signals(s.name, fmt.Sprint(when, i), s.value)
						if codeOf(err) != s.want {
							t.Errorf("%s, signal %d: got %v, want %q", when, i, err, s.want)
						}
						if err == nil {
							taken++
						}
					}
				}
				send("first", c.first)
				n.admit(chat("c"), "1", "go")
				send("then", c.then)
				l.completes(chat("c"), 1+taken)
				wants(t, "the prompt", strings.Join(vendor.last(t, "model"), "\n"), c.want)
			})
		})
	}
}

// TestKeptSignalsAreBounded: signals without a wait are kept up to a bound.
func TestKeptSignalsAreBounded(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		n := l.run(part{opts: agents(chatAgent(approves(&work{}, nil))), vendor: onlyModel(inTurn(toolCalls("approve"), replies("done")))})
		for i := range conversation.MaxKeptSignals {
			if _, err := n.signals(fmt.Sprint("name ", i), fmt.Sprint(i), i); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := n.signals("one more", "x", 1); codeOf(err) != conversation.CodeTooManySignals {
			t.Errorf("one more signal: got %v", err)
		}
		time.Sleep(8 * 24 * time.Hour)
		if _, err := n.signals("one more", "x", 1); err != nil {
			t.Errorf("after a week: got %v", err)
		}
	})
}

// TestWaitIsAborted: an abort ends a wait, and a later signal finds it resolved.
func TestWaitIsAborted(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		n := l.run(part{opts: agents(chatAgent(approves(&work{}, nil))), vendor: onlyModel(inTurn(toolCalls("approve"), toolCalls("approve"), replies("done")))})
		n.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		if any, err := n.rt.Abort(context.Background(), chat("c")); err != nil || !any {
			t.Fatalf("abort: %v, %v", any, err)
		}
		l.settles(chat("c"), 1)
		if _, err := n.signals("approval", "s", verdict{OK: true}); codeOf(err) != conversation.CodeAlreadyDecided {
			t.Errorf("signal after the abort: got %v", err)
		}
		n.admit(chat("c"), "2", "again") // the name is free for the next wait
		l.waitSuspended(chat("c"), 2)
		if _, err := n.signals("approval", "t", verdict{OK: true}); err != nil {
			t.Errorf("signal for the next wait: got %v", err)
		}
		l.completes(chat("c"), 3)
	})
}

// TestWaitOfASubagent: calls of subagents wait like those of the agent.
func TestWaitOfASubagent(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		helper := chatAgent(approves(&work{}, nil))
		helper.Name, helper.Description = "helper", "Asks people."
		a := chatAgent()
		a.Subagents = []*agent.Agent{helper}
		vendor := onlyModel(inTurn(toolCalls(task("helper", "ask")), toolCalls("approve"), replies("they say yes"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: vendor})
		n.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		if _, err := n.signals("approval", "s", verdict{OK: true}); err != nil {
			t.Fatal(err)
		}
		l.completes(chat("c"), 2)
		wants(t, "the prompt", strings.Join(vendor.last(t, "model"), "\n"), "they say yes")
		lacks(t, "the public view", n.public(chat("c")), "wait-call")
	})
}
