package actors_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// later is a vendor that returns a retry-after.
func later(seconds string) script {
	return fails(providers.ResponseError(429, http.Header{"Retry-After": {seconds}}, []byte(`{"error":{"message":"slow down"}}`)))
}

// TestLongRetryAfterSuspends: a long retry-after suspends the conversation. It counts neither as work nor
// as an attempt, and another process continues when it is due.
func TestLongRetryAfterSuspends(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		a := chatAgent()
		a.Durability.Timeout, a.Durability.MaxAttempts = time.Minute, 1
		c := onlyModel(inTurn(later("300"), later("200"), replies("done")))
		first := l.run(part{opts: agents(a), vendor: c})
		first.admit(chat("c"), "1", "go")
		suspended := l.waitSuspended(chat("c"), 1)
		l.journalsAreEmpty()
		first.crash()

		next := l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		began := l.attemptTimes(chat("c"))
		if len(began) != 3 || began[1] < suspended.Until || began[1] > suspended.Until+61_000 {
			t.Errorf("got attempts at %v, want the first suspended until %s", began, suspended.Until)
		}
		waits := only[*conversation.RetryScheduled](l.records(chat("c")))
		if len(waits) != 2 || waits[1].WaitedMs != 500_000 || waits[1].Reason != "rate_limit" || waits[1].Model != "test/model" {
			t.Errorf("got waits %+v, want 300 s and 200 s", waits)
		}
		if got := len(c.requests("model")); got != 3 {
			t.Errorf("got %d calls, want 3", got)
		}
		var displays []conversation.Display
		for _, m := range next.snapshot(chat("c")).Messages {
			if m.Purpose == conversation.PurposeAdvisory {
				displays = append(displays, m.Display)
			}
		}
		if diff := cmp.Diff([]conversation.Display{conversation.DisplayDiagnostic, conversation.DisplayDiagnostic}, displays); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
		if s := only[*conversation.SubmissionSettled](l.records(chat("c")))[0]; s.ElapsedMs > 60_000 {
			t.Errorf("got %d ms", s.ElapsedMs)
		}
		time.Sleep(3 * time.Minute)
		l.checkNothingLeft()
	})
}

// TestRetryAfterLimit: an agent limits the retry-after of its vendors.
func TestRetryAfterLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		patience time.Duration
		asked    int
	}{"default": {0, 3}, "less": {4 * time.Minute, 1}, "more": {time.Hour, 4}} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				a := chatAgent()
				a.Durability.Patience = tt.patience
				c := onlyModel(inTurn(later("300"), later("300"), later("300"), replies("done")))
				n := l.run(part{opts: agents(a), vendor: c})
				n.admit(chat("c"), "1", "go")
				s := l.settles(chat("c"), 1)[0]
				if got := len(c.requests("model")); got != tt.asked {
					t.Errorf("got %d calls, want %d", got, tt.asked)
				}
				if tt.asked == 4 {
					return
				}
				want := &conversation.SettlementError{
					Type: conversation.CodeModelFailed, Message: s.Error.Message, Meta: map[string]any{"reason": "rate_limit", "retryAfterMs": 300_000.0},
				}
				if diff := cmp.Diff(want, s.Error); diff != "" {
					t.Errorf("settled (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAbortOfLongRetryAfter settles at once, and the model is not called again.
func TestAbortOfLongRetryAfter(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		c := onlyModel(inTurn(later("300"), replies("done")))
		n := l.run(part{opts: agents(chatAgent()), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		if any, err := n.rt.Abort(t.Context(), chat("c")); !any || err != nil {
			t.Fatalf("abort: %v, %v", any, err)
		}
		if s := l.settles(chat("c"), 1)[0]; s.Outcome != conversation.OutcomeAborted {
			t.Errorf("got outcome %s", s.Outcome)
		}
		time.Sleep(10 * time.Minute)
		if got := len(c.requests("model")); got != 1 {
			t.Errorf("got %d calls, want 1", got)
		}
		l.checkNothingLeft()
	})
}

// TestSubagentWaitsForItsVendor: its parent waits, too, and both continue in another process.
func TestSubagentWaitsForItsVendor(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		a := withSubagents(chatAgent(), researcher())
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls(task("researcher", "look")), replies("done")),
			"child": inTurn(later("300"), replies("found")),
		}}
		first := l.run(part{opts: agents(a), vendor: c})
		first.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		first.crash()

		l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		if model, child := len(c.requests("model")), len(c.requests("child")); model != 2 || child != 2 {
			t.Errorf("got %d calls of the parent and %d of the child, want 2 and 2", model, child)
		}
	})
}
