package actors_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
)

// turnsOf counts turn_request and turn by turn id, and the turns that are errors or were cut off.
func (s *memorySink) turnsOf() (requests, turns map[conversation.TurnID]int, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, turns = map[conversation.TurnID]int{}, map[conversation.TurnID]int{}
	for _, e := range s.events {
		switch p := e.Payload.(type) {
		case *observability.TurnRequest:
			requests[e.Turn]++
		case *observability.Turn:
			if p.Purpose == observability.PurposeAgent {
				turns[e.Turn]++
			}
			if p.IsError || p.CutOff() {
				failed++
			}
		}
	}
	return requests, turns, failed
}

// breaks answers with a text, and continues with next.
func breaks(text string, next script) script {
	return func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		a.Text(text)
		return next(ctx, req, a)
	}
}

// TestEachTurnRequestHasItsTurn has a model call for each ending: every turn_request has one turn of
// its id, which is an error, or cut off, unless the call completed.
func TestEachTurnRequestHasItsTurn(t *testing.T) {
	overloaded := fails(&providers.Error{Kind: providers.KindOverloaded, Status: http.StatusServiceUnavailable})
	tooLong := fails(tooLong)
	refused := fails(&providers.Error{Kind: providers.KindInvalidRequest, Status: http.StatusBadRequest})
	for name, tt := range map[string]struct {
		script         script
		change         func(*agent.Agent)
		send           int // messages before the checked one
		stop, compacts bool
		calls          int // model calls for the messages
		failed         int
	}{
		"completed":          {script: inTurn(replies("done")), calls: 1},
		"retried":            {script: inTurn(overloaded, overloaded, replies("done")), calls: 3, failed: 2},
		"retried after text": {script: inTurn(breaks("half", overloaded), replies("done")), calls: 2, failed: 1},
		"scheduled":          {script: inTurn(later("300"), replies("done")), calls: 2, failed: 1},
		"lost":               {script: inTurn(refused), calls: 1, failed: 1},
		"lost after retries": {script: inTurn(overloaded, overloaded, overloaded, overloaded), calls: 4, failed: 4},
		"too long twice":     {script: inTurn(replies(words("one")), replies(words("two")), tooLong, tooLong), compacts: true, send: 2, calls: 4, failed: 2},
		"too long":           {script: inTurn(replies(words("one")), replies(words("two")), tooLong, replies("done")), compacts: true, send: 2, calls: 4, failed: 1},
		"aborted":            {script: inTurn(hangs("", nil)), stop: true, calls: 1, failed: 1},
		"aborted after text": {script: inTurn(hangs("half", nil)), stop: true, calls: 1, failed: 1},
		"timed out": {script: inTurn(hangs("", nil)), calls: 1, failed: 1, change: func(a *agent.Agent) {
			a.Durability.Timeout = 10 * time.Second
		}},
		"silent": {script: inTurn(hangs("", nil), replies("done")), calls: 2, failed: 1},
		"fallback": {script: inTurn(refused), calls: 2, failed: 1, change: func(a *agent.Agent) {
			a.Fallbacks = []string{"test/other"}
		}},
		"with a tool": {script: inTurn(overloaded, toolCalls("look"), overloaded, replies("done")), calls: 4, failed: 2, change: func(a *agent.Agent) {
			a.Tools = []agent.Tool{returning("look", "nothing")}
		}},
		"of a subagent": {script: inTurn(toolCalls(task("helper", "do it")), replies("done")), calls: 4, failed: 1, change: func(a *agent.Agent) {
			a.Subagents = []*agent.Agent{{Name: "helper", Description: "Helps.", Model: "test/child"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				a, p := chatAgent(), part{}
				if tt.compacts {
					a, p.windows = compacting(), window
				}
				if tt.change != nil {
					tt.change(a)
				}
				sink := newMemorySink("memory")
				p.opts = agents(a)
				p.opts.Events.Sinks = []observability.Sink{sink}
				p.vendor = &vendor{models: map[string]script{
					"model": tt.script, "other": replies("done"), "sum": replies("summary"), "child": inTurn(overloaded, replies("did it")),
				}}
				n := l.run(p)
				for i := range tt.send + 1 {
					n.admit(chat("c"), string(rune('a'+i)), words("go"))
					if tt.stop {
						time.Sleep(time.Second)
						if _, err := n.rt.Abort(t.Context(), chat("c")); err != nil {
							t.Fatal(err)
						}
					}
					l.settles(chat("c"), i+1)
				}
				time.Sleep(time.Minute) // Flushes queued events.
				requests, turns, failed := sink.turnsOf()
				if len(requests) != tt.calls || len(turns) != tt.calls || failed != tt.failed {
					t.Errorf("got %d turn_request and %d turn of which %d are errors; want %d, %d and %d\n%s",
						len(requests), len(turns), failed, tt.calls, tt.calls, tt.failed, l.lines(chat("c")))
				}
				for id := range requests {
					if requests[id] != 1 || turns[id] != 1 {
						t.Errorf("turn %s: got %d turn_request and %d turn, want one of each", id, requests[id], turns[id])
					}
				}
			})
		})
	}
}
