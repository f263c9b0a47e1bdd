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
	limited         = 47 * time.Second // what a Retry-After says; the outbox alone would come sooner
	worstTries      = 3                // how often a request fares badly
)

// fate is what happens to one request.
type fate int

const (
	fine  fate = iota
	lost       // it is taken, and its answer lost
	busy       // 429 with a Retry-After; of a webhook, it is sent once more although it was taken
	wrong      // 500; of a webhook, it comes late
	fates
)

// platform is both platforms: it sends what people write to the bots, late, in any order, more than once, and
// shows what the bots reply, each id once, unless it limits, fails, or is silent.
type platform struct {
	t *testing.T

	mu      sync.Mutex
	draw    *rand.Rand
	tries   map[string]int
	asked   map[string]time.Time // when it was asked to leave a reply for some time, by id
	shown   map[string]bool      // ids
	chats   map[string][]string  // what is shown in them
	met     map[string]int       // what has happened, how often
	atShown func(n int)          // called when n are shown

	serving  func() any // the process that serves now
	known    any        // the newest one seen
	replaced time.Time  // when it was seen to have taken the place of one that was killed
}

// instant is how long the platform needs to see that a process is another, and a process, whose writes take no time
// here, to record what it was told.
const instant = time.Millisecond

// look sees which process serves.
func (p *platform) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.serving(); now != p.known {
		if p.known != nil {
			p.replaced = time.Now()
		}
		p.known = now
	}
}

// leave is for how long a reply is to be left alone. A process that was killed in the instant in which it was asked may
// have recorded nothing: the next one cannot know.
func (p *platform) leave(id string) time.Duration {
	p.look()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.asked[id]
	if after := p.replaced.Sub(asked); !ok || after >= 0 && after <= instant {
		return 0
	}
	return time.Until(asked.Add(limited).Truncate(time.Millisecond)) // as the log has times
}

func newPlatform(t *testing.T, seed uint64) *platform {
	return &platform{
		t: t, draw: rand.New(rand.NewPCG(seed, 1)), tries: map[string]int{}, asked: map[string]time.Time{},
		shown: map[string]bool{}, chats: map[string][]string{}, met: map[string]int{}, atShown: func(int) {},
	}
}

// next is the fate of another request of an id.
func (p *platform) next(kind, id string) (f fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries[kind+id]++; p.tries[kind+id] <= worstTries {
		f = fate(p.draw.IntN(int(fates)))
	}
	p.met[fmt.Sprint(kind, f)]++
	return f
}

// RoundTrip takes a reply.
func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	var m struct {
		Channel string `json:"channel"`
		TS      string `json:"thread_ts"`
		ID      string `json:"client_msg_id"`
		Chat    int64  `json:"chat_id"`
		Text    string `json:"text"`
	}
	if err != nil || json.Unmarshal(body, &m) != nil || r.Header.Get("Authorization") != "Bearer token" {
		p.t.Errorf("the platform cannot read %s %s, %v", r.URL, body, err)
	}
	chat, id, answer := m.Channel+m.TS, m.ID, `{"ok":true}`
	if strings.HasPrefix(r.URL.String(), messengerURL) {
		chat, id, answer = fmt.Sprint(m.Chat), r.Header.Get("Idempotency-Key"), `{"ok":true,"result":{}}`
	}
	if early := p.leave(id); early > 0 {
		p.t.Errorf("%s comes again %v too soon", id, early)
	}
	switch p.next("reply", id) {
	case busy:
		p.mu.Lock()
		p.asked[id] = time.Now()
		p.mu.Unlock()
		time.AfterFunc(instant, p.look)
		return answered(429, "", "Retry-After", strconv.Itoa(int(limited.Seconds()))), nil
	case wrong:
		return answered(500, ""), nil
	case lost:
		p.show(chat, id, m.Text)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	p.show(chat, id, m.Text)
	if err := r.Context().Err(); err != nil { // it was killed meanwhile
		return nil, err
	}
	return answered(200, answer), nil
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

// show shows a message once.
func (p *platform) show(chat, id, text string) {
	p.mu.Lock()
	if p.shown[id] {
		p.met["shown before"]++
		p.mu.Unlock()
		return
	}
	p.shown[id] = true
	p.chats[chat] = append(p.chats[chat], text)
	n := len(p.shown)
	p.mu.Unlock()
	p.atShown(n)
}

// webhook is what somebody writes.
type webhook struct {
	id, path, body string
	sign           func(h http.Header, body string)
}

// send sends a webhook until the platform sees that it is taken.
func (p *platform) send(to func() http.Handler, w webhook) {
	for try := 1; ; try++ {
		f := p.next("webhook", w.id)
		if f == wrong {
			time.Sleep(time.Minute)
		}
		r := httptest.NewRequest(http.MethodPost, w.path, bytes.NewReader([]byte(w.body)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Slack-Retry-Num", strconv.Itoa(try-1))
		w.sign(r.Header, w.body)
		answer := httptest.NewRecorder()
		to().ServeHTTP(answer, r)
		if answer.Code != 200 && answer.Code != 503 {
			p.t.Errorf("%s is answered by %d %s", w.body, answer.Code, answer.Body)
		}
		if answer.Code == 200 && f != lost && f != busy {
			return
		}
		time.Sleep(10 * time.Second)
	}
}

// inThread is a message of a thread; others are in it.
func inThread(thread string, n int) webhook {
	id := fmt.Sprintf("Ev-%s-%d", thread, n)
	return webhook{id, "/channels/slack/events", fmt.Sprintf(`{"type":"event_callback","team_id":"T","event_id":%q,"event":{"type":"message","channel":"C","user":"U",`+
		`"text":%q,"ts":"9.%d","thread_ts":%q}}`, id, wrote(thread, n), n, thread), signSlack}
}

// inChat is a message of a chat.
func inChat(chat, n int) webhook {
	id := 1000*chat + n
	return webhook{strconv.Itoa(id), "/channels/messenger/webhook", fmt.Sprintf(`{"update_id":%d,"message":{"message_id":%d,"chat":{"id":%d},`+
		`"from":{"id":5},"text":%q}}`, id, n, chat, wrote(strconv.Itoa(chat), n)), func(h http.Header, _ string) {
		h.Set("X-Messenger-Bot-Api-Secret-Token", messengerSecret)
	}}
}

// wrote is what is written, each once.
func wrote(chat string, n int) string { return fmt.Sprintf("%s/%d", chat, n) }

func signSlack(h http.Header, body string) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(slackSecret))
	mac.Write([]byte("v0:" + stamp + ":" + body))
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}
