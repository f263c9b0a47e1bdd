package http_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/http/beta"
)

const betaC1 = "/beta/agents/assistant/c1"

func newBeta(t testing.TB, change func(*parleyhttp.Options)) *harness {
	return newHarness(t, func(o *parleyhttp.Options) {
		o.Beta = &parleyhttp.Beta{Path: "/beta", Agents: []string{"assistant"}}
		if change != nil {
			change(o)
		}
	})
}

// beta sends a request to the beta protocol.
func (h *harness) beta(method, path, body string, header ...string) *http.Response {
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, path, nil)
	} else {
		r = httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return h.serve(r)
}

// withTurns returns a harness whose c1 has the given number of turns.
func withTurns(t testing.TB, times int) *harness {
	h := newBeta(t, nil)
	for range times {
		wantStatus(t, h.beta("POST", betaC1, `{"message":"hello"}`), http.StatusAccepted)
		h.turn(c1)
	}
	return h
}

const eventsPerTurn = 11

func kinds(t testing.TB, body string) (out []string) {
	t.Helper()
	var list []struct{ Type string }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, e := range list {
		out = append(out, e.Type)
	}
	return out
}

func wantHeader(t testing.TB, res *http.Response, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := strings.Join(res.Header.Values(name), " and "); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

var secured = map[string]string{"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin"}

// covers: beta/40, beta/44, beta/46, beta/49, beta/11 the_start_is_100_events, beta/14 exactly_100_that_reach_it
// covers: beta/16 now_has_no_validator, beta/17 the_rest_reaches_the_end, beta/22 beyond_the_end_is_no_error
// covers: beta/27 tail, beta/28 tail_of_more_than_there_is, beta/29 tail_with_an_offset
// covers: beta/41 the_rest_reaches_the_end, beta/72 order_of_a_prompt
func TestBetaCatchUp(t *testing.T) {
	h := withTurns(t, 10) // 110 events
	last := int64(10*eventsPerTurn - 1)
	tag := func(from, next int64) string { return beta.ETag("agents/assistant/c1", from, next, false) }
	for _, tt := range []struct {
		name, query, upToDate, etag string
		events                      int
		next                        int64
	}{
		{"the_start_is_100_events", "", "", tag(-1, 99), 100, 99},
		{"the_rest_reaches_the_end", "?offset=" + beta.Offset(99), "true", tag(99, last), 10, last},
		{"exactly_100_that_reach_it", "?offset=" + beta.Offset(last-100), "true", tag(last-100, last), 100, last},
		{"tail", "?tail=3", "true", tag(last-3, last), 3, last},
		{"tail_of_more_than_there_is", "?offset=-1&tail=9007199254740991", "", tag(-1, 99), 100, 99},
		{"tail_with_an_offset", "?tail=3&offset=" + beta.Offset(last-5), "true", tag(last-5, last), 5, last},
		{"now_has_no_validator", "?offset=now", "true", "", 0, last},
		{"at_the_end", "?offset=" + beta.Offset(last), "true", tag(last, last), 0, last},
		{"beyond_the_end_is_no_error", "?offset=" + beta.Offset(5000), "true", tag(5000, 5000), 0, 5000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := h.beta("GET", betaC1+tt.query, "")
			wantStatus(t, res, http.StatusOK)
			wantHeader(t, res, secured)
			wantHeader(t, res, map[string]string{
				"Content-Type": "application/json", "Cache-Control": "no-store", "Stream-Next-Offset": beta.Offset(tt.next),
				"Stream-Up-To-Date": tt.upToDate, "ETag": tt.etag, "Stream-Closed": "", "Stream-Cursor": "",
			})
			if got := kinds(t, readAll(t, res)); len(got) != tt.events {
				t.Errorf("%d events, want %d", len(got), tt.events)
			}
		})
	}
	t.Run("order_of_a_prompt", func(t *testing.T) {
		want := []string{
			"operation_start", "agent_start", "turn_start", "message_start", "message_end", "message_start", "text_delta", "message_end",
			"turn_messages", "turn", "submission_settled",
		}
		got := kinds(t, readAll(t, h.beta("GET", betaC1, "")))
		var first []string
		for _, k := range got {
			if first = append(first, k); k == "submission_settled" {
				break
			}
		}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// covers: beta/49, beta/50, beta/13 head_never, beta/51 any, beta/51 list, beta/51 weak
func TestBetaConditional(t *testing.T) {
	h := withTurns(t, 1)
	tag := h.beta("GET", betaC1, "").Header.Get("ETag")
	res := h.beta("GET", betaC1, "", "If-None-Match", tag)
	wantStatus(t, res, http.StatusNotModified)
	wantHeader(t, res, secured)
	wantHeader(t, res, map[string]string{"ETag": tag})
	if body := readAll(t, res); body != "" {
		t.Errorf("got body %q for a 304, want none", body)
	}
	for name, other := range map[string]string{"weak": "W/" + tag, "list": tag + ", " + tag, "any": "*", "another": `"x"`} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, h.beta("GET", betaC1, "", "If-None-Match", other), http.StatusOK)
		})
	}
	t.Run("head_never", func(t *testing.T) {
		wantStatus(t, h.beta("HEAD", betaC1, "", "If-None-Match", tag), http.StatusOK)
	})
	t.Run("another_once_there_is_more", func(t *testing.T) {
		wantStatus(t, h.beta("POST", betaC1, `{"message":"more"}`), http.StatusAccepted)
		h.turn(c1)
		wantStatus(t, h.beta("GET", betaC1, "", "If-None-Match", tag), http.StatusOK)
	})
}

// covers: beta/12, beta/13, beta/40, beta/46
func TestBetaHead(t *testing.T) {
	h := withTurns(t, 2)
	last := beta.Offset(2*eventsPerTurn - 1)
	res := h.beta("HEAD", betaC1+"?offset=banana&tail=0", "")
	wantStatus(t, res, http.StatusOK)
	wantHeader(t, res, secured)
	wantHeader(t, res, map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "Stream-Next-Offset": last, "Stream-Up-To-Date": "true",
		"ETag": beta.ETag("agents/assistant/c1", -1, 2*eventsPerTurn-1, false), "Stream-Closed": "",
	})
	if body := readAll(t, res); body != "" {
		t.Errorf("got body %q for HEAD, want none", body)
	}
	res = h.beta("HEAD", "/beta/agents/assistant/none", "")
	wantStatus(t, res, http.StatusNotFound)
	if body := readAll(t, res); body != "" {
		t.Errorf("got body %q for HEAD of an absent stream", body)
	}
}

// TestBetaRefusals lists the rejected requests in the order of the checks.
// covers: beta/49, beta/6 agent_unknown, beta/7 stream_missing, beta/19 live_without_offset
// covers: beta/38 query_before_missing, beta/38 run_query_before_unknown, beta/39 id_blank_before_unknown
// covers: beta/39 method_first, beta/39 name_blank_before_unknown, beta/54 live_of_nothing, beta/54 stream_missing
// covers: beta/55 run_unknown, beta/56 agent_unknown, beta/56 agent_unknown_to_post, beta/57 workflow_unknown
// covers: beta/58 abort_method, beta/58 method_first, beta/58 run_method, beta/58 workflow_method
// covers: beta/75 message_missing, beta/76 message_missing, beta/76 message_nested, beta/77 image_data
// covers: beta/77 image_type, beta/77 images_object, beta/79 media_type, beta/80 no_body, beta/80 white_space
// covers: beta/81 no_json, beta/82 wait_other_before_agent, beta/82 wait_twice, upgrade/5 message_nested
// covers: upgrade/8 agent_unknown, upgrade/11 run_unknown, upgrade/11 workflow_unknown
func TestBetaRefusals(t *testing.T) {
	h := withTurns(t, 1)
	for _, tt := range []struct {
		name, method, path, body, allow string
		status                          int
		code                            conversation.Code
	}{
		{"stream_missing", "GET", "/beta/agents/assistant/none", "", "", 404, conversation.CodeStreamNotFound},
		{"query_before_missing", "GET", "/beta/agents/assistant/none?offset=banana", "", "", 400, conversation.CodeInvalidRequest},
		{"live_without_offset", "GET", betaC1 + "?live=sse", "", "", 400, conversation.CodeInvalidRequest},
		{"live_of_nothing", "GET", "/beta/agents/assistant/none?offset=-1&live=sse", "", "", 404, conversation.CodeStreamNotFound},
		{"agent_unknown", "GET", "/beta/agents/unknown/c1", "", "", 404, conversation.CodeAgentNotFound},
		{"agent_unknown_to_post", "POST", "/beta/agents/unknown/c1", `{"message":"x"}`, "", 404, conversation.CodeAgentNotFound},
		{"agent_unknown_to_abort", "POST", "/beta/agents/unknown/c1/abort", "", "", 404, conversation.CodeAgentNotFound},
		{"name_blank_before_unknown", "GET", "/beta/agents/%20/c1", "", "", 400, conversation.CodeInvalidRequest},
		{"id_blank_before_unknown", "GET", "/beta/agents/unknown/%20", "", "", 400, conversation.CodeInvalidRequest},
		{"method_first", "DELETE", "/beta/agents/unknown/%20", "", "GET, HEAD, POST", 405, conversation.CodeMethodNotAllowed},
		{"abort_method", "GET", betaC1 + "/abort", "", "POST", 405, conversation.CodeMethodNotAllowed},
		{"run_unknown", "GET", "/beta/runs/run_1", "", "", 404, conversation.CodeRunNotFound},
		{"run_query_before_unknown", "GET", "/beta/runs/run_1?offset=banana", "", "", 400, conversation.CodeInvalidRequest},
		{"run_meta_ignores_the_query", "GET", "/beta/runs/run_1?meta&offset=banana", "", "", 404, conversation.CodeRunNotFound},
		{"run_method", "POST", "/beta/runs/run_1", "", "GET, HEAD", 405, conversation.CodeMethodNotAllowed},
		{"workflow_unknown", "POST", "/beta/workflows/w", `{}`, "", 404, conversation.CodeWorkflowNotFound},
		{"workflow_wait", "POST", "/beta/workflows/w?wait=1", `{}`, "", 400, conversation.CodeInvalidRequest},
		{"workflow_method", "GET", "/beta/workflows/w", "", "POST", 405, conversation.CodeMethodNotAllowed},
		{"wait_other_before_agent", "POST", "/beta/agents/unknown/c1?wait=true", `{"message":"x"}`, "", 400, conversation.CodeInvalidRequest},
		{"wait_twice", "POST", betaC1 + "?wait=result&wait=result", `{"message":"x"}`, "", 400, conversation.CodeInvalidRequest},
		{"no_body", "POST", betaC1, "", "", 400, conversation.CodeInvalidRequest},
		{"white_space", "POST", betaC1, " \n", "", 400, conversation.CodeInvalidRequest},
		{"no_json", "POST", betaC1, "{", "", 400, conversation.CodeInvalidJSON},
		{"no_object", "POST", betaC1, `"x"`, "", 400, conversation.CodeInvalidRequest},
		{"message_missing", "POST", betaC1, `{"kind":"user","body":"x"}`, "", 400, conversation.CodeInvalidRequest},
		{"message_nested", "POST", betaC1, `{"message":{"kind":"user","body":"x"}}`, "", 400, conversation.CodeInvalidRequest},
		{"images_object", "POST", betaC1, `{"message":"x","images":{}}`, "", 400, conversation.CodeInvalidRequest},
		{"image_type", "POST", betaC1, `{"message":"x","images":[{"type":"file","data":"AA==","mimeType":"image/png"}]}`, "", 400, conversation.CodeInvalidRequest},
		{"image_data", "POST", betaC1, `{"message":"x","images":[{"type":"image","data":"%","mimeType":"image/png"}]}`, "", 400, conversation.CodeInvalidRequest},
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
	t.Run("media_type", func(t *testing.T) {
		res := h.beta("POST", betaC1, `{"message":"x"}`, "Content-Type", "text/plain")
		wantStatus(t, res, http.StatusUnsupportedMediaType)
		for _, media := range []string{"Application/JSON; a=b", "text/plain, application/json"} {
			wantStatus(t, h.beta("POST", betaC1, `{"message":"x"}`, "Content-Type", media), http.StatusAccepted)
		}
	})
}

// TestBetaAdmission checks that the returned offset precedes the prompt's own events.
// covers: beta/4, beta/66, beta/67, beta/75, beta/77, beta/78, upgrade/3
func TestBetaAdmission(t *testing.T) {
	h := newBeta(t, nil)
	before := "-1"
	for _, body := range []string{
		`{"message":"first"}`, `{"message":"","other":1}`,
		`{"message":"look","images":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png","filename":"a.png"}]}`,
	} {
		res := h.beta("POST", betaC1+"?x=1", body)
		wantStatus(t, res, http.StatusAccepted)
		wantHeader(t, res, map[string]string{
			"Content-Type": "application/json", "Location": "http://example.com" + betaC1, "Stream-Next-Offset": before,
		})
		got := decode[map[string]any](t, res)
		id := got["submissionId"]
		if diff := cmp.Diff(map[string]any{"streamUrl": "http://example.com" + betaC1, "offset": before, "submissionId": id}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		h.turn(c1)
		var events []struct {
			SubmissionID any
			EventIndex   int
		}
		page := h.beta("GET", betaC1+"?offset="+before, "")
		before = page.Header.Get("Stream-Next-Offset")
		if err := json.Unmarshal([]byte(readAll(t, page)), &events); err != nil {
			t.Fatal(err)
		}
		for i, e := range events {
			if e.SubmissionID != id || e.EventIndex != i {
				t.Errorf("event %d is %+v, want index %d of %v", i, e, i, id)
			}
		}
	}
	want := conversation.Delivery{Kind: conversation.KindUser, Body: "look"}
	last := h.rt.admissions[2].Delivery
	if len(last.Attachments) != 1 || last.Attachments[0].MimeType != "image/png" || last.Attachments[0].Filename != "a.png" || last.Attachments[0].Size != 8 {
		t.Errorf("got attachments %+v", last.Attachments)
	}
	if last.Attachments = nil; !cmp.Equal(want, last) {
		t.Errorf("got delivery %+v", last)
	}
	// The current protocol has the same conversation.
	if got := readAll(t, h.do("GET", "/c1")); !strings.Contains(got, `"text":"look"`) {
		t.Errorf("got %s from the current protocol", got)
	}
}

// answering runs act while a request waits.
func (h *harness) answering(path, body string, act func()) *http.Response {
	done := make(chan *http.Response)
	go func() { done <- h.beta("POST", path, body) }()
	synctest.Wait()
	act()
	return <-done
}

// covers: beta/83, beta/84, beta/85, beta/118, upgrade/6
func TestBetaWaitForResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newBeta(t, nil)
		res := h.answering(betaC1+"?wait=result", `{"message":"hello"}`, func() { h.turn(c1) })
		wantStatus(t, res, http.StatusOK)
		wantHeader(t, res, map[string]string{"Location": "", "Content-Type": "application/json"})
		got := decode[map[string]any](t, res)
		result, _ := got["result"].(map[string]any)
		if got["offset"] != "-1" || got["streamUrl"] == "" || got["submissionId"] == "" || result["text"] != "hi <b>" || result["usage"] == nil || result["model"] == nil {
			t.Errorf("got answer %v", got)
		}
		// An aborted submission returns an error of its type.
		res = h.answering(betaC1+"?wait=result", `{"message":"again"}`, func() { wantStatus(t, h.beta("POST", betaC1+"/abort", ""), http.StatusOK) })
		wantStatus(t, res, http.StatusInternalServerError)
		if e := decode[struct{ Error apiError }](t, res).Error; e.Type != string(conversation.CodeAborted) {
			t.Errorf("got error %+v", e)
		}
		// The end of an earlier submission does not count.
		wantStatus(t, h.beta("POST", betaC1, `{"message":"before"}`), http.StatusAccepted)
		res = h.answering(betaC1+"?wait=result", `{"message":"behind"}`, func() {
			h.turn(c1)
			synctest.Wait()
			wantStatus(t, h.beta("POST", betaC1+"/abort", ""), http.StatusOK)
		})
		wantError(t, res, http.StatusInternalServerError, conversation.CodeAborted)
		// A draining server reports that the message is admitted.
		res = h.answering(betaC1+"?wait=result", `{"message":"last"}`, h.h.Drain)
		wantStatus(t, res, http.StatusServiceUnavailable)
		if e := decode[struct{ Error apiError }](t, res).Error; e.Type != string(conversation.CodeAdmissionUnknown) || e.Meta["submissionId"] == nil || e.Meta["offset"] == nil {
			t.Errorf("got error %+v", e)
		}
	})
}

// covers: beta/69, beta/86
func TestBetaAbort(t *testing.T) {
	h := newBeta(t, nil)
	wantStatus(t, h.beta("POST", betaC1, `{"message":"x"}`), http.StatusAccepted)
	for _, want := range []string{`{"aborted":true}`, `{"aborted":false}`} {
		res := h.beta("POST", betaC1+"/abort", "")
		wantStatus(t, res, http.StatusOK)
		if got := readAll(t, res); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := readAll(t, h.beta("GET", betaC1+"?tail=1", "")); !strings.Contains(got, `"outcome":"aborted"`) {
		t.Errorf("got last event %s", got)
	}
}

// covers: beta/9 closed_is_204_at_once, beta/16 an_event_wakes_now_without_a_validator, beta/35 data_at_once
// covers: beta/43 data_at_once, beta/44 an_event_wakes_now_without_a_validator, beta/46 data_at_once
// covers: beta/48 nothing_is_204_after_30_s, beta/52 nothing_is_204_after_30_s
// covers: beta/53 an_event_wakes_now_without_a_validator, beta/59 the_client_that_left_is_499
func TestBetaLongPoll(t *testing.T) {
	poll := func(t *testing.T, act func(*harness), query string, check func(h *harness, res *http.Response, took time.Duration)) {
		synctest.Test(t, func(t *testing.T) {
			h := withTurns(t, 1)
			done, start := make(chan *http.Response), time.Now()
			go func() { done <- h.beta("GET", betaC1+"?live=long-poll&"+query, "") }()
			synctest.Wait()
			act(h)
			res := <-done
			check(h, res, time.Since(start))
		})
	}
	nothing, end := func(*harness) {}, int64(eventsPerTurn-1)
	t.Run("data_at_once", func(t *testing.T) {
		poll(t, nothing, "offset=-1&tail=2&cursor=999999999", func(_ *harness, res *http.Response, took time.Duration) {
			wantStatus(t, res, http.StatusOK)
			wantHeader(t, res, secured)
			wantHeader(t, res, map[string]string{
				"Cache-Control": "no-store", "Stream-Next-Offset": beta.Offset(end), "Stream-Up-To-Date": "true",
				"ETag": beta.ETag("agents/assistant/c1", end-2, end, false),
			})
			if c := res.Header.Get("Stream-Cursor"); len(c) != len("1000000000") && c <= "999999999" {
				t.Errorf("cursor %s did not advance", c)
			}
			if n := len(kinds(t, readAll(t, res))); n != 2 || took != 0 {
				t.Errorf("got %d events after %v", n, took)
			}
		})
	})
	t.Run("nothing_is_204_after_30_s", func(t *testing.T) {
		poll(t, nothing, "offset=now", func(_ *harness, res *http.Response, took time.Duration) {
			wantStatus(t, res, http.StatusNoContent)
			wantHeader(t, res, secured)
			wantHeader(t, res, map[string]string{
				"Cache-Control": "", "Content-Type": "", "ETag": "", "Stream-Next-Offset": beta.Offset(end), "Stream-Up-To-Date": "true", "Stream-Closed": "",
			})
			if took != 30*time.Second || res.Header.Get("Stream-Cursor") == "" {
				t.Errorf("after %v, cursor %q", took, res.Header.Get("Stream-Cursor"))
			}
		})
	})
	t.Run("an_event_wakes_now_without_a_validator", func(t *testing.T) {
		poll(t, func(h *harness) {
			h.claims(c1, 3) // they have no events and resume no reader
			wantStatus(t, h.beta("POST", betaC1, `{"message":"x"}`), http.StatusAccepted)
			h.turn(c1)
		}, "offset=now", func(_ *harness, res *http.Response, took time.Duration) {
			wantStatus(t, res, http.StatusOK)
			wantHeader(t, res, map[string]string{"ETag": ""})
			if took != 0 || len(kinds(t, readAll(t, res))) == 0 {
				t.Errorf("after %v", took)
			}
		})
	})
	t.Run("beyond_the_end_waits", func(t *testing.T) {
		poll(t, nothing, "offset="+beta.Offset(400), func(_ *harness, res *http.Response, took time.Duration) {
			wantStatus(t, res, http.StatusNoContent)
			wantHeader(t, res, map[string]string{"Stream-Next-Offset": beta.Offset(400)})
		})
	})
	t.Run("closed_is_204_at_once", func(t *testing.T) {
		h := withTurns(t, 1)
		h.rt.closed = true
		res := h.beta("GET", betaC1+"?live=long-poll&offset=now", "")
		wantStatus(t, res, http.StatusNoContent)
		wantHeader(t, res, map[string]string{"Stream-Closed": "true", "Stream-Up-To-Date": "true"})
	})
	t.Run("the_client_that_left_is_499", leaveBetaPoll)
}

func leaveBetaPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withTurns(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan *http.Response)
		go func() {
			done <- h.serve(httptest.NewRequestWithContext(ctx, "GET", betaC1+"?live=long-poll&offset=now", nil))
		}()
		synctest.Wait()
		cancel()
		wantStatus(t, <-done, 499)
	})
}

// TestBetaClosed checks that the history of a closed stream is readable and marked as complete.
// covers: beta/8, beta/10, beta/42, beta/65
func TestBetaClosed(t *testing.T) {
	h := withTurns(t, 1)
	h.rt.closed = true
	end := int64(eventsPerTurn - 1)
	res := h.beta("GET", betaC1, "")
	wantStatus(t, res, http.StatusOK)
	wantHeader(t, res, map[string]string{"Stream-Closed": "true", "ETag": beta.ETag("agents/assistant/c1", -1, end, true)})
	wantHeader(t, h.beta("HEAD", betaC1, ""), map[string]string{"Stream-Closed": "true"})
	for _, live := range []string{"", "&live=long-poll"} {
		res := h.beta("GET", betaC1+"?offset=-1"+live, "")
		wantHeader(t, res, map[string]string{"Stream-Closed": "true", "Stream-Up-To-Date": "true", "ETag": beta.ETag("agents/assistant/c1", -1, end, true)})
	}
	body := readAll(t, h.beta("GET", betaC1+"?offset=-1&live=sse", ""))
	data, control, ok := strings.Cut(body, "event: control\n")
	if !ok || !strings.HasPrefix(data, "event: data\ndata:[{") {
		t.Fatalf("got frames %.200s", body)
	}
	if want := `data:{"streamNextOffset":"` + beta.Offset(end) + `","streamClosed":true}` + "\n\n"; control != want {
		t.Errorf("got last frame %q, want %q", control, want)
	}
}

// TestBetaClosedInPages checks that only the last page of a closed stream is marked as closed.
// covers: beta/116
func TestBetaClosedInPages(t *testing.T) {
	h := withTurns(t, 10) // 110 events
	h.rt.closed = true
	for _, live := range []string{"", "&live=long-poll"} {
		for after, want := range map[int64]struct {
			next   int64
			closed string
		}{-1: {99, ""}, 99: {109, "true"}} {
			res := h.beta("GET", betaC1+"?offset="+beta.Offset(after)+live, "")
			wantStatus(t, res, http.StatusOK)
			wantHeader(t, res, map[string]string{
				"Stream-Closed": want.closed, "Stream-Up-To-Date": want.closed, "Stream-Next-Offset": beta.Offset(want.next),
				"ETag": beta.ETag("agents/assistant/c1", after, want.next, want.closed != ""),
			})
		}
	}
	frames := readAll(t, h.beta("GET", betaC1+"?offset=-1&live=sse", ""))
	if strings.Count(frames, "event: data\n") != 2 || strings.Count(frames, `"streamClosed":true`) != 1 || strings.Count(frames, `"upToDate"`) != 0 {
		t.Errorf("got frames %s", pages.ReplaceAllString(frames, "[…]"))
	}
}

// pages matches data frames, or the part of them in one write.
var pages = regexp.MustCompile(`(?s)\[\{.*\}\]`)

// recorder records the writes to an event stream and their times.
type recorder struct {
	mu     sync.Mutex
	header http.Header
	start  time.Time
	out    bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }
func (w *recorder) WriteHeader(int)     {}
func (w *recorder) Flush()              {}
func (w *recorder) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := pages.ReplaceAllStringFunc(string(b), func(page string) string {
		return fmt.Sprintf("%d events", strings.Count(page, `"eventIndex"`))
	})
	text = strings.TrimPrefix(strings.ReplaceAll(text, "data:event", "event"), "event: data\ndata:")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			if before, _, ok := strings.Cut(line, `"streamCursor"`); ok {
				line = before + `"streamCursor"…` + map[bool]string{true: "upToDate"}[strings.Contains(line, `"upToDate":true`)]
			}
			fmt.Fprintf(&w.out, "%v %s\n", time.Since(w.start), line)
		}
	}
	return len(b), nil
}

func (w *recorder) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.out.Reset()
	return w.out.String()
}

// TestBetaEventStream checks the frames of a live stream over virtual time.
// covers: beta/47, beta/61, beta/62, beta/63, beta/64
func TestBetaEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withTurns(t, 10) // 110 events
		ctx, cancel := context.WithCancel(t.Context())
		w := &recorder{header: http.Header{}, start: time.Now()}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			h.h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", betaC1+"?offset=-1&live=sse", nil))
		}()
		synctest.Wait()
		last := func(n int64) string { return `data:{"streamNextOffset":"` + beta.Offset(n) + `",` }
		want := "0s 100 events\n0s event: control\n0s " + last(99) + "\"streamCursor\"…\n" +
			"0s 10 events\n0s event: control\n0s " + last(109) + "\"streamCursor\"…upToDate\n"
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		for name, value := range secured {
			if w.header.Get(name) != value {
				t.Errorf("%s is %q", name, w.header.Get(name))
			}
		}
		if w.header.Get("Content-Type") != "text/event-stream" || w.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("got headers %v", w.header)
		}
		time.Sleep(31 * time.Second)
		idle := w.take()
		if strings.Count(idle, ": heartbeat") != 2 || strings.Count(idle, "event: control") != 1 || strings.Contains(idle, "events") {
			t.Errorf("got frames of 31 idle seconds:\n%s", idle)
		}
		h.claims(c1, 1)
		synctest.Wait()
		if got := w.take(); got != "" {
			t.Errorf("batch without events: got frames %s", got)
		}
		wantStatus(t, h.beta("POST", betaC1, `{"message":"x"}`), http.StatusAccepted)
		h.turn(c1)
		synctest.Wait()
		if got := w.take(); !strings.Contains(got, "11 events\n") || !strings.Contains(got, last(120)+"\"streamCursor\"…upToDate") {
			t.Errorf("turn: got frames %s", got)
		}
		cancel()
		<-ended
	})
}

// TestBetaMounts rejects ambiguous mounts of the two protocols.
// covers: beta/5
func TestBetaMounts(t *testing.T) {
	mount := func(path string) []parleyhttp.Mount { return []parleyhttp.Mount{{Path: path, Agent: "assistant"}} }
	for _, tt := range []struct {
		name, beta, mount, want string
		agents                  []string
	}{
		{"next_to_each_other", "/beta", "/agents/assistant", "", nil},
		{"at_the_root_next_to_a_deeper_one", "/", "/v2/agents/assistant", "", nil},
		{"same_routes", "/", "/agents/assistant", "overlap", nil},
		{"of_an_agent_it_does_not_serve", "/", "/agents/other", "overlap", nil},
		{"a_mount_of_all", "/", "/agents", "overlap", nil},
		{"the_runs", "/beta", "/beta/runs", "overlap", nil},
		{"the_workflows", "/beta", "/beta/workflows", "overlap", nil},
		{"the_attachments_of_a_mount_above", "/beta", "/beta", "overlap", nil},
		{"path_relative", "beta", "/agents/assistant", "not an absolute path", nil},
		{"path_with_a_slash_at_the_end", "/beta/", "/agents/assistant", "trailing slash", nil},
		{"no_agent", "/beta", "/agents/assistant", "no agents", []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.agents == nil {
				tt.agents = []string{"assistant"}
			}
			rt := newRuntime()
			_, err := parleyhttp.New(rt, rt, mount(tt.mount), &parleyhttp.Options{Beta: &parleyhttp.Beta{Path: tt.beta, Agents: tt.agents}})
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("reader_without_events", func(t *testing.T) {
		rt := newRuntime()
		_, err := parleyhttp.New(rt, struct{ conversation.Reader }{rt}, nil, &parleyhttp.Options{Beta: &parleyhttp.Beta{Path: "/", Agents: []string{"a"}}})
		if err == nil {
			t.Error("no error")
		}
	})
}

// TestBetaStoreFails: a failure is a response before the first byte, and a broken connection after it.
// covers: beta/60
func TestBetaStoreFails(t *testing.T) {
	h := withTurns(t, 1)
	h.rt.fail = func(method string) error {
		if method == "Events" {
			return conversation.Unavailable(time.Second, errors.New("no bucket"))
		}
		return nil
	}
	for _, query := range []string{"", "?offset=-1&live=long-poll", "?offset=-1&live=sse"} {
		res := h.beta("GET", betaC1+query, "")
		wantError(t, res, http.StatusServiceUnavailable, conversation.CodeUnavailable)
		wantHeader(t, res, map[string]string{"ETag": "", "Stream-Cursor": ""})
	}
}
