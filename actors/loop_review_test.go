package actors_test

import (
	"context"
	"errors"
	"fmt"
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

// TestSettledWithCheckpoint: the hook runs for a settlement whose batch makes a checkpoint due,
// which cuts the submission out of the state.
func TestSettledWithCheckpoint(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		const turns = 4
		k := &work{}
		a := chatAgent()
		a.Hooks.Settled = func(_ context.Context, s *agent.Settlement) error {
			k.did(fmt.Sprint(s.Delivery.Body, " ", s.Outcome, " ", s.Text))
			return nil
		}
		opts := agents(a)
		opts.CheckpointBatches = 1
		n := l.run(part{opts: opts, vendor: onlyModel(replies("done"))})
		want := map[string]int{}
		for i := range turns {
			n.admit(chat("c"), fmt.Sprint(i), fmt.Sprint("m", i))
			l.completes(chat("c"), i+1)
			want[fmt.Sprint("m", i, " completed done")] = 1
		}
		if diff := cmp.Diff(want, k.counts()); diff != "" {
			t.Errorf("calls of the hook (-want +got):\n%s", diff)
		}
		lacks(t, "the log", n.log.String(), "panic")
	})
}

// TestResponseStartedWritesState: the hook's writes are recorded with the response, before those of
// the submission's tools.
func TestResponseStartedWritesState(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		diary := agent.NewState("diary", []string{})
		note := func(ctx context.Context, desc string) error {
			_, err := diary.Update(ctx, func(list []string) []string { return append(list, desc) })
			return err
		}
		look := agent.NewTool("look", "Looks.", func(ctx context.Context, _ struct{}) (string, error) {
			return "fog", note(ctx, "look")
		}, nil)
		a := chatAgent(look)
		a.State = []agent.StateDefinition{diary}
		a.Hooks.ResponseStarted = func(ctx context.Context, _ *agent.Turn) (map[string]any, error) {
			return nil, note(ctx, "response")
		}
		n := l.run(part{opts: agents(a), vendor: onlyModel(inTurn(toolCalls("look"), replies("done")))})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		batch := batchWith(l, chat("c"), func(w *conversation.StateWritten) bool { return string(w.Value) == `["response"]` })
		if len(only[*conversation.ResponseStarted](batch)) != 1 {
			t.Errorf("got the hook's write outside the response's batch: %+v", batch)
		}
		batch = batchWith(l, chat("c"), func(w *conversation.StateWritten) bool { return string(w.Value) == `["response","look"]` })
		if got := only[*conversation.ToolSettled](batch); len(got) != 1 || got[0].Failed {
			t.Errorf("got the tool's write outside its outcome's batch: %+v", batch)
		}
	})
}

// TestFailedStartKeepsItsState: state written by DeliveryStarted before it failed is durable.
func TestFailedStartKeepsItsState(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		diary := agent.NewState("diary", []string{})
		a := chatAgent()
		a.State = []agent.StateDefinition{diary}
		a.Hooks.DeliveryStarted = func(ctx context.Context, _ *agent.Turn) error {
			return errors.Join(errors.New("no"), diary.Set(ctx, []string{"tried"}))
		}
		n := l.run(part{opts: agents(a), vendor: onlyModel(replies("done"))})
		n.admit(chat("c"), "1", "go")
		if s := l.settles(chat("c"), 1)[0]; s.Outcome != conversation.OutcomeFailed {
			t.Errorf("got outcome %s", s.Outcome)
		}
		batchWith(l, chat("c"), func(w *conversation.StateWritten) bool { return string(w.Value) == `["tried"]` })
	})
}

// TestBucketOutageBeforeModelCall: while the history of a conversation is unreadable, its model is not
// called, and no failure is counted.
func TestBucketOutageBeforeModelCall(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		opts := agents(chatAgent())
		opts.CheckpointBatches = 2
		c := onlyModel(replies(strings.Repeat("long ", 100)))
		var away atomic.Bool
		var refused atomic.Int32
		p := part{opts: opts, vendor: c, page: 400, decide: func(op storagetest.Op) storagetest.Kind {
			if away.Load() && op.Method == "GET" && strings.Contains(op.Key, "/page/") {
				refused.Add(1)
				return storagetest.ErrorBefore
			}
			return storagetest.None
		}}
		n := l.run(p)
		for i := range 4 {
			n.admit(chat("c"), fmt.Sprint(i), fmt.Sprint("m", i))
			l.completes(chat("c"), i+1)
			time.Sleep(time.Minute)
		}
		n.crash()
		n = l.run(p)
		away.Store(true)
		n.admit(chat("c"), "last", "and now?")
		time.Sleep(30 * time.Minute)
		if got := len(c.requests("")); got != 4 || refused.Load() == 0 {
			t.Errorf("got %d model calls and %d rejected requests", got, refused.Load())
		}
		away.Store(false)
		l.completes(chat("c"), 5)
		wants(t, "the last request", strings.Join(c.last(t, "model"), "\n"), "m0", "and now?")
	})
}

// TestSummarizerThatIgnoresItsContext: a compaction ends although the function that chooses the model
// never returns, and the conversation continues.
func TestSummarizerThatIgnoresItsContext(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		release := make(chan struct{})
		defer close(release)
		var stuck atomic.Bool
		a := chatAgent()
		a.Prepare = func(context.Context, *agent.Turn, *agent.Setup) error {
			if stuck.Load() {
				<-release
			}
			return nil
		}
		n := l.run(part{opts: agents(a), vendor: onlyModel(replies("done"))})
		n.admit(chat("c"), "1", "one")
		l.completes(chat("c"), 1)
		stuck.Store(true)
		_, err := n.rt.Compact(context.Background(), chat("c"), "")
		codeIs(t, err, conversation.CodeUnavailable)
		stuck.Store(false)
		if _, err := n.rt.Compact(context.Background(), chat("c"), ""); err != nil {
			t.Errorf("next compaction: got %v", err)
		}
		n.admit(chat("c"), "2", "two")
		l.completes(chat("c"), 2)
	})
}

// TestCompactionWithWithdrawnStep: a prompt never begins at an unfinished step, which may be
// withdrawn before the summary exists.
func TestCompactionWithWithdrawnStep(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		failing, begun, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
		breaks := func(ctx context.Context, _ providers.Request, a *providers.Assembler) error {
			a.Text(words("half") + words("an answer") + words("is here"))
			select {
			case <-failing:
				return &providers.Error{Kind: providers.KindOverloaded, Status: 503}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls("look"), toolCalls("look"), breaks, replies("done")),
			"sum":   held(begun, release, replies("It looked.")),
		}}
		n := l.run(part{opts: agents(compacting(returning("look", words("fog")+words("rain")))), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.until("the half answer", func() bool { return len(only[*conversation.Delta](l.records(chat("c")))) > 0 })
		done := make(chan error, 1)
		go func() {
			_, err := n.rt.Compact(context.Background(), chat("c"), "")
			done <- err
		}()
		await(t, begun, "the summarizer")
		close(failing)
		l.completes(chat("c"), 1)
		close(release)
		if err := await(t, done, "the compaction"); err != nil {
			t.Fatal(err)
		}
		records := l.records(chat("c"))
		if len(only[*conversation.StepDropped](records)) != 1 {
			t.Fatal("got no withdrawn step")
		}
		turns := map[conversation.TurnID]bool{}
		for _, s := range only[*conversation.StepCompleted](records) {
			turns[s.Turn] = true
		}
		if got := only[*conversation.Compacted](records); len(got) != 1 || !turns[got[0].FirstTurn] {
			t.Errorf("got compactions %+v, completed turns %v", got, turns)
		}
	})
}
