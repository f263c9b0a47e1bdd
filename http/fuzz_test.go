package http_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// FuzzPromptBody compares the streaming decoder with encoding/json: both accept the same texts and
// decode the same values.
// covers: protocol/55
func FuzzPromptBody(f *testing.F) {
	for _, tt := range refusals() {
		f.Add([]byte(tt.body))
	}
	for _, s := range []string{
		"", " ", "\ufeff\n", hello, withAttachments(`,"idempotencyKey":"k"`, pngJSON, pngJSON), "\ufeff" + hello, hello + "x", `{"kind":"user","body":`,
		`{"kind":"signal","type":"t\u0041","body":"\ud83d\ude00\ud83d","attributes":{"a\n":"\/"},"tagName":"x"}`,
		`{"a":[1,-0,1.5e-7,true,false,null,{"b":[]}],"kind":"user","body":"x","uid":null,"initialData":{"a":01}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h := newHarness(t, func(o *parleyhttp.Options) { o.MemoryBytes = 64 })
		res := h.serve(newPost("/c1", bytes.NewReader(body)))
		text := bytes.TrimPrefix(body, []byte("\ufeff"))
		switch {
		case res.StatusCode == http.StatusAccepted, res.StatusCode == http.StatusNotFound:
			checkAdmitted(t, h.rt.admissions[0], text)
		case res.StatusCode == http.StatusBadRequest && !json.Valid(text):
			wantError(t, res, 400, conversation.CodeInvalidJSON)
		default:
			wantError(t, res, 400, conversation.CodeInvalidRequest)
		}
		if res.StatusCode == http.StatusBadRequest && h.rt.calls != nil {
			t.Errorf("rejected request: got runtime calls %v", h.rt.calls)
		}
	})
}

func checkAdmitted(t *testing.T, a conversation.Admission, text []byte) {
	t.Helper()
	var has map[string]json.RawMessage
	if err := json.Unmarshal(text, &has); err != nil {
		t.Fatalf("admitted a body that is not an object: %v", err)
	}
	read := func(name string, v any) {
		if raw, ok := has[name]; ok {
			if err := json.Unmarshal(raw, v); err != nil {
				t.Errorf("admitted the member %s: %v", name, err)
			}
		}
	}
	want := conversation.Delivery{}
	read("kind", &want.Kind)
	read("body", &want.Body)
	if want.Kind == conversation.KindSignal {
		read("type", &want.Type)
		read("tagName", &want.TagName)
		read("attributes", &want.Attributes)
	}
	got := a.Delivery
	got.Attachments = nil
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if data := a.InitialData; data != nil && !json.Valid(data) {
		t.Errorf("initialData %q", data)
	}
}

// FuzzConversationIDRouting checks that a path is one conversation or none.
func FuzzConversationIDRouting(f *testing.F) {
	for _, s := range []string{
		"c1", "a%2Fb", "%20", "", "a/b", "a/", "//", "..", "../x", "%2e%2e", "%C3%A9", "%FF", "%zz", "%", "é", "a;b", "{id}",
		"a+b", "%00", "%252F", strings.Repeat("a", 513), "c1/abort", "c1/attachments/x", "c1/attachments/", "/abort", "c1/abort/", "[", "a:b", "%EF%BB%BF",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, segment string) {
		if strings.ContainsAny(segment, "?") {
			return
		}
		raw := "POST /agents/assistant/" + segment + " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n" +
			"Content-Length: 30\r\n\r\n" + hello + " "
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil || r.URL.Path == "" {
			return // rejected by net/http
		}
		h := newHarness(t, nil)
		res := h.serve(r)
		path := strings.TrimPrefix(r.URL.EscapedPath(), "/agents/assistant/")
		segment, below, deeper := strings.Cut(path, "/")
		id, err := url.PathUnescape(segment)
		if err != nil {
			t.Fatalf("EscapedPath %q: %v", path, err)
		}
		attachment, download := strings.CutPrefix(below, "attachments/")
		blank := strings.TrimFunc(id, func(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' }) == ""
		switch {
		case download && attachment != "" && !strings.Contains(attachment, "/"):
			wantError(t, res, 405, conversation.CodeMethodNotAllowed)
		case deeper && below != "abort":
			wantError(t, res, 404, conversation.CodeRouteNotFound)
		case blank, !utf8.ValidString(id), len(id) > 512:
			wantError(t, res, 400, conversation.CodeInvalidRequest)
		case deeper:
			wantAbort(t, res, noneAborted)
		case id == ".", id == "..":
			wantError(t, res, 400, conversation.CodeInvalidRequest)
		default:
			wantStatus(t, res, http.StatusAccepted)
			if got := h.rt.admissions[0].Address; got != (conversation.Address{Agent: "assistant", ID: id}) {
				t.Errorf("segment %q: got id %+v", segment, got)
			}
			if u, err := url.Parse(res.Header.Get("Location")); err != nil || u.EscapedPath() != "/agents/assistant/"+path {
				t.Errorf("segment %q: got Location %q", segment, res.Header.Get("Location"))
			}
		}
	})
}
