package http_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/conversation"
)

func unmarshal[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// exchange is a request to c1, which has 101 batches and the attachment att_1, and the expected
// coordination headers.
type exchange struct {
	name, method, path string
	status             int
	next, upToDate     string // headers, "" for none
	location           bool
	plain              bool // neither a read nor an error
}

func exchanges() []exchange {
	head := offset(101)
	after := func(n int) string { return "/c1?view=updates&offset=" + offset(n) }
	return []exchange{
		{name: "admission", method: "POST", path: "/c1", status: 202, next: offset(102), location: true, plain: true},
		{name: "replay", method: "POST", path: "/c1?replay", status: 202, next: offset(0), location: true, plain: true},
		{name: "snapshot", method: "GET", path: "/c1", status: 200, next: head, upToDate: "true"},
		{name: "head", method: "HEAD", path: "/c1", status: 200, next: head, upToDate: "true"},
		{name: "updates_to_the_head", method: "GET", path: after(1), status: 200, next: head, upToDate: "true"},
		{name: "updates_of_nothing", method: "GET", path: after(101), status: 200, next: head, upToDate: "true"},
		{name: "updates_of_a_page", method: "GET", path: after(0), status: 200, next: offset(100)},
		{name: "updates_from_the_start", method: "GET", path: after(-1), status: 200, next: offset(99)},
		{name: "long_poll_to_the_head", method: "GET", path: after(1) + "&live=long-poll", status: 200, next: head, upToDate: "true"},
		{name: "long_poll_of_a_page", method: "GET", path: after(0) + "&live=long-poll", status: 200, next: offset(100)},
		{name: "long_poll_of_nothing", method: "GET", path: after(101) + "&live=long-poll", status: 200, next: head, upToDate: "true"},
		{name: "event_stream", method: "GET", path: after(0) + "&live=sse", status: 200},
		{name: "abort", method: "POST", path: "/c1/abort", status: 200},
		{name: "abort_of_nothing", method: "POST", path: "/none/abort", status: 200},
		{name: "attachment", method: "GET", path: "/c1/attachments/att_1", status: 200},
		{name: "refused_admission", method: "POST", path: "/c1?wait", status: 400},
		{name: "refused_read", method: "GET", path: "/c1?tail", status: 400},
		{name: "absent", method: "GET", path: "/none", status: 404},
		{name: "absent_head", method: "HEAD", path: "/none", status: 404},
		{name: "absent_long_poll", method: "GET", path: "/none?view=updates&offset=-1&live=long-poll", status: 404},
		{name: "absent_event_stream", method: "GET", path: "/none?view=updates&offset=-1&live=sse", status: 404},
		{name: "absent_attachment", method: "GET", path: "/c1/attachments/none", status: 404},
		{name: "beyond_the_head", method: "GET", path: after(999), status: 500},
		{name: "beyond_the_head_of_an_event_stream", method: "GET", path: after(999) + "&live=sse", status: 500},
		{name: "method", method: "OPTIONS", path: "/c1", status: 405},
		{name: "method_of_abort", method: "OPTIONS", path: "/c1/abort", status: 405},
		{name: "method_of_an_attachment", method: "HEAD", path: "/c1/attachments/att_1", status: 405},
		{name: "no_route", method: "GET", path: "/c1/none", status: 404},
		{name: "no_route_at_all", method: "POST", path: "/../elsewhere", status: 404},
	}
}

// TestHeadersOfEveryResponse sends requests for each response kind to each route, as a browser of
// another origin with credentials and a cache would.
// covers: protocol/110, protocol/146, protocol/148, protocol/150, protocol/151, protocol/152, protocol/153
// covers: protocol/154, protocol/101 snapshot, protocol/108 updates_to_the_head, protocol/111 long_poll_of_a_page
// covers: protocol/116 long_poll_to_the_head, protocol/147 head, protocol/147 snapshot
func TestHeadersOfEveryResponse(t *testing.T) {
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, nil)
				wantStatus(t, h.post("/c1", withAttachments(`,"idempotencyKey":"k"`, pngJSON)), http.StatusAccepted)
				h.claims(c1, 101)
				body := hello
				if x.name == "replay" {
					body = withAttachments(`,"idempotencyKey":"k"`, pngJSON)
				}
				r := httptest.NewRequest(x.method, "/agents/assistant"+x.path, strings.NewReader(body))
				for name, value := range map[string]string{
					"Content-Type": "application/json", "Origin": "https://app.example", "Authorization": "Bearer x", "Cookie": "a=b",
					"If-None-Match": "*", "If-Modified-Since": "Mon, 01 Jan 2024 00:00:00 GMT", "Range": "bytes=0-1", "Accept-Encoding": "gzip",
					"Accept": "text/html", "Last-Event-ID": offset(7),
				} {
					r.Header.Set(name, value)
				}
				checkHeaders(t, x, h.until(r))
			})
		})
	}
}

// until handles a request; an endless response is cut.
func (h *harness) until(r *http.Request) *http.Response {
	r, cancel := withCancel(r)
	defer cancel()
	answered := make(chan *http.Response, 1)
	go func() { answered <- h.serve(r) }()
	if strings.Contains(r.URL.RawQuery, "live=sse") {
		synctest.Wait() // it is idle or finished
		cancel()
	}
	return <-answered
}

func checkHeaders(t *testing.T, x exchange, res *http.Response) {
	t.Helper()
	wantStatus(t, res, x.status)
	want := map[string]string{
		"Stream-Next-Offset": x.next, "Stream-Up-To-Date": x.upToDate,
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin",
	}
	if x.plain {
		want["X-Content-Type-Options"], want["Cross-Origin-Resource-Policy"] = "", ""
	}
	if x.status == http.StatusOK && strings.Contains(x.path, "live=sse") {
		want["X-Accel-Buffering"] = "no"
	}
	if x.location {
		want["Location"] = "http://example.com/agents/assistant/c1"
	}
	for _, name := range []string{
		"Stream-Next-Offset", "Stream-Up-To-Date", "Location", "X-Content-Type-Options", "Cross-Origin-Resource-Policy",
		"WWW-Authenticate", "Set-Cookie", "ETag", "Last-Modified", "Accept-Ranges", "Content-Encoding", "Vary", "X-Accel-Buffering",
	} {
		if got := strings.Join(res.Header.Values(name), "|"); got != want[name] {
			t.Errorf("%s is %q, want %q", name, got, want[name])
		}
	}
	for name := range res.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("response sets %s", name)
		}
	}
}

// TestUpToDateIsTrueOrAbsent reads 250 batches to the head. Only the last page has the header, and no
// batch is lost or repeated.
// covers: protocol/110, protocol/112
func TestUpToDateIsTrueOrAbsent(t *testing.T) {
	for _, live := range []string{"", "&live=long-poll"} {
		h := newHarness(t, nil)
		h.create()
		h.claims(c1, 120)
		h.turn(c1)
		h.claims(c1, 125)
		next, pages := "-1", []string(nil)
		var positions []conversation.Position
		for upToDate := ""; upToDate == ""; {
			res := h.do("GET", "/c1?view=updates&offset="+next+live)
			wantStatus(t, res, http.StatusOK)
			upToDate = strings.Join(res.Header.Values("Stream-Up-To-Date"), "|")
			if upToDate != "" && upToDate != "true" {
				t.Fatalf("got Stream-Up-To-Date %q", upToDate)
			}
			next = res.Header.Get("Stream-Next-Offset")
			pages = append(pages, next)
			for _, c := range decode[[]conversation.Chunk](t, res) {
				positions = append(positions, c.Position)
			}
		}
		if len(pages) != 3 || pages[0] != offset(99) || pages[1] != offset(199) || pages[2] != offset(249) {
			t.Errorf("got page ends %v", pages)
		}
		for i, p := range positions[1:] {
			if p.Compare(positions[i]) <= 0 {
				t.Errorf("position %v follows %v", p, positions[i])
			}
		}
		if len(positions) != 5 {
			t.Errorf("%d chunks", len(positions))
		}
	}
}

// TestOffsetsOfEveryResponse reads from each returned offset and expects only later batches.
// covers: protocol/14, protocol/127
func TestOffsetsOfEveryResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		admission := h.post("/c1", hello)
		snapshot := h.do("GET", "/c1")
		r, cancel := withCancel(httptest.NewRequest("GET", "/agents/assistant/c1?view=updates&live=sse&offset=-1", nil))
		rec := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() { defer close(ended); h.h.ServeHTTP(rec, r) }()
		synctest.Wait()
		cancel()
		<-ended
		_, control, _ := strings.Cut(rec.Body.String(), "event: control\ndata:")
		frame := unmarshal[struct{ StreamNextOffset string }](t, strings.TrimSpace(control))
		reset := decode[[]conversation.Chunk](t, h.do("GET", "/c1?view=updates&offset=-1"))[0]
		for name, from := range map[string]string{
			"admission":        decode[receipt](t, admission).Offset,
			"admission_header": admission.Header.Get("Stream-Next-Offset"),
			"snapshot":         decode[conversation.Snapshot](t, snapshot).Offset.String(),
			"snapshot_header":  snapshot.Header.Get("Stream-Next-Offset"),
			"head_header":      h.do("HEAD", "/c1").Header.Get("Stream-Next-Offset"),
			"updates_header":   h.do("GET", "/c1?view=updates&offset=-1").Header.Get("Stream-Next-Offset"),
			"control_frame":    frame.StreamNextOffset,
			"reset_chunk":      reset.Snapshot.Offset.String(),
		} {
			if from != offset(0) {
				t.Errorf("%s is %q", name, from)
			}
			res := h.do("GET", "/c1?view=updates&offset="+from)
			wantHeaders(t, res, jsonHeaders(offset(0), true))
			if got := readAll(t, res); got != "[]" {
				t.Errorf("%s: got %s from a read at it", name, got)
			}
		}
	})
}

// TestReadsOfTheAbsent: until a message is admitted every read returns "no conversation", even after a
// rejected message.
// covers: protocol/6, protocol/7, protocol/82, protocol/138
func TestReadsOfTheAbsent(t *testing.T) {
	h := newHarness(t, nil)
	reads := []string{
		"", "?view=history", "?view=updates&offset=-1", "?view=updates&offset=" + offset(0), "?view=updates&offset=-1&live=long-poll",
		"/attachments/att_1",
	}
	absent := func() {
		t.Helper()
		for _, read := range append(reads, "?view=updates&offset=-1&live=sse") {
			wantError(t, h.do("GET", "/c1"+read), 404, conversation.CodeStreamNotFound)
		}
		wantStatus(t, h.do("HEAD", "/c1"), 404)
	}
	absent()
	wantError(t, h.post("/c1", `{"kind":"user","body":"x","uid":"inst_1"}`), 404, conversation.CodeInstanceNotFound)
	absent()
	wantError(t, h.post("/c1", `{"kind":"user"}`), 400, conversation.CodeInvalidRequest)
	wantAbort(t, h.do("POST", "/c1/abort"), noneAborted)
	absent()
	wantStatus(t, h.post("/c1", withAttachments("", pngJSON)), http.StatusAccepted)
	for _, read := range reads {
		if read == "?view=updates&offset="+offset(0) {
			continue // it has no content yet
		}
		wantStatus(t, h.do("GET", "/c1"+read), 200)
	}
	wantStatus(t, h.do("HEAD", "/c1"), 200)
}
