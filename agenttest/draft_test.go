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

// reader is a ledger that receives drafts.
type reader struct {
	ledger
	refuses func(n int) error // error for draft n
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

// TestDrafts verifies drafts of a slow reply: growing prefixes at a bounded rate, fewer after errors,
// none after a permanent error. The reply is delivered in each case.
// covers: channels/160, channels/162
func TestDrafts(t *testing.T) {
	const text = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
	for name, c := range map[string]struct {
		pace    time.Duration
		refuses func(n int) error
		want    []time.Duration // seconds from the question to each draft
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
					t.Errorf("got reply %s", got)
				}
				var at []time.Duration
				for i, when := range r.shown {
					at = append(at, when.Sub(began).Round(time.Second)/time.Second)
					if !strings.HasPrefix(text, r.drafts[i]) || i > 0 && len(r.drafts[i]) <= len(r.drafts[i-1]) {
						t.Errorf("got draft %[2]q after %[1]q", r.drafts[max(0, i-1)], r.drafts[i])
					}
				}
				if !slices.Equal(at, c.want) {
					t.Errorf("got drafts after %d s, want %d: %q", at, c.want, r.drafts)
				}
			})
		})
	}
}

// slow takes a while to show a draft and ignores its context.
type slow struct {
	ledger
	draft string
	late  bool // the post arrived before the draft was shown
}

func (s *slow) Show(_ context.Context, d outbox.Draft) error {
	time.Sleep(5 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draft, s.late = d.Text, s.late || len(s.posts) > 0
	return nil
}

// TestReplyWaitsForItsDraft verifies that a reply is delivered after a draft in flight.
// covers: channels/162
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
			t.Errorf("got draft %q, shown after the reply: %t, %d posts", s.draft, s.late, len(s.posts))
		}
	})
}

// got1 returns the body of the only post. The caller holds mu.
func (r *reader) got1() string {
	if len(r.posts) != 1 {
		return "not one"
	}
	return string(r.posts[0].Body)
}
