package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
)

const perChat = 5

func botsAt(p http.RoundTripper) *bots {
	client := &http.Client{Transport: p, Timeout: 15 * time.Second}
	return &bots{
		slackBot{channels.Secret(slackSecret), channels.API{URL: slackURL, Token: "token", Client: client}},
		messengerBot{channels.Secret(messengerSecret), channels.API{URL: messengerURL, Token: "token", Client: client}},
	}
}

func handler(t *testing.T, b *bots, to conversation.Dispatcher) http.Handler {
	listed, err := b.channels(to)
	if err != nil {
		t.Fatal(err)
	}
	h, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{Channels: listed, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// chats returns the chats by their platform id, with a function that writes the n-th message.
func chats() map[string]func(n int) webhook {
	all := map[string]func(int) webhook{}
	for i := range 3 {
		thread, chat := fmt.Sprintf("17.%d", i), 7+i
		all["C"+thread] = func(n int) webhook { return inThread(thread, n) }
		all[fmt.Sprint(chat)] = func(n int) webhook { return inChat(chat, n) }
	}
	return all
}

func instanceOf(chat string) string {
	if ts, ok := strings.CutPrefix(chat, "C"); ok {
		return "slack:v1:T:C:" + ts
	}
	return "messenger:v1:regular:chat:" + chat + ":thread::direct:"
}

// TestBots runs the bots against platforms that send again, late and out of order, rate-limit, fail
// and time out. The process crashes at a write, or after a reply or draft is visible and before it is
// recorded. Each message gets one complete answer, in the order of its conversation.
// covers: channels/154, channels/156, channels/157, channels/158, channels/160, channels/161, channels/162
func TestBots(t *testing.T) {
	met := map[string]int{}
	for name, killed := range map[string]struct{ shown, draft, write int }{
		"never": {}, "when a reply is shown": {shown: 9}, "at a write": {write: 20}, "at a late write": {write: 120},
		"when a draft is shown": {draft: 3}, "when it is edited": {draft: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlatform(t, uint64(killed.shown+killed.draft+killed.write))
				b := botsAt(p)
				h := agenttest.New(t, []*agent.Agent{newAgent("openai/m1")}, &agenttest.Options{
					Model:  agenttest.ModelFunc(echo),
					Logger: slog.New(slog.DiscardHandler), Runtime: actors.Options{Outbox: outbox.Routes{Targets: b.targets()}},
				})
				p.serving = func() any { return h.Runtime() }
				p.observe()
				p.atShown = func(n, drafts int) {
					if n > 0 && n == killed.shown || drafts > 0 && drafts == killed.draft {
						h.Crash()
					}
				}
				if killed.write > 0 {
					h.CrashAtWrite(killed.write)
				}
				before := h.Runtime()
				p.run(func() http.Handler { return handler(t, b, h.Runtime()) })
				if name != "never" && before == h.Runtime() {
					t.Error("got no crash")
				}
				p.check(h)
				t.Logf("got events %v", p.met)
				for desc, n := range p.met {
					met[desc] += n
				}
			})
		})
	}
	for _, desc := range []string{"webhook1", "webhook2", "webhook3", "reply1", "reply2", "reply3", "duplicate", "draft", "edit"} {
		if met[desc] == 0 {
			t.Errorf("got events %v, want %s among them", met, desc)
		}
	}
}

// echo answers the newest user message slowly. It repeats an interrupted reply.
func echo(r agenttest.Request) agenttest.Answer {
	for strings.HasPrefix(r.Last(), "<advisory>") || r.Messages[len(r.Messages)-1].Role != providers.RoleUser {
		r.Messages = r.Messages[:len(r.Messages)-1]
	}
	return agenttest.Answer{Text: "re: " + r.Last() + rest, Pace: 3 * time.Second}
}

// rest makes a reply long enough for drafts.
const rest = ", and there is a little more to say"

// run sends the messages of all chats and waits for a day.
func (p *platform) run(to func() http.Handler) {
	var all sync.WaitGroup
	for _, webhookOf := range chats() {
		for n, late := range rand.Perm(perChat) {
			all.Go(func() {
				time.Sleep(time.Duration(late) * 10 * time.Second)
				p.send(to, webhookOf(n))
			})
		}
	}
	all.Wait()
	time.Sleep(24 * time.Hour)
}

func (p *platform) check(h *agenttest.Host) {
	if deadLetters := h.DeadLetters(); len(deadLetters) > 0 {
		p.t.Errorf("got %d dead letters: %+v", len(deadLetters), deadLetters)
	}
	for chat := range chats() {
		s, err := h.Conversation(agentName, instanceOf(chat)).History(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		var want []string
		for _, m := range s.Messages {
			if m.Role == conversation.RoleUser {
				want = append(want, "re: "+m.Text()+rest)
			}
		}
		var got []string
		for _, m := range p.chats[chat] { // the last message is complete
			got = append(got, m.text[strings.LastIndexByte(m.text, '\n')+1:])
		}
		if !slices.Equal(got, want) {
			p.t.Errorf("%s: got messages %q, want %q of its conversation", chat, got, want)
		}
		slices.Sort(want)
		if len(want) != perChat || len(slices.Compact(want)) != perChat {
			p.t.Errorf("%s: got user messages %q, want %d", chat, want, perChat)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPlatformResponses verifies the error for each response of a platform. It contains no secret.
// covers: channels/157
func TestPlatformResponses(t *testing.T) {
	const slackChat, messengerChat = "slack:v1:T:C:1", "messenger:v1:regular:chat:7:thread:8:direct:"
	for name, c := range map[string]struct {
		target, chat string
		answer       *http.Response
		want         string // part of the error
		gone         bool
		after        time.Duration
	}{
		"ok":                {"slack", slackChat, answered(200, `{"ok":true}`), "", false, 0},
		"an error":          {"slack", slackChat, answered(200, `{"ok":false,"error":"fatal_error"}`), "fatal_error", false, 0},
		"archived":          {"slack", slackChat, answered(200, `{"ok":false,"error":"is_archived"}`), "is_archived", true, 0},
		"no JSON":           {"slack", slackChat, answered(200, `<html>`), "invalid character", false, 0},
		"limited":           {"slack", slackChat, answered(429, "", "Retry-After", "30"), "it answered 429", false, 30 * time.Second},
		"sent":              {"messenger", messengerChat, answered(200, `{"ok":true,"result":{"message_id":1}}`), "", false, 0},
		"blocked":           {"messenger", messengerChat, answered(403, `{"ok":false,"error_code":403}`), "it answered 403", true, 0},
		"limited messenger": {"messenger", messengerChat, answered(429, "", "Retry-After", "5"), "it answered 429", false, 5 * time.Second},
		"gone":              {"messenger", messengerChat, answered(410, ""), "it answered 410", true, 0},
		"unreachable":       {"messenger", messengerChat, nil, "no route", false, 0},
		"of another":        {"slack", messengerChat, nil, "not an instance id", true, 0},
		"of another still":  {"messenger", slackChat, nil, "not an instance id", true, 0},
	} {
		b := botsAt(transport(func(*http.Request) (*http.Response, error) {
			if c.answer == nil {
				return nil, errors.New("no route")
			}
			return c.answer, nil
		}))
		body := fmt.Sprintf(`{"type":"submission.settled","data":{"agent":"bot","id":%q,"submissionId":"sub_1","outcome":"completed","text":"Hi."}}`, c.chat)
		err := b.targets()[c.target].Deliver(t.Context(), outbox.Post{ID: "post_1", Channel: c.target, Body: []byte(body)})
		var gone *outbox.GoneError
		later := &outbox.LaterError{}
		errors.As(err, &later)
		switch {
		case (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), ".test")):
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		case errors.As(err, &gone) != c.gone || later.After != c.after:
			t.Errorf("%s: got error %v, gone %t, later %v", name, err, gone != nil, later.After)
		}
	}
}

// refuser is a dispatcher that must not be called.
type refuser struct {
	conversation.Dispatcher
	t *testing.T
}

func (n refuser) Admit(_ context.Context, a conversation.Admission) (conversation.Receipt, error) {
	n.t.Errorf("got admission %+v, want none", a)
	return conversation.Receipt{}, nil
}

// TestNothingToAnswer verifies that messages of bots, edits, and messages without text are
// acknowledged and not answered.
func TestNothingToAnswer(t *testing.T) {
	h := handler(t, botsAt(nil), refuser{t: t})
	for _, w := range []webhook{
		{"", "/channels/slack/events", `{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"message","channel":"C","ts":"1","text":"x","bot_id":"B"}}`, signSlack},
		{"", "/channels/slack/events", `{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"message","channel":"C","ts":"1","text":"x","subtype":"message_changed"}}`, signSlack},
		{"", "/channels/slack/events", `{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"reaction_added"}}`, signSlack},
		{"", "/channels/messenger/webhook", `{"update_id":1,"edited_message":{"chat":{"id":1},"text":"x"}}`, inChat(1, 1).sign},
		{"", "/channels/messenger/webhook", `{"update_id":1,"message":{"chat":{"id":1},"text":"x","from":{"id":2,"is_bot":true}}}`, inChat(1, 1).sign},
		{"", "/channels/messenger/webhook", `{"update_id":1,"message":{"chat":{"id":1},"photo":[]}}`, inChat(1, 1).sign},
	} {
		r := httptest.NewRequest(http.MethodPost, w.path, strings.NewReader(w.body))
		r.Header.Set("Content-Type", "application/json")
		w.sign(r.Header, w.body)
		answer := httptest.NewRecorder()
		if h.ServeHTTP(answer, r); answer.Code != 200 || answer.Body.Len() > 0 {
			t.Errorf("%s: got %d %s", w.body, answer.Code, answer.Body)
		}
	}
}
