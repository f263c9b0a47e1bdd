package actors_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

// memorySink keeps each event once. While it is broken it accepts none.
type memorySink struct {
	name string

	mu     sync.Mutex
	broken bool
	ids    map[string]bool
	events []observability.Event
}

func newMemorySink(name string) *memorySink { return &memorySink{name: name, ids: map[string]bool{}} }

func (s *memorySink) Name() string { return s.name }

func (s *memorySink) Write(_ context.Context, events []observability.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errors.New("the sink is away")
	}
	for _, e := range events {
		if !s.ids[e.ID] {
			s.ids[e.ID] = true
			s.events = append(s.events, e)
		}
	}
	return nil
}

func (s *memorySink) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// durable returns the stored durable events of a conversation as JSON lines in log order.
func (s *memorySink) durable(tb testing.TB, at conversation.Address) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []observability.Event
	for _, e := range s.events {
		if !e.Live() && strings.HasPrefix(e.ID, string(at.Key())) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b observability.Event) int {
		if a.Seq != b.Seq {
			return int(a.Seq - b.Seq)
		}
		return int(a.Index - b.Index)
	})
	return eventLines(tb, list)
}

// live returns the live events in order of arrival.
func (s *memorySink) live() (list []observability.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Live() {
			list = append(list, e)
		}
	}
	return list
}

func eventLines(tb testing.TB, list []observability.Event) (lines []string) {
	tb.Helper()
	for _, e := range list {
		b, err := e.AppendJSON(nil)
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	return lines
}

// events returns the durable events made from the batches of a log.
func (w *world) events(at conversation.Address, o *observability.ProjectOptions) []string {
	w.tb.Helper()
	var list []observability.Event
	var src observability.Source
	for n, records := range w.batches(at) {
		b := conversation.Batch{Offset: conversation.Offset(n), Records: records}
		list = append(list, observability.Project(src, b, o)...)
		src = src.After(b)
	}
	return eventLines(w.tb, list)
}

const secretWord = "xyzzy-secret"

// talkative answers with a tool that logs, and repeats a secret everywhere.
func talkative(content bool) *agent.Agent {
	a := chatAgent(agent.NewTool("say", "Says it.", func(ctx context.Context, in struct {
		Word string `json:"word"`
	}) (string, error) {
		agent.Log(ctx, slog.LevelWarn, "about to say", "count", 1)
		return in.Word, nil
	}, nil))
	a.Events.Content = content
	return a
}

// TestEventsReachSinks: sinks and observers get the events of the log, and live events in addition.
// They contain message content only if that is enabled.
func TestEventsReachSinks(t *testing.T) {
	for name, content := range map[string]bool{"without content": false, "with content": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			model := make(stage)
			sink, watching := newMemorySink("memory"), newMemorySink("watching")
			opts := agents(talkative(content))
			opts.Events.Sinks, opts.Events.Observers = []observability.Sink{sink}, []observability.Sink{watching}
			n := w.start(setup{opts: opts, model: model})
			n.admit(chat("c"), "1", "please say "+secretWord)
			c := model.next(t)
			c.text("I say " + secretWord)
			c.call("p1", "say", `{ "word": "`+secretWord+`" }`)
			c.finish()
			model.next(t).finish()
			w.untilSettled(chat("c"), 1)
			eventually(t, "the last events", func() bool { return len(sink.durable(t, chat("c"))) == len(w.events(chat("c"), nil)) })
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
			want := w.events(chat("c"), &observability.ProjectOptions{Content: content})
			for _, s := range []*memorySink{sink, watching} {
				if diff := cmp.Diff(want, s.durable(t, chat("c"))); diff != "" {
					t.Errorf("%s: durable events (-log +sink):\n%s", s.name, diff)
				}
				lines := strings.Join(append(eventLines(t, s.live()), want...), "\n")
				if strings.Contains(lines, secretWord) != content {
					t.Errorf("%s: content enabled %v: got events\n%s", s.name, content, lines)
				}
			}
			checkLive(t, sink.live())
			checkFirstMessage(t, watching)
		})
	}
}

// checkFirstMessage checks that an observer gets a turn's content before its end: a span of the turn is
// created as soon as the end is known.
func checkFirstMessage(t *testing.T, s *memorySink) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	replied, ended := map[conversation.TurnID]bool{}, 0
	for _, e := range s.events {
		switch p := e.Payload.(type) {
		case *observability.MessageEnd:
			replied[e.Turn] = replied[e.Turn] || p.Message.Role == "assistant"
		case *observability.Turn:
			ended++
			if !replied[e.Turn] {
				t.Errorf("got the end of turn %s before its content", e.Turn)
			}
		}
	}
	if ended != 2 {
		t.Errorf("got %d turn ends, want 2", ended)
	}
}

// checkLive checks the live events of two turns, of which the first calls a tool.
func checkLive(t *testing.T, list []observability.Event) {
	t.Helper()
	var got []observability.Type
	for _, e := range list {
		got = append(got, e.Type)
		if e.Submission == "" || e.Turn == "" && e.Type != observability.TypeLog || e.Agent != "chat" {
			t.Errorf("got live event without context: %+v", e.Envelope)
		}
	}
	// Events of a call in progress, which belong to no batch, have no fixed order.
	unordered := []observability.Type{observability.TypeTurnRequest, observability.TypeToolcallDelta, observability.TypeLog}
	calls := map[observability.Type]int{}
	got = slices.DeleteFunc(got, func(t observability.Type) bool {
		calls[t]++
		return slices.Contains(unordered, t)
	})
	if calls[observability.TypeTurnRequest] != 2 || calls[observability.TypeLog] != 1 {
		t.Errorf("got live events of calls %v, want 2 requests and 1 log", calls)
	}
	want := []observability.Type{
		observability.TypeMessageStart, observability.TypeTextDelta, observability.TypeMessageEnd,
		observability.TypeMessageStart, observability.TypeMessageEnd, observability.TypeTurnMessages,
		observability.TypeMessageStart, observability.TypeTextDelta, observability.TypeMessageEnd, observability.TypeTurnMessages,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("live events (-want +got):\n%s", diff)
	}
}

// TestEventsDoNotBlock: with a sink that accepts nothing, conversations continue and move from the
// pending-work journal to an export journal.
func TestEventsDoNotBlock(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		sink := newMemorySink("memory")
		sink.setBroken(true)
		opts := agents(talkative(false))
		opts.Events.Sinks = []observability.Sink{sink}
		first := l.run(part{opts: opts, vendor: onlyModel(emits(3))})
		first.admit(chat("c"), "1", "hello")
		l.completes(chat("c"), 1)
		l.until("an export journal", func() bool { return len(l.exports()) == 1 && len(l.journals()) == 1 })
		l.until("the pending-work journal to be left", func() bool {
			all := l.journals()
			return len(all) == 1 && len(all[0].Entries) == 0
		})
		if got := first.rt.Status().Events; got.Listed != 1 || got.Waiting == 0 {
			t.Errorf("got event status %+v, want one listed conversation", got)
		}
		first.crash()

		// The next node finds the first node's pending work without traffic.
		sink.setBroken(false)
		second := l.run(part{opts: opts, vendor: onlyModel(emits(3))})
		l.until("the journal of the first node to be deleted", func() bool { return len(l.exports()) == 0 })
		eventually(t, "all events", func() bool { return len(sink.durable(t, chat("c"))) == len(l.events(chat("c"), nil)) })
		if err := second.stop(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.events(chat("c"), nil), sink.durable(t, chat("c"))); diff != "" {
			t.Errorf("events of a crashed node (-log +sink):\n%s", diff)
		}
	})
}

// exports returns the keys of the nonempty export journals.
func (l *loop) exports() (keys []string) {
	l.tb.Helper()
	refs, err := storage.ExportJournals(context.Background(), l.bucket)
	if err != nil {
		l.tb.Fatal(err)
	}
	for _, ref := range refs {
		j, err := storage.ReadExportJournal(context.Background(), l.bucket, ref.Member, ref.Shard, ref.N)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			l.tb.Fatal(err)
		}
		if err == nil && len(j.Entries) > 0 {
			keys = append(keys, storage.ExportJournalKey(ref.Member, ref.Shard, ref.N))
		}
	}
	return keys
}

// TestEventsOfRecovery kills a node in mid-reply before it ships anything: the next one ships the
// first one's events and its own.
func TestEventsOfRecovery(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		model := make(stage)
		broken, sink := newMemorySink("memory"), newMemorySink("memory")
		broken.setBroken(true)
		opts := doomed(talkative(false))
		opts.Events.Sinks = []observability.Sink{broken}
		crashed := l.run(part{opts: opts, vendor: onlyModel(model.runScript)})
		crashed.admit(chat("c"), "1", "hello")
		model.next(t).text("Once upon a time")
		l.until("the text", func() bool { return len(only[*conversation.Delta](l.records(chat("c")))) == 1 })
		crashed.cut()
		_ = crashed.stop() // its bucket is gone

		opts = agents(talkative(false))
		opts.Events.Sinks = []observability.Sink{sink}
		alive := l.run(part{opts: opts, vendor: onlyModel(model.runScript)})
		model.next(t).finish()
		l.untilSettled(chat("c"), 1)
		// A node that stops leaves unread events of the log to the next one.
		eventually(t, "all events", func() bool { return len(sink.durable(t, chat("c"))) == len(l.events(chat("c"), nil)) })
		if err := alive.stop(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.events(chat("c"), nil), sink.durable(t, chat("c"))); diff != "" {
			t.Errorf("events of a recovered conversation (-log +sink):\n%s", diff)
		}
		lines := strings.Join(sink.durable(t, chat("c")), "\n")
		for _, want := range []string{`"recovered":true`, `"reason":"lost"`, `"finishReason":"interrupted"`} {
			if !strings.Contains(lines, want) {
				t.Errorf("the events lack %s:\n%s", want, lines)
			}
		}
	})
}

// TestObserversSeeDispatches: events include the sender of a submission, and that code sent it.
func TestObserversSeeDispatches(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	kinds := make(chan string, 1)
	opts := agents(talkative(false))
	opts.Events.Observers = []observability.Sink{&observability.Callbacks{
		SubmissionSettled: func(_ *observability.Envelope, s *observability.SubmissionSettled) { kinds <- s.Kind + " " + s.Outcome },
	}}
	n := w.start(setup{opts: opts, model: model})
	if _, err := n.rt.Dispatch(context.Background(), chat("c"), agent.Text("hello")); err != nil {
		t.Fatal(err)
	}
	model.next(t).finish()
	if got := await(t, kinds, "the settlement"); got != "dispatch completed" {
		t.Errorf("got observed events %q", got)
	}
	if n.rt.Status().Observers["observer"].Emitted == 0 {
		t.Errorf("got observer status %+v", n.rt.Status().Observers)
	}
}

// TestEventsWithoutWork: the events of a batch without pending work are found after its node crashes,
// even if the conversation is never used again.
func TestEventsWithoutWork(t *testing.T) {
	compact := func(n *actorNode) (bool, error) { return n.rt.Compact(context.Background(), chat("c"), "") }
	abort := func(n *actorNode) (bool, error) { return n.rt.Abort(context.Background(), chat("c")) }
	for name, test := range map[string]struct {
		turns  script
		idles  func(*loop)
		invoke func(*actorNode) (bool, error)
	}{
		"compaction":                {repliesAt(words("one"), little), func(l *loop) { l.completes(chat("c"), 2) }, compact},
		"abort of a suspended call": {inTurn(replies("one"), toolCalls("remind")), func(l *loop) { l.waitSuspended(chat("c"), 1) }, abort},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				sink := newMemorySink("memory")
				opts := agents(compacting(reminds(&work{}, 24*time.Hour)))
				opts.Events.Sinks = []observability.Sink{sink}
				c := &vendor{models: map[string]script{"model": test.turns, "sum": replies("They talked.")}}
				first := l.run(part{opts: opts, vendor: c, windows: window})
				first.admit(chat("c"), "1", words("hello"))
				l.completes(chat("c"), 1)
				first.admit(chat("c"), "2", words("go"))
				test.idles(l)
				time.Sleep(time.Minute)
				l.journalsAreEmpty()
				sink.setBroken(true)
				if any, err := test.invoke(first); !any || err != nil {
					t.Fatalf("got result %v, %v", any, err)
				}
				time.Sleep(100 * time.Millisecond)
				first.crash()

				sink.setBroken(false)
				second := l.run(part{opts: opts, vendor: c, windows: window})
				time.Sleep(5 * time.Minute)
				if err := second.stop(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(l.events(chat("c"), nil), sink.durable(t, chat("c"))); diff != "" {
					t.Errorf("events of a crashed node (-log +sink):\n%s", diff)
				}
			})
		})
	}
}

// TestObserverThatHangs: a hanging observer blocks neither conversations nor shutdown.
func TestObserverThatHangs(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		release := make(chan struct{})
		defer close(release)
		opts := agents(talkative(false))
		opts.Events.Observers = []observability.Sink{&observability.Callbacks{Any: func(observability.Event) { <-release }}}
		n := l.run(part{opts: opts, vendor: onlyModel(emits(3))})
		n.admit(chat("c"), "1", "hello")
		l.completes(chat("c"), 1)
		began := time.Now()
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("got shutdown after %v", took)
		}
		l.journalsAreEmpty()
	})
}
