package actors_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

var errNoCredit = &providers.Error{Kind: providers.KindQuota, Status: 402, Err: errors.New("words of the vendor")}

// TestPrepareAppliesToOneCall returns another model, prompt and tools for every step.
func TestPrepareAppliesToOneCall(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		a := chatAgent(returning("first", "one"))
		a.Prepare = func(_ context.Context, turn *agent.Turn, s *agent.Setup) error {
			switch turn.Number {
			case 2:
				s.Model, s.Instructions = "test/big", s.Instructions+" Think."
				s.Tools = append(s.Tools, returning("second", "two"))
			case 3:
				s.Tools = nil
			}
			return nil
		}
		c := &vendor{models: map[string]script{"model": inTurn(toolCalls("first", "second"), replies("done")), "big": toolCalls("second", "first")}}
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		var got []string
		for _, r := range c.requests("") {
			var tools []string
			for _, tool := range r.req.Tools {
				tools = append(tools, tool.Name)
			}
			got = append(got, fmt.Sprint(r.model, " ", r.req.System, " ", tools))
		}
		want := []string{"model Be brief. [first]", "big Be brief. Think. [first second]", "model Be brief. []"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		// The tools of a step are those sent to its model.
		seen := c.last(t, "model")
		wants(t, "the first results", seen[2], "p1=one", `p2!There is no tool named "second"`)
		wants(t, "the second results", seen[4], "p1=two|p2=one")
		var models []string
		for _, r := range only[*conversation.ResponseStarted](l.records(chat("c"))) {
			models = append(models, r.Model)
		}
		if diff := cmp.Diff([]string{"test/model", "test/big", "test/model"}, models); diff != "" {
			t.Errorf("recorded models (-want +got):\n%s", diff)
		}
	})
}

// TestFallbacks calls the next model as soon as one fails, and for a while starts with one that has
// not failed, unless the failure is specific to one call. Clients get the model and the reason each
// time.
func TestFallbacks(t *testing.T) {
	half := func(err error) script {
		return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
			a.Text("words of the first")
			return err
		}
	}
	for name, tt := range map[string]struct {
		first script
		calls int // calls of the first model, over two submissions in a row
	}{
		"for good":          {fails(errNoCredit), 1},
		"for good, late":    {half(errNoCredit), 1},
		"for now":           {half(&providers.Error{Kind: providers.KindOverloaded, Status: 503}), 1},
		"in another format": {fails(&providers.Error{Kind: providers.KindProtocol}), 2},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				a := chatAgent()
				a.Fallbacks = []string{"test/second", "test/third"}
				c := &vendor{models: map[string]script{"model": tt.first, "second": fails(errNoCredit), "third": replies("Words of the third.")}}
				n := l.run(part{opts: agents(a), vendor: c})
				asked := func(when string, want map[string]int) {
					t.Helper()
					for model, want := range want {
						if got := len(c.requests(model)); got != want {
							t.Errorf("%s %s: got %d calls, want %d", when, model, got, want)
						}
					}
				}
				for i := range 2 {
					n.admit(chat("c"), fmt.Sprint(i), "go")
					l.completes(chat("c"), i+1)
				}
				asked("in a row", map[string]int{"model": tt.calls, "second": 1, "third": 2})
				time.Sleep(5 * time.Minute)
				n.admit(chat("c"), "later", "go")
				l.completes(chat("c"), 3)
				asked("later", map[string]int{"model": tt.calls + 1, "second": 2, "third": 3})
				var texts []string
				var notes []string // notes about another model
				for _, m := range n.snapshot(chat("c")).Messages {
					for _, p := range m.Parts {
						if m.Purpose != conversation.PurposeAdvisory {
							texts = append(texts, *p.Text)
						} else {
							notes = append(notes, *p.Text)
						}
					}
				}
				failed, reachedBoundaries := "test/third answers in place of test/model. test", "test/third answers in place of test/model, which failed recently. test"
				want := []string{failed, reachedBoundaries, failed}
				if tt.calls == 2 { // it is called every time
					want[1] = failed
				}
				if !slices.EqualFunc(notes, want, strings.HasPrefix) {
					t.Errorf("got notes %q, want %q and more", notes, want)
				}
				if diff := cmp.Diff([]string{"go", "Words of the third.", "go", "Words of the third.", "go", "Words of the third."}, texts); diff != "" {
					t.Errorf("transcript (-want +got):\n%s", diff)
				}
				kept := l.fold(chat("c")).Exchanges("")
				for _, sub := range kept {
					if steps := sub.Turns(); len(steps) != 1 || steps[0].Model != "test/third" {
						t.Errorf("got steps %+v, want one of test/third", steps)
					}
				}
				if len(kept) != 3 {
					t.Errorf("got %d exchanges", len(kept))
				}
			})
		})
	}
}

// fold returns the state folded from a log.
func (l *loop) fold(at conversation.Address) *conversation.State {
	l.tb.Helper()
	s := conversation.NewState()
	for i, records := range l.batches(at) {
		if err := s.Apply(conversation.Batch{Offset: conversation.Offset(i), Records: records}); err != nil {
			l.tb.Fatal(err)
		}
	}
	return s
}

// TestAllModelsFail settles with the failure of the last model, in Parley's own words.
func TestAllModelsFail(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		a := chatAgent()
		a.Fallbacks = []string{"test/second", "test/unknown"}
		c := &vendor{models: map[string]script{"model": fails(errNoCredit), "second": fails(errNoCredit)}}
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		want := modelFailed("invalid_request")
		want.Message = "test returned 404: the model or the address is unknown; check the model name and baseUrl."
		if diff := cmp.Diff(want, l.settles(chat("c"), 1)[0].Error); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
		lacks(t, "the public view", n.public(chat("c")), "words of the vendor")
	})
}

// TestRetryAfterIsHonored waits for the retry-after of a vendor.
func TestRetryAfterIsHonored(t *testing.T) {
	for header, want := range map[string]time.Duration{"2": 2 * time.Second, "300": 5 * time.Minute, "": 0} {
		t.Run(header, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				busy := providers.ResponseError(429, http.Header{"Retry-After": {header}}, []byte(`{"error":{"message":"slow down"}}`))
				c := onlyModel(inTurn(fails(busy), replies("done")))
				n := l.run(part{opts: agents(chatAgent()), vendor: c})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				r := c.requests("model")
				if got := r[1].at.Sub(r[0].at).Truncate(100 * time.Millisecond); got != want {
					t.Errorf("got a retry after %v, want %v", got, want)
				}
			})
		})
	}
}

// TestSilentStreams: a stream times out after one minute without a first event, or 30 s between
// events. It is retried three times and then fails.
func TestSilentStreams(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		wait time.Duration
	}{"from the start": {"", time.Minute}, "between events": {"half", 30 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				c := onlyModel(hangs(tt.text, nil))
				n := l.run(part{opts: agents(chatAgent()), vendor: c})
				n.admit(chat("c"), "1", "go")
				s := l.settles(chat("c"), 1)[0]
				if s.Outcome != conversation.OutcomeFailed || s.Error.Type != conversation.CodeModelFailed {
					t.Errorf("got outcome %s with %+v", s.Outcome, s.Error)
				}
				r := c.requests("model")
				if len(r) != 4 {
					t.Fatalf("got %d calls, want 4", len(r))
				}
				for i := range 3 {
					if got := r[i+1].at.Sub(r[i].at).Truncate(time.Second); got != tt.wait {
						t.Errorf("call %d: got timeout after %v, want %v", i+1, got, tt.wait)
					}
				}
			})
		})
	}
}

// TestTruncatedStream ends a stream without its end marker: its output is withdrawn, none of its calls
// runs, and the next stream counts.
func TestTruncatedStream(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		ran := 0
		count := agent.NewTool("count", "Counts.", func(context.Context, struct{}) (int, error) {
			ran++
			return ran, nil
		}, nil)
		c := onlyModel(inTurn(func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
			a.Text("lost words")
			a.CallArguments(a.StartCall("p1", "count"), "{}")
			return nil
		}, replies("All of it.")))
		n := l.run(part{opts: agents(chatAgent(count)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if ran != 0 || len(only[*conversation.StepDropped](l.records(chat("c")))) > 1 {
			t.Errorf("got %d runs of the tool; log:\n%s", ran, l.lines(chat("c")))
		}
		if parts := n.response(chat("c")).Parts; len(parts) != 1 || *parts[0].Text != "All of it." {
			t.Errorf("got response %+v", parts)
		}
		if diff := cmp.Diff([]string{"user: go"}, c.last(t, "model")); diff != "" {
			t.Errorf("prompt of the second call (-want +got):\n%s", diff)
		}
	})
}

// TestTimeBudgetBoundsAllWork blocks each kind of work: the submission fails once at its timeout, and
// the next one runs.
func TestTimeBudgetBoundsAllWork(t *testing.T) {
	endless := func(ctx context.Context, _ providers.Request, a *providers.Assembler) error {
		for ctx.Err() == nil {
			a.Text("more ")
			time.Sleep(20 * time.Second)
		}
		return ctx.Err()
	}
	tooLong := providers.ResponseError(413, nil, []byte(`{"error":{"message":"too large"}}`))
	for name, tt := range map[string]struct{ model, child, sum script }{
		"tool":               {model: toolCalls("stuck")},
		"durable tool":       {model: toolCalls("stuck-durable")},
		"stream":             {model: hangs("", nil)},
		"endless stream":     {model: endless},
		"subagent's stream":  {model: toolCalls(task("child", "go")), child: endless},
		"subagent's tool":    {model: toolCalls(task("child", "go")), child: toolCalls("stuck")},
		"summary":            {model: fails(tooLong), sum: endless},
		"vendor's pause":     {model: fails(&providers.Error{Kind: providers.KindRateLimit, RetryAfter: 20 * time.Second})},
		"one tool of a step": {model: toolCalls("fine", "stuck")},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				end := make(chan struct{})
				t.Cleanup(func() { close(end) })
				stuck := func(name string, durable bool) agent.Tool {
					return agent.NewTool(name, "Ignores all.", func(context.Context, struct{}) (string, error) {
						<-end
						return "late", nil
					}, &agent.ToolOptions{Durable: durable})
				}
				tools := []agent.Tool{stuck("stuck", false), stuck("stuck-durable", true), returning("fine", "good")}
				a := chatAgent(tools...)
				a.Subagents = []*agent.Agent{{Name: "child", Description: "A child.", Model: "test/child", Tools: tools}}
				a.Durability.Timeout, a.Compaction.Model, a.Compaction.KeepRecentTokens = 2*time.Minute, "test/sum", 1
				c := &vendor{models: map[string]script{"model": inTurn(replies(strings.Repeat("x", 400)), tt.model), "child": tt.child, "sum": tt.sum}}
				n := l.run(part{opts: agents(a), vendor: c})
				n.admit(chat("c"), "0", "begin")
				l.completes(chat("c"), 1)
				began := time.Now()
				n.admit(chat("c"), "1", "go")
				s := l.settles(chat("c"), 2)[1]
				if took := time.Since(began).Truncate(time.Second); took > 2*time.Minute+time.Second {
					t.Errorf("took %v", took)
				}
				if s.Outcome != conversation.OutcomeFailed || s.Error.Type != conversation.CodeTimeout {
					t.Errorf("got outcome %s with %+v", s.Outcome, s.Error)
				}
				c.models["model"] = replies("done")
				n.admit(chat("c"), "2", "and now?")
				l.completes(chat("c"), 3)
				time.Sleep(time.Hour) // no record follows
				l.settles(chat("c"), 3)
			})
		})
	}
}

// TestFallbackOfAnotherModel: a model chosen by Prepare is called, even if it failed in an earlier
// step.
func TestFallbackOfAnotherModel(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		a := chatAgent(returning("look", "fog"))
		a.Fallbacks = []string{"test/second"}
		a.Prepare = func(_ context.Context, turn *agent.Turn, s *agent.Setup) error {
			if turn.Number > 1 {
				s.Model = "test/strong"
			}
			return nil
		}
		c := &vendor{models: map[string]script{
			"model": fails(errNoCredit), "second": inTurn(toolCalls("look"), replies("by second")), "strong": replies("by strong"),
		}}
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if got := len(c.requests("strong")); got != 1 {
			t.Errorf("got %d calls of the model from Prepare, want 1", got)
		}
	})
}
