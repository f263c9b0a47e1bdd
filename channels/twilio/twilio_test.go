package twilio_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/twilio"
)

const (
	token    = "12345"
	public   = "https://mycompany.com/channels/twilio"
	formType = "application/x-www-form-urlencoded"
	message  = `MessageSid=SM1&AccountSid=AC1&From=%2B49&To=%2B50&Body="Hi"`
	empty    = `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`
)

func sign(at, body string) string {
	form, _ := url.ParseQuery(body)
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(at))
	for _, field := range slices.Sorted(maps.Keys(form)) {
		for _, value := range form[field] {
			mac.Write([]byte(field + value))
		}
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// TestTwilioVector verifies the tests' signatures with the example of the platform's documentation.
// covers: channels/131
func TestTwilioVector(t *testing.T) {
	const form = "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212"
	if got := sign("https://mycompany.com/myapp.php?foo=1&bar=2", form); got != "RSOYDt4T1cUTdK1PDd93/VVr8B8=" {
		t.Errorf("got signature %s", got)
	}
}

// covers: channels/108 failures, channels/108 limit, channels/108 media_type, channels/108 order_of_checks
// covers: channels/108 proof, channels/108 results, channels/108 routing, channels/108 slow_sender
// covers: channels/131 ignored, channels/133 results
func TestTwilioSuite(t *testing.T) {
	for path, s := range map[string]channeltest.Subject{
		"/webhook": {NothingBody: empty}, "/status": {},
	} {
		t.Run(path[1:], func(t *testing.T) {
			s.New = func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
				hook := func(ctx context.Context, _ twilio.Incoming) (any, error) { return callback(ctx) }
				c, err := twilio.New(&twilio.Options{AuthToken: token, AccountSID: "AC1", PublicURL: public, BodyLimit: limit, Webhook: hook, Status: hook})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			s.Path, s.MediaType, s.Body, s.Header, s.ResponsesOnly = path, formType, message, "X-Twilio-Signature", true
			s.Pad = func(body string, by int) string { return body + "&p=" + strings.Repeat("x", by-3) }
			s.Prove = func(h http.Header, body []byte) { h.Set("X-Twilio-Signature", sign(public+path, string(body))) }
			s.Malformed = []string{"x", strings.Repeat("A", 27), strings.Repeat("A", 27) + "==", strings.Repeat("*", 27) + "=", strings.Repeat("A", 43) + "="}
			s.Forged = []string{strings.Repeat("A", 27) + "="}
			s.Broken, s.BrokenStatus = map[string]string{"no form": "%zz", "no form, with a semicolon": "a=1;b=2"}, http.StatusBadRequest
			s.Query = func(r url.Values, h http.Header, body []byte) {
				h.Set("X-Twilio-Signature", sign(public+path+"?"+r.Encode(), string(body)))
			}
			s.Order = []channeltest.Fault{
				channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
				channeltest.Streamed, channeltest.Forged,
			}
			channeltest.Run(t, s)
		})
	}
}

// covers: channels/131, channels/132, channels/133
func TestTwilioRequests(t *testing.T) {
	var got []twilio.Incoming
	hook := func(_ context.Context, in twilio.Incoming) (any, error) { got = append(got, in); return nil, nil }
	c, err := twilio.New(&twilio.Options{AuthToken: token, AccountSID: "AC1", PublicURL: public, Webhook: hook})
	if err != nil || len(c.Routes()) != 1 {
		t.Fatalf("got %d routes, %v", len(c.Routes()), err)
	}
	send := func(query, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/webhook"+query, strings.NewReader(body))
		r.Header.Set("Content-Type", formType)
		r.Header.Set("X-Twilio-Signature", sign(public+"/webhook"+query, body))
		w := httptest.NewRecorder()
		c.Routes()[0].ServeHTTP(w, r)
		return w
	}
	if w := send("?bot=1", message); w.Code != 200 || w.Header().Get("Content-Type") != "text/xml" || w.Body.String() != empty {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if in := got[0]; in.MessageSID != "SM1" || in.Body != `"Hi"` || in.Ref() != (twilio.Ref{Account: "AC1", Address: "+50", Participant: "+49"}) {
		t.Errorf("got message %+v", in)
	}
	send("", message+"&MessagingServiceSid=MG1&Many=b&Many=a")
	if in := got[1]; in.Ref() != (twilio.Ref{Account: "AC1", MessagingService: "MG1", Participant: "+49"}) || !slices.Equal(in.Native["Many"], []string{"b", "a"}) {
		t.Errorf("got message %+v", in)
	}
	if w := send("", strings.Replace(message, "AC1", "AC2", 1)); w.Code != 403 || len(got) != 2 {
		t.Errorf("other account: got %d", w.Code)
	}
}

// covers: channels/193
func TestTwilioSignatures(t *testing.T) {
	for _, c := range []struct{ public, signed string }{
		{"https://e.example/c", "https://e.example/c"}, {"https://e.example/c", "https://e.example:443/c"}, {"https://e.example:443/c", "https://e.example/c"},
		{"https://e.example:8443/c", "https://e.example:8443/c"}, {"https://e.example:8443/c", "https://e.example/c"},
		{"http://10.0.0.7/c", "http://10.0.0.7:80/c"}, {"http://[::1]:80/c", "http://[::1]/c"}, {"http://[::1]/c", "http://[::1]:80/c"},
	} {
		for _, query := range []string{"", "?a=b:1"} {
			hook := func(context.Context, twilio.Incoming) (any, error) { return nil, nil }
			ch, err := twilio.New(&twilio.Options{AuthToken: token, AccountSID: "AC1", PublicURL: c.public, Webhook: hook})
			if err != nil {
				t.Fatal(err)
			}
			for body, status := range map[string]int{
				"AccountSid=AC1&Foo=b&Foo=a": 200, "AccountSid=AC1&Foo=b&Foo=a&Foo=b": 200, "AccountSid=AC1&Foo=c": 401,
			} {
				r := httptest.NewRequest(http.MethodPost, "/webhook"+query, strings.NewReader(body))
				r.Header.Set("Content-Type", formType)
				r.Header.Set("X-Twilio-Signature", sign(c.signed+"/webhook"+query, "AccountSid=AC1&Foo=a&Foo=b"))
				w := httptest.NewRecorder()
				if ch.Routes()[0].ServeHTTP(w, r); w.Code != status {
					t.Errorf("%s at %s, signed for %s: got %d, want %d", body, c.public+query, c.signed, w.Code, status)
				}
			}
		}
	}
}

// covers: channels/135
func TestTwilioOptions(t *testing.T) {
	hook := func(context.Context, twilio.Incoming) (any, error) { return nil, nil }
	whole := twilio.Options{AuthToken: token, AccountSID: "AC1", PublicURL: public, Webhook: hook}
	for field, changes := range map[string][]func(*twilio.Options){
		"authToken": {func(o *twilio.Options) { o.AuthToken = "" }}, "accountSid": {func(o *twilio.Options) { o.AccountSID = "" }},
		"publicUrl": {
			func(o *twilio.Options) { o.PublicURL = "" }, func(o *twilio.Options) { o.PublicURL = "/channels" }, func(o *twilio.Options) { o.PublicURL = public + "/" },
			func(o *twilio.Options) { o.PublicURL = public + "?a=b" },
		},
		"webhook": {func(o *twilio.Options) { o.Webhook = nil }}, "bodyLimit": {func(o *twilio.Options) { o.BodyLimit = -1 }},
	} {
		for _, change := range changes {
			opts := whole
			change(&opts)
			var invalid *channels.InputError
			if _, err := twilio.New(&opts); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("got error %v, want one about %s", err, field)
			}
		}
	}
	var invalid *channels.InputError
	if _, err := twilio.New(nil); !errors.As(err, &invalid) || invalid.Field != "options" {
		t.Errorf("error %v", err)
	}
}

// covers: channels/134
func TestTwilioInstanceID(t *testing.T) {
	for want, ref := range map[string]twilio.Ref{
		"twilio:v1:account:AC1:address:%2B50:participant:%2B49":         {Account: "AC1", Address: "+50", Participant: "+49"},
		"twilio:v1:account:AC1:messaging-service:MG1:participant:%2B49": {Account: "AC1", MessagingService: "MG1", Participant: "+49"},
	} {
		id, err := twilio.InstanceID(ref)
		if err != nil || id != want {
			t.Errorf("got %q, %v, want %q", id, err, want)
		}
		if back, err := twilio.ParseInstanceID(id); err != nil || back != ref {
			t.Errorf("got %+v, %v", back, err)
		}
	}
	for field, ref := range map[string]twilio.Ref{
		"conversation.account": {Address: "a", Participant: "p"}, "conversation.participant": {Account: "AC", Address: "a"},
		"conversation.address": {Account: "AC", Participant: "p"}, "conversation": {Account: "AC", Address: "\xff", Participant: "p"},
	} {
		var invalid *channels.InputError
		if _, err := twilio.InstanceID(ref); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", ref, err)
		}
	}
	if _, err := twilio.InstanceID(twilio.Ref{Account: "AC", Address: "a", MessagingService: "m", Participant: "p"}); err == nil {
		t.Error("address and messaging service: got no error, want one")
	}
	for _, id := range []string{"", "twilio:v1:account:AC1:address:+50:participant:%2B49", "twilio:v1:account:AC1:number:1:participant:2", "twilio:v1:account:AC1:address:1:participant:"} {
		var invalid *channels.InstanceIDError
		if ref, err := twilio.ParseInstanceID(id); !errors.As(err, &invalid) {
			t.Errorf("%q: got %+v, %v", id, ref, err)
		}
	}
}
