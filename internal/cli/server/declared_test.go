package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/waiting"
)

// taking is a dispatcher that records admissions.
type taking struct {
	conversation.Dispatcher
	taken []conversation.Admission
}

// Admit implements conversation.Dispatcher.
func (d *taking) Admit(_ context.Context, a conversation.Admission) (conversation.Receipt, error) {
	d.taken = append(d.taken, a)
	return conversation.Receipt{SubmissionID: "sub_1"}, nil
}

func mac(h func() hash.Hash, pieces ...string) []byte {
	m := hmac.New(h, []byte("a-secret"))
	m.Write([]byte(strings.Join(pieces, "")))
	return m.Sum(nil)
}

// declaredRequest sends a platform's request to a channel of a configuration.
func declaredRequest(t *testing.T, yaml, path, mediaType, body string, headers map[string]string) (int, []conversation.Admission) {
	t.Helper()
	if !strings.Contains(yaml, " secretEnv:") {
		yaml += ", secretEnv: S"
	}
	conf, err := config.Parse("parley.yaml", []byte("agents: {echo: {model: demo/parrot}}\nchannels: {c: {agent: echo, "+yaml+"}}\n"), &config.Options{
		Env: func(name string) (string, bool) {
			return map[string]string{"S": "a-secret", "B": "YS1zZWNyZXQ="}[name], true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	to := &taking{}
	all, err := channelsOf(&cli.Program{}, conf.Channels)(to)
	if err != nil {
		t.Fatal(err)
	}
	h, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{Channels: all})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/channels/c"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, to.taken
}

// declaredCase is a delivery to a declared channel, and the expected admission.
type declaredCase struct {
	yaml, path, mediaType, body string
	headers                     func(body string) map[string]string
	instance, key, text         string // empty if no conversation is addressed
}

func (tt *declaredCase) run(t *testing.T) {
	headers := map[string]string{"X-Messenger-Bot-Api-Secret-Token": "a-secret"}
	if tt.headers != nil {
		headers = tt.headers(tt.body)
	}
	status, taken := declaredRequest(t, tt.yaml, tt.path, tt.mediaType, tt.body, headers)
	if status != http.StatusOK {
		t.Fatalf("got status %d, want 200", status)
	}
	if tt.key == "" {
		if len(taken) != 0 {
			t.Errorf("got admissions %+v, want none", taken)
		}
		return
	}
	if len(taken) != 1 || taken[0].Address != (conversation.Address{Agent: "echo", ID: tt.instance}) || taken[0].Key != tt.key || taken[0].Delivery.Body != tt.text {
		t.Errorf("got admissions %+v, want instance %q, key %q, text %q", taken, tt.instance, tt.key, tt.text)
	}
}

const object, form = "application/json", "application/x-www-form-urlencoded"

func unixNow() string { return strconv.FormatInt(time.Now().Unix(), 10) }

func slacked(body string) map[string]string {
	now := unixNow()
	return map[string]string{"X-Slack-Request-Timestamp": now, "X-Slack-Signature": "v0=" + hex.EncodeToString(mac(sha256.New, "v0:", now, ":", body))}
}

func hub(body string) map[string]string {
	return map[string]string{"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac(sha256.New, body)), "X-GitHub-Event": "issues", "X-GitHub-Delivery": "d1"}
}

func noted(body string) map[string]string {
	return map[string]string{"X-Notes-Signature": "sha256=" + hex.EncodeToString(mac(sha256.New, body))}
}

// A bot needs no Go code. Each kind, or its templates, define the conversation and the text of a
// message.
// covers: channels/145, channels/148, channels/146 commerce, channels/146 github, channels/146 messenger
// covers: channels/146 notes, channels/146 slack, channels/146 stripe, channels/146 twilio, channels/146 whatsapp
// covers: channels/147 github, channels/166 commerce_of_another_name, channels/166 messenger_of_another_name
// covers: channels/166 notes_of_another_name, channels/166 standardwebhooks_of_another_name
// covers: channels/176 commerce_without_an_id, channels/176 notes_sent_again, channels/176 notes_without_an_id
// covers: channels/176 twilio_without_an_id, channels/176 whatsapp_without_an_id
func TestDeclaredChannels(t *testing.T) {
	now := unixNow()
	event := func(more string) string {
		return `{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"message","channel":"C","text":"Hi","ts":"1.2"` + more + `}}`
	}
	for name, tt := range map[string]declaredCase{
		"slack":                 {"kind: slack", "/events", object, event(""), slacked, "slack:v1:T:C:1.2", "channel:c:message/C/1.2", "Hi"},
		"slack its own message": {"kind: slack", "/events", object, event(`,"bot_id":"B"`), slacked, "", "", ""},
		"slack an edit":         {"kind: slack", "/events", object, event(`,"subtype":"message_changed"`), slacked, "", "", ""},
		"slack another event":   {"kind: slack, events: [app_mention]", "/events", object, event(""), slacked, "", "", ""},
		"slack with templates":  {`kind: slack, instance: "{team_id}/{event.channel}", message: "<{event.text}>"`, "/events", object, event(""), slacked, "T/C", "channel:c:message/C/1.2", "<Hi>"},
		"slack no such member":  {`kind: slack, instance: "{event.nothing}"`, "/events", object, event(""), slacked, "", "", ""},
		"github":                {`kind: github, events: [issues.opened], message: "{issue.title}"`, "/webhook", object, `{"action":"opened","issue":{"number":7,"title":"t"},"repository":{"name":"r","owner":{"login":"o"}}}`, hub, "github:v1:owner:o:repo:r:issue:7", "channel:c:d1", "t"},
		"github about no issue": {`kind: github, message: "{ref}"`, "/webhook", object, `{"ref":"main"}`, hub, "", "", ""},
		"whatsapp":              {"kind: whatsapp, verifyTokenEnv: S", "/webhook", object, `{"object":"whatsapp_business_account","entry":[{"id":"B","changes":[{"value":{"metadata":{"phone_number_id":"N"},"messages":[{"id":"m1","from":"49","type":"text","text":{"body":"Hi"}}]}}]}]}`, hub, "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", "channel:c:m1", "Hi"},
		"messenger":             {"kind: messenger", "/webhook", object, `{"update_id":5,"message":{"chat":{"id":3},"text":"Hi"}}`, nil, "messenger:v1:regular:chat:3:thread::direct:", "channel:c:5", "Hi"},
		"messenger of another name": {"kind: messenger, headerPrefix: X-Telegram", "/webhook", object, `{"update_id":5,"message":{"chat":{"id":3},"text":"Hi"}}`, func(string) map[string]string {
			return map[string]string{"X-Telegram-Bot-Api-Secret-Token": "a-secret"}
		}, "messenger:v1:regular:chat:3:thread::direct:", "channel:c:5", "Hi"},
		"notes of another name": {`kind: notes, headerPrefix: X-Notion, instance: "{entity.id}", message: "{type}"`, "/webhook", object, `{"id":"n1","type":"page.created","entity":{"id":"p"}}`, func(body string) map[string]string {
			return map[string]string{"X-Notion-Signature": "sha256=" + hex.EncodeToString(mac(sha256.New, body))}
		}, "p", "channel:c:n1", "page.created"},
		"commerce of another name": {`kind: commerce, headerPrefix: X-Shopify, events: [orders/create], instance: "{id}", message: "{name}"`, "/webhook", object, `{"name":"#1","id":7}`, func(body string) map[string]string {
			return map[string]string{"X-Shopify-Hmac-Sha256": base64.StdEncoding.EncodeToString(mac(sha256.New, body)), "X-Shopify-Topic": "orders/create", "X-Shopify-Webhook-Id": "w1"}
		}, "7", "channel:c:w1", "#1"},
		"standardwebhooks of another name": {`kind: standardwebhooks, headerPrefix: Svix, secretEnv: B, instance: "{data.id}", message: "{type}"`, "/webhook", object, `{"type":"user.created","data":{"id":7}}`, func(body string) map[string]string {
			return map[string]string{"Svix-Id": "w", "Svix-Timestamp": now, "Svix-Signature": "v1," + base64.StdEncoding.EncodeToString(mac(sha256.New, "w.", now, ".", body))}
		}, "7", "channel:c:w", "user.created"},
		"twilio a call": {`kind: twilio, account: AC, publicUrl: "https://e.com/c", message: "{CallSid}"`, "/webhook", form, "AccountSid=AC&CallSid=C&From=1&To=2", func(string) map[string]string {
			return map[string]string{"X-Twilio-Signature": base64.StdEncoding.EncodeToString(mac(sha1.New, "https://e.com/c/webhook", "AccountSidACCallSidCFrom1To2"))}
		}, "", "", ""},
		"notes": {`kind: notes, instance: "{entity.id}", message: "{type}"`, "/webhook", object, `{"id":"n1","type":"page.created","entity":{"id":"p"}}`, func(body string) map[string]string {
			return map[string]string{"X-Notes-Signature": "sha256=" + hex.EncodeToString(mac(sha256.New, body))}
		}, "p", "channel:c:n1", "page.created"},
		"commerce": {`kind: commerce, events: [orders/create], instance: "customer-{customer.id}", message: "{name}"`, "/webhook", object, `{"name":"#1","customer":{"id":115310627314723954}}`, func(body string) map[string]string {
			return map[string]string{"X-Commerce-Hmac-Sha256": base64.StdEncoding.EncodeToString(mac(sha256.New, body)), "X-Commerce-Topic": "orders/create", "X-Commerce-Webhook-Id": "w1"}
		}, "customer-115310627314723954", "channel:c:w1", "#1"},
		"stripe": {`kind: stripe, instance: "{data.object.customer}", message: "{type}"`, "/webhook", object, `{"id":"evt","object":"event","type":"charge.failed","data":{"object":{"customer":"cus"}}}`, func(body string) map[string]string {
			return map[string]string{"Stripe-Signature": "t=" + now + ",v1=" + hex.EncodeToString(mac(sha256.New, now, ".", body))}
		}, "cus", "channel:c:evt", "charge.failed"},
		"twilio": {`kind: twilio, account: AC, publicUrl: "https://e.com/c"`, "/webhook", form, "AccountSid=AC&Body=Hi&From=1&MessageSid=SM&To=2", func(string) map[string]string {
			return map[string]string{"X-Twilio-Signature": base64.StdEncoding.EncodeToString(mac(sha1.New, "https://e.com/c/webhook", "AccountSidACBodyHiFrom1MessageSidSMTo2"))}
		}, "twilio:v1:account:AC:address:2:participant:1", "channel:c:SM", "Hi"},
		"standardwebhooks": {`kind: standardwebhooks, secretEnv: B, events: [user.created], instance: "{data.id}", message: "{type}"`, "/webhook", object, `{"type":"user.created","data":{"id":7}}`, func(body string) map[string]string {
			return map[string]string{"Webhook-Id": "w", "Webhook-Timestamp": now, "Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(mac(sha256.New, "w.", now, ".", body))}
		}, "7", "channel:c:w", "user.created"},
	} {
		t.Run(name, tt.run)
	}
}

// Messages of users are delivered, with their speaker if several are possible. Messages of bots and
// owners are ignored.
// covers: channels/182 messenger_echo, channels/182 messenger_edit, channels/182 messenger_owner
// covers: channels/183 messenger_group, channels/184 messenger_caption, channels/184 whatsapp_all_of_it
// covers: channels/184 whatsapp_button, channels/184 whatsapp_caption, channels/184 whatsapp_list
// covers: channels/184 whatsapp_template, channels/186 a_fitting_instance, channels/186 a_long_instance
// covers: channels/186 an_instance_of_dots, channels/187 messenger_group, channels/187 slack_mention
// covers: channels/187 whatsapp_group, channels/188 slack_direct, channels/189 slack_file, channels/189 slack_itself
// covers: channels/190 slack_same_message, channels/192 github_bot
func TestDeclaredMessages(t *testing.T) {
	const slack, messenger, whatsapp = "kind: slack", "kind: messenger", "kind: whatsapp, verifyTokenEnv: S"
	event := func(kind, more string) string {
		return `{"type":"event_callback","team_id":"T","event_id":"E","authorizations":[{"user_id":"UB","is_bot":true}],"event":{"type":"` + kind + `","user":"U1",` + more + `}}`
	}
	update := func(message string) string { return `{"update_id":5,` + message + `}` }
	entry := func(message string) string {
		return `{"object":"whatsapp_business_account","entry":[{"id":"B","changes":[{"value":{"metadata":{"phone_number_id":"N"},"contacts":[{"wa_id":"49","profile":{"name":"Ada"}}],"messages":[{"id":"m1","from":"49",` + message + `}]}}]}]}`
	}
	const dm, chat, number = "slack:v1:T:D1:", "messenger:v1:regular:chat:-3:thread::direct:", "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49"
	for name, tt := range map[string]declaredCase{
		"slack direct":        {slack, "/events", object, event("message", `"channel":"D1","ts":"1.2","text":"1 &lt; 2"`), slacked, dm, "channel:c:message/D1/1.2", "U1: 1 < 2"},
		"slack mention":       {slack, "/events", object, event("app_mention", `"channel":"C","ts":"1.2","text":"<@UB> Hi","user_profile":{"real_name":"Ada\nL"}`), slacked, "slack:v1:T:C:1.2", "channel:c:message/C/1.2", "Ada L (U1): Hi"},
		"slack same message":  {slack, "/events", object, event("message", `"channel":"C","ts":"1.2","text":"<@UB> Hi"`), slacked, "slack:v1:T:C:1.2", "channel:c:message/C/1.2", "U1: Hi"},
		"slack file":          {slack, "/events", object, event("message", `"subtype":"file_share","channel":"C","ts":"1.2","text":"Look"`), slacked, "slack:v1:T:C:1.2", "channel:c:message/C/1.2", "U1: Look"},
		"slack itself":        {slack, "/events", object, strings.Replace(event("message", `"channel":"D1","ts":"1.2","text":"Hi"`), `"user":"U1"`, `"user":"UB"`, 1), slacked, "", "", ""},
		"messenger caption":   {messenger, "/webhook", object, update(`"message":{"chat":{"id":-3},"photo":[],"caption":"Look"}`), nil, chat, "channel:c:5", "Look"},
		"messenger group":     {messenger, "/webhook", object, update(`"message":{"chat":{"id":-3,"type":"supergroup"},"from":{"id":7,"first_name":"Ada"},"text":"Hi","message_thread_id":2}`), nil, chat, "channel:c:5", "Ada (7): Hi"},
		"messenger edit":      {messenger, "/webhook", object, update(`"edited_message":{"chat":{"id":-3},"text":"Hi"}`), nil, "", "", ""},
		"messenger echo":      {messenger, "/webhook", object, update(`"business_message":{"message_id":3,"date":3,"business_connection_id":"bc1","chat":{"id":900,"type":"private"},"from":{"id":1,"is_bot":false},"sender_business_bot":{"id":9,"is_bot":true},"text":"our own reply"}`), nil, "", "", ""},
		"messenger owner":     {messenger, "/webhook", object, update(`"business_message":{"business_connection_id":"bc1","chat":{"id":900},"from":{"id":1},"text":"by hand"}`), nil, "", "", ""},
		"whatsapp button":     {whatsapp, "/webhook", object, entry(`"type":"interactive","interactive":{"type":"button_reply","button_reply":{"id":"y","title":"Yes"}}`), hub, number, "channel:c:m1", "Yes"},
		"whatsapp list":       {whatsapp, "/webhook", object, entry(`"type":"interactive","interactive":{"type":"list_reply","list_reply":{"id":"1","title":"One"}}`), hub, number, "channel:c:m1", "One"},
		"whatsapp template":   {whatsapp, "/webhook", object, entry(`"type":"button","button":{"payload":"p","text":"Stop"}`), hub, number, "channel:c:m1", "Stop"},
		"whatsapp caption":    {whatsapp, "/webhook", object, entry(`"type":"image","image":{"id":"1","caption":"Look"}`), hub, number, "channel:c:m1", "Look"},
		"whatsapp video":      {whatsapp, "/webhook", object, entry(`"type":"video","video":{"id":"1","caption":"Look"}`), hub, number, "channel:c:m1", "Look"},
		"whatsapp document":   {whatsapp, "/webhook", object, entry(`"type":"document","document":{"id":"1","caption":"Look"}`), hub, number, "channel:c:m1", "Look"},
		"messenger voice":     {messenger, "/webhook", object, update(`"message":{"chat":{"id":-3},"voice":{},"caption":"Hear"}`), nil, chat, "channel:c:5", "Hear"},
		"messenger document":  {messenger, "/webhook", object, update(`"channel_post":{"chat":{"id":-3},"document":{},"caption":"Look"}`), nil, chat, "channel:c:5", "Look"},
		"slack link title":    {slack, "/events", object, event("message", `"channel":"D1","ts":"1.2","text":"<https://e.com/?a=1&amp;b=2|A &amp; B &lt;x&gt;>"`), slacked, dm, "channel:c:message/D1/1.2", "U1: A & B <x> (https://e.com/?a=1&b=2)"},
		"slack bot":           {slack, "/events", object, event("message", `"bot_id":"B1","channel":"D1","ts":"1.2","text":"Hi"`), slacked, "", "", ""},
		"slack bot_message":   {slack, "/events", object, event("message", `"subtype":"bot_message","channel":"D1","ts":"1.2","text":"Hi"`), slacked, "", "", ""},
		"slack edit":          {`kind: slack, message: "{event.message.text}"`, "/events", object, event("message", `"subtype":"message_changed","channel":"D1","ts":"1.2","message":{"text":"Hi"}`), slacked, "", "", ""},
		"twilio status":       {texts, "/webhook", form, "AccountSid=AC&From=2&MessageSid=SM&MessageStatus=delivered&SmsStatus=delivered&To=1", texted, "", "", ""},
		"twilio sms status":   {texts, "/webhook", form, "AccountSid=AC&From=2&MessageSid=SM&SmsStatus=sent&To=1", texted, "", "", ""},
		"twilio received":     {texts, "/webhook", form, "AccountSid=AC&Body=Hi&From=1&MessageSid=SM&SmsStatus=received&To=2", texted, "twilio:v1:account:AC:address:2:participant:1", "channel:c:SM", "1 wrote Hi"},
		"whatsapp all of it":  {whatsapp + `, message: "{interactive.button_reply.id} {context.id}"`, "/webhook", object, entry(`"type":"interactive","context":{"id":"m0"},"interactive":{"button_reply":{"id":"y","title":"Yes"}}`), hub, number, "channel:c:m1", "y m0"},
		"whatsapp group":      {whatsapp, "/webhook", object, entry(`"group_id":"G","type":"text","text":{"body":"Hi"}`), hub, "whatsapp:v1:business-account:B:phone-number:N:group:G", "channel:c:m1", "Ada (49): Hi"},
		"github bot":          {`kind: github, message: "{comment.body}"`, "/webhook", object, `{"sender":{"type":"Bot"},"comment":{"body":"x"},"issue":{"number":7},"repository":{"name":"r","owner":{"login":"o"}}}`, hubComment, "", "", ""},
		"a long instance":     {`kind: slack, instance: "{event.text}", message: x`, "/events", object, event("message", `"channel":"C","ts":"1.2","text":"`+strings.Repeat("é", 300)+`"`), slacked, fitted, "channel:c:message/C/1.2", "x"},
		"an instance of dots": {`kind: slack, instance: "{event.text}", message: x`, "/events", object, event("message", `"channel":"C","ts":"1.2","text":".."`), slacked, fmt.Sprintf("..:sha256:%x", sha256.Sum256([]byte(".."))), "channel:c:message/C/1.2", "x"},
		"a fitting instance":  {`kind: slack, instance: "{event.text}", message: x`, "/events", object, event("message", `"channel":"C","ts":"1.2","text":"`+strings.Repeat("é", 256)+`"`), slacked, strings.Repeat("é", 256), "channel:c:message/C/1.2", "x"},
	} {
		t.Run(name, tt.run)
	}
}

// texts is a declaration of Twilio with text for each request.
const texts = `kind: twilio, account: AC, publicUrl: "https://e.com/c", message: "{From} wrote {Body}"`

// texted signs a form whose fields are sorted by name.
func texted(body string) map[string]string {
	signed := "https://e.com/c/webhook" + strings.NewReplacer("=", "", "&", "").Replace(body)
	return map[string]string{"X-Twilio-Signature": base64.StdEncoding.EncodeToString(mac(sha1.New, signed))}
}

// A request without a message, such as a status report, counts as omitted.
func TestDeclaredReports(t *testing.T) {
	for yaml, body := range map[string]string{
		"kind: whatsapp, verifyTokenEnv: S": `{"object":"whatsapp_business_account","entry":[{"id":"B","changes":[{"value":{"statuses":[{"id":"m1","status":"sent"}]}}]}]}`,
		texts:                               "AccountSid=AC&From=2&MessageSid=SM&MessageStatus=delivered&To=1",
	} {
		conf, err := config.Parse("parley.yaml", []byte("agents: {echo: {model: demo/parrot}}\nchannels: {c: {agent: echo, secretEnv: S, "+yaml+"}}\n"), &config.Options{
			Env: func(string) (string, bool) { return "a-secret", true },
		})
		if err != nil {
			t.Fatal(err)
		}
		to := &taking{}
		all, err := channelsOf(&cli.Program{}, conf.Channels)(to)
		if err != nil {
			t.Fatal(err)
		}
		h, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{Channels: all})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/channels/c/webhook", strings.NewReader(body))
		headers, mediaType := hub(body), object
		if yaml == texts {
			headers, mediaType = texted(body), form
		}
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		r.Header.Set("Content-Type", mediaType)
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got := h.Deliveries(); len(got) != 1 || got[0].Result != channels.ResultOmitted {
			t.Errorf("%s: got counts %+v, want 1 omitted", body, got)
		}
	}
}

// fitted is the shortened form of an instance id longer than 512 bytes.
var fitted = strings.Repeat("é", 220) + fmt.Sprintf(":sha256:%x", sha256.Sum256([]byte(strings.Repeat("é", 300))))

func hubComment(body string) map[string]string {
	headers := hub(body)
	headers["X-GitHub-Event"] = "issue_comment"
	return headers
}

// Ignored deliveries are counted, and each kind is logged once.
// covers: channels/185
func TestDeclaredOmissions(t *testing.T) {
	conf, err := config.Parse("parley.yaml", []byte("agents: {echo: {model: demo/parrot}}\nchannels: {c: {agent: echo, kind: messenger, secretEnv: S}}\n"), &config.Options{
		Env: func(string) (string, bool) { return "a-secret", true },
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := channelsOf(&cli.Program{}, conf.Channels)(&taking{})
	if err != nil {
		t.Fatal(err)
	}
	logs := &waiting.Log{}
	h, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{Channels: all, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"update_id":1,"edited_message":{"chat":{"id":3},"text":"Hi"}}`, `{"update_id":2,"edited_message":{"chat":{"id":3},"text":"Hi"}}`,
		`{"update_id":3,"message":{"chat":{"id":3},"sticker":{}}}`, `{"update_id":4,"message":{"chat":{"id":3},"from":{"id":1,"is_bot":true},"text":"Hi"}}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/channels/c/webhook", strings.NewReader(body))
		r.Header.Set("Content-Type", object)
		r.Header.Set("X-Messenger-Bot-Api-Secret-Token", "a-secret")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", body, w.Code)
		}
	}
	if got := h.Deliveries(); len(got) != 1 || got[0] != (parleyhttp.Deliveries{Channel: "c", Result: channels.ResultOmitted, Count: 4}) {
		t.Errorf("got counts %+v, want 4 omitted", got)
	}
	for _, kind := range []string{"edited", "bot", `"no text"`} {
		if n := strings.Count(logs.String(), "kind="+kind); n != 1 {
			t.Errorf("%s: got %d log lines, want 1, in\n%s", kind, n, logs.String())
		}
	}
}

// The key of a delivery without an id is derived from its digest.
func TestDeclaredChannelsWithoutIDs(t *testing.T) {
	digest := func(body string) string { return fmt.Sprintf("channel:c:sha256:%x", sha256.Sum256([]byte(body))) }
	const unnamed = `{"object":"whatsapp_business_account","entry":[{"id":"B","changes":[{"value":{"metadata":{"phone_number_id":"N"},"messages":[{"from":"49","type":"text","text":{"body":"Hi"}}]}}]}]}`
	const limited = `{"type":"app_rate_limited","team_id":"T","minute_rate_limited":1}`
	for name, tt := range map[string]declaredCase{
		"notes without an id": {`kind: notes, instance: "{entity.id}", message: "{type}"`, "/webhook", object, `{"type":"page.created","entity":{"id":"p"}}`, noted, "p", digest(`{"entity":{"id":"p"},"type":"page.created"}`), "page.created"},
		"notes sent again":    {`kind: notes, instance: "{entity.id}", message: "{type}"`, "/webhook", object, `{"type":"page.created", "attempt_number":2,"entity":{"id":"p"}}`, noted, "p", digest(`{"entity":{"id":"p"},"type":"page.created"}`), "page.created"},
		"notes with null":     {`kind: notes, instance: "{entity.id}", message: "{type}"`, "/webhook", object, `{"id":null,"type":"page.created","entity":{"id":"p"}}`, noted, "p", digest(`{"entity":{"id":"p"},"id":null,"type":"page.created"}`), "page.created"},
		"commerce without an id": {`kind: commerce, instance: "{id}", message: "{name}"`, "/webhook", object, `{"name":"#1","id":7}`, func(body string) map[string]string {
			return map[string]string{"X-Commerce-Hmac-Sha256": base64.StdEncoding.EncodeToString(mac(sha256.New, body))}
		}, "7", digest(`{"name":"#1","id":7}`), "#1"},
		"whatsapp without an id": {"kind: whatsapp, verifyTokenEnv: S", "/webhook", object, unnamed, hub, "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", digest(unnamed), "Hi"},
		"slack without an id":    {`kind: slack, instance: "{team_id}", message: "{type}"`, "/events", object, limited, slacked, "T", digest(limited), "app_rate_limited"},
		"twilio without an id": {`kind: twilio, account: AC, publicUrl: "https://e.com/c"`, "/webhook", form, "AccountSid=AC&Body=Hi&From=1&To=2", func(string) map[string]string {
			return map[string]string{"X-Twilio-Signature": base64.StdEncoding.EncodeToString(mac(sha1.New, "https://e.com/c/webhook", "AccountSidACBodyHiFrom1To2"))}
		}, "twilio:v1:account:AC:address:2:participant:1", digest("AccountSid=AC&Body=Hi&From=1&To=2"), "Hi"},
	} {
		t.Run(name, tt.run)
	}
}

// A delivery may be a signal, and a channel of the program keeps its name.
// covers: channels/149 signal
func TestDeclaredSignals(t *testing.T) {
	const object, body = "application/json", `{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"message","channel":"C","text":"Hi","ts":"1.2"}}`
	headers := func(body string) map[string]string {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		return map[string]string{"X-Slack-Request-Timestamp": now, "X-Slack-Signature": "v0=" + hex.EncodeToString(mac(sha256.New, "v0:", now, ":", body))}
	}
	t.Run("signal", func(t *testing.T) {
		_, taken := declaredRequest(t, `kind: slack, signal: slack.message, attributes: {channel: "{event.channel}", none: "{event.nothing}"}`, "/events", object, body, headers(body))
		want := conversation.Delivery{Kind: conversation.KindSignal, Body: "Hi", Type: "slack.message", Attributes: map[string]string{"channel": "C", "none": ""}}
		if len(taken) != 1 || !reflect.DeepEqual(taken[0].Delivery, want) {
			t.Errorf("admitted %+v", taken)
		}
	})
	t.Run("not proven", func(t *testing.T) {
		if status, taken := declaredRequest(t, "kind: slack", "/events", object, body, headers("another")); status != 401 || len(taken) != 0 {
			t.Errorf("%d, admitted %+v", status, taken)
		}
	})
	t.Run("two of one name", func(t *testing.T) {
		p := &cli.Program{Channels: func(conversation.Dispatcher) (map[string]channels.Channel, error) {
			return map[string]channels.Channel{"c": nil, "bot": fakeChannel{}}, nil
		}}
		_, err := channelsOf(p, []config.Channel{{Name: "bot", Kind: config.KindSlack, Secret: "s"}})(&taking{})
		if err == nil || !strings.Contains(err.Error(), "has a channel of that name") {
			t.Errorf("error %v", err)
		}
	})
}

// fakeChannel is a channel of the program.
type fakeChannel struct{}

// Routes implements channels.Channel.
func (fakeChannel) Routes() []channels.Route { return nil }

// The banner lists the webhooks to register, and agents that only channels reach need no mount.
// covers: channels/172
func TestDeclaredChannelsAreShown(t *testing.T) {
	var all []config.Channel
	for _, kind := range []string{
		config.KindCommerce, config.KindGitHub, config.KindMessenger, config.KindNotes, config.KindSlack, config.KindStandardWebhooks,
		config.KindStripe, config.KindTwilio, config.KindWhatsApp,
	} {
		all = append(all, config.Channel{
			Name: "to-" + kind, Kind: kind, Agent: "echo", Secret: "c2VjcmV0", VerifyToken: "v", Account: "AC", PublicURL: "https://e.com/c",
		})
	}
	conf, logs := named("echo"), &waiting.Log{}
	conf.Bucket.Dir, conf.Agents[0].Mounts, conf.Channels = t.TempDir(), nil, all
	n, err := newConfigured(t.Context(), conf, thisMachine, manner{program: &cli.Program{}}, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	if logs.With("level=WARN", "no agent has a mount") != "" {
		t.Errorf("logged %s", logs.String())
	}
	var out strings.Builder
	serveBanner(&out, "parley serve", conf, thisMachine, false)
	for _, c := range all {
		if !n.handler.IsWebhook(httptest.NewRequest(http.MethodPost, webhookPath(c), nil)) {
			t.Errorf("%s is not a webhook", webhookPath(c))
		}
		if line := fmt.Sprintf("  http://127.0.0.1:0%s  webhooks of %s, agent \"echo\"\n", webhookPath(c), c.Kind); !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, &out)
		}
	}
	if got := strings.Join(serves(conf), ", "); !strings.HasPrefix(got, "/channels/to-commerce/webhook, ") {
		t.Errorf("in the log: %s", got)
	}
}

// covers: channels/153
func TestDeclaredSecretsAreHidden(t *testing.T) {
	conf := &config.Server{Channels: []config.Channel{{Secret: "first secret", Previous: "second secret", VerifyToken: "third secret", Reply: &config.ChannelReply{
		Token: "fourth secret", URL: "https://fifth.secret", SecretURL: true,
	}}}}
	found := fmt.Sprint(cli.SecretsOf(conf))
	for _, s := range []string{"first secret", "second secret", "third secret", "fourth secret", "fifth.secret"} {
		if !strings.Contains(found, s) {
			t.Errorf("%q is not hidden", s)
		}
	}
}
