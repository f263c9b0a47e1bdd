package actors_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// reminds is a durable tool that takes a note, sleeps, and calls.
func reminds(k *work, wait time.Duration) agent.Tool {
	return agent.NewTool("remind", "Reminds.", func(ctx context.Context, _ struct{}) (string, error) {
		k.did("remind")
		for _, name := range []string{"note", "call"} {
			if _, err := agent.Step(ctx, name, func(context.Context) (bool, error) {
				k.did(name)
				return true, nil
			}); err != nil {
				return "", err
			}
			if name == "note" {
				if err := agent.Sleep(ctx, "wait", wait); err != nil {
					return "", err
				}
			}
		}
		return "called", nil
	}, &agent.ToolOptions{Durable: true})
}

// waitSuspended waits until a conversation is suspended, its timer stored, and passivated.
func (l *loop) waitSuspended(at conversation.Address, timers int) *conversation.Suspended {
	l.tb.Helper()
	l.until("a timer", func() bool { return len(l.timers()) == timers })
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	all := only[*conversation.Suspended](l.records(at))
	if len(all) == 0 {
		l.tb.Fatalf("no suspension in\n%s", l.lines(at))
	}
	return all[len(all)-1]
}

// attemptTimes returns the start times of a conversation's attempts.
func (l *loop) attemptTimes(at conversation.Address) (began []conversation.Time) {
	l.tb.Helper()
	for _, r := range only[*conversation.AttemptStarted](l.records(at)) {
		began = append(began, r.At)
	}
	return began
}

// TestSuspendedTurn suspends a call for a day. Its process crashes; the next one gets no request and
// continues the call when it is due.
func TestSuspendedTurn(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k := &work{}
		a := chatAgent(reminds(k, 3*time.Hour))
		a.Durability.Timeout = time.Minute // suspended time does not count
		c := onlyModel(inTurn(toolCalls("remind"), replies("done")))
		first := l.run(part{opts: agents(a), vendor: c})
		first.admit(chat("c"), "1", "go")
		suspended := l.waitSuspended(chat("c"), 1)
		l.journalsAreEmpty()
		first.crash()

		next := l.run(part{opts: agents(a), vendor: c})
		time.Sleep(time.Minute)
		before := len(l.batches(chat("c")))
		next.counts.Reset()
		time.Sleep(2 * time.Hour)
		for r, n := range next.counts.Counts() {
			if r.Method != "LIST" || n > 2*120+1 { // Two LISTs for timers per sweep of 30 s, and one more if a sweep falls on both ends.
				t.Errorf("got %d requests %+v while suspended", n, r)
			}
		}
		if got := len(l.batches(chat("c"))); got != before {
			t.Errorf("got %[2]d batches, want %[1]d", before, got)
		}
		l.completes(chat("c"), 1)
		if diff := cmp.Diff(map[string]int{"remind": 2, "note": 1, "call": 1}, k.counts()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		began := l.attemptTimes(chat("c"))
		if len(began) != 2 || began[1] < suspended.Until || began[1] > suspended.Until+61_000 {
			t.Errorf("got attempts at %v, suspended until %s", began, suspended.Until)
		}
		settled := only[*conversation.SubmissionSettled](l.records(chat("c")))[0]
		if settled.ElapsedMs > 60_000 {
			t.Errorf("got %d ms", settled.ElapsedMs)
		}
		time.Sleep(3 * time.Minute)
		l.checkNothingLeft()
	})
}

func (l *loop) journalsAreEmpty() {
	l.tb.Helper()
	for _, j := range l.journals() {
		if len(j.Entries) > 0 {
			l.tb.Errorf("journal %d of %s lists %+v", j.N, j.Member, j.Entries)
		}
	}
}

// TestShortSleep: a sleep of seconds blocks; a slightly longer one ends to the millisecond while the
// conversation is in memory.
func TestShortSleep(t *testing.T) {
	for wait, waitSuspended := range map[time.Duration]int{29 * time.Second: 0, 31 * time.Second: 1} {
		inLoop(t, func(t *testing.T, l *loop) {
			k := &work{}
			n := l.run(part{opts: agents(chatAgent(reminds(k, wait))), vendor: onlyModel(inTurn(toolCalls("remind"), replies("done")))})
			began := time.Now()
			n.admit(chat("c"), "1", "go")
			l.completes(chat("c"), 1)
			if took := time.Since(began); took < wait || took > wait+5*time.Second && waitSuspended == 0 {
				t.Errorf("wait of %v: got %v", wait, took)
			}
			if got := len(only[*conversation.Suspended](l.records(chat("c")))); got != waitSuspended || k.counts()["remind"] != 1+waitSuspended {
				t.Errorf("wait of %v: got %d suspensions, runs %v", wait, got, k.counts())
			}
			time.Sleep(3 * time.Minute)
			l.checkNothingLeft()
		})
	}
}

// TestSuspendedTurnIsProbed: an early probe of a suspended conversation changes nothing. A message is
// answered at once, or afterwards if its agent requires order.
func TestSuspendedTurnIsProbed(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		inLoop(t, func(t *testing.T, l *loop) {
			k := &work{}
			a := chatAgent(reminds(k, time.Hour))
			a.AnswerInOrder = inOrder
			n := l.run(part{opts: agents(a), vendor: onlyModel(inTurn(toolCalls("remind"), replies("done"), replies("and this")))})
			n.admit(chat("c"), "1", "go")
			suspended := l.waitSuspended(chat("c"), 1)
			l.probeEarly(t, chat("c"))
			time.Sleep(5 * time.Minute)
			if got := l.timers(); len(got) != 2 || len(l.attemptTimes(chat("c"))) != 1 {
				t.Errorf("got timers %q, attempts %v", got, l.attemptTimes(chat("c")))
			}

			n.admit(chat("c"), "2", "and?")
			time.Sleep(5 * time.Minute)
			l.journalsAreEmpty()
			first, waiting := 1, 2
			if inOrder {
				first, waiting = 0, 1
			}
			if got := len(only[*conversation.SubmissionSettled](l.records(chat("c")))); got != first {
				t.Errorf("in order %v: got %d settlements during the wait", inOrder, got)
			}
			l.completes(chat("c"), 2)
			if began := l.attemptTimes(chat("c")); len(began) != 3 || began[waiting] < suspended.Until || !inOrder && began[1] >= suspended.Until {
				t.Errorf("in order %v: got attempts at %v, suspended until %s", inOrder, began, suspended.Until)
			}
			time.Sleep(3 * time.Minute)
			l.checkNothingLeft()
		})
	}
}

// probeEarly stores a timer for the suspended call that is already due, as a node whose clock is ahead
// sees it.
func (l *loop) probeEarly(t *testing.T, at conversation.Address) {
	t.Helper()
	state := conversation.NewState()
	for i, b := range l.batches(at) {
		if err := state.Apply(conversation.Batch{Offset: conversation.Offset(i), Records: b}); err != nil {
			t.Fatal(err)
		}
	}
	early := storage.Timer{Conv: at.Key(), Seq: int64(state.Unsettled()[0].SuspendedAt), Until: conversation.TimeOf(time.Now())}
	if err := storage.PutTimer(context.Background(), l.bucket, early); err != nil {
		t.Fatal(err)
	}
}

// TestAbortOfASuspendedTurn: an abort ends a suspended call permanently.
func TestAbortOfASuspendedTurn(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k := &work{}
		n := l.run(part{opts: agents(chatAgent(reminds(k, time.Hour))), vendor: onlyModel(toolCalls("remind"))})
		n.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		if any, err := n.rt.Abort(context.Background(), chat("c")); !any || err != nil {
			t.Fatalf("abort: %v, %v", any, err)
		}
		if got := l.settles(chat("c"), 1); got[0].Outcome != conversation.OutcomeAborted {
			t.Errorf("got settlement %+v", got[0])
		}
		time.Sleep(2 * time.Hour)
		l.checkNothingLeft()
		if diff := cmp.Diff(map[string]int{"remind": 1, "note": 1}, k.counts()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

// TestDrainOfASuspendedTurn: a graceful shutdown and the next start neither continue nor lose it.
func TestDrainOfASuspendedTurn(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k := &work{}
		a, c := chatAgent(reminds(k, time.Hour)), onlyModel(inTurn(toolCalls("remind"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.until("a timer", func() bool { return len(l.timers()) == 1 })
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		if got := l.journals(); len(got) > 0 {
			t.Errorf("got remaining journals %+v", got)
		}
		l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		if got := k.counts(); got["remind"] != 2 || got["note"] != 1 {
			t.Errorf("got runs %v", got)
		}
	})
}

// TestTwoNodesCheckATimer: two nodes that both consider themselves the owner, and both check each
// timer, continue a conversation once.
func TestTwoNodesCheckATimer(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k := &work{}
		a, c := chatAgent(reminds(k, time.Hour)), onlyModel(inTurn(toolCalls("remind"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		time.Sleep(5 * time.Minute)
		l.checkNothingLeft()
		var steps []string
		for _, r := range only[*conversation.StepRecorded](l.records(chat("c"))) {
			steps = append(steps, r.Name)
		}
		if got := strings.Join(steps, " "); got != "note wait call" {
			t.Errorf("got record %s", got)
		}
	})
}

// TestToolThatIgnoresItsSuspension: a function that continues after its sleep suspended the run does not
// run twice concurrently.
func TestToolThatIgnoresItsSuspension(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		release := make(chan struct{})
		defer close(release)
		unresponsive := agent.NewTool("deaf", "Goes on.", func(ctx context.Context, _ struct{}) (string, error) {
			_ = agent.Sleep(ctx, "wait", time.Hour)
			<-release
			return "late", nil
		}, &agent.ToolOptions{Durable: true})
		swallows := agent.NewTool("swallows", "Returns as if nothing was.", func(ctx context.Context, _ struct{}) (string, error) {
			if err := agent.Sleep(ctx, "wait", time.Hour); err != nil {
				return "nothing", nil
			}
			return "slept", nil
		}, &agent.ToolOptions{Durable: true})
		plain := agent.NewTool("plain", "Is not durable.", func(ctx context.Context, _ struct{}) (string, error) {
			return "slept", agent.Sleep(ctx, "wait", time.Hour)
		}, nil)
		c := onlyModel(inTurn(toolCalls("deaf", "swallows", "plain"), replies("done")))
		n := l.run(part{opts: agents(chatAgent(unresponsive, swallows, plain)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		seen := c.last(t, "model")
		wants(t, "the prompt", seen[len(seen)-1], "p1!tool did not stop", "|p2=slept|", "p3!step wait: steps cannot be recorded")
	})
}
