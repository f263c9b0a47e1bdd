package commerce_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/commerce"
)

const (
	current  = "shpss_current"
	previous = "shpss_previous"
	order    = `{"id":940721724,"customer":{"id":115310627314723954},"name":"#1"}`
	hmacName = "X-Commerce-Hmac-Sha256"
)

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// covers: channels/1 routing, channels/4 order_of_checks, channels/7 results, channels/8 null, channels/9 boolean
// covers: channels/10 number, channels/11 string, channels/12 array, channels/13 object, channels/14 response
// covers: channels/16 later, channels/17 unavailable, channels/18 limit, channels/19 declared_too_long
// covers: channels/20 limit, channels/21 slow_sender, channels/22 malformed_length, channels/23 media_type
// covers: channels/27 routing, channels/29 ignored, channels/32 proof, channels/59 malformed_proof
// covers: channels/59 order_of_checks, channels/60 proof, channels/62 order_of_checks, channels/67 broken_bodies
// covers: channels/67 invalid_UTF-8, channels/67 not_JSON, channels/68 member_with_two_values
// covers: channels/73 error_handler, channels/73 failures, channels/164 slow_callback, channels/173 panics
// covers: channels/174 panics, channels/174 typed_nil_error, channels/175 no_id
func TestCommerceSuite(t *testing.T) {
	valid := sign(current, []byte(order))
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			c, err := commerce.New(&commerce.Options{
				ClientSecret: current, BodyLimit: limit,
				Webhook: func(ctx context.Context, _ commerce.Incoming) (any, error) { return callback(ctx) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Path: "/webhook", MediaType: "application/json", Body: order,
		Pad:    func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove:  func(h http.Header, body []byte) { h.Set(hmacName, sign(current, body)) },
		Header: hmacName,
		Malformed: []string{
			"x", valid[:43], valid[:43] + "==", strings.Repeat("*", 43) + "=", "sha256=" + valid, base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", 32))) + "=",
		},
		Forged: []string{sign("another", []byte(order)), strings.Repeat("A", 43) + "="},
		Broken: map[string]string{
			"empty": "", "not JSON": `{"id":`, "two values": "{} {}", "leading zero": `{"id":01}`, "plus": `{"id":+1}`, "no whole part": `{"id":.5}`,
			"no fraction": `{"id":5.}`, "no exponent": `{"id":1e}`, "bare word": "e5", "trailing comma": `[1,]`, "control character": "[\"\x01\"]",
			"bad escape": `["\x"]`, "member with two values": `{"id":1,"id":2}`, "invalid UTF-8": "{\"name\":\"\xff\"}", "surrogate": "[\"\xed\xa0\x80\"]",
		},
		Order: []channeltest.Fault{
			channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
			channeltest.Streamed, channeltest.Forged, channeltest.Broken,
		},
	})
}

// send sends a body signed with a key.
func send(t *testing.T, opts commerce.Options, body, key string, headers ...string) (status int, got *commerce.Incoming, meta commerce.Metadata) {
	t.Helper()
	var c *commerce.Channel
	opts.Webhook = func(_ context.Context, in commerce.Incoming) (any, error) {
		got, meta = &in, c.Metadata(in.C)
		return nil, nil
	}
	c, err := commerce.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	name := opts.Headers.HMAC
	if name == "" {
		name = hmacName
	}
	r.Header.Set(name, sign(key, []byte(body)))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.Route().ServeHTTP(w, r)
	return w.Code, got, meta
}

// covers: channels/60 current_only, channels/61 another_in_overlap, channels/61 previous_in_overlap
// covers: channels/61 previous_without_overlap
func TestRotation(t *testing.T) {
	both := commerce.Options{ClientSecret: current, PreviousClientSecret: channels.NewSecret(previous)}
	for name, tt := range map[string]struct {
		opts commerce.Options
		key  string
		want int
	}{
		"current only":             {commerce.Options{ClientSecret: current}, current, 200},
		"previous without overlap": {commerce.Options{ClientSecret: current}, previous, 401},
		"current in overlap":       {both, current, 200},
		"previous in overlap":      {both, previous, 200},
		"another in overlap":       {both, "another", 401},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _, _ := send(t, tt.opts, order, tt.key); got != tt.want {
				t.Errorf("got status %d, want %d", got, tt.want)
			}
		})
	}
}

// covers: channels/24, channels/63, channels/64, channels/65, channels/66, channels/68
func TestPayload(t *testing.T) {
	body := "\ufeff" + `{"id":940721724,"big":115310627314723954,"price":"1.50","list":[9007199254741999,-0,null,true],"same":1,"same":1}`
	status, in, _ := send(t, commerce.Options{ClientSecret: current}, body, current)
	if status != 200 || in.RawBody != body {
		t.Fatalf("got status %d, raw body %q", status, in.RawBody)
	}
	for path, want := range map[string]any{"id": json.Number("940721724"), "big": "115310627314723954", "price": "1.50", "same": json.Number("1"), "none": nil} {
		if got := commerce.Member(in.Payload, path); got != want {
			t.Errorf("%s: got %T %v, want %v", path, got, got, want)
		}
	}
	list := commerce.Member(in.Payload, "list").([]any)
	if list[0] != "9007199254741999" || list[1] != json.Number("-0") || list[2] != nil || list[3] != true {
		t.Errorf("got list %#v", list)
	}
	for _, name := range []string{"id", "big"} {
		if text, ok := commerce.Text(commerce.Member(in.Payload, name)); !ok || !strings.Contains(body, text) {
			t.Errorf("%s: got text %q", name, text)
		}
	}
	if _, ok := commerce.Text(true); ok || commerce.Member("text", "a") != nil {
		t.Error("Text of a non-id: got ok")
	}
}

// TestHeaders verifies that only the signature is required, and that other headers are returned
// unchanged.
// covers: channels/6, channels/69, channels/70, channels/71, channels/72
func TestHeaders(t *testing.T) {
	opts := commerce.Options{ClientSecret: current}
	if status, _, meta := send(t, opts, order, current); status != 200 || meta != (commerce.Metadata{}) {
		t.Errorf("without headers: got %d, %+v", status, meta)
	}
	for _, topic := range []string{"customers/data_request", "customers/redact", "shop/redact", "orders/create", "of/tomorrow"} {
		_, _, meta := send(t, opts, order, current,
			"X-Commerce-Topic", topic, "X-Commerce-Shop-Domain", "s", "X-Commerce-Api-Version", "v", "X-Commerce-Webhook-Id", "w", "X-Commerce-Name", "never read",
			"X-Commerce-Event-Id", "e", "X-Commerce-Triggered-At", "t", "X-Commerce-Sub-Topic", "u")
		if meta != (commerce.Metadata{Topic: topic, ShopDomain: "s", APIVersion: "v", WebhookID: "w", EventID: "e", TriggeredAt: "t", SubTopic: "u"}) {
			t.Errorf("got headers %+v", meta)
		}
	}
	opts.Headers = commerce.Headers{HMAC: "X-Other-Hmac", Topic: "X-Other-Topic"}
	if status, _, meta := send(t, opts, order, current, "X-Other-Topic", "a", "X-Commerce-Topic", "b"); status != 200 || meta.Topic != "a" {
		t.Errorf("with other names: got %d, %+v", status, meta)
	}
}

// covers: channels/89, channels/55 no_client_secret, channels/56 empty_previous_secret, channels/57 negative_limit
// covers: channels/58 no_webhook
func TestCommerceOptions(t *testing.T) {
	hook := func(context.Context, commerce.Incoming) (any, error) { return nil, nil }
	for name, tt := range map[string]struct {
		opts  *commerce.Options
		field string
	}{
		"nothing":               {nil, "options"},
		"no client secret":      {&commerce.Options{Webhook: hook}, "clientSecret"},
		"empty previous secret": {&commerce.Options{ClientSecret: current, Webhook: hook, PreviousClientSecret: channels.NewSecret("")}, "previousClientSecret"},
		"no webhook":            {&commerce.Options{ClientSecret: current}, "webhook"},
		"negative limit":        {&commerce.Options{ClientSecret: current, Webhook: hook, BodyLimit: -1}, "bodyLimit"},
	} {
		t.Run(name, func(t *testing.T) {
			var invalid *channels.InputError
			if _, err := commerce.New(tt.opts); !errors.As(err, &invalid) || invalid.Field != tt.field || strings.Contains(err.Error(), current) {
				t.Errorf("got error %v, want one about %s", err, tt.field)
			}
		})
	}
}
