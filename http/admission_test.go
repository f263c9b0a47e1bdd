package http_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// covers: protocol/2 second_message_continues, protocol/41 second_message_continues, protocol/46 user_message_is_202
// covers: protocol/49 offset_is_after_the_message, protocol/50 user_message_is_202
// covers: protocol/52 second_message_continues, protocol/171 offset_is_after_the_message
func TestAdmission(t *testing.T) {
	t.Run("user_message_is_202", func(t *testing.T) {
		h := newHarness(t, nil)
		res := h.post("/c1?x=1", hello)
		wantStatus(t, res, http.StatusAccepted)
		got := decode[receipt](t, res)
		want := receipt{
			StreamURL: "http://example.com/agents/assistant/c1", Offset: "0000000000000000_0000000000000000",
			SubmissionID: "sub_3", UID: "inst_1",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		for name, want := range map[string]string{
			"Location": want.StreamURL, "Stream-Next-Offset": want.Offset, "Content-Type": "application/json",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if res.Header.Get("Stream-Up-To-Date") != "" {
			t.Error("got Stream-Up-To-Date on an admission")
		}
	})
	t.Run("offset_is_after_the_message", func(t *testing.T) {
		h := newHarness(t, nil)
		offset := decode[receipt](t, h.post("/c1", hello)).Offset
		if got := readAll(t, h.do("GET", "/c1?view=updates&offset="+offset)); got != "[]" {
			t.Errorf("got updates %s from the admission's offset", got)
		}
	})
	t.Run("second_message_continues", func(t *testing.T) {
		h := newHarness(t, nil)
		first, second := decode[receipt](t, h.post("/c1", hello)), decode[receipt](t, h.post("/c1", hello))
		if first.UID != second.UID || first.SubmissionID == second.SubmissionID || second.Offset <= first.Offset {
			t.Errorf("first %+v, second %+v", first, second)
		}
	})
	t.Run("mounts_of_one_agent_share_conversations", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		r, err := http.NewRequest("GET", "/support/c1", nil)
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, h.serve(r), http.StatusOK)
	})
}

// covers: protocol/27 initialData_reaches_the_schema
func TestAdmissionInput(t *testing.T) {
	t.Run("initialData_null_is_present", func(t *testing.T) {
		h := newHarness(t, nil)
		wantStatus(t, h.post("/c1", `{"kind":"user","body":"x","initialData":null}`), http.StatusAccepted)
		if got := string(h.rt.admissions[0].InitialData); got != "null" {
			t.Errorf("initialData %q, want null", got)
		}
	})
	t.Run("initialData_reaches_the_schema", func(t *testing.T) {
		h := newHarness(t, nil)
		h.rt.schema = func(b json.RawMessage) error {
			if string(b) == `{"repo": "a"}` {
				return nil
			}
			return conversation.Errorf(conversation.CodeInvalidRequest, "initialData does not fit.")
		}
		wantError(t, h.post("/c1", `{"kind":"user","body":"x","initialData":1}`), 400, conversation.CodeInvalidRequest)
		wantStatus(t, h.do("GET", "/c1"), http.StatusNotFound)
		wantStatus(t, h.post("/c1", `{"kind":"user","body":"x","initialData":{"repo": "a"}}`), http.StatusAccepted)
		wantStatus(t, h.post("/c1", `{"kind":"user","body":"x","initialData":"ignored"}`), http.StatusAccepted)
	})
	t.Run("unknown_keys_are_ignored", func(t *testing.T) {
		h := newHarness(t, nil)
		body := `{"kind":"signal","type":"t","body":"x","attachments":7,"message":{},"constructor":1}`
		wantStatus(t, h.post("/c1", body), http.StatusAccepted)
	})
	t.Run("duplicate_keys_last_wins", func(t *testing.T) {
		h := newHarness(t, nil)
		wantStatus(t, h.post("/c1", `{"body":1,"kind":"x","kind":"user","attachments":null,"body":"a","\u0062ody":"b","attachments":[]}`), 202)
		if got := h.rt.admissions[0].Delivery.Body; got != "b" {
			t.Errorf("got body %q", got)
		}
	})
	t.Run("byte_order_mark_is_tolerated", func(t *testing.T) {
		h := newHarness(t, nil)
		wantStatus(t, h.post("/c1", "\ufeff"+hello+" \n"), http.StatusAccepted)
	})
	t.Run("small_message_is_admitted_without_precheck", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		if d := cmp.Diff([]string{"Admit"}, h.rt.calls); d != "" {
			t.Error(d)
		}
	})
	t.Run("large_message_is_prechecked", func(t *testing.T) {
		h := newHarness(t, nil)
		pad := strings.Repeat("x", 256<<10-len(hello))
		wantStatus(t, h.post("/c1", strings.Replace(hello, "hello", "hello"+pad, 1)), http.StatusAccepted)
		wantStatus(t, h.post("/c1", strings.Replace(hello, "hello", "hello+"+pad, 1)), http.StatusAccepted)
		if d := cmp.Diff([]string{"Admit", "Precheck", "Admit"}, h.rt.calls); d != "" {
			t.Error(d)
		}
	})
}

// covers: protocol/19 user, protocol/20 signal, protocol/21 signal_drops_attachments, protocol/23 signal_whole
// covers: protocol/23 user_drops_signal_members, protocol/24 user_drops_signal_members, upgrade/4 user
func TestAdmissionDelivery(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       conversation.Delivery
	}{
		{"user", `{"kind":"user","body":"h\u00e9 \ud83d\ude00 \ud800 <b>"}`,
			conversation.Delivery{Kind: "user", Body: "hé 😀 \ufffd <b>"}},
		{"user_empty_body", `{"kind":"user","body":""}`, conversation.Delivery{Kind: "user"}},
		{"user_drops_signal_members", `{"kind":"user","body":"x","type":1,"attributes":2,"tagName":3}`,
			conversation.Delivery{Kind: "user", Body: "x"}},
		{"signal", `{"kind":"signal","type":"github.issue","body":"{}"}`,
			conversation.Delivery{Kind: "signal", Type: "github.issue", Body: "{}"}},
		{"signal_whole", `{"kind":"signal","type":" ","body":"","attributes":{"a":"1","\u0062":""},"tagName":"_a.b-9"}`,
			conversation.Delivery{Kind: "signal", Type: " ", Attributes: map[string]string{"a": "1", "b": ""}, TagName: "_a.b-9"}},
		{"signal_last_attribute_of_a_name", `{"kind":"signal","type":"t","body":"x","attributes":{"a":null,"b":[],"\u0061":"1","b":""}}`,
			conversation.Delivery{Kind: "signal", Type: "t", Body: "x", Attributes: map[string]string{"a": "1", "b": ""}}},
		{"signal_drops_attachments", `{"kind":"signal","type":"t","body":"x","attachments":[` + pngJSON + `]}`,
			conversation.Delivery{Kind: "signal", Type: "t", Body: "x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			wantStatus(t, h.post("/c1", tt.body), http.StatusAccepted)
			if d := cmp.Diff(tt.want, h.rt.admissions[0].Delivery); d != "" {
				t.Error(d)
			}
		})
	}
}

// covers: protocol/29, upgrade/4, upgrade/9, protocol/36 matching_string_continues
// covers: protocol/37 string_absent_is_404_and_leaves_nothing, protocol/39 null_creates
// covers: protocol/39 null_with_initialData_creates, protocol/40 null_existing_is_409_naming_the_uid
func TestAdmissionUID(t *testing.T) {
	send := func(h *harness, uid string) *http.Response {
		return h.post("/c1", `{"kind":"user","body":"x","uid":`+uid+`}`)
	}
	t.Run("null_creates", func(t *testing.T) {
		wantStatus(t, send(newHarness(t, nil), "null"), http.StatusAccepted)
	})
	t.Run("null_with_initialData_creates", func(t *testing.T) {
		h := newHarness(t, nil)
		wantStatus(t, send(h, `null,"initialData":{}`), http.StatusAccepted)
		if a := h.rt.admissions[0]; !a.Condition.Absent || string(a.InitialData) != "{}" {
			t.Errorf("got admission %+v", a)
		}
	})
	t.Run("null_existing_is_409_naming_the_uid", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		e := wantError(t, send(h, "null"), 409, conversation.CodeInstanceExists)
		if !strings.Contains(e.Details, "inst_1") || e.Meta["uid"] != "inst_1" {
			t.Errorf("%+v does not name the uid", e)
		}
	})
	t.Run("matching_string_continues", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		wantStatus(t, send(h, `"inst_1"`), http.StatusAccepted)
	})
	for name, uid := range map[string]string{"other_string": `"inst_9"`, "empty_string": `""`} {
		t.Run(name+"_is_404", func(t *testing.T) {
			h := newHarness(t, nil)
			h.create()
			wantError(t, send(h, uid), 404, conversation.CodeInstanceNotFound)
		})
	}
	t.Run("string_absent_is_404_and_leaves_nothing", func(t *testing.T) {
		h := newHarness(t, nil)
		wantError(t, send(h, `"inst_1"`), 404, conversation.CodeInstanceNotFound)
		wantError(t, h.do("GET", "/c1?view=updates&offset=-1"), 404, conversation.CodeStreamNotFound)
	})
}

// covers: protocol/193
func TestAdmissionIdempotency(t *testing.T) {
	const keyed = `{"kind":"user","body":"x","idempotencyKey":"k"}`
	t.Run("replay_is_the_first_202_with_deduplicated", func(t *testing.T) {
		h := newHarness(t, nil)
		first := decode[receipt](t, h.post("/c1", keyed))
		if first.Deduplicated != nil {
			t.Error("got deduplicated for the first admission")
		}
		second := decode[receipt](t, h.post("/c1", `{"idempotencyKey":"k","body":"x","kind":"user"}`))
		if second.Deduplicated == nil || !*second.Deduplicated {
			t.Error("got no deduplicated for the replay")
		}
		second.Deduplicated = nil
		if d := cmp.Diff(first, second); d != "" {
			t.Error(d)
		}
	})
	t.Run("other_payload_is_409_with_the_submission", func(t *testing.T) {
		h := newHarness(t, nil)
		first := decode[receipt](t, h.post("/c1", keyed))
		e := wantError(t, h.post("/c1", strings.Replace(keyed, "x", "y", 1)), 409, conversation.CodeSubmissionConflict)
		if e.Meta["submissionId"] != first.SubmissionID {
			t.Errorf("got meta %v, want %s", e.Meta, first.SubmissionID)
		}
	})
	t.Run("replay_with_attachments_stages_nothing", func(t *testing.T) {
		h := newHarness(t, nil)
		body := withAttachments(`,"idempotencyKey":"k"`, pngJSON)
		wantStatus(t, h.post("/c1", body), http.StatusAccepted)
		wantStatus(t, h.post("/c1", body), http.StatusAccepted)
		if d := cmp.Diff([]string{"Precheck", "Stage", "Admit", "Precheck"}, h.rt.calls); d != "" {
			t.Error(d)
		}
	})
	t.Run("a_minted_key_is_never_deduplicated", func(t *testing.T) {
		h := newHarness(t, func(o *parleyhttp.Options) { o.NewKey = func() string { return "same" } })
		h.create()
		if got := decode[receipt](t, h.post("/c1", hello)); got.Deduplicated != nil {
			t.Error("got deduplicated without a caller's key")
		}
	})
	t.Run("without_a_key_one_is_minted", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		wantStatus(t, h.post("/c1", keyed), http.StatusAccepted)
		if got := []string{h.rt.admissions[0].Key, h.rt.admissions[1].Key}; !slices.Equal(got, []string{"key-1", "k"}) {
			t.Errorf("got keys %q", got)
		}
	})
}

// unnamed is a runtime whose incarnations have no uid.
type unnamed struct{ *fakeRuntime }

func (u unnamed) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	r, err := u.fakeRuntime.Admit(ctx, a)
	r.UID = ""
	return r, err
}

// covers: protocol/53
func TestAdmissionWithoutAUID(t *testing.T) {
	rt := newRuntime()
	h, err := parleyhttp.New(unnamed{rt}, rt, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, newPost("/c1", strings.NewReader(hello)))
	wantStatus(t, rec.Result(), http.StatusAccepted)
	got := unmarshal[map[string]any](t, rec.Body.String())
	if _, ok := got["uid"]; ok || len(got) != 3 {
		t.Errorf("got receipt %v", got)
	}
}

// png is the content of an attachment, pngJSON its form in a request.
const (
	png     = "\x89PNG\r\n\x1a\n"
	pngJSON = `{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png","filename":"a.png"}`
)

func withAttachments(more string, attachments ...string) string {
	return `{"kind":"user","body":"look"` + more + `,"attachments":[` + strings.Join(attachments, ",") + `]}`
}

// covers: protocol/35 are_staged_before_the_admission
func TestAdmissionAttachments(t *testing.T) {
	t.Run("are_staged_before_the_admission", func(t *testing.T) {
		h := newHarness(t, nil)
		plain := `{"mimeType":"image/svg+xml; charset=utf-8","data":"eA==","type":"image","filename":""}`
		wantStatus(t, h.post("/c1", withAttachments("", pngJSON, plain, pngJSON)), http.StatusAccepted)
		if d := cmp.Diff([]string{"Precheck", "Stage", "Stage", "Admit"}, h.rt.calls); d != "" {
			t.Errorf("staging of one content (-want +got):\n%s", d)
		}
		digest := "4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6"
		if got := string(h.rt.blobs[digest]); got != png {
			t.Errorf("got blob %q", got)
		}
		want := []conversation.Attachment{
			{SHA256: digest, MimeType: "image/png", Size: 8, Filename: "a.png"},
			{SHA256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", MimeType: "image/svg+xml; charset=utf-8", Size: 1},
			{SHA256: digest, MimeType: "image/png", Size: 8, Filename: "a.png"},
		}
		got := h.rt.admissions[0].Delivery.Attachments
		for i := range got {
			got[i].ID = "" // generated by the runtime
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
	t.Run("escaped_base64_is_decoded", func(t *testing.T) {
		h := newHarness(t, nil)
		escaped := strings.Replace(pngJSON, "iVBORw0KGgo=", `\u0069VBORw0KGgo\u003d`, 1)
		wantStatus(t, h.post("/c1", withAttachments("", escaped)), http.StatusAccepted)
	})
	t.Run("failed_condition_stages_nothing", func(t *testing.T) {
		h := newHarness(t, nil)
		wantError(t, h.post("/c1", withAttachments(`,"uid":"inst_9"`, pngJSON)), 404, conversation.CodeInstanceNotFound)
		if got := h.rt.wrote(); got != nil {
			t.Errorf("wrote %v", got)
		}
	})
	t.Run("failed_stage_admits_nothing", func(t *testing.T) {
		h := newHarness(t, nil)
		h.rt.fail = func(method string) error {
			if method == "Stage" {
				return conversation.Unavailable(1, nil)
			}
			return nil
		}
		wantError(t, h.post("/c1", withAttachments("", pngJSON)), 503, conversation.CodeUnavailable)
		if d := cmp.Diff([]string{"Stage"}, h.rt.wrote()); d != "" {
			t.Error(d)
		}
		if got := h.leftovers(); got != nil {
			t.Errorf("got leftovers %v", got)
		}
	})
	t.Run("every_length_round_trips", func(t *testing.T) {
		h := newHarness(t, nil)
		for _, n := range []int{1, 2, 3, 24<<10 - 1, 24 << 10, 24<<10 + 1, 48 << 10, 64<<10 + 1, 100_003} {
			content := strings.Repeat("z", n)
			data := base64.StdEncoding.EncodeToString([]byte(content))
			body := withAttachments("", fmt.Sprintf(`{"type":"image","data":%q,"mimeType":"image/png"}`, data))
			wantStatus(t, h.post("/c1", body), http.StatusAccepted)
			last := h.rt.admissions[len(h.rt.admissions)-1].Delivery.Attachments[0]
			if got := string(h.rt.blobs[last.SHA256]); got != content || last.Size != int64(n) {
				t.Errorf("%d bytes became %d, size %d", n, len(got), last.Size)
			}
		}
	})
}

// lossyRuntime is a runtime whose first admission result is lost.
type lossyRuntime struct {
	*fakeRuntime
	lost bool
}

func (f *lossyRuntime) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	receipt, err := f.fakeRuntime.Admit(ctx, a)
	if err == nil && !f.lost {
		f.lost = true
		e := conversation.InDoubt(conversation.CodeAdmissionUnknown, time.Second, context.DeadlineExceeded)
		e.Meta = map[string]any{"idempotencyKey": a.Key}
		err = e
	}
	return receipt, err
}

// TestUnknownAdmissionRetry sends a message without a key, loses the result, and retries with the key
// from the error. The message is admitted once.
// covers: protocol/200
func TestUnknownAdmissionRetry(t *testing.T) {
	rt := &lossyRuntime{fakeRuntime: newRuntime()}
	handler, err := parleyhttp.New(rt, rt, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, rt: rt.fakeRuntime, h: handler}
	e := wantError(t, h.post("/c1", hello), 503, conversation.CodeAdmissionUnknown)
	key, _ := e.Meta["idempotencyKey"].(string)
	if key == "" {
		t.Fatalf("got meta %v", e.Meta)
	}
	res := h.post("/c1", `{"kind":"user","body":"hello","idempotencyKey":"`+key+`"}`)
	wantStatus(t, res, http.StatusAccepted)
	if r := decode[receipt](t, res); r.Deduplicated == nil || !*r.Deduplicated {
		t.Errorf("got receipt %+v", r)
	}
	if n := len(rt.convs[c1].batches); n != 1 {
		t.Errorf("got %d batches, want 1", n)
	}
}
