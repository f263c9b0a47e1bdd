package standardwebhooks_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	library "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/standardwebhooks"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	older  = "b2xkZXI="
	body   = `{"type":"user.created","data":{}}`
)

func sign(t testing.TB, secret, id, stamp, body string) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "." + body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func prove(t testing.TB, h http.Header, prefix, body string, at time.Time) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	h.Set(prefix+"-Id", "msg_1")
	h.Set(prefix+"-Timestamp", stamp)
	h.Set(prefix+"-Signature", sign(t, secret, "msg_1", stamp, body))
}

// covers: channels/110 failures, channels/110 limit, channels/110 media_type, channels/110 order_of_checks
// covers: channels/110 proof, channels/110 results, channels/110 routing, channels/110 slow_sender
func TestStandardWebhooksSuite(t *testing.T) {
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			c, err := standardwebhooks.New(&standardwebhooks.Options{
				Secret: secret, BodyLimit: limit,
				Webhook: func(ctx context.Context, _ standardwebhooks.Incoming) (any, error) { return callback(ctx) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Path: "/webhook", MediaType: "application/json", Body: body,
		Pad:    func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove:  func(h http.Header, body []byte) { prove(t, h, "Webhook", string(body), time.Now()) },
		Header: "Webhook-Signature",
		Malformed: []string{
			"x", "v1,", "v1," + strings.Repeat("A", 43), "v2," + strings.Repeat("A", 43) + "=", "v1a," + strings.Repeat("A", 43) + "=",
		},
		Forged: []string{"v1," + strings.Repeat("A", 43) + "="},
		Broken: map[string]string{"empty": "", "not JSON": "{", "array": "[]"},
		Order: []channeltest.Fault{
			channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
			channeltest.Streamed, channeltest.Forged, channeltest.Broken,
		},
	})
}

// send sends a body, and returns the status and the callback's argument.
func send(t *testing.T, opts standardwebhooks.Options, body string, headers map[string]string) (status int, got *standardwebhooks.Incoming) {
	t.Helper()
	opts.Webhook = func(_ context.Context, in standardwebhooks.Incoming) (any, error) { got = &in; return nil, nil }
	c, err := standardwebhooks.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.Route().ServeHTTP(w, r)
	return w.Code, got
}

// covers: channels/141, channels/142, channels/143
func TestStandardWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The example of the specification.
		time.Sleep(time.Until(time.Unix(1614265330, 0)))
		const id, stamp, example = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`
		const signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
		headers := func(prefix, signature, stamp string) map[string]string {
			return map[string]string{prefix + "-Id": id, prefix + "-Timestamp": stamp, prefix + "-Signature": signature}
		}
		status, in := send(t, standardwebhooks.Options{Secret: secret}, example, headers("Webhook", signature, stamp))
		if status != 200 || in.ID != id || in.Type != "" || string(in.Native) != example {
			t.Errorf("example of the specification: got %d, %+v", status, in)
		}
		if status, in := send(t, standardwebhooks.Options{Secret: secret, Prefix: "Svix"}, example, headers("Svix", signature, stamp)); status != 200 || in.ID != id {
			t.Errorf("with other names: got %d, %+v", status, in)
		}
		several := "v1a,xyz v1,AAAA " + sign(t, older, id, stamp, example) + " " + signature
		for name, opts := range map[string]standardwebhooks.Options{
			"current": {Secret: secret}, "previous": {Secret: "b3RoZXI=", PreviousSecret: channels.NewSecret(older)},
		} {
			if status, _ := send(t, opts, example, headers("Webhook", several, stamp)); status != 200 {
				t.Errorf("one of several signatures, %s: got %d", name, status)
			}
		}
		if status, _ := send(t, standardwebhooks.Options{Secret: "b3RoZXI="}, example, headers("Webhook", several, stamp)); status != 401 {
			t.Errorf("none of several signatures: got %d", status)
		}
		for off, want := range map[int64]int{-300: 200, 300: 200, -301: 401, 301: 401} {
			stamp := strconv.FormatInt(1614265330+off, 10)
			if status, _ := send(t, standardwebhooks.Options{Secret: secret}, example, headers("Webhook", sign(t, secret, id, stamp, example), stamp)); status != want {
				t.Errorf("off by %d s: got %d, want %d", off, status, want)
			}
		}
		if status, _ := send(t, standardwebhooks.Options{Secret: secret}, example, headers("Webhook", sign(t, secret, id, "+1614265330", example), "+1614265330")); status != 401 {
			t.Errorf("timestamp of another form: got %d", status)
		}
		if _, in := send(t, standardwebhooks.Options{Secret: secret}, body, headers("Webhook", sign(t, secret, id, stamp, body), stamp)); in.Type != "user.created" {
			t.Errorf("got type %q", in.Type)
		}
	})
}

// covers: channels/144
func TestStandardWebhooksOptions(t *testing.T) {
	hook := func(context.Context, standardwebhooks.Incoming) (any, error) { return nil, nil }
	for field, all := range map[string][]*standardwebhooks.Options{
		"options": {nil}, "secret": {{Webhook: hook}, {Webhook: hook, Secret: "whsec_"}, {Webhook: hook, Secret: "not base64"}},
		"previousSecret": {{Webhook: hook, Secret: secret, PreviousSecret: channels.NewSecret("")}}, "webhook": {{Secret: secret}},
		"bodyLimit": {{Secret: secret, Webhook: hook, BodyLimit: -1}},
	} {
		for _, opts := range all {
			var invalid *channels.InputError
			if _, err := standardwebhooks.New(opts); !errors.As(err, &invalid) || invalid.Field != field || strings.Contains(err.Error(), secret) {
				t.Errorf("got error %v, want one about %s", err, field)
			}
		}
	}
}

// FuzzStandardSignature verifies that only a header with the expected signature is accepted.
// covers: channels/142
func FuzzStandardSignature(f *testing.F) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	right := sign(f, secret, "msg_1", stamp, body)
	for _, s := range []string{right, "v1,AAAA " + right, right + ", " + right, "v1a," + right, " " + right, "v2" + right[2:]} {
		f.Add(s)
	}
	c, err := standardwebhooks.New(&standardwebhooks.Options{Secret: secret, Webhook: func(context.Context, standardwebhooks.Incoming) (any, error) { return nil, nil }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, signature string) {
		r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature}}
		w := httptest.NewRecorder()
		if c.Route().ServeHTTP(w, r); w.Code == 200 && !strings.Contains(signature, right) {
			t.Errorf("signature %q: got an accepted delivery", signature)
		}
	})
}

func TestSpecificationLibrary(t *testing.T) {
	for text, want := range map[string]int{secret: 200, "whsec_" + older: 401} {
		theirs, err := library.NewWebhook(text)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		signature, err := theirs.Sign("msg_7", at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		status, got := send(t, standardwebhooks.Options{Secret: secret}, body, map[string]string{
			library.HeaderWebhookID: "msg_7", library.HeaderWebhookTimestamp: strconv.FormatInt(at.Unix(), 10), library.HeaderWebhookSignature: signature,
		})
		if status != want || want == 200 && (got == nil || got.ID != "msg_7") {
			t.Errorf("signed with %s: got %d, %+v", text, status, got)
		}
	}
}
