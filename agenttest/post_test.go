package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/outbox"
)

// ledger is a target that records posts and fails on demand.
type ledger struct {
	mu    sync.Mutex
	fails func(p outbox.Post) error // nil accepts all
	posts []outbox.Post
	tries []time.Time
}

func (l *ledger) Deliver(_ context.Context, p outbox.Post) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries = append(l.tries, time.Now())
	if l.fails != nil {
		if err := l.fails(p); err != nil {
			return err
		}
	}
	l.posts = append(l.posts, p)
	return nil
}

// got returns the bodies in order of their first delivery, reduced to the first of the words that they
// contain.
func (l *ledger) got(words ...string) (first []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[conversation.PostID]bool{}
	for _, p := range l.posts {
		if seen[p.ID] {
			continue
		}
		seen[p.ID] = true
		word := string(p.Body)
		if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(word, w) }); i >= 0 {
			word = words[i]
		}
		first = append(first, word)
	}
	return first
}

func posting(to string) agent.Tool {
	return agent.NewTool("pay", "Pays.", func(ctx context.Context, _ struct{}) (string, error) {
		for n := range 2 {
			if _, err := agent.Post(ctx, agent.Outgoing{Target: to, Body: map[string]int{"paid": n + 1}}); err != nil {
				return "", err
			}
		}
		return "paid", nil
	}, &agent.ToolOptions{Durable: true})
}

func withLedger(l outbox.Target) actors.Options {
	return actors.Options{Outbox: outbox.Routes{Targets: map[string]outbox.Target{"ledger": l}}}
}

// paying returns a model that calls the tool and then reports it.
func paying() *agenttest.Model {
	return agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
		if strings.Contains(viewOf(r), "paid") {
			return agenttest.Say("Paid.")
		}
		return agenttest.Call("pay", nil)
	})
}

// TestPostOverCrashes crashes at each write of a conversation with two posts and a settlement notice,
// to a target that fails now and then. All three arrive in order, and all deliveries of one have the
// same id.
func TestPostOverCrashes(t *testing.T) {
	for n := range sample.Of(24, 3) {
		synctest.Test(t, func(t *testing.T) {
			l := &ledger{}
			l.fails = func(outbox.Post) error {
				if len(l.tries)%3 == 1 {
					return errors.New("not now")
				}
				return nil
			}
			desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{posting("ledger")}, Notify: []string{"ledger"}}
			h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: paying(), Runtime: withLedger(l)})
			if n > 0 {
				h.CrashAtWrite(n)
			}
			if reply := h.Conversation("desk", "d").Ask("Pay."); !strings.HasPrefix(reply.Text, "Paid.") { // twice if the reply was interrupted
				t.Errorf("crash at write %d: got %q", n, reply.Text)
			}
			time.Sleep(time.Hour)
			if got, want := l.got(`"paid":1`, `"paid":2`, "submission.settled"), []string{`"paid":1`, `"paid":2`, "submission.settled"}; !slices.Equal(got, want) {
				t.Errorf("crash at write %d: got posts %q", n, got)
			}
		})
	}
}

// TestAllWaitsOverCrashes crashes at each write of a run that asks another agent, waits for a
// signal, sleeps and posts. Each happens once, in order.
func TestAllWaitsOverCrashes(t *testing.T) {
	all := agent.NewTool("pay", "Pays after questions.", func(ctx context.Context, _ struct{}) (string, error) {
		reply, err := agent.Ask(ctx, conversation.Address{Agent: "expert", ID: "e"}, agent.Text("How much?"), nil)
		if err != nil {
			return "", err
		}
		ok, err := agent.Wait[bool](ctx, "approval", nil)
		if err != nil {
			return "", err
		}
		if err := agent.Sleep(ctx, "overnight", 9*time.Hour); err != nil {
			return "", err
		}
		_, err = agent.Post(ctx, agent.Outgoing{Target: "ledger", Body: fmt.Sprint(reply.Text, " approved ", ok)})
		return "paid", err
	}, &agent.ToolOptions{Durable: true})
	for n := range sample.Of(40, 3) {
		synctest.Test(t, func(t *testing.T) {
			l := &ledger{}
			desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{all}}
			h := agenttest.New(t, []*agent.Agent{desk, {Name: "expert", Model: "anthropic/claude"}}, &agenttest.Options{
				Models:  map[string]*agenttest.Model{"openai/gpt-5": paying(), "anthropic/claude": agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer { return agenttest.Say("seven") })},
				Runtime: withLedger(l),
			})
			if n > 0 {
				h.CrashAtWrite(n)
			}
			c := h.Conversation("desk", "d")
			receipt, err := c.Send(t.Context(), client.Message{Body: "Pay."})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			yes, err := client.SignalFor("approval", true)
			if err != nil {
				t.Fatal(err)
			}
			yes.Key = "approved"
			if _, err := c.Send(t.Context(), yes); err != nil {
				t.Fatal(err)
			}
			if reply, err := c.Wait(t.Context(), receipt); err != nil || !strings.HasSuffix(reply.Text, "Paid.") {
				t.Errorf("crash at write %d: got %+v, %v", n, reply, err)
			}
			time.Sleep(time.Hour)
			if got := l.got(); !slices.Equal(got, []string{`"seven approved true"`}) {
				t.Errorf("crash at write %d: got posts %q", n, got)
			}
		})
	}
}

// TestDeadLetter verifies that posts to a target that is down for more than a day become dead letters,
// until an operator sends them again. Later posts are delivered in order.
func TestDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, away := &ledger{}, true
		l.fails = func(p outbox.Post) error {
			if away {
				return errors.New("it answered 503")
			}
			return nil
		}
		desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{posting("ledger")}}
		h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: paying(), Runtime: withLedger(l)})
		c := h.Conversation("desk", "d")
		c.Ask("Pay.")
		time.Sleep(22 * time.Hour)
		for len(h.DeadLetters()) == 0 {
			time.Sleep(time.Minute)
		}
		l.mu.Lock()
		away = false
		if took := l.tries[8].Sub(l.tries[0]); took < 20*time.Hour || took > 24*time.Hour {
			t.Errorf("got retries for %v", took)
		}
		l.mu.Unlock()
		time.Sleep(26 * time.Hour)
		if got := l.got(`"paid":1`, `"paid":2`); !slices.Equal(got, []string{`"paid":2`}) {
			t.Errorf("after the outage: got posts %q", got)
		}
		deadLetters := h.DeadLetters()
		if len(deadLetters) != 1 || deadLetters[0].Target != "ledger" || deadLetters[0].Attempts != 9 || deadLetters[0].Reason != "it answered 503" {
			t.Fatalf("got dead letters %+v", deadLetters)
		}
		again := func(post conversation.PostID, batch int64) error {
			_, err := c.Send(t.Context(), client.PostAgain(post, batch))
			return err
		}
		for batch, post := range map[int64]conversation.PostID{deadLetters[0].Seq: "post_x", -1: deadLetters[0].Post, 1 << 40: deadLetters[0].Post, math.MaxInt64: deadLetters[0].Post} {
			if err := again(post, batch); err == nil || !strings.Contains(err.Error(), "invalid_request") {
				t.Errorf("unknown post, batch %d: got error %v", batch, err)
			}
		}
		if err := again(deadLetters[0].Post, deadLetters[0].Seq); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := l.got(`"paid":1`, `"paid":2`); !slices.Equal(got, []string{`"paid":2`, `"paid":1`}) {
			t.Errorf("after the dead letter was sent again: got posts %q", got)
		}
		if s := h.Runtime().Status().Posts; s.Delivered == 0 {
			t.Errorf("got counts %+v", s)
		}
	})
}

// TestPostErrors verifies that invalid posts fail and leave nothing behind.
func TestPostErrors(t *testing.T) {
	if _, err := agent.Post(context.Background(), agent.Outgoing{Target: "ledger"}); !errors.Is(err, agent.ErrNoOutbox) {
		t.Errorf("outside of a tool: got error %v", err)
	}
	for name, c := range map[string]struct {
		o    agent.Outgoing
		want string
	}{
		"another target": {agent.Outgoing{Target: "legder"}, `unknown target "legder"; add it`},
		"no target":      {agent.Outgoing{}, "a target is 1 to"},
		"a URL":          {agent.Outgoing{Target: "https://example.com/x"}, "no host is allowed"},
		"no JSON":        {agent.Outgoing{Target: "ledger", Body: func() {}}, "no JSON form"},
		"too much":       {agent.Outgoing{Target: "ledger", Body: strings.Repeat("x", 256<<10)}, "the maximum is 262144"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got error
			bad := agent.NewTool("pay", "Pays.", func(ctx context.Context, _ struct{}) (string, error) {
				_, got = agent.Post(ctx, c.o)
				return "paid", nil
			}, nil)
			l := &ledger{}
			desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{bad}}
			h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: paying(), Runtime: withLedger(l)})
			h.Conversation("desk", "d").Ask("Pay.")
			time.Sleep(time.Minute)
			var post *agent.PostError
			if !errors.As(got, &post) || !strings.Contains(got.Error(), c.want) || len(l.got()) > 0 {
				t.Errorf("%s: got %v and posts %q", name, got, l.got())
			}
		})
	}
}

// TestLongOutage verifies that a queued post is retried for a full day, too, and then becomes a dead
// letter at the next failure.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{fails: func(outbox.Post) error { return errors.New("never") }}
		desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{posting("ledger")}, Notify: []string{"ledger"}}
		h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: paying(), Runtime: withLedger(l)})
		h.Conversation("desk", "d").Ask("Pay.")
		time.Sleep(30 * time.Hour)
		if deadLetters := h.DeadLetters(); len(deadLetters) != 3 {
			t.Errorf("after a day and some hours: got %d dead letters: %+v", len(deadLetters), deadLetters)
		}
		if s := h.Runtime().Status(); s.Suspended != 0 || s.Posts.DeadLettered != 3 {
			t.Errorf("got %d suspended, counts %+v", s.Suspended, s.Posts)
		}
	})
}

// TestNotifyOfASender verifies that the sender of a message names the target of the settlement notice.
// A message with an unknown target is not admitted.
func TestNotifyOfASender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		h := agenttest.New(t, []*agent.Agent{{Name: "desk", Model: "openai/gpt-5", Notifiable: []string{"ledger"}}}, &agenttest.Options{
			Model: agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer { return agenttest.Say("Yes.") }), Runtime: withLedger(l),
		})
		c := h.Conversation("desk", "d")
		for target, want := range map[string]string{
			"legder": "opens no such target", "https://example.com": "opens no such target", strings.Repeat("x", 2000): "has more than 1024 bytes",
		} {
			if _, err := c.Send(t.Context(), client.Message{Body: "?", Notify: target}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "invalid_request") {
				t.Errorf("target %.20q: got error %v", target, err)
			}
		}
		for range 2 { // the second one is a duplicate
			if reply, err := c.Settle(client.Message{Body: "?", Notify: "ledger", Key: "k"}); err != nil || reply.Text != "Yes." {
				t.Errorf("%+v, %v", reply, err)
			}
		}
		if _, err := h.Runtime().Dispatch(t.Context(), conversation.Address{Agent: "desk", ID: "d"}, agent.Message{Delivery: agent.Text("!").Delivery, Notify: "ledger"}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if got := l.got(`"text":"Yes."`); !slices.Equal(got, []string{`"text":"Yes."`, `"text":"Yes."`}) {
			t.Errorf("got posts %q", got)
		}
	})
}

// TestFullOutbox verifies that undelivered posts are limited, and that the author's code gets an
// error. A notice evicts the oldest failing post, and never one of a target that has failed once.
func TestFullOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		sent := 0
		many := agent.NewTool("pay", "Pays.", func(ctx context.Context, _ struct{}) (string, error) {
			for target := "ledger"; got == nil && sent < 1000; target = "ledger" {
				if sent == 1 {
					target = "office"
				}
				if _, got = agent.Post(ctx, agent.Outgoing{Target: target, Body: sent}); got == nil {
					sent++
				}
			}
			return "paid", nil
		}, nil)
		l := &ledger{fails: func(outbox.Post) error { return errors.New("never") }}
		office := &ledger{fails: func(p outbox.Post) error {
			if p.Attempt == 1 {
				return errors.New("not now")
			}
			return nil
		}}
		desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{many}, Notify: []string{"ledger"}}
		targets := map[string]outbox.Target{"ledger": l, "office": office}
		h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{Model: paying(), Runtime: actors.Options{Outbox: outbox.Routes{Targets: targets}}})
		h.Conversation("desk", "d").Ask("Pay.")
		if !errors.Is(got, agent.ErrOutboxFull) || sent != conversation.MaxPosts {
			t.Errorf("after %d posts: got %v", sent, got)
		}
		time.Sleep(time.Minute)
		if deadLetters := h.DeadLetters(); len(deadLetters) != 1 || deadLetters[0].Target != "ledger" || len(office.got()) != 1 {
			t.Errorf("got dead letters %+v and posts %q", deadLetters, office.got())
		}
	})
}
