package http_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// oddIDs maps path segments to ids, which are decoded exactly once.
func oddIDs() map[string]string {
	return map[string]string{
		"a%2Fb": "a/b", "a%2fb": "a/b", "%2F": "/", "%2Fabort": "/abort", "a%2Fattachments%2Fb": "a/attachments/b",
		"a%20b": "a b", "%20a%20": " a ", "a+b": "a+b", "a%2Bb": "a+b", "a%09b": "a\tb",
		"..%2F..%2Fetc": "../../etc", "...": "...",
		"%C3%A9": "\u00e9", "e%CC%81": "e\u0301", // composed and decomposed: two ids
		"%E6%9D%B1%E4%BA%AC": "東京", "%F0%9F%98%80": "😀", "%E2%80%8B": "\u200b",
		"a%3Fb": "a?b", "a%23b": "a#b", "a%25b": "a%b", "%252F": "%2F", "a;b=c": "a;b=c", "a&b": "a&b", "*": "*",
		"C1": "C1", "abort": "abort", "attachments": "attachments", "null": "null", "-1": "-1", "%00": "\x00", "a%0D%0Ab": "a\r\nb",
		strings.Repeat("a", 512):                 strings.Repeat("a", 512),
		strings.Repeat("%C3%A9", 256):            strings.Repeat("é", 256),
		strings.Repeat("%F0%9F%98%80", 512/4):    strings.Repeat("😀", 512/4),
		"x" + strings.Repeat("%2F", 510) + "%20": "x" + strings.Repeat("/", 510) + " ",
	}
}

// TestIDsOnEveryRoute checks that a segment names the same conversation on every route. streamUrl and
// Location repeat it unchanged.
// covers: protocol/47, protocol/48, protocol/191
func TestIDsOnEveryRoute(t *testing.T) {
	for segment, id := range oddIDs() {
		h := newHarness(t, nil)
		res := h.post("/"+segment+"?a=%2F", withAttachments("", pngJSON))
		wantStatus(t, res, http.StatusAccepted)
		url := "http://example.com/agents/assistant/" + segment
		if got := decode[receipt](t, res).StreamURL; got != url || res.Header.Get("Location") != url {
			t.Errorf("got streamUrl %q, Location %q, want %q", got, res.Header.Get("Location"), url)
		}
		if got := h.rt.admissions[0].Address; got != (conversation.Address{Agent: "assistant", ID: id}) {
			t.Errorf("segment %q: got id %+v, want %q", segment, got, id)
		}
		wantStatus(t, h.do("GET", "/"+segment), 200)
		wantStatus(t, h.do("GET", "/"+segment+"?view=updates&offset=-1"), 200)
		wantStatus(t, h.do("HEAD", "/"+segment), 200)
		wantStatus(t, h.do("GET", "/"+segment+"/attachments/att_1"), 200)
		wantAbort(t, h.do("POST", "/"+segment+"/abort"), someAborted)
		// The returned URL leads back.
		wantStatus(t, h.serve(httptest.NewRequest("GET", url, nil)), 200)
	}
}

// covers: protocol/191
func TestIDsAreNotNormalized(t *testing.T) {
	h := newHarness(t, nil)
	segments := []string{"%C3%A9", "e%CC%81", "c1", "C1", "%20c1", "c1%20", "c1.", "c1%2F", "%2Fc1", "..%2Fc1", ".%2Fc1", "%EF%BD%83%EF%BC%91", "c1%00"}
	for i, segment := range segments {
		wantStatus(t, h.post("/"+segment, `{"kind":"user","body":"x","uid":null}`), http.StatusAccepted)
		if len(h.rt.convs) != i+1 {
			t.Errorf("segment %q names an existing conversation", segment)
		}
	}
}

// TestIDsRefused sends blank, too long and invalid ids to every route with an id.
// covers: protocol/94, protocol/191
func TestIDsRefused(t *testing.T) {
	for segment, details := range map[string]string{
		"": "blank", "%20": "blank", "%09%0A%0D": "blank", "%C2%A0": "blank", "%E2%80%A8": "blank", "%E3%80%80": "blank", "%EF%BB%BF": "blank",
		"%E2%80%80%20%E1%9A%80": "blank", "%0B%0C": "blank", strings.Repeat("%20", 600): "blank",
		strings.Repeat("a", 513): "512", strings.Repeat("%C3%A9", 256) + "a": "512", strings.Repeat("%2F", 513): "512",
		"%FF": "UTF-8", "a%C3": "UTF-8", "%ED%A0%80": "UTF-8", "%C0%AF": "UTF-8",
	} {
		h := newHarness(t, nil)
		for _, res := range []*http.Response{
			h.post("/"+segment, hello), h.do("GET", "/"+segment), h.do("GET", "/"+segment+"?view=updates&offset=-1"),
			h.do("POST", "/"+segment+"/abort"), h.do("GET", "/"+segment+"/attachments/att_1"),
		} {
			if e := wantError(t, res, 400, conversation.CodeInvalidRequest); !strings.Contains(e.Details, details) {
				t.Errorf("segment %.20q: got details %q, want %s", segment, e.Details, details)
			}
		}
		wantStatus(t, h.do("HEAD", "/"+segment), 400)
		if h.rt.calls != nil {
			t.Errorf("segment %.20q: got runtime calls %v", segment, h.rt.calls)
		}
	}
}

// TestDotsAreNotAdmitted: URL libraries remove the segments "." and ".." in each spelling. Both
// protocols reject admissions to such ids, but reads of existing ones work.
// covers: protocol/191
func TestDotsAreNotAdmitted(t *testing.T) {
	for segment, id := range map[string]string{".": ".", "..": "..", "%2e": ".", "%2E%2e": "..", ".%2E": ".."} {
		h := newRuns(t, nil)
		for path, body := range map[string]string{"/agents/assistant/": hello, "/beta/agents/assistant/": `{"message":"x"}`} {
			e := wantError(t, h.beta("POST", path+segment, body), 400, conversation.CodeInvalidRequest)
			if !strings.Contains(e.Details, "must not be") || h.rt.calls != nil {
				t.Errorf("POST %s%s: got details %q, runtime calls %v", path, segment, e.Details, h.rt.calls)
			}
		}
		if _, err := h.rt.Admit(t.Context(), conversation.Admission{
			Address: conversation.Address{Agent: "assistant", ID: id}, Key: "k", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "x"},
		}); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, h.do("GET", "/"+segment), http.StatusOK)
		wantAbort(t, h.do("POST", "/"+segment+"/abort"), someAborted)
	}
}

// TestIDsWithUnescapedCharacters covers bytes that should have been escaped, which curl sends as they
// are. They do not affect the escapes next to them.
// covers: protocol/191
func TestIDsWithUnescapedCharacters(t *testing.T) {
	for segment, want := range map[string]struct{ id, escaped string }{
		"\u00e9": {"\u00e9", "%C3%A9"}, "\u00e9%2Fabort": {"\u00e9/abort", "%C3%A9%2Fabort"}, "|%2fabort": {"|/abort", "%7C%2fabort"},
		"{x}%2Fattachments%2Fatt_1": {"{x}/attachments/att_1", "%7Bx%7D%2Fattachments%2Fatt_1"}, `"%2F..%2F\`: {`"/../\`, "%22%2F..%2F%5C"},
		"c#%2Fabort": {"c#/abort", "c%23%2Fabort"}, "<^`>%2F%25%7C": {"<^`>/%|", "%3C%5E%60%3E%2F%25%7C"}, "[!$&'()*+,;=:@]%2F|": {"[!$&'()*+,;=:@]/|", "[!$&'()*+,;=:@]%2F%7C"},
	} {
		h := newHarness(t, nil)
		url := "http://example.com/agents/assistant/" + want.escaped
		res := h.post("/"+segment+"?|=%2F", withAttachments("", pngJSON))
		wantStatus(t, res, http.StatusAccepted)
		if got := decode[receipt](t, res).StreamURL; got != url || res.Header.Get("Location") != url {
			t.Errorf("got streamUrl %q, Location %q, want %q", got, res.Header.Get("Location"), url)
		}
		if got := h.rt.admissions[0].Address.ID; got != want.id {
			t.Errorf("segment %q: got id %q, want %q", segment, got, want.id)
		}
		wantStatus(t, h.do("HEAD", "/"+segment), 200)
		wantStatus(t, h.do("GET", "/"+segment+"/attachments/att%5F1"), 200)
		wantError(t, h.do("GET", "/"+segment+"/attachments/att_1%2F|"), 404, conversation.CodeAttachmentNotFound)
		rec := httptest.NewRecorder()
		http.StripPrefix("/api", h.h).ServeHTTP(rec, httptest.NewRequest("POST", "/api/agents/assistant/"+segment+"/abort", nil))
		wantAbort(t, rec.Result(), someAborted)
		wantStatus(t, h.serve(httptest.NewRequest("GET", url, nil)), 200)
	}
}

// TestDotsAreNotServed checks that a segment of dots in place of a run, a workflow or an attachment is an error of that
// route, in each spelling, and never a redirect.
func TestDotsAreNotServed(t *testing.T) {
	for _, segment := range []string{".", "..", "%2e", "%2E%2e", ".%2E"} {
		h := newRuns(t, nil)
		for _, tt := range []struct {
			method, path string
			code         conversation.Code
		}{
			{"GET", "/runs/" + segment, conversation.CodeRunNotFound},
			{"GET", "/runs/" + segment + "?meta", conversation.CodeRunNotFound},
			{"POST", "/runs/" + segment + "/abort", conversation.CodeRunNotFound},
			{"GET", "/beta/runs/" + segment, conversation.CodeRunNotFound},
			{"POST", "/workflows/" + segment, conversation.CodeWorkflowNotFound},
			{"POST", "/beta/workflows/" + segment, conversation.CodeWorkflowNotFound},
			{"GET", "/agents/assistant/c1/attachments/" + segment, conversation.CodeStreamNotFound},
			{"PUT", "/agents/assistant/" + segment, conversation.CodeMethodNotAllowed},
			{"GET", "/agents/" + segment + "/c1", conversation.CodeRouteNotFound},
		} {
			var body string
			if tt.method == "POST" {
				body = "{}"
			}
			res := h.beta(tt.method, tt.path, body)
			if e := decode[struct {
				Error struct{ Type conversation.Code }
			}](t, res); e.Error.Type != tt.code || res.StatusCode < 400 || h.rt.admissions != nil {
				t.Errorf("%s %s: got %d, %q, admitted %v, want %q", tt.method, tt.path, res.StatusCode, e.Error.Type, h.rt.admissions, tt.code)
			}
		}
	}
}
