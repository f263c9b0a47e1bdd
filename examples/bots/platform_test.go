package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	slackSecret     = "8f742231b10e8888abcd99yyyzzz85a5"
	messengerSecret = "of-the-registration"
	slackURL        = "https://slack.test/api"
	messengerURL    = "https://messenger.test/bot"
	limited         = 47 * time.Second // the Retry-After, longer than the outbox's own backoff
	maxBadOutcomes  = 3                // the maximum number of bad outcomes per request
)

type outcome int

const (
	fine        outcome = iota
	lost                // accepted, but the response is lost
	rateLimited         // 429 with a Retry-After; an accepted webhook is sent once more
	serverError         // 500; a webhook is late
	outcomes
)

// platform is a fake of both platforms. It sends webhooks late, out of order and repeatedly. It shows
// each reply once, unless it rate-limits, fails or times out.
type platform struct {
	t *testing.T

	mu      sync.Mutex
	draw    *rand.Rand
	tries   map[string]int
	asked   map[string]limit      // rate limits by reply id
	shown   map[string]*message   // messages by reply id
	names   map[string]*message   // messages by name
	chats   map[string][]*message // messages by chat
	met     map[string]int        // counters of events
	atShown func(n, drafts int)   // called after n replies or so many drafts are visible; the other is 0

	serving  func() any // the current process
	known    any        // the newest known process
	replaced time.Time  // when it replaced a crashed one
}

// message is a visible message, complete unless it is a draft.
type message struct {
	name, text string
	whole      bool
}

// limit is a rate limit: its start, and whether it applied to a draft.
type limit struct {
	at    time.Time
	draft bool
}

// instant is the time that the platform needs to notice a new process, and a process to record a rate
// limit. Writes take no time here.
const instant = time.Millisecond

// observe notices the current process.
func (p *platform) observe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.serving(); now != p.known {
		if p.known != nil {
			p.replaced = time.Now()
		}
		p.known = now
	}
}

// limitLeft returns the remaining rate limit of a reply. It is 0 after a crash if the process recorded
// nothing: because it crashed within an instant, or because the limit applied to a draft.
func (p *platform) limitLeft(id string) time.Duration {
	p.observe()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.asked[id]
	if after := p.replaced.Sub(asked.at); !ok || after >= 0 && (after <= instant || asked.draft) {
		return 0
	}
	return time.Until(asked.at.Add(limited).Truncate(time.Millisecond)) // the resolution of times in the log
}

func newPlatform(t *testing.T, seed uint64) *platform {
	return &platform{
		t: t, draw: rand.New(rand.NewPCG(seed, 1)), tries: map[string]int{}, asked: map[string]limit{}, names: map[string]*message{},
		shown: map[string]*message{}, chats: map[string][]*message{}, met: map[string]int{}, atShown: func(int, int) {},
	}
}

// next draws the outcome of the next request for an id.
func (p *platform) next(kind, id string) (f outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries[kind+id]++; p.tries[kind+id] <= maxBadOutcomes {
		f = outcome(p.draw.IntN(int(outcomes)))
	}
	p.met[fmt.Sprint(kind, f)]++
	return f
}

type call struct {
	Channel string `json:"channel"`
	Thread  string `json:"thread_ts"`
	TS      string `json:"ts"`
	ID      string `json:"client_msg_id"`
	Chat    int64  `json:"chat_id"`
	Message int64  `json:"message_id"`
	Text    string `json:"text"`
}

func (c *call) draft() bool { return strings.HasSuffix(c.Text, "…") }

// RoundTrip handles a call of a bot.
func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	var c call
	if err != nil || json.Unmarshal(body, &c) != nil || r.Header.Get("Authorization") != "Bearer token" {
		p.t.Errorf("invalid call %s %s, %v", r.URL, body, err)
	}
	if err := r.Context().Err(); err != nil { // the process crashed before the call
		return nil, err
	}
	id := r.Header.Get("Idempotency-Key")
	if early := p.limitLeft(id); early > 0 {
		p.t.Errorf("%s: got a retry %v too soon", id, early)
	}
	f := p.next("reply", id)
	switch f {
	case rateLimited:
		p.mu.Lock()
		p.asked[id] = limit{time.Now(), c.draft()}
		p.mu.Unlock()
		time.AfterFunc(instant, p.observe)
		return answered(429, "", "Retry-After", strconv.Itoa(int(limited.Seconds()))), nil
	case serverError:
		return answered(500, ""), nil
	}
	answer := p.take(r.URL.String(), id, &c)
	if f == lost {
		<-r.Context().Done()
	}
	if err := r.Context().Err(); err != nil { // the process crashed during the call
		return nil, err
	}
	return answered(200, answer), nil
}

// take posts or edits a message, and returns the response.
func (p *platform) take(url, id string, c *call) (answer string) {
	switch url {
	case slackURL + "/chat.postMessage":
		m := p.show(c.Channel+c.Thread, c.ID, c)
		return fmt.Sprintf(`{"ok":true,"ts":%q,"message":{"text":%q}}`, m.name, m.text)
	case slackURL + "/chat.update":
		return fmt.Sprintf(`{"ok":%t,"error":"message_not_found"}`, p.edit(c.TS, c))
	case messengerURL + "/sendMessage":
		m := p.show(fmt.Sprint(c.Chat), id, c)
		return fmt.Sprintf(`{"ok":true,"result":{"message_id":%s,"text":%q}}`, m.name, m.text)
	case messengerURL + "/editMessageText":
		return fmt.Sprintf(`{"ok":%t,"result":{}}`, p.edit(fmt.Sprint(c.Message), c))
	}
	p.t.Errorf("got call of unknown URL %s", url)
	return ""
}

func answered(status int, body string, header ...string) *http.Response {
	w := httptest.NewRecorder()
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(status)
	w.WriteString(body)
	return w.Result()
}

// show posts a message, unless one with that id exists.
func (p *platform) show(chat, id string, c *call) message {
	p.mu.Lock()
	m := p.shown[id]
	if m != nil {
		p.met["duplicate"]++
		defer p.mu.Unlock()
		return *m
	}
	m = &message{name: strconv.Itoa(len(p.shown) + 1)}
	p.shown[id], p.names[m.name] = m, m
	p.chats[chat] = append(p.chats[chat], m)
	return p.update(m, c)
}

// edit edits the message with a name, if it exists.
func (p *platform) edit(name string, c *call) bool {
	p.mu.Lock()
	m := p.names[name]
	if m == nil {
		p.mu.Unlock()
		p.t.Errorf("got edit of unknown message %q", name)
		return false
	}
	p.met["edit"]++
	p.update(m, c)
	return true
}

// update sets the text of a message. It unlocks mu.
func (p *platform) update(m *message, c *call) message {
	if m.whole && c.draft() {
		p.t.Errorf("got draft %q after the complete text %q", c.Text, m.text)
	}
	again := m.whole
	m.text, m.whole = c.Text, !c.draft()
	shown, n, drafts := *m, 0, 0
	switch {
	case again:
	case m.whole:
		p.met["whole"]++
		n = p.met["whole"]
	default:
		p.met["draft"]++
		drafts = p.met["draft"]
	}
	p.mu.Unlock()
	p.atShown(n, drafts)
	return shown
}

// webhook is a message of a user.
type webhook struct {
	id, path, body string
	sign           func(h http.Header, body string)
}

func (p *platform) send(to func() http.Handler, w webhook) {
	for try := 1; try < 1000; try++ {
		f := p.next("webhook", w.id)
		if f == serverError {
			time.Sleep(time.Minute)
		}
		r := httptest.NewRequest(http.MethodPost, w.path, bytes.NewReader([]byte(w.body)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Slack-Retry-Num", strconv.Itoa(try-1))
		w.sign(r.Header, w.body)
		answer := httptest.NewRecorder()
		to().ServeHTTP(answer, r)
		if answer.Code != 200 && answer.Code != 503 {
			p.t.Errorf("%s: got %d %s", w.body, answer.Code, answer.Body)
		}
		if answer.Code == 200 && f != lost && f != rateLimited {
			return
		}
		time.Sleep(10 * time.Second)
	}
}

// inThread returns the n-th message of a thread, which starts with the first.
func inThread(thread string, n int) webhook {
	id := fmt.Sprintf("Ev-%s-%d", thread, n)
	return webhook{id, "/channels/slack/events", fmt.Sprintf(`{"type":"event_callback","team_id":"T","event_id":%q,"event":{"type":"message","channel":"C","user":"U",`+
		`"text":%q,"ts":"9.%d","thread_ts":%q}}`, id, wrote(thread, n), n, thread), signSlack}
}

func inChat(chat, n int) webhook {
	id := 1000*chat + n
	return webhook{strconv.Itoa(id), "/channels/messenger/webhook", fmt.Sprintf(`{"update_id":%d,"message":{"message_id":%d,"chat":{"id":%d},`+
		`"from":{"id":5},"text":%q}}`, id, n, chat, wrote(strconv.Itoa(chat), n)), func(h http.Header, _ string) {
		h.Set("X-Messenger-Bot-Api-Secret-Token", messengerSecret)
	}}
}

// wrote returns the text of a message, which is unique.
func wrote(chat string, n int) string { return fmt.Sprintf("%s/%d", chat, n) }

func signSlack(h http.Header, body string) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(slackSecret))
	mac.Write([]byte("v0:" + stamp + ":" + body))
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}
