package stripe_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/stripe"
)

const (
	secret = "whsec_test"
	event  = `{"id":"evt_1","object":"event","type":"charge.succeeded","data":{"object":{}}}`
	thin   = `{"id":"evt_2","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered"}`
)

func code(key, stamp, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(stamp + "." + body))
	return hex.EncodeToString(mac.Sum(nil))
}

func sign(body string, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return "t=" + stamp + ",v1=" + code(secret, stamp, body)
}

// covers: channels/107 failures, channels/107 limit, channels/107 media_type, channels/107 order_of_checks
// covers: channels/107 proof, channels/107 results, channels/107 routing, channels/107 slow_sender, channels/127 proof
func TestStripeSuite(t *testing.T) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			c, err := stripe.New(&stripe.Options{
				Secret: secret, BodyLimit: limit, Webhook: func(ctx context.Context, _ stripe.Incoming) (any, error) { return callback(ctx) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Path: "/webhook", MediaType: "application/json", Body: event, Unproven: http.StatusBadRequest,
		Pad:    func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove:  func(h http.Header, body []byte) { h.Set("Stripe-Signature", sign(string(body), time.Now())) },
		Header: "Stripe-Signature",
		Malformed: []string{
			"x", "t=" + stamp, "v1=" + strings.Repeat("0", 64), "t=" + stamp + ",v0=" + strings.Repeat("0", 64), "t=" + stamp + ",v1=" + strings.Repeat("g", 64),
			"t=" + stamp + ",t=" + stamp + ",v1=" + code(secret, stamp, event), "t=,t=" + stamp + ",v1=" + code(secret, stamp, event),
		},
		Forged: []string{"t=" + stamp + ",v1=" + strings.Repeat("0", 64), "t=" + stamp + ",v1=" + code("another", stamp, event)},
		Broken: map[string]string{"empty": "", "not JSON": "{", "no id": `{"object":"event","type":"a"}`, "no type": `{"object":"event","id":"a"}`, "thin": thin, "another object": `{"object":"charge","id":"a","type":"b"}`},
		Order: []channeltest.Fault{
			channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
			channeltest.Streamed, channeltest.Forged, channeltest.Broken,
		},
	})
}

func send(t *testing.T, opts stripe.Options, body, signature string) (status int, got *stripe.Incoming) {
	t.Helper()
	opts.Webhook = func(_ context.Context, in stripe.Incoming) (any, error) { got = &in; return nil, nil }
	c, err := stripe.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Stripe-Signature", signature)
	w := httptest.NewRecorder()
	c.Route().ServeHTTP(w, r)
	return w.Code, got
}

// covers: channels/127, channels/128, channels/129
func TestStripeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		whole, lean := stripe.Options{Secret: secret}, stripe.Options{Secret: secret, Thin: true}
		if status, in := send(t, whole, event, sign(event, now)); status != 200 || in.ID != "evt_1" || in.Type != "charge.succeeded" || string(in.Native) != event {
			t.Errorf("full event: got %d, %+v", status, in)
		}
		if status, in := send(t, lean, thin, sign(thin, now)); status != 200 || in.ID != "evt_2" {
			t.Errorf("thin event: got %d, %+v", status, in)
		}
		if status, _ := send(t, lean, event, sign(event, now)); status != 400 {
			t.Errorf("full event at a thin endpoint: got %d", status)
		}
		for off, want := range map[time.Duration]int{-300 * time.Second: 200, 300 * time.Second: 200, -301 * time.Second: 400, 301 * time.Second: 400} {
			if status, _ := send(t, whole, event, sign(event, now.Add(off))); status != want {
				t.Errorf("off by %v: got %d, want %d", off, status, want)
			}
		}
		// During a rotation the header has signatures of both secrets.
		stamp := strconv.FormatInt(now.Unix(), 10)
		both := "t=" + stamp + ",v1=" + code("new", stamp, event) + ",v1=" + code(secret, stamp, event) + ",v0=" + strings.Repeat("0", 64)
		for name, opts := range map[string]stripe.Options{"old": whole, "new": {Secret: "new"}, "previous": {Secret: "newest", PreviousSecret: channels.NewSecret("new")}} {
			if status, _ := send(t, opts, event, both); status != 200 {
				t.Errorf("%s secret: got %d", name, status)
			}
		}
	})
}

// covers: channels/130
func TestStripeOptions(t *testing.T) {
	hook := func(context.Context, stripe.Incoming) (any, error) { return nil, nil }
	for field, opts := range map[string]*stripe.Options{
		"options": nil, "secret": {Webhook: hook}, "previousSecret": {Secret: secret, PreviousSecret: channels.NewSecret(""), Webhook: hook},
		"webhook": {Secret: secret}, "bodyLimit": {Secret: secret, Webhook: hook, BodyLimit: -1},
	} {
		var invalid *channels.InputError
		if _, err := stripe.New(opts); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("got error %v, want one about %s", err, field)
		}
	}
}

// FuzzStripeSignature verifies that only a header with one timestamp and the expected signature is
// accepted.
// covers: channels/128
func FuzzStripeSignature(f *testing.F) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	right := code(secret, stamp, event)
	for _, s := range []string{"t=" + stamp + ",v1=" + right, "t=" + stamp + ",v1=" + right + ",v1=" + right, "v1=" + right + ",t=" + stamp, "t=,v1=", ",,=", "t=" + stamp + ",0t=,T=,v1 =" + right, "t=" + stamp + ", t=1,v1=" + right} {
		f.Add(s)
	}
	c, err := stripe.New(&stripe.Options{Secret: secret, Webhook: func(context.Context, stripe.Incoming) (any, error) { return nil, nil }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, signature string) {
		r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(event))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Stripe-Signature": {signature}}
		w := httptest.NewRecorder()
		list := "," + strings.Join(strings.Fields(signature), "")
		if c.Route().ServeHTTP(w, r); w.Code == 200 && (!strings.Contains(strings.ToLower(list), ",v1="+right) || strings.Count(list, ",t=") != 1) {
			t.Errorf("signature %q: got an accepted event", signature)
		}
	})
}
