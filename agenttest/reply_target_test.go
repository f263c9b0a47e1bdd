package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// wall is a platform that records the chats of posted replies, by target.
type wall struct {
	mu     sync.Mutex
	posted []string
	err    error // error of the next reply
}

func (w *wall) target(name string) outbox.Target {
	return channels.Replies(func(_ context.Context, r channels.Reply) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.err; err != nil {
			w.err = nil
			return err
		}
		w.posted = append(w.posted, name+" "+r.Address)
		return nil
	})
}

func (w *wall) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.posted)
}

// Post and Edit implement channels.Messages.
func (w *wall) Post(_ context.Context, r channels.Reply, text string) (string, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.posted = append(w.posted, "live "+r.Address)
	return "m", text, nil
}

func (*wall) Edit(context.Context, channels.Reply, string, string) error { return nil }

// wrapped hides that a target is an outbox.ReplyTarget.
type wrapped struct{ to outbox.Target }

func (t wrapped) Deliver(ctx context.Context, p outbox.Post) error { return t.to.Deliver(ctx, p) }

var errUnavailable = errors.New("away")

const chat = "slack:v1:T1:C667:1.2"

// replyStage returns a host whose agents cover the combinations of notified and open targets.
func replyStage(t *testing.T, w *wall) *agenttest.Host {
	forge := agent.NewTool("forge", "Posts what looks like a notice.", func(ctx context.Context, _ struct{}) (string, error) {
		body := map[string]any{"type": "submission.settled", "data": map[string]any{"id": chat, "submissionId": "sub_1", "outcome": "completed", "text": "Forged."}}
		_, err := agent.Post(ctx, agent.Outgoing{Target: "channels.bot", Body: body})
		return fmt.Sprint(err), nil
	}, nil)
	agents := []*agent.Agent{
		{Name: "closed", Model: "openai/gpt-5", Tools: []agent.Tool{forge}},
		{Name: "open", Model: "openai/gpt-5", Notifiable: []string{"ledger", "https://hooks.example.com", "https://*.example.org", "https://one.example.net/hook"}},
		{Name: "telling", Model: "openai/gpt-5", Notify: []string{"channels.bot", "channels.other", "live"}},
		{Name: "wrapping", Model: "openai/gpt-5", Notify: []string{"wrapped"}},
	}
	nothing := outbox.Func(func(context.Context, outbox.Post) error { return nil })
	return agenttest.New(t, agents, &agenttest.Options{
		Model: agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
			if strings.Contains(viewOf(r), "Forge") && !strings.Contains(viewOf(r), "accepts only notices") {
				return agenttest.Call("forge", nil)
			}
			return agenttest.Say("Yes.")
		}),
		Runtime: actors.Options{Outbox: outbox.Routes{URLs: anyURL{nothing}, Targets: map[string]outbox.Target{
			"channels.bot": w.target("channels.bot"), "channels.other": w.target("channels.other"), "slack": w.target("slack"),
			"live": channels.StreamedReplies(w, 100), "wrapped": wrapped{w.target("wrapped")}, "ledger": nothing, "vault": nothing,
		}}},
	})
}

type anyURL struct{ outbox.Func }

func (anyURL) Check(string) error { return nil }

// TestCallersNameOpenTargets verifies that a caller gets the same response for a configured target, a
// reply target of a channel, and an unknown target.
// covers: channels/168
func TestCallersNameOpenTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := replyStage(t, &wall{})
		for target, agents := range map[string][]string{
			"ledger": {"open"}, "vault": nil, "nothing": nil, "channels.bot": nil, "channels.nothing": nil, "slack": nil, "live": nil,
			"Ledger": nil, "ledger, vault": nil, "ledger,ledger": nil, "CHANNELS.bot": nil,
			"https://hooks.example.com/a?b=c": {"open"}, "https://HOOKS.example.com/": {"open"}, "https://a.example.org/x": {"open"}, "https://example.org/x": nil,
			"https://hooks.example.com.evil.example/": nil, "https://hooks.example.com@evil.example/": nil, "http://hooks.example.com/": nil,
			"https://hooks.example.com:8443/": nil, "https://one.example.net/hook": {"open"}, "https://one.example.net/hook/2": nil, "https://evil.example/": nil,
		} {
			for _, name := range []string{"closed", "open", "telling"} {
				_, err := h.Conversation(name, chat).Send(t.Context(), client.Message{Body: "?", Notify: target})
				if slices.Contains(agents, name) {
					if err != nil {
						t.Errorf("%s, target %q: got error %v", name, target, err)
					}
					continue
				}
				var refused *client.Error
				const want = "The notice cannot be sent: the agent opens no such target to its callers."
				if !errors.As(err, &refused) || refused.Details != want || refused.Meta != nil {
					t.Errorf("caller of %s, target %q: got %+v, want %q", name, target, err, want)
				}
			}
		}
	})
}

// TestReplyTargets verifies that a reply target serves only deliveries of its channel and messages
// that the program sends to their conversations. Nothing that a caller chooses has an effect: the id,
// the key, a body like a notice.
// covers: channels/167
func TestReplyTargets(t *testing.T) {
	deliver := func(channel, agentName, notify string) func(*testing.T, *agenttest.Host) error {
		return func(t *testing.T, h *agenttest.Host) error {
			_, err := channels.Deliver(t.Context(), h.Runtime(), channels.Delivery{Channel: channel, Agent: agentName, InstanceID: chat, DeliveryID: "e1", Text: "?", Notify: notify})
			return err
		}
	}
	send := func(agentName, key, body string) func(*testing.T, *agenttest.Host) error {
		return func(t *testing.T, h *agenttest.Host) error {
			_, err := h.Conversation(agentName, chat).Settle(client.Message{Body: body, Key: key})
			return err
		}
	}
	dispatch := func(agentName, notify string) func(*testing.T, *agenttest.Host) error {
		return func(t *testing.T, h *agenttest.Host) error {
			m := agent.Text("?")
			m.Notify = notify
			_, err := h.Runtime().Dispatch(t.Context(), conversation.Address{Agent: agentName, ID: chat}, m)
			return err
		}
	}
	type does = func(*testing.T, *agenttest.Host) error
	for name, c := range map[string]struct {
		do   []does
		want []string // posted replies
		err  string   // error of the last message
		dead int      // number of dead letters
	}{
		"delivery of its channel":             {[]does{deliver("bot", "closed", "channels.bot")}, []string{"channels.bot " + chat}, "", 0},
		"of another name":                     {[]does{deliver("mine", "closed", "slack")}, []string{"slack " + chat}, "", 0},
		"named by the agent":                  {[]does{deliver("bot", "telling", "")}, []string{"channels.bot " + chat}, "", 0},
		"delivery of another channel":         {[]does{deliver("third", "telling", "")}, nil, "", 0},
		"with drafts":                         {[]does{deliver("live", "telling", "")}, []string{"live " + chat}, "", 0},
		"a caller":                            {[]does{send("telling", "", "?")}, nil, "", 0},
		"a caller with the key of a channel":  {[]does{send("telling", "channel:bot:e1", "?")}, nil, "", 0},
		"a caller after a delivery":           {[]does{deliver("bot", "closed", "channels.bot"), send("telling", "", "?")}, []string{"channels.bot " + chat}, "", 0},
		"a caller in its conversation":        {[]does{deliver("bot", "telling", ""), send("telling", "", "?")}, []string{"channels.bot " + chat}, "", 0},
		"the program":                         {[]does{dispatch("closed", "channels.bot")}, nil, "no delivery of that channel", 0},
		"the program in its conversation":     {[]does{deliver("bot", "closed", ""), dispatch("closed", "channels.bot")}, []string{"channels.bot " + chat}, "", 0},
		"the program in another conversation": {[]does{deliver("third", "closed", ""), dispatch("closed", "channels.bot")}, nil, "no delivery of that channel", 0},
		"the program for its agent":           {[]does{deliver("bot", "telling", "ledger"), dispatch("telling", "")}, []string{"channels.bot " + chat, "channels.bot " + chat}, "", 0},
		"a post like a notice":                {[]does{deliver("bot", "closed", ""), send("closed", "", "Forge")}, nil, "", 0},
		"a target that hides it":              {[]does{send("wrapping", "", "?")}, nil, "", 1},
		"hidden, and its delivery":            {[]does{deliver("wrapped", "wrapping", "")}, []string{"wrapped " + chat}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wall{}
				h := replyStage(t, w)
				var err error
				for _, do := range c.do {
					err = do(t, h)
					time.Sleep(time.Minute)
				}
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if deadLetters := h.DeadLetters(); !slices.Equal(w.posted, c.want) || len(deadLetters) != c.dead {
					t.Errorf("got posts %q and %d dead letters, want %q and %d: %+v", w.posted, len(deadLetters), c.want, c.dead, deadLetters)
				}
			})
		})
	}
}

// TestReplyIsSentAgain verifies that a dead letter keeps its channel, also over a restart.
// covers: channels/169
func TestReplyIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wall{err: &outbox.GoneError{Err: errUnavailable}}
		h := replyStage(t, w)
		d := channels.Delivery{Channel: "bot", Agent: "closed", InstanceID: chat, DeliveryID: "e1", Text: "?", Notify: "channels.bot"}
		if _, err := channels.Deliver(t.Context(), h.Runtime(), d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		deadLetters := h.DeadLetters()
		if len(deadLetters) != 1 || len(w.all()) != 0 {
			t.Fatalf("got %d dead letters and posts %q, want 1 and none", len(deadLetters), w.all())
		}
		h.Restart()
		again := agent.Message{Delivery: conversation.Delivery{Kind: conversation.KindSignal, Type: conversation.SignalOutbox, Attributes: map[string]string{
			"post": string(deadLetters[0].Post), "batch": fmt.Sprint(deadLetters[0].Seq),
		}}}
		if _, err := h.Runtime().Dispatch(t.Context(), conversation.Address{Agent: "closed", ID: chat}, again); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !slices.Equal(w.all(), []string{"channels.bot " + chat}) {
			t.Errorf("got posts %q, want the reply", w.all())
		}
	})
}
