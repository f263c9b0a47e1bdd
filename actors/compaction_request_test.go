package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// summarizer is a model that answers summary requests by calling summary, and other requests with one
// word.
type summarizer struct {
	summary func(context.Context) (string, error)

	mu    sync.Mutex
	calls []providers.Request
}

func (s *summarizer) script() script {
	return func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		s.mu.Lock()
		s.calls = append(s.calls, req)
		s.mu.Unlock()
		text := "Fine."
		if !strings.HasPrefix(req.System, "Be brief.") {
			var err error
			if text, err = s.summary(ctx); err != nil {
				return err
			}
		}
		a.Text(text)
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	}
}

func (s *summarizer) last() providers.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[len(s.calls)-1]
}

// talked starts a node with n exchanges of a conversation, of which compaction keeps little.
func (s *summarizer) talked(w *world, exchanges int) *node {
	a := chatAgent()
	a.Compaction = agent.Compaction{KeepRecentTokens: 1, Instructions: "Keep every number."}
	n := w.start(setup{opts: agents(a), model: s.script()})
	for i := range exchanges {
		n.admit(chat("c"), fmt.Sprint(i), fmt.Sprintf("question %d", i))
		w.untilSettled(chat("c"), i+1)
	}
	return n
}

func TestCompactOnRequest(t *testing.T) {
	w := newWorld(t)
	model := &summarizer{summary: func(context.Context) (string, error) { return "There were questions.", nil }}
	n := model.talked(w, 4)
	before := transcriptOf(n, chat("c"))
	compacted, err := n.rt.Compact(t.Context(), chat("c"), "Mind the gap.")
	if err != nil || !compacted {
		t.Fatalf("got compacted %t, %v", compacted, err)
	}
	records := only[*conversation.Compacted](w.records(chat("c")))
	if len(records) != 1 || records[0].Summary != "There were questions." || records[0].Reason != conversation.CompactionManual {
		t.Errorf("got records %+v", records)
	}
	asked := model.last()
	for _, want := range []string{"Keep every number.", "Mind the gap."} {
		if !strings.Contains(asked.System, want) {
			t.Errorf("instructions of the summarizer lack %q: %s", want, asked.System)
		}
	}
	if !strings.Contains(strings.Join(shown(asked), "\n"), "question 0") {
		t.Errorf("got summarizer prompt %q", shown(asked))
	}
	if after := transcriptOf(n, chat("c")); after != before {
		t.Errorf("got transcript %[2]s, want %[1]s", before, after)
	}
	n.admit(chat("c"), "next", "and now?")
	w.untilSettled(chat("c"), 5)
	seen := strings.Join(shown(model.last()), "\n")
	if !strings.Contains(seen, "There were questions.") || strings.Contains(seen, "question 0") || !strings.Contains(seen, "and now?") {
		t.Errorf("got prompt %s", seen)
	}
}

func TestCompactWithNothingToDo(t *testing.T) {
	w := newWorld(t)
	model := &summarizer{summary: func(context.Context) (string, error) { return "", errors.New("not to be asked") }}
	n := model.talked(w, 1)
	w.untilIdle()
	before := w.listing()
	for _, id := range []string{"c", "never"} {
		if compacted, err := n.rt.Compact(t.Context(), chat(id), ""); err != nil || compacted {
			t.Errorf("%s: got compacted %t, %v", id, compacted, err)
		}
	}
	_, err := n.rt.Compact(t.Context(), chat("c"), strings.Repeat("x", 16<<10+1))
	codeIs(t, err, conversation.CodeInvalidRequest)
	_, err = n.rt.Compact(t.Context(), chat("c"), "\xff")
	codeIs(t, err, conversation.CodeInvalidRequest)
	var unknown *actors.UnknownAgentError
	if _, err := n.rt.Compact(t.Context(), conversation.Address{Agent: "nobody", ID: "x"}, ""); !errors.As(err, &unknown) {
		t.Errorf("unknown agent: got %v", err)
	}
	if diff := cmp.Diff(before, w.listing()); diff != "" {
		t.Errorf("bucket (-before +after):\n%s", diff)
	}
}

// TestCompactOneAtATime rejects a second request while the first is in progress, and still accepts
// messages.
func TestCompactOneAtATime(t *testing.T) {
	w := newWorld(t)
	begun, release := make(chan struct{}, 1), make(chan struct{})
	model := &summarizer{summary: func(ctx context.Context) (string, error) {
		begun <- struct{}{}
		select {
		case <-release:
			return "There were questions.", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}}
	n := model.talked(w, 3)
	first := make(chan error, 1)
	go func() {
		compacted, err := n.rt.Compact(t.Context(), chat("c"), "")
		if err == nil && !compacted {
			err = errors.New("there was nothing to compact")
		}
		first <- err
	}()
	await(t, begun, "the summarizer")
	_, err := n.rt.Compact(t.Context(), chat("c"), "")
	if e := codeIs(t, err, conversation.CodeUnavailable); e.RetryAfter <= 0 {
		t.Errorf("got rejection without retry-after: %+v", e)
	}
	n.admit(chat("c"), "meanwhile", "still there?")
	w.untilSettled(chat("c"), 4)
	close(release)
	if err := await(t, first, "the first compaction"); err != nil {
		t.Error(err)
	}
	if got := only[*conversation.Compacted](w.records(chat("c"))); len(got) != 1 {
		t.Errorf("got %d compactions", len(got))
	}
}

func TestCompactThatFailsChangesNothing(t *testing.T) {
	w := newWorld(t)
	model := &summarizer{summary: func(context.Context) (string, error) {
		return "", &providers.Error{Kind: providers.KindQuota, Status: 402, Err: errors.New("402 no credit")}
	}}
	n := model.talked(w, 3)
	_, err := n.rt.Compact(t.Context(), chat("c"), "")
	if codeIs(t, err, conversation.CodeUnavailable); strings.Contains(err.Error(), "402") {
		t.Errorf("got the vendor's cause in %v", err)
	}
	if got := only[*conversation.Compacted](w.records(chat("c"))); len(got) != 0 {
		t.Errorf("got %d compactions", len(got))
	}
	n.admit(chat("c"), "next", "and now?")
	w.untilSettled(chat("c"), 4)
}

// transcriptOf returns the public messages.
func transcriptOf(n *node, at conversation.Address) string {
	n.w.tb.Helper()
	b, err := json.Marshal(n.snapshot(at).Messages)
	if err != nil {
		n.w.tb.Fatal(err)
	}
	return string(b)
}
