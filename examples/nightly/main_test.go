package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/outbox"
)

type board struct {
	mu    sync.Mutex
	posts map[conversation.PostID]string
}

func (b *board) Deliver(_ context.Context, p outbox.Post) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.posts[p.ID] = string(p.Body)
	return nil
}

// sums returns the answer of each agent.
func sums(r agenttest.Request) agenttest.Answer {
	if strings.Contains(r.System, "went wrong") {
		return agenttest.Say("Nothing went wrong.")
	}
	return agenttest.Say("Seven kettles.")
}

// once removes repetitions of a continued reply.
func once(s string) string {
	for _, text := range []string{"Seven kettles.", "Nothing went wrong."} {
		s = strings.ReplaceAll(s, text+`\n\n`+text, text)
	}
	return s
}

// asked returns the number of questions to an agent.
func asked(t *testing.T, h *agenttest.Host, name string) (n int) {
	s, err := h.Conversation(name, "monday").History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Messages {
		if m.Role == conversation.RoleUser && m.Purpose != conversation.PurposeAdvisory {
			n++
		}
	}
	return n
}

// TestNightlyOverCrashes crashes at each write: each agent is asked once, and the report is posted
// under one id.
func TestNightlyOverCrashes(t *testing.T) {
	const want = `{"day":"monday","sales":"Seven kettles.","incidents":"Nothing went wrong.","approvedBy":"Ada"}`
	crashes := 0
	for n := range sample.Of(60, 4) {
		synctest.Test(t, func(t *testing.T) {
			b := &board{posts: map[conversation.PostID]string{}}
			nightly := newNightly()
			h := agenttest.New(t, newAgents("openai/m1"), &agenttest.Options{
				Workflows: []agent.AnyWorkflow{nightly, newAsk()}, Model: agenttest.ModelFunc(sums),
				Runtime: actors.Options{Outbox: outbox.Routes{Targets: map[string]outbox.Target{"board": b}}},
			})
			before := h.Runtime()
			if n > 0 {
				h.CrashAtWrite(n)
			}
			id := agenttest.Begin(h, nightly, "monday", night{"monday"})
			time.Sleep(10 * time.Hour) // the approval takes hours
			b.mu.Lock()
			early := len(b.posts)
			b.mu.Unlock()
			yes, err := agent.Signal("approval", "Ada")
			if err != nil {
				t.Fatal(err)
			}
			h.SignalRun(id, "yes", yes)
			run, err := h.AwaitRun(id)
			if err != nil || once(string(run.Output)) != want {
				t.Errorf("crash at write %d: got %s, %v", n, run.Output, err)
			}
			time.Sleep(time.Hour)
			if sales, incidents := asked(t, h, "sales"), asked(t, h, "incidents"); sales != 1 || incidents != 1 {
				t.Errorf("crash at write %d: got %d questions about sales and %d about incidents, want 1 each", n, sales, incidents)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if early != 0 || len(b.posts) != 1 {
				t.Errorf("crash at write %d: got %d posts before the approval, then %v", n, early, b.posts)
			}
			for _, body := range b.posts {
				var got, as report
				if json.Unmarshal([]byte(once(body)), &got) != nil || json.Unmarshal([]byte(want), &as) != nil || got != as {
					t.Errorf("crash at write %d: got post %s", n, body)
				}
			}
			if h.Runtime() != before {
				crashes++
			}
		})
	}
	if crashes < sample.Of(5, 1) {
		t.Errorf("got %d crashes", crashes)
	}
}

func TestAgentsAreAskedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nightly := newNightly()
		h := agenttest.New(t, newAgents("openai/m1"), &agenttest.Options{
			Workflows: []agent.AnyWorkflow{nightly, newAsk()},
			Model: agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
				a := sums(r)
				a.Delay = 20 * time.Second
				return a
			}),
			Runtime: actors.Options{Outbox: outbox.Routes{Targets: map[string]outbox.Target{"board": &board{posts: map[conversation.PostID]string{}}}}},
		})
		begun := time.Now() // virtual time
		id := agenttest.Begin(h, nightly, "monday", night{"monday"})
		yes, err := agent.Signal("approval", "Ada")
		if err != nil {
			t.Fatal(err)
		}
		h.SignalRun(id, "early", yes) // a signal before the wait is kept
		if _, err := h.AwaitRun(id); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 20*time.Second || took >= 40*time.Second {
			t.Errorf("got both answers after %v, want less than 40 s", took)
		}
	})
}
