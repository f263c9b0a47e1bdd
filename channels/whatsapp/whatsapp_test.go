package whatsapp_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/whatsapp"
)

const (
	secret = "app secret"
	hello  = `{"object":"whatsapp_business_account","entry":[{"id":"B","changes":[{"value":{"metadata":{"phone_number_id":"N"},"messages":[` +
		`{"id":"wamid.1","from":"49","type":"text","text":{"body":"Hi"}},{"id":"wamid.2","from":"50","group_id":"G","type":"text"}]},"field":"messages"}]}]}`
)

func sign(body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func made(t testing.TB, limit int64, callback func(context.Context, whatsapp.Incoming) (any, error)) *whatsapp.Channel {
	t.Helper()
	c, err := whatsapp.New(&whatsapp.Options{AppSecret: secret, VerifyToken: "token", BodyLimit: limit, Webhook: callback})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// covers: channels/109 failures, channels/109 limit, channels/109 media_type, channels/109 order_of_checks
// covers: channels/109 proof, channels/109 results, channels/109 routing, channels/109 slow_sender
// covers: channels/137 another_object, channels/137 no_entry
func TestWhatsAppSuite(t *testing.T) {
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			return made(t, limit, func(ctx context.Context, _ whatsapp.Incoming) (any, error) { return callback(ctx) })
		},
		Path: "/webhook", MediaType: "application/json", Body: hello,
		Pad:       func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove:     func(h http.Header, body []byte) { h.Set("X-Hub-Signature-256", sign(body)) },
		Header:    "X-Hub-Signature-256",
		Malformed: []string{"x", "sha256=", "sha256=" + strings.Repeat("g", 64)},
		Forged:    []string{"sha256=" + strings.Repeat("0", 64)},
		Broken: map[string]string{
			"empty": "", "not JSON": "{", "another object": `{"object":"page","entry":[]}`, "no entry": `{"object":"whatsapp_business_account"}`,
			"invalid entry": `{"object":"whatsapp_business_account","entry":null}`, "entry is an object": `{"object":"whatsapp_business_account","entry":{}}`,
		},
		Order: []channeltest.Fault{
			channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
			channeltest.Streamed, channeltest.Forged, channeltest.Broken,
		},
	})
}

// covers: channels/136
func TestWhatsAppHandshake(t *testing.T) {
	mux := http.NewServeMux()
	channels.Handle(mux, "", made(t, 0, func(context.Context, whatsapp.Incoming) (any, error) {
		t.Error("got a call of the callback, want none")
		return nil, nil
	}))
	for query, want := range map[string]struct {
		status int
		body   string
	}{
		"hub.mode=subscribe&hub.verify_token=token&hub.challenge=115%3Cb%3E":               {200, "115<b>"},
		"hub.mode=subscribe&hub.verify_token=other&hub.challenge=1":                        {403, ""},
		"hub.mode=subscribe&hub.challenge=1":                                               {400, ""},
		"hub.mode=subscribe&hub.verify_token=token":                                        {400, ""},
		"hub.mode=subscribe&hub.verify_token=token&hub.challenge=":                         {400, ""},
		"hub.mode=subscribe&hub.verify_token=token&hub.challenge=1&hub.challenge=2":        {400, ""},
		"hub.mode=subscribe&hub.verify_token=token&hub.verify_token=other&hub.challenge=1": {400, ""},
		"hub.mode=unsubscribe&hub.verify_token=token&hub.challenge=1":                      {400, ""},
		"": {400, ""},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhook?"+query, nil))
		if w.Code != want.status || w.Body.String() != want.body || want.body != "" && w.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%s: got %d %s", query, w.Code, w.Body)
		}
	}
}

// covers: channels/138
func TestWhatsAppMessages(t *testing.T) {
	var got []whatsapp.Message
	mux := http.NewServeMux()
	channels.Handle(mux, "", made(t, 0, func(_ context.Context, in whatsapp.Incoming) (any, error) {
		if string(in.Native) != hello {
			t.Errorf("got delivery %s", in.Native)
		}
		var err error
		got, err = in.Messages()
		return nil, err
	}))
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(hello))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Hub-Signature-256", sign([]byte(hello)))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	if w.Code != 200 || len(got) != 2 || got[0].Text.Body != "Hi" || got[0].ID != "wamid.1" {
		t.Fatalf("got %d and messages %+v", w.Code, got)
	}
	if ref := got[0].Ref(); ref != (whatsapp.Ref{Account: "B", PhoneNumber: "N", Type: whatsapp.TypePhoneNumber, ID: "49"}) {
		t.Errorf("first message: got conversation %+v", ref)
	}
	if ref := got[1].Ref(); ref != (whatsapp.Ref{Account: "B", PhoneNumber: "N", Type: whatsapp.TypeGroup, ID: "G"}) {
		t.Errorf("second message: got conversation %+v", ref)
	}
}

// covers: channels/140
func TestWhatsAppOptions(t *testing.T) {
	hook := func(context.Context, whatsapp.Incoming) (any, error) { return nil, nil }
	for field, opts := range map[string]*whatsapp.Options{
		"options": nil, "appSecret": {VerifyToken: "t", Webhook: hook}, "verifyToken": {AppSecret: secret, Webhook: hook},
		"webhook": {AppSecret: secret, VerifyToken: "t"}, "bodyLimit": {AppSecret: secret, VerifyToken: "t", Webhook: hook, BodyLimit: -1},
	} {
		var invalid *channels.InputError
		if _, err := whatsapp.New(opts); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("got error %v, want one about %s", err, field)
		}
	}
}

// covers: channels/139
func TestWhatsAppInstanceID(t *testing.T) {
	for want, ref := range map[string]whatsapp.Ref{
		"whatsapp:v1:business-account:B:phone-number:N:group:G":                    {Account: "B", PhoneNumber: "N", Type: whatsapp.TypeGroup, ID: "G"},
		"whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49": {Account: "B", PhoneNumber: "N", Type: whatsapp.TypePhoneNumber, ID: "49"},
		"whatsapp:v1:business-account:B:phone-number:N:individual:user-id:U%3A1":   {Account: "B", PhoneNumber: "N", Type: whatsapp.TypeUserID, ID: "U:1"},
	} {
		id, err := whatsapp.InstanceID(ref)
		if err != nil || id != want {
			t.Errorf("got %q, %v, want %q", id, err, want)
		}
		if back, err := whatsapp.ParseInstanceID(id); err != nil || back != ref {
			t.Errorf("got %+v, %v", back, err)
		}
	}
	for field, ref := range map[string]whatsapp.Ref{
		"conversation.account": {PhoneNumber: "N", Type: whatsapp.TypeGroup, ID: "G"}, "conversation.phoneNumber": {Account: "B", Type: whatsapp.TypeGroup, ID: "G"},
		"conversation.id": {Account: "B", PhoneNumber: "N", Type: whatsapp.TypeGroup}, "conversation.type": {Account: "B", PhoneNumber: "N", ID: "G"},
		"conversation": {Account: "B", PhoneNumber: "N", Type: whatsapp.TypeGroup, ID: "\xff"},
	} {
		var invalid *channels.InputError
		if _, err := whatsapp.InstanceID(ref); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", ref, err)
		}
	}
	for _, id := range []string{
		"", "whatsapp:v1:business-account:B:phone-number:N:individual:group:G", "whatsapp:v1:business-account:B:phone-number:N:user-id:U",
		"whatsapp:v1:business-account:B:number:N:group:G", "whatsapp:v1:business-account:B:phone-number:N:group:",
	} {
		var invalid *channels.InstanceIDError
		if ref, err := whatsapp.ParseInstanceID(id); !errors.As(err, &invalid) {
			t.Errorf("%q: got %+v, %v", id, ref, err)
		}
	}
}
