package actors_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// TestModelThatNeverEnds cuts off a response beyond its bound: it fails once with the emitted text,
// for any endless output, and no fallback is called.
func TestModelThatNeverEnds(t *testing.T) {
	const limit, piece = 256 << 10, 1 << 10
	endless := func(emit func(a *providers.Assembler, i int)) script {
		return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
			for i := 0; i < 64*limit/piece && !a.Stopped(); i++ {
				emit(a, i)
			}
			a.Finish(providers.Done{StopReason: providers.StopStop})
			return nil
		}
	}
	text := strings.Repeat("x", piece)
	for name, tt := range map[string]struct {
		emit  func(a *providers.Assembler, i int)
		limit int
	}{
		"text":      {func(a *providers.Assembler, _ int) { a.Text(text) }, limit},
		"reasoning": {func(a *providers.Assembler, _ int) { a.Reasoning(text, "") }, limit},
		"signatures": {func(a *providers.Assembler, i int) {
			a.Reasoning("", fmt.Sprint(text, i))
			a.Text("x")
		}, limit},
		"parts": {func(a *providers.Assembler, i int) {
			a.Text("x")
			a.Reasoning("y", "")
		}, limit},
		"arguments": {func(a *providers.Assembler, i int) {
			if i == 0 {
				a.StartCall("p", "t")
			}
			a.CallArguments(0, text)
		}, limit / 4},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				a := chatAgent()
				a.Limits = agent.Limits{ResponseBytes: limit, ArgumentBytes: limit / 4}
				a.Fallbacks = []string{"test/other"}
				c := &vendor{models: map[string]script{"model": endless(tt.emit), "other": replies("done")}}
				n := l.run(part{opts: agents(a), vendor: c})
				n.admit(chat("c"), "1", "go")
				got := l.settles(chat("c"), 1)[0].Error
				if got == nil || got.Type != conversation.CodeOutputTooLong {
					t.Fatalf("got settlement %+v", got)
				}
				if at := fmt.Sprint(got.Meta["limit"]); at != fmt.Sprint(tt.limit) {
					t.Errorf("got limit %s, want %d", at, tt.limit)
				}
				if asked := len(c.requests("")); asked != 1 {
					t.Errorf("got %d model calls, want 1", asked)
				}
				size := 0
				for _, d := range only[*conversation.Delta](l.records(chat("c"))) {
					size += len(d.Text)
				}
				if size > limit {
					t.Errorf("got %d bytes in the log, want at most %d", size, limit)
				}
				if name == "text" && size < limit/2 {
					t.Errorf("got %d bytes in the log, want the text up to the limit of %d", size, limit)
				}
			})
		})
	}
}

// TestManyCalls runs no call of a reply with too many, and calls the model again.
func TestManyCalls(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		many := make([]string, 20_000)
		for i := range many {
			many[i] = "t"
		}
		c := onlyModel(inTurn(toolCalls(many...), toolCalls("t", "t"), replies("done")))
		n := l.run(part{opts: agents(chatAgent(returning("t", "one"))), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if calls := only[*conversation.ToolCalled](l.records(chat("c"))); len(calls) != 2 {
			t.Errorf("got %d calls in the log, want 2", len(calls))
		}
		notes := only[*conversation.Advisory](l.records(chat("c")))
		if len(notes) != 1 {
			t.Fatalf("got %d notes, want 1", len(notes))
		}
		wants(t, "the note", notes[0].Text, "more than 128 tool calls")
		wants(t, "the prompt", strings.Join(c.last(t, "model"), "\n"), "more than 128 tool calls")
	})
}

// TestManyLargeOutcomes records outcomes larger than one batch, all at once, in several batches: no
// call runs twice, and the turn continues.
func TestManyLargeOutcomes(t *testing.T) {
	const calls, size, limit = 24, 20 << 10, 256 << 10
	inLoop(t, func(t *testing.T, l *loop) {
		var runs atomic.Int32
		all := make(chan struct{})
		big := agent.NewTool("big", "Returns much.", func(ctx context.Context, _ struct{}) (string, error) {
			if runs.Add(1) == calls {
				close(all)
			}
			select {
			case <-all:
			case <-ctx.Done():
			}
			return strings.Repeat("x", size), nil
		}, &agent.ToolOptions{Durable: true})
		a := chatAgent(big)
		a.ToolConcurrency = calls
		opts := agents(a)
		opts.Log = &storage.LogOptions{MaxBatchBytes: limit}
		var once sync.Once
		hold := func(op storagetest.Op) {
			if op.Method == http.MethodPut && strings.HasPrefix(op.Key, storage.FolderOf(chat("c").Key())+"log/") && runs.Load() == calls {
				once.Do(func() { time.Sleep(time.Second) }) // The other outcomes wait.
			}
		}
		n := l.run(part{opts: opts, hold: hold, vendor: onlyModel(inTurn(toolCalls(slices.Repeat([]string{"big"}, calls)...), replies("done")))})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if got := runs.Load(); got != calls {
			t.Errorf("got %d runs, want %d", got, calls)
		}
		outcomes, batches := 0, 0
		for _, b := range l.batches(chat("c")) {
			settled := only[*conversation.ToolSettled](b)
			for _, s := range settled {
				if s.Failed || len(s.Output) < size {
					t.Errorf("got outcome of %d bytes: %.100s", len(s.Output), s.ErrorText)
				}
			}
			outcomes += len(settled)
			batches += min(1, len(settled))
		}
		if outcomes != calls || batches < calls*size/limit {
			t.Errorf("got %d outcomes, want %d, in %d batches", outcomes, calls, batches)
		}
	})
}

// TestLongErrorOfATool: the model gets the beginning of the error, and the process log less.
func TestLongErrorOfATool(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		fail := agent.NewTool("fail", "Fails.", func(context.Context, struct{}) (string, error) {
			return "", errors.New(strings.Repeat("no luck ", 640<<10))
		}, nil)
		crash := agent.NewTool("crash", "Panics.", func(context.Context, struct{}) (string, error) {
			panic(strings.Repeat("no luck ", 64<<10))
		}, nil)
		n := l.run(part{opts: agents(chatAgent(fail, crash)), vendor: onlyModel(inTurn(toolCalls("fail", "crash"), replies("done")))})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		for _, s := range only[*conversation.ToolSettled](l.records(chat("c"))) {
			if len(s.ErrorText) > conversation.MaxPayloadBytes {
				t.Errorf("got error text of %d bytes in the log", len(s.ErrorText))
			}
			if strings.HasPrefix(s.ErrorText, "no luck") {
				wants(t, "the end of the error", s.ErrorText[len(s.ErrorText)-60:], "more bytes are left out)")
			}
		}
		for line := range strings.Lines(n.log.String()) {
			if len(line) > 16<<10 {
				t.Errorf("got log line of %d bytes: %.200s", len(line), line)
			}
		}
	})
}

// TestLargeState rejects state that does not fit into one batch with its outcome.
func TestLargeState(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		a := chatAgent()
		var keep []*agent.State[string]
		for i := range 3 {
			keep = append(keep, agent.NewState(fmt.Sprintf("s%d", i), ""))
			a.State = append(a.State, keep[i])
		}
		var errs []error
		a.Tools = []agent.Tool{agent.NewTool("write", "Writes.", func(ctx context.Context, _ struct{}) (string, error) {
			for i, s := range keep {
				errs = append(errs, s.Set(ctx, strings.Repeat(fmt.Sprint(i), 3<<20)))
			}
			return "written", nil
		}, nil)}
		n := l.run(part{opts: agents(a), vendor: onlyModel(inTurn(toolCalls("write"), replies("done")))})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		for i, err := range errs {
			if full := i == 2; errors.Is(err, agent.ErrStateFull) != full {
				t.Errorf("write %d: got %v", i, err)
			}
		}
		if got := len(only[*conversation.StateWritten](l.records(chat("c")))); got != 2 {
			t.Errorf("got %d recorded states, want 2", got)
		}
	})
}

// forwarder is a tool that dispatches its input to a conversation, the given number of times.
func forwarder(to conversation.Address, times int, errs *sync.Map) agent.Tool {
	return agent.NewTool("forward", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
		for i := range times {
			if _, err := agent.Dispatch(ctx, to, agent.Text(fmt.Sprint("message ", i))); err != nil {
				errs.Store(i, err)
				return "", err
			}
		}
		return "sent", nil
	}, nil)
}

// answersWith calls a tool once in each submission.
func answersWith(tool string) script {
	return func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		if seen := shown(req); strings.HasPrefix(seen[len(seen)-1], "user: ") {
			return toolCalls(tool)(ctx, req, a)
		}
		return replies("done")(ctx, req, a)
	}
}

func limited(t *testing.T, err any, option string) {
	t.Helper()
	var limit *agent.DispatchLimitError
	if e, ok := err.(error); !ok || !errors.As(e, &limit) || limit.Option != option || !errors.Is(e, agent.ErrDispatchLimit) {
		t.Errorf("got error %v, want limit %s", err, option)
	}
}

// TestDispatchDepth bounds a chain of unsettled senders. A chain of settled senders is unbounded, even
// in one conversation.
func TestDispatchDepth(t *testing.T) {
	own := func(i int) conversation.Address { return chat(fmt.Sprint("c", i)) }
	one := func(int) conversation.Address { return chat("c") }
	for _, c := range []struct {
		name   string
		to     func(i int) conversation.Address
		waits  bool // senders stay unsettled until one is rejected
		depths []int
	}{
		{"senders wait", own, true, []int{0, 1, 2, 3}},
		{"senders settle", own, false, []int{0, 1, 2, 3, 1, 2, 3, 1, 2, 3}},
		{"senders settle in one conversation", one, false, []int{0, 1, 2, 3, 1, 2, 3, 1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				refused := make(chan struct{})
				last := len(c.depths) - 1
				forward := agent.NewTool("forward", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
					call, _ := agent.CallFrom(ctx)
					i, err := strconv.Atoi(call.Delivery.Body)
					if err != nil {
						return "", err
					}
					time.Sleep(time.Minute) // until this one's sender is settled, if it does not wait
					if i == last && !c.waits {
						return "sent", nil
					}
					_, err = agent.Dispatch(ctx, c.to(i+1), agent.Text(strconv.Itoa(i+1)))
					if i == last {
						limited(t, err, "DispatchDepth")
						close(refused)
					} else if err != nil {
						t.Errorf("message %d not sent: %v", i+1, err)
					}
					if c.waits {
						<-refused
					}
					return "sent", nil
				}, nil)
				a := chatAgent(forward)
				a.Limits.DispatchDepth = 3
				n := l.run(part{opts: agents(a), vendor: onlyModel(answersWith("forward"))})
				n.admit(c.to(0), "1", "0")
				at := map[conversation.Address]bool{}
				for i := range c.depths {
					at[c.to(i)] = true
				}
				var depths []int
				for i := 0; i < len(c.depths); i += len(c.depths) / len(at) {
					l.completes(c.to(i), len(c.depths)/len(at))
					for _, r := range only[*conversation.SubmissionAdmitted](l.records(c.to(i))) {
						depths = append(depths, r.DispatchDepth)
					}
				}
				if !slices.Equal(depths, c.depths) {
					t.Errorf("got depths %v, want %v", depths, c.depths)
				}
			})
		})
	}
}

// TestDispatchDepthAfterCrash continues with the depth from the log.
func TestDispatchDepthAfterCrash(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var errs sync.Map
		begun := make(chan struct{})
		a, b := chatAgent(forwarder(other, 1, &errs)), &agent.Agent{Name: "other", Model: "test/second"}
		b.Tools, b.Limits.DispatchDepth = []agent.Tool{forwarder(chat("d"), 1, &errs)}, 1
		first := &vendor{models: map[string]script{"model": inTurn(toolCalls("forward"), hangs("", nil)), "second": hangs("", begun)}}
		n := l.run(part{opts: agents(a, b), vendor: first})
		n.admit(chat("c"), "1", "go")
		<-begun
		l.until("the message is acknowledged", func() bool { return len(only[*conversation.ToolSettled](l.records(chat("c")))) > 0 })
		n.crash()
		l.run(part{opts: agents(a, b), vendor: &vendor{models: map[string]script{"model": hangs("", nil), "second": answersWith("forward")}}})
		l.completes(other, 1)
		err, _ := errs.Load(0)
		limited(t, err, "DispatchDepth")
		if got := admitted(l, chat("d")); len(got) > 0 {
			t.Errorf("got messages %q", got)
		}
	})
}

// TestManyDispatches bounds the dispatches of one submission; the next has its own bound.
func TestManyDispatches(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var errs sync.Map
		a := chatAgent(forwarder(other, 7, &errs))
		a.Limits.Dispatches = 5
		n := l.run(part{opts: agents(a, &agent.Agent{Name: "other", Model: spec}), vendor: onlyModel(answersWith("forward"))})
		for i := range 2 {
			n.admit(chat("c"), fmt.Sprint(i), "go")
			l.completes(chat("c"), i+1)
			err, _ := errs.LoadAndDelete(5)
			limited(t, err, "Dispatches")
			if got := len(admitted(l, other)); got != 5*(i+1) {
				t.Errorf("got %d messages, want %d", got, 5*(i+1))
			}
		}
	})
}

// TestDispatchConcurrencyLimit answers a client while an agent dispatches to more conversations than
// the concurrency limit and none of the messages is stored.
func TestDispatchConcurrencyLimit(t *testing.T) {
	const sent, atOnce = 40, 4
	inLoop(t, func(t *testing.T, l *loop) {
		to := map[string]bool{} // keys of first batches
		for i := range sent {
			to[storage.LogKey(chat(fmt.Sprint(i)).Key(), 0)] = true
		}
		var stored atomic.Int32
		release := make(chan struct{})
		spread := agent.NewTool("spread", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
			var all sync.WaitGroup
			for i := range sent {
				all.Go(func() {
					if _, err := agent.Dispatch(ctx, chat(fmt.Sprint(i)), agent.Text("go on")); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			return "sent", nil
		}, nil)
		opts := agents(chatAgent(spread), &agent.Agent{Name: "other", Model: "test/calm"})
		opts.DispatchesAtOnce, opts.AdmitTimeout, opts.AppendTimeout = atOnce, longest, longest
		c := &vendor{models: map[string]script{"model": inTurn(toolCalls("spread"), replies("done")), "calm": replies("done")}}
		n := l.run(part{opts: opts, vendor: c, hold: func(op storagetest.Op) {
			if to[op.Key] && op.Method == http.MethodPut {
				stored.Add(1)
				<-release
			}
		}})
		n.admit(chat("c"), "1", "go")
		synctest.Wait()
		n.admit(other, "1", "go")
		l.completes(other, 1)
		if got := stored.Load(); got != atOnce {
			t.Errorf("got %d messages in flight, want %d", got, atOnce)
		}
		if got := n.rt.Status().QueuedDispatches; got != sent-atOnce {
			t.Errorf("got %d queued messages, want %d", got, sent-atOnce)
		}
		close(release)
		l.completes(chat("c"), 1)
		for i := range sent {
			l.completes(chat(fmt.Sprint(i)), 1)
		}
	})
}
