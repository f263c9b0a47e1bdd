package http_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// TestMessageIsTheReason: clients that show only the message show the reason.
func TestMessageIsTheReason(t *testing.T) {
	h := newHarness(t, nil)
	for _, tt := range []struct {
		res  *http.Response
		code conversation.Code
		want string
	}{
		{h.post("/c1", `{"kind":"user"}`), conversation.CodeInvalidRequest, "The member body is missing; it must be a string."},
		{h.do("GET", "/c1?view=updates&offset=1.5"), conversation.CodeInvalidRequest, "The query parameter offset must be -1 or an offset that a response returned."},
		{h.post("/..", hello), conversation.CodeInvalidRequest, `The conversation id must not be "..": URL libraries remove such a segment from an address.`},
		{h.post("/c1", "{"), conversation.CodeInvalidJSON, "The body cannot be parsed as JSON: byte 1: the text ends early."},
		{h.do("POST", "/c1"), conversation.CodeUnsupportedMediaType, "The request names no Content-Type."},
	} {
		e := wantError(t, tt.res, tt.res.StatusCode, tt.code)
		if e.Message != tt.want || !strings.HasPrefix(e.Details, tt.want) {
			t.Errorf("%s: got message %q, details %q; want %q in both", tt.code, e.Message, e.Details, tt.want)
		}
	}
}

// TestErrorTable renders every request code, and the codes that never answer a request.
// covers: protocol/172, protocol/173
func TestErrorTable(t *testing.T) {
	for code, status := range map[conversation.Code]int{
		conversation.CodeInvalidRequest: 400, conversation.CodeInvalidJSON: 400, conversation.CodeUnsupportedMediaType: 415,
		conversation.CodeMethodNotAllowed: 405, conversation.CodeRouteNotFound: 404, conversation.CodeInstanceNotFound: 404,
		conversation.CodeInstanceExists: 409, conversation.CodeSubmissionConflict: 409, conversation.CodeStreamNotFound: 404,
		conversation.CodeAttachmentNotFound: 404, conversation.CodeAttachmentConflict: 500, conversation.CodeAttachmentIntegrity: 500,
		conversation.CodeStreamStoreFailure: 500, conversation.CodeSchemaVersion: 500,
		conversation.CodeUnavailable: 503, conversation.CodeInternal: 500,
		conversation.CodeAdmissionUnknown: 503, conversation.CodeAbortUnknown: 503, conversation.CodeQuarantined: 423,
	} {
		t.Run(string(code), func(t *testing.T) {
			h := newHarness(t, nil)
			h.rt.fail = func(string) error {
				return fmt.Errorf("wrapped: %w", &conversation.Error{Code: code, Meta: map[string]any{"a": "<b>"}, Err: errors.New("secret")})
			}
			for _, res := range []*http.Response{h.do("GET", "/c1"), h.post("/c1", hello), h.do("GET", "/c1?view=updates&offset=-1&live=sse"),
				h.do("POST", "/c1/abort"), h.do("GET", "/c1/attachments/att_1")} {
				e := wantError(t, res, status, code)
				if logged := status == 500; (e.Ref != "") != logged || res.Header.Get("Parley-Error-Ref") != e.Ref {
					t.Errorf("got ref %q, header %q", e.Ref, res.Header.Get("Parley-Error-Ref"))
				}
				if code != conversation.CodeInternal && e.Meta["a"] != "<b>" {
					t.Errorf("got meta %v", e.Meta)
				}
				if e.Dev != "" {
					t.Errorf("got dev %q outside of development, want none", e.Dev)
				}
			}
		})
	}
	for _, code := range []conversation.Code{"", "other", conversation.CodeModelFailed, conversation.CodeAborted} {
		t.Run("not_for_requests_"+string(code), func(t *testing.T) {
			h := newHarness(t, nil)
			h.rt.fail = func(string) error { return conversation.Errorf(code, "secret") }
			if e := wantError(t, h.do("GET", "/c1"), 500, conversation.CodeInternal); strings.Contains(fmt.Sprint(e), "secret") {
				t.Errorf("%+v leaks the cause", e)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		code  conversation.Code
		after time.Duration
		want  string
	}{
		{conversation.CodeUnavailable, 0, "1"}, {conversation.CodeUnavailable, time.Millisecond, "1"},
		{conversation.CodeUnavailable, 2 * time.Second, "2"}, {conversation.CodeUnavailable, 2001 * time.Millisecond, "3"},
		{conversation.CodeStreamNotFound, 0, ""}, {conversation.CodeStreamStoreFailure, time.Second, "1"},
	} {
		h := newHarness(t, nil)
		h.rt.fail = func(string) error { return &conversation.Error{Code: tt.code, RetryAfter: tt.after} }
		if got := h.do("GET", "/c1").Header.Get("Retry-After"); got != tt.want {
			t.Errorf("%s after %v: Retry-After %q, want %q", tt.code, tt.after, got, tt.want)
		}
	}
}

// covers: protocol/174, protocol/196, protocol/173 dev_tells_the_cause
func TestUnknownErrors(t *testing.T) {
	for name, fail := range map[string]func(string) error{
		"error":  func(string) error { return errors.New("secret") },
		"panic":  func(string) error { panic("secret") },
		"cancel": func(string) error { return context.Canceled }, // not the client's cancellation
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			h.rt.fail = fail
			e := wantError(t, h.do("GET", "/c1"), 500, conversation.CodeInternal)
			if strings.Contains(fmt.Sprint(e), "secret") {
				t.Errorf("%+v leaks the cause", e)
			}
			if e.Ref != "err_1" || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "ref=err_1") {
				t.Errorf("got ref %q, log %s", e.Ref, &log)
			}
			if name != "cancel" && !strings.Contains(log.String(), "secret") {
				t.Errorf("got log %s without the cause", &log)
			}
			if name == "panic" && !strings.Contains(log.String(), "stack=") {
				t.Errorf("got log %s without the stack", &log)
			}
		})
	}
	t.Run("dev_tells_the_cause", func(t *testing.T) {
		h := newHarness(t, func(o *parleyhttp.Options) { o.Dev = true })
		h.rt.fail = func(string) error { return errors.New("secret") }
		if e := wantError(t, h.do("GET", "/c1"), 500, conversation.CodeInternal); e.Dev != "secret" {
			t.Errorf("got dev %q", e.Dev)
		}
	})
	t.Run("default_ref", func(t *testing.T) {
		h := newHarness(t, func(o *parleyhttp.Options) { o.NewRef = nil })
		h.rt.fail = func(string) error { return errors.New("secret") }
		e := wantError(t, h.do("GET", "/c1"), 500, conversation.CodeInternal)
		if id, ok := strings.CutPrefix(e.Ref, "err_"); !ok || len(id) != 26 {
			t.Errorf("got ref %q", e.Ref)
		}
	})
	t.Run("meta_that_cannot_be_encoded", func(t *testing.T) {
		h := newHarness(t, nil)
		h.rt.fail = func(string) error {
			return &conversation.Error{Code: conversation.CodeStreamNotFound, Meta: map[string]any{"f": func() {}}}
		}
		wantError(t, h.do("GET", "/c1"), 404, conversation.CodeStreamNotFound)
	})
}

// brokenWriter panics at the first write.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { panic("broken") }

func TestPanicAfterTheAnswerBegan(t *testing.T) {
	h := newHarness(t, nil)
	h.create()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Error("connection was not aborted")
		}
	}()
	h.h.ServeHTTP(brokenWriter{httptest.NewRecorder()}, httptest.NewRequest("GET", "/agents/assistant/c1", nil))
}

// silent is a response writer that must receive nothing.
type silent struct{ t *testing.T }

func (silent) Header() http.Header      { return http.Header{} }
func (s silent) WriteHeader(status int) { s.t.Errorf("got status %d, want no response", status) }
func (s silent) Write(b []byte) (int, error) {
	s.t.Errorf("got body %q, want no response", b)
	return len(b), nil
}

// TestClientThatLeft checks that every request except a held long-poll ends without a response.
// covers: protocol/186
func TestClientThatLeft(t *testing.T) {
	const updates = "/agents/assistant/c1?view=updates&offset="
	for name, r := range map[string]*http.Request{
		"admission":         newPost("/c1", strings.NewReader(hello)),
		"large_admission":   newPost("/c1", strings.NewReader(withAttachments("", pngJSON))),
		"snapshot":          httptest.NewRequest("GET", "/agents/assistant/c1", nil),
		"head":              httptest.NewRequest("HEAD", "/agents/assistant/c1", nil),
		"abort":             httptest.NewRequest("POST", "/agents/assistant/c1/abort", nil),
		"attachment":        httptest.NewRequest("GET", "/agents/assistant/c1/attachments/att_1", nil),
		"updates":           httptest.NewRequest("GET", updates+"-1", nil),
		"sse":               httptest.NewRequest("GET", updates+"-1&live=sse", nil),
		"long_poll_at_once": httptest.NewRequest("GET", updates+offset(0)+"&live=long-poll", nil),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
			h.create()
			r, cancel := withCancel(r)
			cancel()
			func() {
				defer func() {
					if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
						t.Error("connection was not aborted")
					}
				}()
				h.h.ServeHTTP(silent{t}, r)
			}()
			if want := "level=DEBUG msg=\"client left\" method=" + r.Method + " path=" + r.URL.Path + "\n"; log.String() != want {
				t.Errorf("got log %q, want %q", &log, want)
			}
			if got := h.leftovers(); got != nil {
				t.Errorf("got leftovers %v", got)
			}
		})
	}
}

// TestHeldClientThatLeft covers the only use of 499.
// covers: protocol/119, protocol/186
func TestHeldClientThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
		h.create()
		r, cancel := withCancel(httptest.NewRequest("GET", "/agents/assistant/c1?view=updates&live=long-poll&offset="+offset(0), nil))
		answered := make(chan *http.Response, 1)
		go func() { answered <- h.serve(r) }()
		synctest.Wait() // the long-poll is held
		cancel()
		res := <-answered
		want := http.Header{"X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"cross-origin"}}
		if d := cmp.Diff(want, res.Header); res.StatusCode != 499 || d != "" || readAll(t, res) != "" {
			t.Errorf("got status %d, header %s", res.StatusCode, d)
		}
		if want := "level=DEBUG msg=\"client left\" method=GET path=/agents/assistant/c1 status=499\n"; log.String() != want {
			t.Errorf("got log %q, want %q", &log, want)
		}
	})
}

// TestOffsetBeyondTheHeadIsAWarning: callers can provoke it, so it must not raise an alert.
func TestOffsetBeyondTheHeadIsAWarning(t *testing.T) {
	var log bytes.Buffer
	h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
	h.create()
	res := h.do("GET", "/c1?view=updates&offset="+offset(7))
	e := wantError(t, res, 500, conversation.CodeStreamStoreFailure)
	if e.Ref != "err_1" || res.Header.Get("Parley-Error-Ref") != "err_1" {
		t.Errorf("got ref %q, header %q", e.Ref, res.Header.Get("Parley-Error-Ref"))
	}
	if got := log.String(); !strings.HasPrefix(got, "level=WARN msg=\"request failed\"") || !strings.Contains(got, "ref=err_1") || strings.Count(got, "\n") != 1 {
		t.Errorf("got log %q", got)
	}
}

// TestRefsAreLoggedSomewhere checks that without a configured log, failures with a ref go to the
// default log, and nothing else does.
func TestRefsAreLoggedSomewhere(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(newLog(&log))
	h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = nil })
	h.rt.fail = func(string) error { return conversation.Unavailable(time.Second, errors.New("busy")) }
	wantError(t, h.do("GET", "/c1"), 503, conversation.CodeUnavailable)
	if log.Len() > 0 {
		t.Errorf("got log %s", &log)
	}
	h.rt.fail = func(string) error { return errors.New("broken") }
	e := wantError(t, h.do("GET", "/c1"), 500, conversation.CodeInternal)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "ref="+e.Ref) || !strings.Contains(got, "broken") {
		t.Errorf("got ref %s, log %s", e.Ref, got)
	}
}
