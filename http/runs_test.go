package http_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/standardwebhooks"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/http/beta"
)

// bothLines are the paths below which runs are served.
var bothLines = []string{"", "/beta"}

// begun is the body of a 202.
type begun struct {
	RunID     conversation.RunID
	StreamURL string
	Offset    string
	Result    any
}

// TestRunBegins checks the 202 with the id and the stream's URL, also for a repeated key.
// covers: beta/97, beta/98, beta/115, upgrade/11
func TestRunBegins(t *testing.T) {
	form := regexp.MustCompile(`^run_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	for _, line := range bothLines {
		t.Run("line"+line, func(t *testing.T) {
			h := newRuns(t, nil)
			seen := map[conversation.RunID]bool{}
			begin := func(body string, header ...string) begun {
				t.Helper()
				res := h.beta("POST", line+"/workflows/report?x=1", body, header...)
				wantStatus(t, res, http.StatusAccepted)
				wantHeader(t, res, secured)
				wantHeader(t, res, map[string]string{"Content-Type": "application/json", "Stream-Next-Offset": "-1"})
				at := res.Header.Get("Location")
				got := decode[begun](t, res)
				if want := "http://example.com" + line + "/runs/" + string(got.RunID); got.StreamURL != want || at != want || got.Offset != "-1" || !form.MatchString(string(got.RunID)) {
					t.Errorf("got run %+v, Location %s", got, at)
				}
				wantStatus(t, h.beta("GET", strings.TrimPrefix(got.StreamURL, "http://example.com"), ""), http.StatusOK)
				return got
			}
			for range 3 {
				seen[begin(`{"day":1}`).RunID] = true
			}
			if len(seen) != 3 {
				t.Errorf("got ids %v, want 3", seen)
			}
			keyed := begin(` { "day": 2 } `, parleyhttp.HeaderKey, "monday")
			for _, again := range []string{`{"day":2}`, "{\n\"day\":2}"} {
				if got := begin(again, parleyhttp.HeaderKey, "monday"); got != keyed {
					t.Errorf("repeated: got %+v, want %+v", got, keyed)
				}
			}
			if keyed.RunID != conversation.RunFor("report", "monday") {
				t.Errorf("got run %s for the key", keyed.RunID)
			}
			res := h.beta("POST", line+"/workflows/report", `{"day":3}`, parleyhttp.HeaderKey, "monday")
			wantError(t, res, http.StatusConflict, conversation.CodeSubmissionConflict)
		})
	}
}

// TestRunInputs: any JSON is an input; an empty body is an empty object.
// covers: beta/99
func TestRunInputs(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nothing": {"", "{}"}, "white_space": {" \n", "{}"}, "null": {"null", "null"}, "text": {`"<a>"`, `"<a>"`}, "number": {"1.50", "1.50"},
		"list": {"[1, 2]", "[1,2]"}, "object": {`{"a": {"b": [ ]}}`, `{"a":{"b":[]}}`}, "mark": {"\xef\xbb\xbf{}", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRuns(t, nil)
			res := h.beta("POST", "/workflows/report", c.body)
			wantStatus(t, res, http.StatusAccepted)
			id := decode[begun](t, res).RunID
			want := conversation.RunOf("report", id, []byte(c.want))
			got := h.rt.admissions[0]
			if got.Trace = want.Trace; !cmp.Equal(want, got) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
			}
		})
	}
	t.Run("no_body_of_no_type", func(t *testing.T) {
		h := newRuns(t, nil)
		r := httptest.NewRequest("POST", "/workflows/report", strings.NewReader(""))
		r.ContentLength = -1
		wantStatus(t, h.serve(r), http.StatusAccepted)
	})
}

// TestRunRefusals lists the rejected requests in the order of the checks. They have no effect.
// covers: beta/104, beta/105 run_query_before_unknown, beta/106 hidden_is_told_as_none
// covers: beta/107 run_meta_ignores_the_query
func TestRunRefusals(t *testing.T) {
	h := newRuns(t, func(o *parleyhttp.Options) { o.MaxTextBytes = 100 })
	run, hidden, none := "/runs/"+string(h.ran("a")), "/runs/"+string(h.begin("other", "a", `{}`)), "/runs/"+string(conversation.RunFor("report", "none"))
	const signal = `{"kind":"signal","type":"parley.wait","attributes":{"name":"n"},"body":"1"}`
	notFound, bad, method := conversation.CodeRunNotFound, conversation.CodeInvalidRequest, conversation.CodeMethodNotAllowed
	for _, tt := range []struct {
		name, method, path, body, allow string
		status                          int
		code                            conversation.Code
	}{
		{"workflow_method", "GET", "/workflows/none", "", "POST", 405, method},
		{"workflow_wait", "POST", "/workflows/none?wait=1", "{", "", 400, bad},
		{"workflow_wait_twice", "POST", "/workflows/report?wait=result&wait=result", "{}", "", 400, bad},
		{"workflow_blank", "POST", "/workflows/%20", "{", "", 400, bad},
		{"workflow_escape", "POST", "/workflows/a%2Fb", "{}", "", 404, conversation.CodeWorkflowNotFound},
		{"workflow_unknown_before_body", "POST", "/workflows/none", "{", "", 404, conversation.CodeWorkflowNotFound},
		{"workflow_hidden", "POST", "/workflows/other", "{}", "", 404, conversation.CodeWorkflowNotFound},
		{"input_no_json", "POST", "/workflows/report", "{", "", 400, conversation.CodeInvalidJSON},
		{"input_and_more", "POST", "/workflows/report", "{} {}", "", 400, conversation.CodeInvalidJSON},
		{"input_long", "POST", "/workflows/report", `"` + strings.Repeat("x", 99) + `"`, "", 400, bad},
		{"input_much_too_long", "POST", "/workflows/report", `"` + strings.Repeat("x", 999) + `"`, "", 400, bad},
		{"run_method", "DELETE", none, "", "GET, HEAD, POST", 405, method},
		{"run_blank", "GET", "/runs/%20", "", "", 400, bad},
		{"run_query_before_unknown", "GET", none + "?offset=banana", "", "", 400, bad},
		{"run_meta_ignores_the_query", "GET", none + "?meta&offset=banana", "", "", 404, notFound},
		{"run_unknown", "GET", none, "", "", 404, notFound},
		{"run_no_id", "GET", "/runs/42", "", "", 404, notFound},
		{"run_of_another_case", "GET", strings.ToLower(run), "", "", 404, notFound},
		{"run_hidden", "GET", hidden, "", "", 404, notFound},
		{"run_hidden_meta", "GET", hidden + "?meta", "", "", 404, notFound},
		{"run_hidden_live", "GET", hidden + "?offset=now&live=sse", "", "", 404, notFound},
		{"abort_method", "GET", run + "/abort", "", "POST", 405, method},
		{"abort_unknown", "POST", none + "/abort", "", "", 404, notFound},
		{"abort_hidden", "POST", hidden + "/abort", "", "", 404, notFound},
		{"signal_unknown_before_body", "POST", none, "{", "", 404, notFound},
		{"signal_hidden", "POST", hidden, signal, "", 404, notFound},
		{"signal_wait", "POST", run + "?wait=result", signal, "", 400, bad},
		{"signal_no_json", "POST", run, "{", "", 400, conversation.CodeInvalidJSON},
		{"a_message", "POST", run, `{"kind":"user","body":"x"}`, "", 400, bad},
		{"another_signal", "POST", run, `{"kind":"signal","type":"build.done","body":"x"}`, "", 400, bad},
		{"signal_with_uid", "POST", run, strings.Replace(signal, "{", `{"uid":"inst_1",`, 1), "", 400, bad},
		{"signal_with_uid_null", "POST", run, strings.Replace(signal, "{", `{"uid":null,`, 1), "", 400, bad},
		{"signal_with_data", "POST", run, strings.Replace(signal, "{", `{"initialData":1,`, 1), "", 400, bad},
		{"below", "GET", run + "/attachments/a", "", "", 404, conversation.CodeRouteNotFound},
		{"beta_run_method", "POST", "/beta" + run, signal, "GET, HEAD", 405, method},
		{"beta_abort", "POST", "/beta" + run + "/abort", "", "", 404, conversation.CodeRouteNotFound},
		{"beta_run_hidden", "GET", "/beta" + hidden, "", "", 404, notFound},
		{"beta_workflow_hidden", "POST", "/beta/workflows/other", "{}", "", 404, conversation.CodeWorkflowNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(h.rt.wrote())
			res := h.beta(tt.method, tt.path, tt.body)
			wantHeader(t, res, map[string]string{"Allow": tt.allow})
			if got := wantError(t, res, tt.status, tt.code); got.Ref != "" {
				t.Errorf("got a ref in %+v, want none", got)
			}
			if len(h.rt.wrote()) != before {
				t.Error("rejected request reached the runtime")
			}
		})
	}
	t.Run("hidden_is_told_as_none", func(t *testing.T) {
		one, other := readAll(t, h.beta("GET", hidden, "")), readAll(t, h.beta("GET", none, ""))
		if strings.ReplaceAll(one, hidden[6:], none[6:]) != other {
			t.Errorf("error of %s differs from that of %s", one, other)
		}
	})
}

// covers: beta/98 keys
func TestRunHeaders(t *testing.T) {
	h := newRuns(t, nil)
	run := "/runs/" + string(h.ran("a"))
	t.Run("media_type", func(t *testing.T) {
		wantError(t, h.beta("POST", "/workflows/report", `{}`, "Content-Type", "text/plain"), http.StatusUnsupportedMediaType, conversation.CodeUnsupportedMediaType)
		wantError(t, h.beta("POST", run, `{}`, "Content-Type", "text/plain"), http.StatusUnsupportedMediaType, conversation.CodeUnsupportedMediaType)
		wantStatus(t, h.beta("POST", "/workflows/report", `{}`, "Content-Type", "Application/JSON; a=b"), http.StatusAccepted)
	})
	t.Run("keys", func(t *testing.T) {
		for _, key := range []string{"", strings.Repeat("x", 257), "\xff"} {
			wantError(t, h.beta("POST", "/workflows/report", `{}`, parleyhttp.HeaderKey, key), 400, conversation.CodeInvalidRequest)
		}
		r := newPost("", strings.NewReader("{}"))
		r.URL.Path, r.RequestURI = "/workflows/report", "/workflows/report"
		r.Header[parleyhttp.HeaderKey] = []string{"a", "a"}
		wantError(t, h.serve(r), 400, conversation.CodeInvalidRequest)
		wantStatus(t, h.beta("POST", "/workflows/report", `{}`, parleyhttp.HeaderKey, strings.Repeat("é", 256)), http.StatusAccepted)
	})
}

// TestRunRefusedByTheRuntime checks that the runtime's errors reach the caller.
// covers: beta/100, beta/101
func TestRunRefusedByTheRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"an_input_that_does_not_fit":   {conversation.Errorf(conversation.CodeInvalidRequest, "The input does not fit: /day is no integer."), 400},
		"a_store_that_does_not_answer": {conversation.Unavailable(time.Minute, errors.New("no answer")), 503},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRuns(t, nil)
			h.rt.fail = func(method string) error {
				if method == "Admit" {
					return c.err
				}
				return nil
			}
			for _, query := range []string{"", "?wait=result"} {
				res := h.beta("POST", "/workflows/report"+query, `{"day":"x"}`)
				got := wantError(t, res, c.status, conversation.CodeOf(c.err))
				if c.status == 400 && !strings.Contains(got.Details, "/day") {
					t.Errorf("got details %q", got.Details)
				}
				wantHeader(t, res, map[string]string{"Location": "", "Stream-Next-Offset": ""})
			}
		})
	}
}

// whileWaiting sends a request that waits for a run, and calls act once the run has begun.
func (h *harness) whileWaiting(path, key string, act func(id conversation.RunID)) *http.Response {
	done := make(chan *http.Response)
	go func() { done <- h.beta("POST", path, `{"day":1}`, parleyhttp.HeaderKey, key) }()
	synctest.Wait()
	act(conversation.RunFor("report", key))
	return <-done
}

// covers: beta/102, beta/103
func TestRunWaitForResult(t *testing.T) {
	for _, line := range bothLines {
		synctest.Test(t, func(t *testing.T) {
			h := newRuns(t, nil)
			ends := func(key, result, failure string) *http.Response {
				return h.whileWaiting(line+"/workflows/report?wait=result", key, func(id conversation.RunID) {
					h.called(id)
					h.ends(id, result, failure)
				})
			}
			res := ends("a", `{"lines":3}`, "")
			wantStatus(t, res, http.StatusOK)
			wantHeader(t, res, map[string]string{"Location": "", "Stream-Next-Offset": "", "Content-Type": "application/json"})
			id := string(conversation.RunFor("report", "a"))
			want := `{"result":{"lines":3},"runId":"` + id + `","streamUrl":"http://example.com` + line + "/runs/" + id + `","offset":"-1"}`
			if got := readAll(t, res); got != want {
				t.Errorf("got answer %s, want %s", got, want)
			}
			// A repeated request gets the same result at once.
			if got := readAll(t, h.beta("POST", line+"/workflows/report?wait=result", `{"day":1}`, parleyhttp.HeaderKey, "a")); got != want {
				t.Errorf("repeated: got %s, want %s", got, want)
			}
			if got := readAll(t, ends("b", "", "")); !strings.HasPrefix(got, `{"result":null,`) {
				t.Errorf("absent: got %s", got)
			}
			got := wantError(t, ends("c", "", "out of paper"), http.StatusInternalServerError, conversation.CodeRunFailed)
			if got.Details != "out of paper" {
				t.Errorf("got error %+v", got)
			}
			res = h.whileWaiting(line+"/workflows/report?wait=result", "d", func(id conversation.RunID) {
				h.called(id)
				wantStatus(t, h.beta("POST", "/runs/"+string(id)+"/abort", ""), http.StatusOK)
			})
			wantError(t, res, http.StatusInternalServerError, conversation.CodeAborted)
			// A draining server reports that the run has begun.
			res = h.whileWaiting(line+"/workflows/report?wait=result", "e", func(conversation.RunID) { h.h.Drain() })
			got = wantError(t, res, http.StatusServiceUnavailable, conversation.CodeAdmissionUnknown)
			if got.Meta["runId"] != string(conversation.RunFor("report", "e")) || got.Meta["offset"] != "-1" || got.Meta["streamUrl"] == nil {
				t.Errorf("got error %+v", got)
			}
		})
	}
}

// TestRunStream checks that the events of a run are a stream like an agent's, closed at its end.
// covers: beta/108, beta/114, beta/117, upgrade/11
func TestRunStream(t *testing.T) {
	h := newRuns(t, nil)
	id := h.ran("a")
	tag := func(from, next int64) string { return beta.ETag("runs/"+string(id), from, next, next == 3) }
	for _, line := range bothLines {
		at := line + "/runs/" + string(id)
		for _, tt := range []struct {
			query, closed, etag string
			events              []string
			next                int64
		}{
			{"", "true", tag(-1, 3), []string{"run_start", "log", "log", "run_end"}, 3},
			{"?tail=2", "true", tag(1, 3), []string{"log", "run_end"}, 3},
			{"?offset=" + beta.Offset(2), "true", tag(2, 3), []string{"run_end"}, 3},
			{"?offset=now", "true", "", nil, 3},
			{"?offset=" + beta.Offset(3), "true", tag(3, 3), nil, 3},
		} {
			res := h.beta("GET", at+tt.query, "")
			wantStatus(t, res, http.StatusOK)
			wantHeader(t, res, secured)
			wantHeader(t, res, map[string]string{
				"Stream-Next-Offset": beta.Offset(tt.next), "Stream-Closed": tt.closed, "Stream-Up-To-Date": "true", "ETag": tt.etag, "Cache-Control": "no-store", "Stream-Cursor": "",
			})
			if diff := cmp.Diff(tt.events, kinds(t, readAll(t, res))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.query, diff)
			}
		}
		res := h.beta("GET", at, "", "If-None-Match", tag(-1, 3))
		wantStatus(t, res, http.StatusNotModified)
		res = h.beta("HEAD", at+"?offset=banana", "")
		wantStatus(t, res, http.StatusOK)
		wantHeader(t, res, map[string]string{"Stream-Closed": "true", "Stream-Next-Offset": beta.Offset(3), "ETag": tag(-1, 3)})
		wantStatus(t, h.beta("HEAD", line+"/runs/"+string(conversation.RunFor("report", "none")), ""), http.StatusNotFound)
		res = h.beta("GET", at+"?offset=now&live=long-poll", "")
		wantStatus(t, res, http.StatusNoContent)
		wantHeader(t, res, map[string]string{"Stream-Closed": "true"})
		frames := readAll(t, h.beta("GET", at+"?offset=-1&live=sse", ""))
		if want := "event: control\ndata:{\"streamNextOffset\":\"" + beta.Offset(3) + "\",\"streamClosed\":true}\n\n"; !strings.HasSuffix(frames, want) || !strings.HasPrefix(frames, "event: data\ndata:[{\"type\":\"run_start\"") {
			t.Errorf("got frames %s", frames)
		}
	}
	h.rt.fail = func(method string) error {
		if method == "Events" { // as for a run that is deleted after it was looked up
			return &conversation.Error{Code: conversation.CodeStreamNotFound}
		}
		return nil
	}
	wantError(t, h.beta("GET", "/runs/"+string(id), ""), http.StatusNotFound, conversation.CodeRunNotFound)
}

// TestRunStreamLive checks that a live reader gets each event, and the end of the stream.
// covers: beta/114
func TestRunStreamLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newRuns(t, nil)
		id := h.begin("report", "a", `{}`)
		at := "/runs/" + string(id)
		poll := func(query string, act func()) *http.Response {
			done := make(chan *http.Response)
			go func() { done <- h.beta("GET", at+query, "") }()
			synctest.Wait()
			act()
			return <-done
		}
		res := poll("?offset="+beta.Offset(0)+"&live=long-poll", func() {
			h.called(id) // it has no events and resumes no reader
			h.took(id, "open")
		})
		wantStatus(t, res, http.StatusOK)
		wantHeader(t, res, map[string]string{"Stream-Closed": "", "Stream-Next-Offset": beta.Offset(1), "ETag": beta.ETag("runs/"+string(id), 0, 1, false)})
		if got := kinds(t, readAll(t, res)); !cmp.Equal(got, []string{"log"}) {
			t.Errorf("got events %v", got)
		}
		wantStatus(t, poll("?offset=now&live=long-poll", func() {}), http.StatusNoContent)
		frames := readAll(t, poll("?offset=now&live=sse", func() { h.ends(id, `1`, "") }))
		if !strings.Contains(frames, `"type":"run_end"`) || !strings.HasSuffix(frames, "\"streamClosed\":true}\n\n") {
			t.Errorf("got frames %s", frames)
		}
	})
}

// covers: beta/107
func TestRunRecord(t *testing.T) {
	h := newRuns(t, nil)
	active := h.begin("report", "active", `{"day":1}`)
	completed := h.ran("completed")
	nothing, failed, aborted := h.begin("report", "nothing", `1`), h.begin("report", "failed", `null`), h.begin("report", "aborted", `"x"`)
	for _, id := range []conversation.RunID{nothing, failed, aborted} {
		h.called(id)
	}
	h.ends(nothing, "", "")
	h.ends(failed, "", "out of paper")
	for _, want := range []string{`{"aborted":true}`, `{"aborted":false}`} {
		res := h.beta("POST", "/runs/"+string(aborted)+"/abort", "")
		wantStatus(t, res, http.StatusOK)
		if got := readAll(t, res); got != want {
			t.Errorf("abort %s, want %s", got, want)
		}
	}
	const over = `"endedAt":"1970-01-01T00:00:04.500Z","isError":%t,"durationMs":3500,`
	for _, tt := range []struct {
		id                      conversation.RunID
		status, beta, in, after string
	}{
		{active, "active", "active", `{"day":1}`, ""},
		{completed, "completed", "completed", `{"day":1}`, fmt.Sprintf(over, false) + `"result":{"lines":3}`},
		{nothing, "completed", "completed", `1`, fmt.Sprintf(over, false) + `"result":null`},
		{failed, "errored", "errored", `null`, fmt.Sprintf(over, true) + `"error":{"name":"run_failed","message":"out of paper"}`},
		{aborted, "aborted", "errored", `"x"`, `"isError":true,"durationMs":0,"error":{"name":"submission_aborted","message":"Aborted."}`},
	} {
		record := func(status, in string) string {
			s := `{"runId":"` + string(tt.id) + `","workflowName":"report","status":"` + status + `","startedAt":"1970-01-01T00:00:01.000Z",` + in
			if tt.after != "" {
				s += "," + tt.after
			}
			return s + "}"
		}
		for _, c := range []struct{ at, want string }{
			{"/runs/" + string(tt.id) + "?meta&offset=banana", record(tt.status, `"input":`+tt.in)},
			{"/beta/runs/" + string(tt.id) + "?meta=1", record(tt.beta, `"input":`+tt.in+`,"payload":`+tt.in)},
		} {
			res := h.beta("GET", c.at, "")
			wantStatus(t, res, http.StatusOK)
			wantHeader(t, res, secured)
			wantHeader(t, res, map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "Stream-Next-Offset": "", "Stream-Up-To-Date": "", "ETag": ""})
			if diff := cmp.Diff(c.want, readAll(t, res)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.at, diff)
			}
		}
	}
}

// TestRunSignal checks that a run takes signals, and that their effects follow the returned offset.
func TestRunSignal(t *testing.T) {
	h := newRuns(t, nil)
	id := h.begin("report", "a", `{}`)
	at := "/runs/" + string(id)
	h.called(id)
	h.took(id, "open")
	const body = `{"kind":"signal","type":"parley.wait","attributes":{"name":"approval"},"body":"true","idempotencyKey":"k"}`
	res := h.beta("POST", at, body)
	wantStatus(t, res, http.StatusAccepted)
	wantHeader(t, res, map[string]string{"Location": "http://example.com" + at, "Stream-Next-Offset": beta.Offset(1)})
	got := decode[receipt](t, res)
	if got.StreamURL != "http://example.com"+at || got.Offset != beta.Offset(1) || got.SubmissionID == "" || got.Deduplicated != nil {
		t.Errorf("got receipt %+v", got)
	}
	again := decode[receipt](t, h.beta("POST", at, body))
	if again.SubmissionID != got.SubmissionID || again.Deduplicated == nil {
		t.Errorf("repeated: got %+v", again)
	}
	a := h.rt.admissions[1]
	want := conversation.Delivery{Kind: conversation.KindSignal, Type: conversation.SignalWait, Attributes: map[string]string{"name": "approval"}, Body: "true"}
	if a.Address != conversation.RunAddress(id) || a.Key != "k" || !cmp.Equal(want, a.Delivery) {
		t.Errorf("got admission %+v", a)
	}
	for code, status := range map[conversation.Code]int{conversation.CodeAlreadyDecided: 409, conversation.CodeTooManySignals: 429, conversation.CodeInvalidRequest: 400} {
		h.rt.fail = func(method string) error {
			if method == "Admit" {
				return conversation.Errorf(code, "not so")
			}
			return nil
		}
		wantError(t, h.beta("POST", at, strings.Replace(body, `"k"`, `"l"`, 1)), status, code)
	}
}

// TestRunMounts rejects ambiguous routes.
// covers: beta/95, beta/92 a_workflow_that_is_not_registered
func TestRunMounts(t *testing.T) {
	report, agents := []string{"report"}, []string{"assistant"}
	for _, tt := range []struct {
		name, mount, want string
		runs              *parleyhttp.Runs
		beta              *parleyhttp.Beta
	}{
		{"at_the_root", "/agents/assistant", "", &parleyhttp.Runs{Path: "/", Workflows: report}, nil},
		{"next_to_the_beta_line", "/agents/assistant", "", &parleyhttp.Runs{Path: "/", Workflows: report}, &parleyhttp.Beta{Path: "/beta", Agents: agents, Workflows: report}},
		{"a_beta_line_of_workflows", "/agents/assistant", "", nil, &parleyhttp.Beta{Path: "/beta", Workflows: report}},
		{"no_workflow", "/agents/assistant", `runs at "/": no workflows`, &parleyhttp.Runs{Path: "/"}, nil},
		{"path_relative", "/agents/assistant", "not an absolute path", &parleyhttp.Runs{Path: "x", Workflows: report}, nil},
		{"a_mount_of_runs", "/runs", "overlap", &parleyhttp.Runs{Path: "/", Workflows: report}, nil},
		{"a_mount_of_workflows", "/workflows", "overlap", &parleyhttp.Runs{Path: "/", Workflows: report}, nil},
		{"a_mount_of_aborts", "/v1/runs", "overlap", &parleyhttp.Runs{Path: "/v1", Workflows: report}, nil},
		{"a_mount_of_all", "/", "overlap", &parleyhttp.Runs{Path: "/", Workflows: report}, nil},
		{"the_beta_line_at_the_same_path", "/a", `runs at "/": its route`, &parleyhttp.Runs{Path: "/", Workflows: report}, &parleyhttp.Beta{Path: "/", Agents: agents}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt := newRuntime()
			_, err := parleyhttp.New(rt, rt, []parleyhttp.Mount{{Path: tt.mount, Agent: "assistant"}}, &parleyhttp.Options{Runs: tt.runs, Beta: tt.beta})
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("reader_without_runs", func(t *testing.T) {
		rt := newRuntime()
		events := struct {
			conversation.Reader
			conversation.EventReader
		}{rt, rt}
		for _, o := range []*parleyhttp.Options{{Runs: &parleyhttp.Runs{Path: "/", Workflows: report}}, {Beta: &parleyhttp.Beta{Path: "/", Workflows: report}}} {
			if _, err := parleyhttp.New(rt, events, nil, o); err == nil || !strings.Contains(err.Error(), "the reader has no runs") {
				t.Errorf("got error %v", err)
			}
		}
	})
	t.Run("where_channels_are", func(t *testing.T) {
		listed, err := standardwebhooks.New(&standardwebhooks.Options{
			Secret:  channels.Secret(base64.StdEncoding.EncodeToString(make([]byte, 24))),
			Webhook: func(context.Context, standardwebhooks.Incoming) (any, error) { return nil, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		rt := newRuntime()
		_, err = parleyhttp.New(rt, rt, nil, &parleyhttp.Options{
			Channels: map[string]channels.Channel{"hooks": listed}, Runs: &parleyhttp.Runs{Path: "/channels", Workflows: report},
		})
		if err == nil || !strings.Contains(err.Error(), "channels are served there") {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("a_workflow_that_is_not_registered", func(t *testing.T) {
		rt := servingName{newRuntime(), "@other"}
		_, err := parleyhttp.New(rt, rt, nil, &parleyhttp.Options{Runs: &parleyhttp.Runs{Path: "/", Workflows: report}})
		if err == nil || !strings.Contains(err.Error(), `workflow "report" is not registered`) {
			t.Errorf("got error %v", err)
		}
		_, err = parleyhttp.New(rt, rt, nil, &parleyhttp.Options{Runs: &parleyhttp.Runs{Path: "/", Workflows: []string{"other"}}})
		if err != nil {
			t.Error(err)
		}
	})
}

type servingName struct {
	*fakeRuntime
	name string
}

// Serves reports whether name is the served one.
func (k servingName) Serves(name string) bool { return name == k.name }
