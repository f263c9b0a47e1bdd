package actors_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// largeMessage returns a message of more than half the size that a state keeps of queued messages.
func largeMessage(n int) string {
	return fmt.Sprintf("%d ", n) + strings.Repeat("fat ", conversation.InlineBytes/6)
}

func (n *node) whole(at conversation.Address) string {
	n.w.tb.Helper()
	page, err := n.rt.Reader().Snapshot(context.Background(), at)
	if err != nil {
		n.w.tb.Fatal(err)
	}
	b, err := page.Bytes(context.Background())
	if err != nil {
		n.w.tb.Fatal(err)
	}
	return string(b)
}

// same compares long texts.
func same(t *testing.T, desc, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: %d bytes, want %d; at %d %.80q, want %.80q", desc, len(got), len(want), i, got[i:], want[i:])
}

// TestLargeMessagesWait: the state keeps little of queued messages. Readers, the model and the author's
// code see all of them, also after a crash.
func TestLargeMessagesWait(t *testing.T) {
	const waiting = 4
	var mu sync.Mutex
	notified := map[string]int{}
	note := func(hook string, d conversation.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		notified[hook+" "+d.Body]++
	}
	ag := chatAgent()
	ag.Hooks.DeliveryStarted = func(_ context.Context, turn *agent.Turn) error {
		note("start", turn.Delivery)
		return nil
	}
	ag.Hooks.Settled = func(_ context.Context, s *agent.Settlement) error {
		note("settled", s.Delivery)
		return nil
	}
	w := newWorld(t)
	held := make(stage)
	opts := agents(ag)
	opts.DrainTimeout = time.Millisecond // its shutdown will fail
	n := w.start(setup{opts: opts, model: held})
	n.admit(chat("c"), "0", "thin")
	held.next(t)
	for i := range waiting {
		n.admit(chat("c"), fmt.Sprint(i+1), largeMessage(i+1))
	}
	same(t, "snapshot during the wait", n.whole(chat("c")), w.folded(chat("c")))
	n.cut()
	_ = n.stop()

	var last []string
	n = w.start(setup{opts: agents(ag), model: script(func(_ context.Context, req providers.Request, a *providers.Assembler) error {
		m := req.Messages[len(req.Messages)-1]
		mu.Lock()
		last = append(last, m.Parts[0].(providers.Text).Text)
		mu.Unlock()
		a.Text("ok")
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})})
	w.untilSettled(chat("c"), waiting+1)
	eventually(t, "every hook", func() bool { // a stopping node reads no message body for a hook
		mu.Lock()
		defer mu.Unlock()
		return len(notified) == 2*(waiting+1) // hooks are concurrent
	})
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	if len(last) != waiting+1 {
		t.Fatalf("got %d model calls", len(last))
	}
	for i := range waiting {
		same(t, fmt.Sprintf("prompt of turn %d", i+1), last[i+1], largeMessage(i+1))
		for _, hook := range []string{"start", "settled"} {
			if notified[hook+" "+largeMessage(i+1)] == 0 {
				t.Errorf("hook %s did not get message %d", hook, i+1)
			}
		}
	}

	var view string
	n = w.start(setup{opts: agents(ag), model: script(func(_ context.Context, req providers.Request, a *providers.Assembler) error {
		view = strings.Join(shown(req), "\n")
		a.Text("done")
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})})
	same(t, "snapshot afterwards", n.whole(chat("c")), w.folded(chat("c")))
	n.admit(chat("c"), "last", "and now?")
	w.untilSettled(chat("c"), waiting+2)
	for i := range waiting {
		if !strings.Contains(view, largeMessage(i+1)) {
			t.Errorf("message %d missing in later prompts", i+1)
		}
	}
}

// TestLargeMessagesInPrompt: queued messages are read from the log only as far as the prompt
// includes them, newest first; older ones are summarized. That holds for the state, and for pages in
// memory and in the bucket.
func TestLargeMessagesInPrompt(t *testing.T) {
	const waiting, most = 4, 3 * conversation.InlineBytes
	body := strings.Repeat("fat ", most/3/4)
	type checks struct {
		name   string
		checks int // batches between checkpoints
	}
	for _, tc := range sample.Of([]checks{{"open", 1 << 10}, {"cut", 1}}, []checks{{"cut", 1}}) {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			opts := agents(chatAgent())
			opts.CheckpointBatches = tc.checks
			asked, answered := make(chan int), make(chan struct{})
			set := setup{opts: opts, model: script(func(_ context.Context, req providers.Request, a *providers.Assembler) error {
				asked <- len(strings.Join(shown(req), ""))
				<-answered
				a.Text("ok")
				a.Finish(providers.Done{StopReason: providers.StopStop})
				return nil
			})}
			answer := func() {
				t.Helper()
				if n := await(t, asked, "a model call"); n > most+1<<10 {
					t.Errorf("got prompt of %d bytes, want at most %d", n, most)
				}
				answered <- struct{}{}
			}
			n := w.start(set)
			n.rt.ShowAtMost(most)
			n.admit(chat("c"), "0", "thin")
			for i := range waiting {
				n.admit(chat("c"), fmt.Sprint(i+1), body)
			}
			for range 1 + waiting + 1 { // the last but one is a summary
				answer()
			}
			w.untilSettled(chat("c"), 1+waiting)
			if err := n.stop(); err != nil {
				t.Error(err)
			}
			n = w.start(set)
			n.rt.ShowAtMost(most)
			n.admit(chat("c"), "last", "and now?")
			answer()
			for _, s := range w.untilSettled(chat("c"), 1+waiting+1) {
				if s.Outcome != conversation.OutcomeCompleted {
					t.Errorf("submission %s: got outcome %s: %+v", s.Submission, s.Outcome, s.Error)
				}
			}
		})
	}
}

// outages makes reads of an object fail, for one minute each time.
type outages struct {
	mu   sync.Mutex
	key  string
	back time.Time // zero before the next outage
}

func (o *outages) of(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.key = key
}

func (o *outages) decide(op storagetest.Op) storagetest.Kind {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op.Method != http.MethodGet || op.Key != o.key {
		return storagetest.None
	}
	if o.back.IsZero() {
		o.back = time.Now().Add(time.Minute)
	}
	if time.Now().Before(o.back) {
		return storagetest.Timeout
	}
	o.back = time.Time{}
	return storagetest.None
}

// TestOmittedDeliveryIsAwaited makes the bucket unavailable for longer than the timeouts of hooks and
// reads, whenever a delivery is read from the log: no submission fails.
func TestOmittedDeliveryIsAwaited(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var mu sync.Mutex
		var gone outages
		body, notified := largeMessage(1)+largeMessage(2), map[string]int{}
		note := func(hook string, d conversation.Delivery) {
			mu.Lock()
			defer mu.Unlock()
			if d.Body == body {
				notified[hook]++
			}
		}
		entered, crashed, settled := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}, 2)
		look := agent.NewTool("look", "Looks.", func(ctx context.Context, _ struct{}) (string, error) {
			entered <- struct{}{}
			select {
			case <-crashed:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			call, _ := agent.CallFrom(ctx)
			note("tool", call.Delivery)
			return "seen", nil
		}, &agent.ToolOptions{Durable: true})
		ag := chatAgent(look)
		ag.Hooks.DeliveryStarted = func(_ context.Context, turn *agent.Turn) error {
			note("start", turn.Delivery)
			return nil
		}
		ag.Hooks.Settled = func(_ context.Context, s *agent.Settlement) error {
			note("settled", s.Delivery)
			settled <- struct{}{}
			return nil
		}
		wait := func(ch <-chan struct{}, desc string) {
			select {
			case <-ch:
			case <-time.After(longest):
				t.Fatalf("timed out waiting for %s", desc)
			}
		}
		admitted := make(chan struct{})
		thin := func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			<-admitted
			return replies("done")(ctx, req, a)
		}
		models := onlyModel(inTurn(thin, toolCalls("look"), replies("done")))
		n := l.run(part{opts: agents(ag), vendor: models, decide: gone.decide})
		n.admit(chat("c"), "0", "thin")
		receipt := n.admit(chat("c"), "1", body)
		gone.of(storage.LogKey(chat("c").Key(), int64(receipt.Offset)))
		close(admitted)
		wait(entered, "the tool")
		n.crash()
		close(crashed)
		l.run(part{opts: agents(ag), vendor: models, decide: gone.decide})
		wait(settled, "the first settlement to be shown")
		wait(settled, "the second settlement to be shown")
		l.completes(chat("c"), 2)
		if diff := cmp.Diff(map[string]int{"start": 1, "tool": 1, "settled": 1}, notified); diff != "" {
			t.Errorf("notified (-want +got):\n%s", diff)
		}
		for _, r := range only[*conversation.ToolSettled](l.records(chat("c"))) {
			if r.Failed {
				t.Errorf("got tool error %s", r.ErrorText)
			}
		}
	})
}

func TestLargeQueueRejects(t *testing.T) {
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.MaxWaitingBytes = 1000
	model := make(stage)
	n := w.start(setup{opts: opts, model: model})
	n.admit(chat("c"), "0", strings.Repeat("x", 2000)) // not queued
	n.admit(chat("c"), "1", strings.Repeat("x", 2000)) // nor with another one
	_, err := n.rt.Admit(t.Context(), message(chat("c"), "2", "y"))
	e := codeIs(t, err, conversation.CodeUnavailable)
	if want := "The conversation has 2000 bytes of queued messages; its limit is 1000."; !strings.HasPrefix(e.Details, want) || e.RetryAfter <= 0 {
		t.Errorf("got details %q and retry-after %v, want %q", e.Details, e.RetryAfter, want)
	}
	model.next(t).finish()
	model.next(t).finish()
	w.untilSettled(chat("c"), 2)
	go func() { (<-model).moves <- finished() }()
	n.admit(chat("c"), "2", "y")
	w.untilSettled(chat("c"), 3)
}

// TestMemoryOfWrites checks that a batch and a checkpoint are charged to the budget while the bucket stores them.
func TestMemoryOfWrites(t *testing.T) {
	const size = 100_000
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.Memory, opts.CheckpointBatches = memory.New(1<<30), 1
	var batch, checkpoint atomic.Int64
	n := w.start(setup{opts: opts, model: emits(1), hold: func(op storagetest.Op) {
		seen := &batch
		switch {
		case strings.Contains(op.Key, "/ckpt/"):
			seen = &checkpoint
		case !strings.Contains(op.Key, "/log/"):
			return
		}
		for _, u := range opts.Memory.Usage() {
			if u.Account == "writes" {
				seen.Store(max(seen.Load(), u.Used))
			}
		}
	}})
	n.admit(chat("c"), "0", strings.Repeat("x", size))
	w.untilSettled(chat("c"), 1)
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	if batch.Load() < size || checkpoint.Load() < size {
		t.Errorf("got %d bytes of writes during a batch, %d during a checkpoint, want at least %d each", batch.Load(), checkpoint.Load(), size)
	}
	for _, u := range opts.Memory.Usage() {
		if u.Used != 0 {
			t.Errorf("got %d bytes of %s after the end, want 0", u.Used, u.Account)
		}
	}
}

// TestNoMemoryForNewMessages: while a node's memory budget is exhausted it accepts no messages, and
// continues admitted ones.
func TestNoMemoryForNewMessages(t *testing.T) {
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.Memory = memory.New(1 << 20)
	others := opts.Memory.Account("others", 0)
	model := make(stage)
	n := w.start(setup{opts: opts, model: model})
	n.admit(chat("c"), "0", strings.Repeat("x", 100_000))
	call := model.next(t)
	usage := opts.Memory.Usage()
	for _, u := range usage {
		if want := int64(100_000); (u.Account == "conversations" || u.Account == "model calls") && u.Used < want {
			t.Errorf("%s: got %d bytes, want at least %d", u.Account, u.Used, want)
		}
	}
	others.Add(1 << 20)
	_, err := n.rt.Admit(t.Context(), message(chat("d"), "0", "y"))
	e := codeIs(t, err, conversation.CodeUnavailable)
	if !strings.HasPrefix(e.Details, "This node accepts no new messages now: ") || !strings.HasSuffix(e.Details, "of the 1048576 bytes of memory of this node are in use. Retry after the time given.") || e.RetryAfter <= 0 {
		t.Errorf("got details %q and retry-after %v", e.Details, e.RetryAfter)
	}
	call.finish()
	w.untilSettled(chat("c"), 1)
	others.Add(-1 << 20)
	go func() { model.next(t).finish() }()
	n.admit(chat("d"), "0", "y")
	w.untilSettled(chat("d"), 1)
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	for _, u := range opts.Memory.Usage() {
		if u.Used != 0 {
			t.Errorf("%s: got %d bytes at the end", u.Account, u.Used)
		}
	}
}

// TestIdleIsEvictedUnderPressure: idle conversations leave memory early while half of the node's budget is in use,
// and still answer.
func TestIdleIsEvictedUnderPressure(t *testing.T) {
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.UnloadAfter, opts.EvictAfter, opts.Memory = time.Hour, time.Hour, memory.New(10<<20)
	others := opts.Memory.Account("others", 0)
	others.Add(5 << 20)
	n := w.start(setup{opts: opts, model: emits(1)})
	n.shed(chat("c"), 1)
	n.shed(chat("c"), 2)
	if err := n.stop(); err != nil {
		t.Error(err)
	}
}
