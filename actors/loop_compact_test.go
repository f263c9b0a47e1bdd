package actors_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/edge"
	"github.com/parleyrun/parley/storage"
)

var (
	// window is the size of a model that is full at 500 tokens.
	window = map[string]int{"model": 1000}
	little = providers.Usage{Input: 90, Output: 10, Total: 100}
	much   = providers.Usage{Input: 590, Output: 10, Total: 600}
	// tooLong is a vendor's error for a request that does not fit.
	tooLong = providers.ResponseError(413, nil, []byte(`{"error":{"message":"Request too large."}}`))
)

// compacting is an agent with another model for summaries, which keeps about 50 tokens verbatim.
func compacting(tools ...agent.Tool) *agent.Agent {
	a := chatAgent(tools...)
	a.Compaction = agent.Compaction{Model: "test/sum", KeepRecentTokens: 50, Instructions: "Keep the names."}
	return a
}

// words is a text of 80 bytes, 20 tokens, that begins with a mark.
func words(mark string) string { return mark + strings.Repeat(".", 80-len(mark)) }

// summaryOf returns a summary as in the prompt.
func summaryOf(text string) string {
	return "user: <summary>\nThe beginning of this conversation was omitted. This is a summary of it:\n\n" + text + "\n</summary>"
}

// TestThresholdCompaction: once a model's window is nearly full, the prompt has a summary. No caller
// waits for it, and the transcript stays complete.
func TestThresholdCompaction(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		begun, release := make(chan struct{}), make(chan struct{})
		c := &vendor{models: map[string]script{
			"model": inTurn(repliesAt(words("one"), little), repliesAt(words("two"), much), repliesAt(words("three"), much), replies(words("four"))),
			"sum":   held(begun, release, replies("They <talked>.")),
		}}
		n := l.run(part{opts: agents(compacting()), vendor: c, windows: window})
		wantText := func(i int, text string) {
			t.Helper()
			n.admit(chat("c"), fmt.Sprint(i), words(text))
			l.completes(chat("c"), i)
		}
		wantText(1, "first")
		wantText(2, "second")
		await(t, begun, "the summary")
		wantText(3, "third") // answered while the summary is being written
		if got := len(c.requests("model")[2].seen()); got != 5 {
			t.Errorf("got %d messages in the third request, want 5", got)
		}
		_, before := n.updates(chat("c"), 0)
		close(release)
		l.until("the compaction", func() bool { return len(only[*conversation.Compacted](l.records(chat("c")))) == 1 })
		wantText(4, "fourth")

		want := []string{
			summaryOf("They &lt;talked&gt;."), "user: " + words("second"), "assistant: " + words("two"),
			"user: " + words("third"), "assistant: " + words("three"), "user: " + words("fourth"),
		}
		if diff := cmp.Diff(want, c.last(t, "model")); diff != "" {
			t.Errorf("the request after it (-want +got):\n%s", diff)
		}
		sum := c.requests("sum")
		if len(sum) != 1 || len(sum[0].req.Tools) != 0 {
			t.Fatalf("got summary requests %+v", sum)
		}
		wants(t, "the summarizer's prompt", strings.Join(sum[0].seen(), "\n"), "User: first", "Assistant: one")
		lacks(t, "the summarizer's prompt", strings.Join(sum[0].seen(), "\n"), "second", "third")
		wants(t, "the summarizer's instructions", sum[0].req.System, "Write a summary", "Keep the names.")
		checkPublic(t, l, n, before, 8)
		lacks(t, "the public view", n.public(chat("c")), "talked")
	})
}

// checkPublic checks that a compaction is invisible to clients: they get all messages, and a reset
// where the summary was recorded.
func checkPublic(t *testing.T, l *loop, n *actorNode, before conversation.Offset, messages int) {
	t.Helper()
	if got := len(n.snapshot(chat("c")).Messages); got != messages {
		t.Errorf("got %d messages in the transcript, want %d", got, messages)
	}
	at := conversation.Offset(slices.IndexFunc(l.batches(chat("c")), func(b []conversation.Record) bool {
		return len(only[*conversation.Compacted](b)) > 0
	}))
	for _, after := range []conversation.Offset{conversation.Start, before} {
		chunks, _ := n.updates(chat("c"), after)
		var seen []conversation.Chunk
		for _, c := range chunks {
			if c.Position.Batch == at {
				seen = append(seen, c)
			}
		}
		if len(seen) != 1 || seen[0].Type != conversation.ChunkReset || len(seen[0].Snapshot.Messages) != messages-2 {
			t.Errorf("reader after %v: got %+v of the compaction", after, seen)
		}
	}
}

// TestIncrementalSummaries: a summary extends the previous one.
func TestIncrementalSummaries(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		c := &vendor{models: map[string]script{
			"model": inTurn(repliesAt(words("a1"), little), repliesAt(words("a2"), much), repliesAt(words("a3"), little), repliesAt(words("a4"), much), replies("a5")),
			"sum":   inTurn(replies("Summary one."), replies("Summary two.")),
		}}
		n := l.run(part{opts: agents(compacting()), vendor: c, windows: window})
		for i := 1; i <= 5; i++ {
			n.admit(chat("c"), fmt.Sprint(i), words(fmt.Sprint("q", i)))
			l.completes(chat("c"), i)
			time.Sleep(time.Minute) // the summary, if there is one, is recorded
		}
		sums := c.requests("sum")
		if len(sums) != 2 {
			t.Fatalf("got %d summaries", len(sums))
		}
		second := strings.Join(sums[1].seen(), "\n")
		wants(t, "the second prompt", second, "Summary one.", "User: q2", "Assistant: a2", "User: q3")
		lacks(t, "the second prompt", second, "q1", "a1", "q4", "a4")
		last := strings.Join(c.last(t, "model"), "\n")
		wants(t, "the last request", last, "Summary two.", "q4", "a4", "q5")
		lacks(t, "the last request", last, "Summary one.", "q3", "a3")
		var before []int
		for _, r := range only[*conversation.Compacted](l.records(chat("c"))) {
			before = append(before, r.Before)
		}
		if diff := cmp.Diff([]int{1, 3}, before); diff != "" {
			t.Errorf("omitted exchanges (-want +got):\n%s", diff)
		}
	})
}

// TestViewAfterRestarts: a node that restores a conversation from checkpoints and pages, cut before
// and after compactions, sends the same prompt as one that never restarted.
func TestViewAfterRestarts(t *testing.T) {
	const turns = 24
	asked := func(t *testing.T, page, checkpoint, restart int, corrupt func(*loop)) (views [][]string) {
		inLoop(t, func(t *testing.T, l *loop) {
			i := 0
			var turn atomic.Int64 // i, for the models
			c := &vendor{models: map[string]script{
				"model": func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
					i := int(turn.Load())
					calls := map[bool]int{true: 1}[i%5 == 3]
					usage := little
					if i%7 == 6 { // The prompt is cut between its steps.
						calls, usage = 2, much
					}
					steps := 0
					for m := len(req.Messages) - 1; req.Messages[m].Role != providers.RoleUser; m -= 2 {
						steps++
					}
					if steps < calls {
						return toolCalls("look")(ctx, req, a)
					}
					return repliesAt(words(fmt.Sprint("a", i)), usage)(ctx, req, a)
				},
				"sum": func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
					return replies(fmt.Sprint("Summary after ", turn.Load()))(ctx, req, a)
				},
			}}
			opts := agents(compacting(returning("look", words("fog"))))
			opts.CheckpointBatches = checkpoint
			p := part{opts: opts, vendor: c, windows: window, page: page}
			n := l.run(p)
			for ; i < turns; i++ {
				turn.Store(int64(i))
				n.admit(chat("c"), fmt.Sprint(i), words(fmt.Sprint("q", i)))
				l.completes(chat("c"), i+1)
				time.Sleep(10 * time.Second)
				if i%restart == restart-1 {
					n.crash()
					corrupt(l)
					n = l.run(p)
				}
			}
			if pages := len(l.keysWith("/page/")); (page == 400) != (pages > 0) {
				t.Errorf("got %d pages in the bucket", pages)
			}
			if got := len(only[*conversation.Compacted](l.records(chat("c")))); got != 3 {
				t.Errorf("got %d compactions", got)
			}
			for _, r := range only[*conversation.Compacted](l.records(chat("c"))) {
				if r.FirstTurn == "" {
					t.Errorf("got the prompt cut at a message: %+v", r)
				}
			}
			for _, r := range c.requests("model") {
				views = append(views, r.seen())
			}
		})
		return views
	}
	want := asked(t, 0, 10_000, 10_000, nil)
	for _, restart := range sample.Of([]int{10_000, 3, 1}, []int{3}) {
		if diff := cmp.Diff(want, asked(t, 400, 4, restart, func(*loop) {})); diff != "" {
			t.Errorf("with restarts after every %d turns (-want +got):\n%s", restart, diff)
		}
	}
	garbage := func(l *loop) {
		for _, key := range l.keysWith("/page/") {
			if err := l.bucket.Put(context.Background(), key, storage.Bytes([]byte("garbage"))); err != nil {
				l.tb.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(want, asked(t, 400, 4, 5, garbage)); diff != "" {
		t.Errorf("with pages corrupted at every restart (-want +got):\n%s", diff)
	}
}

// TestCompactionWithinASubmission: steps of a tool loop are summarized, too, and no call is separated
// from its outcome.
func TestCompactionWithinASubmission(t *testing.T) {
	for name, at := range map[string]script{"threshold": nil, "overflow": fails(tooLong)} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				// Slow enough for a summary to be written in the meantime.
				look := agent.NewTool("look", "Looks.", func(context.Context, struct {
					At string `json:"at"`
				}) (string, error) {
					time.Sleep(5 * time.Second)
					return words("fog"), nil
				}, nil)
				look1, look2, look3 := toolCallsAt(little, `look {"at":"1"}`), toolCallsAt(little, `look {"at":"2"}`), toolCallsAt(much, `look {"at":"3"}`, `look {"at":"4"}`)
				model := inTurn(look1, look2, look3, replies("done"))
				if at != nil {
					model = inTurn(look1, look2, toolCallsAt(little, `look {"at":"3"}`, `look {"at":"4"}`), at, replies("done"))
				}
				c := &vendor{models: map[string]script{"model": model, "sum": replies("It looked.")}}
				n := l.run(part{opts: agents(compacting(look)), vendor: c, windows: window})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				want := []string{summaryOf("It looked."), "user: go"}
				if at == nil { // The outcomes of the third step were missing; the second fit.
					want = append(want, `assistant: look{"at":"2"}`, "tool: p1="+words("fog"))
				}
				want = append(want, `assistant: look{"at":"3"}|look{"at":"4"}`, "tool: p1="+words("fog")+"|p2="+words("fog"))
				if diff := cmp.Diff(want, c.last(t, "model")); diff != "" {
					t.Errorf("the last request (-want +got):\n%s", diff)
				}
				wants(t, "the prompt", strings.Join(c.last(t, "sum"), "\n"), `Call look: {"at":"1"}`, `Outcome: "fog`)
				lacks(t, "the prompt", strings.Join(c.last(t, "sum"), "\n"), `{"at":"3"}`)
				if got := len(toolParts(n.snapshot(chat("c")))); got != 4 {
					t.Errorf("got %d public calls, want 4", got)
				}
			})
		})
	}
}

// smallBinding is an edge platform's binding that rejects every request.
type smallBinding struct{}

func (smallBinding) Run(context.Context, string, *providers.Body, providers.EdgeRunOptions) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusRequestEntityTooLarge}, nil
}

// callBinding calls the model by a binding that rejects the request as too large.
func callBinding(ctx context.Context, req providers.Request, _ *providers.Assembler) error {
	m := providers.Model{Provider: "test", ID: "model", Edge: &providers.Edge{Binding: smallBinding{}}}
	for _, err := range edge.New(nil).Stream(ctx, m, req, providers.Options{}) {
		return err
	}
	return nil
}

// TestOverflow: a request that is too long, by any vendor's error, is shortened once.
// covers: providers/148
func TestOverflow(t *testing.T) {
	inWords := providers.ResponseError(400, nil, []byte(`{"error":{"message":"prompt is too long: 1200 tokens > 1000 maximum"}}`))
	silent := repliesAt("cut words", providers.Usage{Input: 1001, Output: 2, Total: 1003})
	noRoom := func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
		a.Finish(providers.Done{StopReason: providers.StopLength, Usage: providers.Usage{Input: 995, Total: 995}})
		return nil
	}
	for name, tt := range map[string]struct {
		fail script
		off  bool
	}{
		"edge binding": {callBinding, false},
		"413":          {fails(tooLong), false}, "vendor's words": {fails(inWords), false}, "silent": {silent, false}, "no room": {noRoom, false}, "off": {fails(tooLong), true},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again %v", name, again), func(t *testing.T) {
				inLoop(t, func(t *testing.T, l *loop) {
					a := compacting()
					a.Compaction.Off = tt.off
					scripts := []script{repliesAt(words("one"), little), repliesAt(words("two"), little), tt.fail, replies("done")}
					if again {
						scripts = append(scripts[:3], tt.fail)
					}
					c := &vendor{models: map[string]script{"model": inTurn(scripts...), "sum": replies("They talked.")}}
					n := l.run(part{opts: agents(a), vendor: c, windows: window})
					for i := 1; i <= 2; i++ {
						n.admit(chat("c"), fmt.Sprint(i), words("hello"))
						l.completes(chat("c"), i)
					}
					n.admit(chat("c"), "3", words("now"))
					s := l.settles(chat("c"), 3)[2]
					if got := len(c.requests("sum")); got != 1 {
						t.Errorf("got %d summaries, want 1", got)
					}
					if got := len(c.requests("model")); got != 4 {
						t.Errorf("got %d model calls, want 4", got)
					}
					if seen := c.last(t, "model"); seen[0] != summaryOf("They talked.") || seen[len(seen)-1] != "user: "+words("now") {
						t.Errorf("got last prompt %q", seen)
					}
					lacks(t, "the transcript", fmt.Sprint(n.response(chat("c"))), "cut words")
					checkOverflow(t, s, again)
				})
			})
		}
	}
}

// textTooLong is the error for a conversation that does not fit, sayMessageTooLong for a single
// message.
const (
	textTooLong        = "The conversation is too long for the model, and could not be shortened."
	textMessageTooLong = "The message alone is too long for the model; send a shorter one."
)

func checkOverflow(t *testing.T, s *conversation.SubmissionSettled, failed bool) {
	t.Helper()
	checkFailure(t, s, failed, textTooLong)
}

func checkFailure(t *testing.T, s *conversation.SubmissionSettled, failed bool, wantText string) {
	t.Helper()
	switch {
	case !failed && s.Outcome != conversation.OutcomeCompleted:
		t.Errorf("got outcome %s with %+v", s.Outcome, s.Error)
	case failed && (s.Outcome != conversation.OutcomeFailed || s.Error.Type != conversation.CodeModelFailed || s.Error.Message != wantText):
		t.Errorf("got outcome %s with %+v", s.Outcome, s.Error)
	}
}

// TestUnrecoverableOverflow: nothing can be omitted, or no model writes a summary.
func TestUnrecoverableOverflow(t *testing.T) {
	for name, tt := range map[string]struct {
		sum  script
		body string
	}{
		"one long message":     {replies("never asked"), strings.Repeat("x", 4000)},
		"no summary":           {fails(errNoCredit), "hello"},
		"an empty summary":     {replies("  "), "hello"},
		"a summary cut short":  {fails(nil), "hello"},
		"an endless summary":   {replies(strings.Repeat("x", 100_000)), "hello"},
		"a summary at a loss":  {fails(tooLong), "hello"},
		"a broken summarizer":  {fails(errors.New("broken")), "hello"},
		"a silent summarizer":  {hangs("", nil), "hello"},
		"a summarizer unknown": {nil, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				scripts := []script{fails(tooLong)}
				turns := 0
				if name != "one long message" {
					scripts, turns = []script{replies(words("one")), replies(words("two")), fails(tooLong)}, 2
				}
				c := &vendor{models: map[string]script{"model": inTurn(scripts...), "sum": tt.sum}}
				n := l.run(part{opts: agents(compacting()), vendor: c, windows: window})
				for i := range turns {
					n.admit(chat("c"), fmt.Sprint(i), words("hi"))
					l.completes(chat("c"), i+1)
				}
				n.admit(chat("c"), "last", tt.body)
				wantText := textTooLong
				if name == "one long message" {
					wantText = textMessageTooLong
				}
				checkFailure(t, l.settles(chat("c"), turns+1)[turns], true, wantText)
				if name == "one long message" && len(c.requests("sum")) > 0 {
					t.Error("got a summary request, want none")
				}
				if got := only[*conversation.Compacted](l.records(chat("c"))); len(got) != 0 {
					t.Errorf("got records %+v", got[0])
				}
			})
		})
	}
}

// TestCompactionOff disables the threshold; TestOverflow covers the rest.
func TestCompactionOff(t *testing.T) {
	for _, off := range []bool{false, true} {
		inLoop(t, func(t *testing.T, l *loop) {
			a := compacting()
			a.Compaction.Off = off
			c := &vendor{models: map[string]script{"model": repliesAt(words("text"), much), "sum": replies("They talked.")}}
			n := l.run(part{opts: agents(a), vendor: c, windows: window})
			for i := 1; i <= 3; i++ {
				n.admit(chat("c"), fmt.Sprint(i), words("hi"))
				l.completes(chat("c"), i)
			}
			if got := len(c.requests("sum")); (got == 0) != off {
				t.Errorf("off %v: got %d summary requests", off, got)
			}
		})
	}
}

// TestLostCompaction kills a node while it writes a summary for a settled submission, and for a
// queued one: the loss has no effect.
func TestLostCompaction(t *testing.T) {
	for name, tt := range map[string]struct {
		third   script
		settled int
	}{"after its submission": {repliesAt(words("three"), much), 3}, "for its submission": {fails(tooLong), 2}} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				begun := make(chan struct{})
				c := &vendor{models: map[string]script{
					"model": inTurn(replies(words("one")), replies(words("two")), tt.third, replies("done")),
					"sum":   inTurn(hangs("They", begun), replies("They talked.")),
				}}
				p := part{opts: agents(compacting()), vendor: c, windows: window}
				n := l.run(p)
				for i := 1; i <= 3; i++ {
					n.admit(chat("c"), fmt.Sprint(i), words("hi"))
					if i <= tt.settled {
						l.completes(chat("c"), i)
					}
				}
				await(t, begun, "the summary")
				n.crash()
				n = l.run(p)
				l.completes(chat("c"), 3)
				n.admit(chat("c"), "4", "and?")
				l.completes(chat("c"), 4)
				if got := len(n.snapshot(chat("c")).Messages); got != 8 {
					t.Errorf("got %d messages, want 8", got)
				}
			})
		})
	}
}

// TestDrainDoesNotWaitForSummaries stops a node gracefully while it writes a summary.
func TestDrainDoesNotWaitForSummaries(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		begun := make(chan struct{})
		c := &vendor{models: map[string]script{"model": repliesAt(words("text"), much), "sum": hangs("They", begun)}}
		var opts actors.Options = agents(compacting())
		opts.BetweenEvents = longest
		n := l.run(part{opts: opts, vendor: c, windows: window})
		for i := 1; i <= 3; i++ {
			n.admit(chat("c"), fmt.Sprint(i), words("hi"))
			l.completes(chat("c"), i)
		}
		await(t, begun, "the summary")
		synctest.Wait()
		began := time.Now()
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("got shutdown after %v", took)
		}
	})
}
