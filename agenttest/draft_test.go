package agenttest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/outbox"
)

// reader is a ledger that sees drafts.
type reader struct {
	ledger
	refuses func(n int) error // the draft of this number
	drafts  []string
	shown   []time.Time
}

func (r *reader) Show(_ context.Context, d outbox.Draft) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.posts) > 0 {
		r.drafts = append(r.drafts, "after the reply")
	}
	r.drafts, r.shown = append(r.drafts, d.Text), append(r.shown, time.Now())
	if r.refuses != nil {
		return r.refuses(len(r.drafts))
	}
	return nil
}

// TestDrafts: what is said slowly is shown meanwhile, in beginnings that grow, not too often; what fails is
// shown less often, and what nobody wants any more not at all. The reply comes in any case.
func TestDrafts(t *testing.T) {
	const text = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
	for name, c := range map[string]struct {
		pace    time.Duration
		refuses func(n int) error
		want    []time.Duration // of the drafts, since the question
	}{
		"slowly":  {time.Second, nil, []time.Duration{2, 4, 6, 8, 10, 12, 14}},
		"at once": {0, nil, nil},
		"failing": {time.Second, func(int) error { return errors.New("not now") }, []time.Duration{2, 6, 14}},
		"panic":   {time.Second, func(int) error { panic("not now") }, []time.Duration{2, 6, 14}},
		"once": {time.Second, func(n int) error {
			if n == 1 {
				return errors.New("not now")
			}
			return nil
		}, []time.Duration{2, 6, 8, 10, 12, 14}},
		"limited": {time.Second, func(n int) error { return &outbox.LaterError{After: 9 * time.Second, Err: errors.New("429")} }, []time.Duration{2, 11}},
		"gone":    {time.Second, func(n int) error { return &outbox.GoneError{Err: errors.New("410")} }, []time.Duration{2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &reader{refuses: c.refuses}
				desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Notify: []string{"ledger"}}
				model := agenttest.NewModel(agenttest.Answer{Text: text, Pace: c.pace})
				h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: model, Runtime: withLedger(r)})
				began := time.Now()
				h.Conversation("desk", "d").Ask("Count.")
				time.Sleep(time.Minute)
				r.mu.Lock()
				defer r.mu.Unlock()
				if got := r.got1(); !strings.Contains(got, text) {
					t.Errorf("the reply is %s", got)
				}
				var at []time.Duration
				for i, when := range r.shown {
					at = append(at, when.Sub(began).Round(time.Second)/time.Second)
					if !strings.HasPrefix(text, r.drafts[i]) || i > 0 && len(r.drafts[i]) <= len(r.drafts[i-1]) {
						t.Errorf("after %q %q is shown", r.drafts[max(0, i-1)], r.drafts[i])
					}
				}
				if !slices.Equal(at, c.want) {
					t.Errorf("drafts after %d s, want %d: %q", at, c.want, r.drafts)
				}
			})
		})
	}
}

// slow shows a draft for a while, whatever its context says.
type slow struct {
	ledger
	draft string
	late  bool // the post has come before the draft was shown
}

func (s *slow) Show(_ context.Context, d outbox.Draft) error {
	time.Sleep(5 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draft, s.late = d.Text, s.late || len(s.posts) > 0
	return nil
}

// TestReplyWaitsForItsDraft: the reply is said while a draft of it is still being shown, and is delivered after that.
func TestReplyWaitsForItsDraft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Notify: []string{"ledger"}}
		model := agenttest.NewModel(agenttest.Answer{Text: "One two three", Pace: time.Second})
		h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: model, Runtime: withLedger(s)})
		h.Conversation("desk", "d").Ask("Count.")
		time.Sleep(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.draft == "" || s.late || len(s.posts) != 1 {
			t.Errorf("draft %q, shown after the reply: %t, %d posts", s.draft, s.late, len(s.posts))
		}
	})
}

// got1 is the body of the only post. The caller holds mu.
func (r *reader) got1() string {
	if len(r.posts) != 1 {
		return "not one"
	}
	return string(r.posts[0].Body)
}
