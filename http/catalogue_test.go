package http_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// provocation is a request that fails, at a conversation c1 with the attachment att_1 whose first
// message had the key k.
type provocation struct {
	code                      conversation.Code
	method, path, media, body string
	fail                      error // error of the runtime; nil if it decides itself
	status                    int
	header                    map[string]string // in addition to the headers of every error
	meta                      map[string]any
}

// provocations covers every type of the catalogue.
func provocations() []provocation {
	const jsonType = "application/json"
	keyed := `{"kind":"user","body":"other","idempotencyKey":"k"}`
	logged := map[string]string{"Parley-Error-Ref": "err_1"}
	return []provocation{
		{code: conversation.CodeInvalidRequest, method: "GET", path: "/c1?view=bogus", status: 400},
		{code: conversation.CodeInvalidJSON, method: "POST", path: "/c1", media: jsonType, body: "{", status: 400},
		{code: conversation.CodeUnsupportedMediaType, method: "POST", path: "/c1", media: "text/plain", body: hello, status: 415},
		{code: conversation.CodeMethodNotAllowed, method: "DELETE", path: "/c1", status: 405, header: map[string]string{"Allow": "GET, HEAD, POST"}},
		{code: conversation.CodeMethodNotAllowed, method: "GET", path: "/c1/abort", status: 405, header: map[string]string{"Allow": "POST"}},
		{code: conversation.CodeMethodNotAllowed, method: "POST", path: "/c1/attachments/att_1", status: 405, header: map[string]string{"Allow": "GET"}},
		{code: conversation.CodeRouteNotFound, method: "GET", path: "/c1/none", status: 404},
		{code: conversation.CodeInstanceNotFound, method: "POST", path: "/c1", media: jsonType, body: `{"kind":"user","body":"x","uid":"inst_x"}`, status: 404},
		{code: conversation.CodeStreamNotFound, method: "GET", path: "/none", status: 404},
		{code: conversation.CodeAttachmentNotFound, method: "GET", path: "/c1/attachments/none", status: 404},
		{code: conversation.CodeInstanceExists, method: "POST", path: "/c1", media: jsonType, body: `{"kind":"user","body":"x","uid":null}`, status: 409,
			meta: map[string]any{"uid": "inst_2"}},
		{code: conversation.CodeSubmissionConflict, method: "POST", path: "/c1", media: jsonType, body: keyed, status: 409,
			meta: map[string]any{"submissionId": "sub_4"}},
		{code: conversation.CodeStreamStoreFailure, method: "GET", path: "/c1?view=updates&offset=" + offset(99), status: 500, header: logged},
		{code: conversation.CodeAttachmentIntegrity, method: "GET", path: "/c1/attachments/att_1", status: 500, header: logged,
			fail: &conversation.Error{Code: conversation.CodeAttachmentIntegrity, Meta: map[string]any{"reason": "size"}},
			meta: map[string]any{"reason": "size"}},
		{code: conversation.CodeAttachmentConflict, method: "POST", path: "/c1", media: jsonType, body: withAttachments("", pngJSON), status: 500,
			fail: &conversation.Error{Code: conversation.CodeAttachmentConflict, Err: errors.New("secret")}, header: logged},
		{code: conversation.CodeInternal, method: "GET", path: "/c1", fail: errors.New("secret"), status: 500, header: logged},
		{code: conversation.CodeSchemaVersion, method: "GET", path: "/c1", status: 500, header: logged,
			fail: &conversation.Error{Code: conversation.CodeSchemaVersion, Meta: map[string]any{"storedVersion": 7, "supportedVersion": 8}},
			meta: map[string]any{"storedVersion": 7.0, "supportedVersion": 8.0}},
		{code: conversation.CodeUnavailable, method: "POST", path: "/c1", media: jsonType, body: hello, status: 503,
			fail: conversation.Unavailable(2500*time.Millisecond, errors.New("secret")), header: map[string]string{"Retry-After": "3"}},
		{code: conversation.CodeAdmissionUnknown, method: "POST", path: "/c1", media: jsonType, body: hello, status: 503,
			fail: &conversation.Error{Code: conversation.CodeAdmissionUnknown, Meta: map[string]any{"idempotencyKey": "key-2"}, Err: errors.New("secret")},
			meta: map[string]any{"idempotencyKey": "key-2"}, header: map[string]string{"Retry-After": "1"}},
		{code: conversation.CodeAbortUnknown, method: "POST", path: "/c1/abort", status: 503,
			fail: conversation.InDoubt(conversation.CodeAbortUnknown, time.Second, errors.New("secret")), header: map[string]string{"Retry-After": "1"}},
	}
}

// TestErrorCatalogue compares the whole response of every error type: status, headers, and the
// envelope's members.
// covers: protocol/95, protocol/150, protocol/151, protocol/172, protocol/175, protocol/176, protocol/177, protocol/178
// covers: protocol/179, protocol/180, protocol/181, protocol/182, protocol/183, protocol/184, protocol/185
// covers: protocol/195, protocol/198, upgrade/9
func TestErrorCatalogue(t *testing.T) {
	for _, p := range provocations() {
		t.Run(string(p.code)+"_"+p.method, func(t *testing.T) {
			h := newHarness(t, nil)
			wantStatus(t, h.post("/c1", withAttachments(`,"idempotencyKey":"k"`, pngJSON)), http.StatusAccepted)
			if p.fail != nil {
				h.rt.fail = func(string) error { return p.fail }
			}
			r := httptest.NewRequest(p.method, "/agents/assistant"+p.path, strings.NewReader(p.body))
			if p.media != "" {
				r.Header.Set("Content-Type", p.media)
			}
			res := h.serve(r)
			wantStatus(t, res, p.status)
			body := readAll(t, res)
			want := http.Header{
				"Content-Type": {"application/json"}, "Content-Length": {fmt.Sprint(len(body))}, "Cache-Control": {"no-store"},
				"X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"cross-origin"},
			}
			for name, value := range p.header {
				want[name] = []string{value}
			}
			if d := cmp.Diff(want, res.Header); d != "" {
				t.Errorf("headers (-want +got):\n%s", d)
			}
			checkEnvelope(t, body, p)
		})
	}
}

func checkEnvelope(t *testing.T, body string, p provocation) {
	t.Helper()
	got := unmarshal[map[string]map[string]any](t, body)
	e := got["error"]
	members := []string{"details", "message", "type"}
	if p.meta != nil {
		members = append(members, "meta")
	}
	if p.status == http.StatusInternalServerError {
		members = append(members, "ref")
	}
	slices.Sort(members)
	var have []string
	for name := range e {
		have = append(have, name)
	}
	slices.Sort(have)
	if d := cmp.Diff(members, have); d != "" || len(got) != 1 {
		t.Errorf("members of %s (-want +got):\n%s", body, d)
	}
	if e["type"] != string(p.code) || e["message"] == "" || e["details"] == "" || strings.Contains(body, "secret") {
		t.Errorf("got envelope %s", body)
	}
	if d := cmp.Diff(p.meta, anyMap(e["meta"])); d != "" {
		t.Errorf("meta (-want +got):\n%s", d)
	}
	if uid, ok := p.meta["uid"].(string); ok && !strings.Contains(e["details"].(string), uid) {
		t.Errorf("got details %q, want %s in them", e["details"], uid)
	}
}

func anyMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// covers: protocol/129
func TestErrorsWithoutABody(t *testing.T) {
	for path, status := range map[string]int{"/none": 404, "/%20": 400, "/c1/abort": 405, "/c1/attachments/x": 405, "/c1/none": 404} {
		res := newHarness(t, nil).do("HEAD", path)
		wantStatus(t, res, status)
		for name, want := range map[string]string{
			"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Resource-Policy": "cross-origin", "Stream-Next-Offset": "", "Stream-Up-To-Date": "",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if got := readAll(t, res); got != "" {
			t.Errorf("%s has the body %q", path, got)
		}
	}
}
