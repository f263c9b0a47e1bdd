package notes_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/notes"
)

const token = "secret_of_the_platform"

const pageCreated = `{"id":"evt_1","timestamp":"2026-03-11T00:00:00.000Z","workspace_id":"w","workspace_name":"Acme","subscription_id":"s",` +
	`"integration_id":"i","authors":[{"id":"u","type":"agent"}],"accessible_by":[{"id":"b","type":"bot"}],"attempt_number":1,` +
	`"api_version":"2026-03-11","entity":{"id":"p","type":"page"},"type":"page.created","data":{"parent":{"id":"q","type":"space"}}}`

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// covers: channels/1 routing, channels/2 routing, channels/3 in_process_explicit, channels/3 over_HTTP_explicit
// covers: channels/3 routing, channels/4 order_of_checks, channels/5 proof, channels/7 results, channels/8 null
// covers: channels/9 boolean, channels/10 number, channels/11 string, channels/12 array, channels/13 object
// covers: channels/14 response, channels/16 later, channels/17 unavailable, channels/18 limit
// covers: channels/19 declared_too_long, channels/20 streamed_too_long, channels/21 slow_sender
// covers: channels/22 malformed_length, channels/23 media_type, channels/25 routing, channels/26 routing
// covers: channels/29 ignored, channels/31 routing, channels/32 proof, channels/45 malformed_proof
// covers: channels/46 forged_proof, channels/46 missing_proof, channels/46 proof, channels/47 order_of_checks
// covers: channels/48 array, channels/48 broken_bodies, channels/48 empty_type, channels/48 no_type
// covers: channels/54 failures, channels/54 function, channels/54 panics, channels/164 slow_callback
// covers: channels/173 panics, channels/175 no_id, upgrade/15 routing
func TestNotesSuite(t *testing.T) {
	valid := sign(token, []byte(pageCreated))
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			c, err := notes.New(&notes.Options{
				VerificationToken: channels.NewSecret(token), BodyLimit: limit,
				Webhook: func(ctx context.Context, _ notes.Incoming) (any, error) { return callback(ctx) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Path: "/webhook", MediaType: "application/json", Body: pageCreated,
		Pad:    func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove:  func(h http.Header, body []byte) { h.Set(notes.DefaultSignatureHeader, sign(token, body)) },
		Header: notes.DefaultSignatureHeader,
		Malformed: []string{
			"x", "sha256=", valid[7:], "sha1=" + valid[7:], "SHA256=" + valid[7:], " " + valid + " x", valid[:70], valid + "0", "sha256=" + strings.Repeat("g", 64),
		},
		Forged: []string{sign("another token", []byte(pageCreated)), "sha256=" + strings.Repeat("0", 64)},
		Broken: map[string]string{
			"empty": "", "not JSON": `{"type":`, "two values": `{"type":"a"} {}`, "array": `[{"type":"a"}]`, "null": "null", "text": `"type"`,
			"no type": `{"id":"1"}`, "empty type": `{"type":""}`, "type is a number": `{"type":1}`, "type is null": `{"type":null}`,
			"type in capitals": `{"TYPE":"page.created"}`, "not UTF-8": "{\"type\":\"a\xff\"}", "overlong": "{\"type\":\"\xc0\xaf\"}", "surrogate": "{\"type\":\"\xed\xa0\x80\"}",
		},
		Silent: true,
		Order: []channeltest.Fault{
			channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Streamed,
			channeltest.Missing, channeltest.Malformed, channeltest.Forged, channeltest.Broken,
		},
	})
}

type result struct {
	status int
	body   string
	events []notes.Event
	tokens []channels.Secret
}

func send(t *testing.T, opts notes.Options, body, signature string) (res result) {
	t.Helper()
	opts.Webhook = func(_ context.Context, in notes.Incoming) (any, error) {
		if in.C == nil || in.C.Method != http.MethodPost {
			t.Error("callback: got no request")
		}
		res.events = append(res.events, in.Event)
		return nil, nil
	}
	if opts.Verification == nil && opts.VerificationToken == nil {
		opts.Verification = func(_ context.Context, in notes.Setup) (any, error) {
			res.tokens = append(res.tokens, in.VerificationToken)
			return map[string]string{"token": in.VerificationToken.Reveal()}, nil
		}
	}
	c, err := notes.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if header := opts.SignatureHeader; signature != "" {
		if header == "" {
			header = notes.DefaultSignatureHeader
		}
		r.Header.Set(header, signature)
	}
	w := httptest.NewRecorder()
	c.Route().ServeHTTP(w, r)
	res.status, res.body = w.Code, w.Body.String()
	return res
}

const setup = `{"verification_token":"secret_of_the_platform"}`

// covers: channels/6, channels/39 setup_request_without_a_token, channels/40 signed_event_without_a_token
// covers: channels/41 setup_request_with_the_token, channels/42 setup_request_with_another_token
// covers: channels/43 more_than_one_member, channels/43 no_setup_request, channels/44 no_setup_request
// covers: channels/54 setup_callback_fails
func TestVerificationStates(t *testing.T) {
	configured := notes.Options{VerificationToken: channels.NewSecret(token), Verification: func(context.Context, notes.Setup) (any, error) {
		t.Error("setup callback with a configured token: got a call, want none")
		return nil, nil
	}}
	t.Run("setup request without a token", func(t *testing.T) {
		got := send(t, notes.Options{}, setup, "")
		if got.status != 200 || got.body != `{"token":"`+token+`"}` || !slices.Equal(got.tokens, []channels.Secret{token}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("signed event without a token", func(t *testing.T) {
		for _, signature := range []string{sign(token, []byte(pageCreated)), "x"} {
			if got := send(t, notes.Options{}, pageCreated, signature); got.status != 503 || got.body != "" || len(got.events) != 0 {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("setup request with the token", func(t *testing.T) {
		if got := send(t, configured, setup, ""); got.status != 200 || got.body != "" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("setup request with another token", func(t *testing.T) {
		for _, sent := range []string{"x", token + "x", token[1:]} {
			if got := send(t, configured, `{"verification_token":"`+sent+`"}`, ""); got.status != 403 || got.body != "" {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("no setup request", func(t *testing.T) {
		for _, body := range []string{
			"", "{", "[]", "null", `{}`, `{"verification_token":""}`, `{"verification_token":1}`, `{"verification_token":null}`,
			`{"verification_token":["secret_of_the_platform"]}`, `{"verification_token":"a"} 1`, "{\"verification_token\":\"\xff\"}",
			`{"Verification_Token":"a"}`, pageCreated,
		} {
			for _, opts := range []notes.Options{{}, configured} {
				if got := send(t, opts, body, ""); got.status != 401 || len(got.tokens)+len(got.events) != 0 {
					t.Errorf("%q: got %+v", body, got)
				}
			}
		}
	})
	t.Run("more than one member", func(t *testing.T) {
		for _, body := range []string{
			`{"verification_token":"a","provider_added":1}`, `{"x":1,"verification_token":"a"}`, `{"verification_token":"a","verification_token":"a"}`,
		} {
			if got := send(t, notes.Options{}, body, ""); got.status != 401 || len(got.tokens) != 0 {
				t.Errorf("%q: got %+v", body, got)
			}
		}
	})
	t.Run("setup callback fails", func(t *testing.T) {
		failing := notes.Options{Verification: func(context.Context, notes.Setup) (any, error) { return nil, errors.New("confidential") }}
		if got := send(t, failing, setup, ""); got.status != 500 || got.body != "" {
			t.Errorf("got %+v", got)
		}
	})
}

// covers: channels/33 callback_only, channels/33 token_only, channels/33 webhook_only, channels/34 empty_token
// covers: channels/35 negative_limit, channels/36 no_webhook, channels/37 nothing, channels/37 token_before_webhook
// covers: channels/38 signature_header, channels/45 hexadecimal_of_either_case
func TestNotesOptions(t *testing.T) {
	hook := func(context.Context, notes.Incoming) (any, error) { return nil, nil }
	verify := func(context.Context, notes.Setup) (any, error) { return nil, nil }
	for name, tt := range map[string]struct {
		opts  *notes.Options
		field string
	}{
		"nothing":              {nil, "options"},
		"webhook only":         {&notes.Options{Webhook: hook}, "verificationToken"},
		"empty token":          {&notes.Options{Webhook: hook, Verification: verify, VerificationToken: channels.NewSecret("")}, "verificationToken"},
		"no webhook":           {&notes.Options{VerificationToken: channels.NewSecret(token)}, "webhook"},
		"negative limit":       {&notes.Options{Webhook: hook, Verification: verify, BodyLimit: -1}, "bodyLimit"},
		"token before webhook": {&notes.Options{VerificationToken: channels.NewSecret(""), BodyLimit: -1}, "verificationToken"},
	} {
		t.Run(name, func(t *testing.T) {
			var invalid *channels.InputError
			if _, err := notes.New(tt.opts); !errors.As(err, &invalid) || invalid.Field != tt.field || !strings.Contains(err.Error(), tt.field) {
				t.Errorf("got error %v, want one about %s", err, tt.field)
			}
		})
	}
	for name, opts := range map[string]*notes.Options{
		"token only":    {Webhook: hook, VerificationToken: channels.NewSecret(token)},
		"callback only": {Webhook: hook, Verification: verify},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := notes.New(opts); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("signature header", func(t *testing.T) {
		opts := notes.Options{VerificationToken: channels.NewSecret(token), SignatureHeader: "X-Other-Signature"}
		if got := send(t, opts, pageCreated, strings.ToUpper(sign(token, []byte(pageCreated)))); got.status != 401 {
			t.Errorf("prefix in capitals: got %d", got.status)
		}
		if got := send(t, opts, pageCreated, sign(token, []byte(pageCreated))); got.status != 200 || len(got.events) != 1 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("hexadecimal of either case", func(t *testing.T) {
		signature := "sha256=" + strings.ToUpper(sign(token, []byte(pageCreated))[7:])
		if got := send(t, notes.Options{VerificationToken: channels.NewSecret(token)}, pageCreated, signature); got.status != 200 {
			t.Errorf("got %+v", got)
		}
	})
}

// receive returns the event of a signed body.
func receive(t *testing.T, body string) notes.Event {
	t.Helper()
	got := send(t, notes.Options{VerificationToken: channels.NewSecret(token)}, body, sign(token, []byte(body)))
	if got.status != 200 || len(got.events) != 1 {
		t.Fatalf("%s: got %+v", body, got)
	}
	return got.events[0]
}

// covers: channels/5, channels/49, channels/50, channels/49 page.transcription_block.transcript_deleted
func TestKnownEvents(t *testing.T) {
	families := map[string]any{
		"comment": &notes.Comment{}, "data_source": &notes.DataSource{}, "database": &notes.Database{}, "file_upload": &notes.FileUpload{},
		"page": &notes.Page{}, "view": &notes.View{},
	}
	known := notes.Known()
	if len(known) != 31 {
		t.Errorf("got %d known types, want 31", len(known))
	}
	for _, kind := range known {
		t.Run(string(kind), func(t *testing.T) {
			for _, data := range []string{`,"data":{}`, ""} {
				e := receive(t, `{"id":"1","type":"`+string(kind)+`","attempt_number":2,"entity":{"id":"e","type":"x"}`+data+`}`)
				v, err := e.Typed()
				family, _, _ := strings.Cut(string(kind), ".")
				if err != nil || reflect.TypeOf(v) != reflect.TypeOf(families[family]) {
					t.Fatalf("got a %T: %v", v, err)
				}
				head := reflect.ValueOf(v).Elem().FieldByName("Head").Interface().(notes.Head)
				if head.ID != "1" || head.AttemptNumber != 2 || head.Entity != (notes.Entity{ID: "e", Type: "x"}) || head.Type != kind {
					t.Errorf("got head %+v", head)
				}
				if has := !reflect.ValueOf(v).Elem().FieldByName("Data").IsNil(); has != (data != "") {
					t.Errorf("got data: %v", has)
				}
			}
		})
	}
}

// covers: channels/50, channels/51, channels/165
func TestEventData(t *testing.T) {
	head := receive(t, pageCreated)
	page, err := head.Typed()
	if err != nil {
		t.Fatal(err)
	}
	p := page.(*notes.Page)
	if p.Data.Parent != (notes.Entity{ID: "q", Type: "space"}) || p.Authors[0].Type != notes.AuthorAgent || p.AccessibleBy[0].Type != notes.AuthorBot ||
		p.WorkspaceName != "Acme" || p.APIVersion != "2026-03-11" {
		t.Errorf("got event %+v", p)
	}
	for kind, tt := range map[string]struct {
		data  string
		right func(v any) bool
	}{
		"comment.created": {`{"parent":{"id":"b","type":"block"},"page_id":"p"}`, func(v any) bool { return v.(*notes.Comment).Data.PageID == "p" }},
		"data_source.schema_updated": {`{"updated_properties":[{"id":"1","name":null,"action":"deleted"}]}`,
			func(v any) bool {
				u := v.(*notes.DataSource).Data.UpdatedProperties[0]
				return u.Action == "deleted" && u.Name == nil
			}},
		"database.content_updated": {`{"updated_blocks":[{"id":"1","type":"block"}]}`, func(v any) bool { return v.(*notes.Database).Data.UpdatedBlocks[0].ID == "1" }},
		"page.properties_updated":  {`{"updated_properties":["a"]}`, func(v any) bool { return v.(*notes.Page).Data.UpdatedProperties[0] == "a" }},
		"view.updated":             {`{"updated_fields":["name"]}`, func(v any) bool { return v.(*notes.View).Data.UpdatedFields[0] == "name" }},
		"file_upload.upload_failed": {`{"file_import_result":{"type":"error"}}`, func(v any) bool {
			return strings.Contains(string(v.(*notes.FileUpload).Data.FileImportResult), "error")
		}},
		"page.transcription_block.transcript_deleted": {`{"target":{"id":"1","type":"block"},"transcript_id":null}`,
			func(v any) bool { d := v.(*notes.Page).Data; return d.Target.ID == "1" && d.TranscriptID == nil }},
	} {
		t.Run(kind, func(t *testing.T) {
			v, err := receive(t, `{"type":"`+kind+`","data":`+tt.data+`}`).Typed()
			if err != nil || !tt.right(v) {
				t.Errorf("got %+v, %v", v, err)
			}
		})
	}
}

// TestOtherEvents verifies that unknown events are delivered unchanged.
// covers: channels/24, channels/52, channels/53
func TestOtherEvents(t *testing.T) {
	for _, body := range []string{
		`{"type":"page.teleported","new_member":{"b":1,"a":12345678901234567890}}`, `{"type":"x"}`, `{"data":3,"type":"comment","type":"comment.sent"}`,
	} {
		e := receive(t, body)
		v, err := e.Typed()
		if v != nil || err != nil || string(e.Native) != body {
			t.Errorf("%s: got %s, %T, %v", body, e.Native, v, err)
		}
		again, err := json.Marshal(e)
		var back notes.Event
		if err != nil || string(again) != body || json.Unmarshal(again, &back) != nil || back.Type != e.Type {
			t.Errorf("stored and restored: got %s, %v", again, err)
		}
	}
	// Members are validated only when Typed reads them.
	e := receive(t, `{"type":"page.created","authors":"nobody"}`)
	if v, err := e.Typed(); err == nil || v != nil {
		t.Errorf("invalid authors: got %+v, want an error", v)
	}
	if e := receive(t, "\ufeff"+pageCreated); string(e.Native) != pageCreated {
		t.Errorf("with a byte order mark: got %s", e.Native)
	}
}
