package fakemodel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/fakemodel"
)

func post(path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	fakemodel.New(nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return w
}

// TestWhole requests responses without streaming, which the codecs never do.
func TestWhole(t *testing.T) {
	script := `reasoning=1 say=\"Hi.\" tool=a {\"n\":1}`
	tests := map[string]struct{ path, body, want string }{
		"completions": {"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"` + script + `"}]}`, `{
			"id":"fake_567172cd7597746c", "object":"chat.completion", "created":0, "model":"m",
			"choices":[{"index":0, "finish_reason":"tool_calls", "message":{"role":"assistant", "content":"Hi.", "reasoning_content":"t1",
				"tool_calls":[{"id":"c00001000", "type":"function", "function":{"name":"a", "arguments":"{\"n\":1}"}}]}}],
			"usage":{"prompt_tokens":4, "completion_tokens":3, "total_tokens":7, "completion_tokens_details":{"reasoning_tokens":1}}}`},
		"messages": {"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"` + script + `"}]}`, `{
			"id":"fake_567172cd7597746c", "type":"message", "role":"assistant", "model":"m", "stop_reason":"tool_use", "stop_sequence":null,
			"content":[{"type":"thinking", "thinking":"t1", "signature":"U74Z3ZwFAIEDCQWcJYWmOcrXvrNVaviwK8qtqA/Heo8="},
				{"type":"text", "text":"Hi."}, {"type":"tool_use", "id":"c00001000", "name":"a", "input":{"n":1}}],
			"usage":{"input_tokens":4, "output_tokens":3}}`},
		"responses": {"/v1/responses", `{"model":"m-codex","input":[{"role":"user","content":"` + script + `"}]}`, `{
			"id":"fake_2b3a2dcd086a7375", "object":"response", "created_at":0, "model":"m-codex", "status":"completed",
			"output":[
				{"type":"reasoning", "id":"rs_fake_2b3a2dcd086a7375_0", "encrypted_content":"29TewbRL7HIOADEHKhS+ALIpEwN12KaYhnsSmU/SwuQ=", "summary":[{"type":"summary_text", "text":"t1"}]},
				{"type":"message", "id":"msg_fake_2b3a2dcd086a7375_1", "role":"assistant", "phase":"commentary", "content":[{"type":"output_text", "text":"Hi.", "annotations":[]}]},
				{"type":"function_call", "id":"fc_c00001000", "call_id":"c00001000", "name":"a", "arguments":"{\"n\":1}"}],
			"usage":{"input_tokens":4, "input_tokens_details":{"cached_tokens":0}, "output_tokens":3, "output_tokens_details":{"reasoning_tokens":1}, "total_tokens":7}}`},
		"converse": {"/bedrock/model/a%2Fb%3A0/converse", `{"messages":[{"role":"user","content":[{"text":"` + script + `"}]}]}`, `{
			"output":{"message":{"role":"assistant", "content":[
				{"reasoningContent":{"reasoningText":{"text":"t1", "signature":"U74Z3ZwFAIEDCQWcJYWmOcrXvrNVaviwK8qtqA/Heo8="}}},
				{"text":"Hi."}, {"toolUse":{"toolUseId":"c00001000", "name":"a", "input":{"n":1}}}]}},
			"stopReason":"tool_use", "usage":{"inputTokens":4, "outputTokens":3, "totalTokens":7}, "metrics":{"latencyMs":0}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := post(test.path, test.body)
			var want, got any
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
				t.Fatalf("got status %d, %v: %s", w.Code, err, w.Body)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, w.Body)
			}
		})
	}
}

func TestSameCallSameBytes(t *testing.T) {
	ask := `{"model":"m","stream":true,"%s":[{"role":"user","content":"reasoning=2 tokens=3 tool=a"}]%s}`
	for path, body := range map[string]string{
		"/v1/chat/completions": fmt.Sprintf(ask, "messages", `,"stream_options":{"include_usage":true}`),
		"/v1/messages":         fmt.Sprintf(ask, "messages", `,"max_tokens":99`),
		"/v1/responses":        fmt.Sprintf(ask, "input", ""),
	} {
		first, second := post(path, body), post(path, body)
		if first.Code != http.StatusOK || first.Header().Get("Content-Type") != "text/event-stream" || first.Body.Len() == 0 {
			t.Errorf("%s: got %d %v %s", path, first.Code, first.Header(), first.Body)
		}
		if diff := cmp.Diff(first.Body.String(), second.Body.String()); diff != "" {
			t.Errorf("%s (-first +second):\n%s", path, diff)
		}
	}
}

// covers: providers/153 unknown_member
func TestBadCalls(t *testing.T) {
	const completions, messages, mistral = "/v1/chat/completions", "/v1/messages", "/mistral/v1/chat/completions"
	called := `{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}}]}`
	used := `{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"a","input":{}}]}`
	const bedrock = "/bedrock/model/m/converse-stream"
	asked := `{"role":"user","content":[{"text":"x"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"a","input":{}}}]}`
	answered := asked + `,{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"1"}],"status":"error"}}]}`
	tests := map[string]struct{ path, messages, want string }{
		"roles repeat":        {bedrock, `{"role":"user","content":[{"text":"x"}]},{"role":"user","content":[{"text":"y"}]}`, "alternate"},
		"calls without tools": {bedrock, answered, "toolConfig"},
		"empty result":        {bedrock, strings.Replace(answered, `{"text":"1"}`, ``, 1), "is empty"},
		"image of an error":   {bedrock, strings.Replace(answered, `{"text":"1"}`, `{"image":{"format":"png","source":{"bytes":"YQ=="}}}`, 1), "error with an image"},
		"text before result":  {bedrock, strings.Replace(answered, `{"toolResult"`, `{"text":"y"},{"toolResult"`, 1), "results must come first"},
		"blank block":         {bedrock, `{"role":"user","content":[{"text":" "}]}`, "blank"},
		"empty message":       {bedrock, `{"role":"user","content":[]}`, "content is empty"},
		"unknown block":       {bedrock, `{"role":"user","content":[{}]}`, "no known member"},
		"reasoning unsigned":  {bedrock, `{"role":"user","content":[{"text":"x"}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"t1","signature":"x"}}},{"text":"x"}]}`, "signature"},
		"ends in thought":     {bedrock, `{"role":"user","content":[{"text":"x"}]},{"role":"assistant","content":[{"reasoningContent":{}}]}`, "final block"},
		"call of a text":      {bedrock, strings.Replace(asked, `"input":{}`, `"input":"{}"`, 1), "not an object"},
		"wrong base64":        {bedrock, `{"role":"user","content":[{"image":{"format":"png","source":{"bytes":"?"}}}]}`, "decode image"},
		"foreign member":      {bedrock, `{"role":"user","content":[{"text":"x"}],"cache":true}`, "unknown field"},
		"no messages":         {completions, ``, "messages are missing"},
		"ends with answer":    {completions, `{"role":"assistant","content":"x"}`, "last message"},
		"no content":          {completions, `{"role":"user"}`, "content is missing"},
		"unknown role":        {completions, `{"role":"robot","content":"x"}`, "unknown role"},
		"late system":         {completions, `{"role":"user","content":"x"},{"role":"system","content":"y"}`, "must come first"},
		"call not answered":   {completions, called + `,{"role":"user","content":"y"}`, "not answered"},
		"open call":           {completions, called, "last message"},
		"answered twice":      {completions, called + `,{"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","tool_call_id":"c1","content":"2"}`, "no open call"},
		"result without call": {completions, `{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c9","content":"1"}`, "no open call"},
		"bad arguments":       {completions, strings.Replace(called, `"{}"`, `"{"`, 1), "not JSON"},
		"bad image":           {completions, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,?"}}]}`, "data URL"},
		"sides repeat":        {messages, `{"role":"user","content":"x"},{"role":"user","content":"y"}`, "alternate"},
		"begins with answer":  {messages, `{"role":"assistant","content":"x"}`, "alternate"},
		"blank text":          {messages, `{"role":"user","content":" "}`, "blank"},
		"empty content":       {messages, `{"role":"user","content":[]}`, "content is empty"},
		"use not answered":    {messages, used + `,{"role":"user","content":"y"}`, "not answered"},
		"result after text":   {messages, used + `,{"role":"user","content":[{"type":"text","text":"y"},{"type":"tool_result","tool_use_id":"c1"}]}`, "results must come first"},
		"unsigned thinking":   {messages, `{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t1","signature":"made up"},{"type":"text","text":"x"}]},{"role":"user","content":"y"}`, "signature"},
		"thinking at last":    {messages, `{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":""}]}`, "final block"},
		"missing thinking":    {messages, used + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"}]}],"thinking":{"budget_tokens":2000},"tools":[`, "must start with"},
		"invalid call id":     {messages, strings.Replace(used, `"c1"`, `"c:1"`, 1), "id is invalid"},
		"foreign id":          {bedrock, strings.Replace(asked, `"c1"`, `"`+strings.Repeat("c", 65)+`"`, 1), "id is invalid"},
		"input not an object": {messages, strings.Replace(used, `"input":{}`, `"input":"{}"`, 1), "not an object"},
		"user after results":  {mistral, strings.ReplaceAll(called, `"c1"`, `"c00000001"`) + `,{"role":"tool","tool_call_id":"c00000001","content":"1"},{"role":"user","content":"y"}`, "after role"},
		"short id":            {mistral, strings.Replace(called, `"content":null`, `"content":""`, 1), "nine letters"},
		"url as an object":    {mistral, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,YQ=="}}]}`, "decode content"},
		"unknown member":      {mistral, `{"role":"user","content":"x"}],"store":false,"tools":[`, "unknown field"},
		"wrong image":         {messages, `{"role":"user","content":[{"type":"image","source":{"media_type":"image/png","data":"?"}}]}`, "decode image"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			call := `{"model":"m","max_tokens":9,"messages":[`
			if test.path == bedrock {
				call = `{"messages":[`
			}
			refused(t, test.path, call+test.messages+`]}`, test.want)
		})
	}
	for name, test := range map[string]struct{ path, body string }{
		"no model":       {completions, `{"messages":[{"role":"user","content":"x"}]}`},
		"usage lost":     {completions, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`},
		"no limit":       {messages, `{"model":"m","messages":[{"role":"user","content":"x"}]}`},
		"not JSON":       {messages, `{`},
		"wrong messages": {completions, `{"model":"m","messages":7}`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.path, test.body, "") })
	}
}

func refused(t *testing.T, path, body, why string) {
	t.Helper()
	if w := post(path, body); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), why) {
		t.Errorf("got status %d, %s; want 400 with %q", w.Code, w.Body, why)
	}
}

func TestUnknownPath(t *testing.T) {
	if w := post("/v1/embeddings", "{}"); w.Code != http.StatusNotFound {
		t.Errorf("got status %d, want 404", w.Code)
	}
}

func FuzzCalls(f *testing.F) {
	for _, script := range []string{
		"tokens=3", `say="a b"`, `tool=a {"n":1} tool=b then say="x"`, "status=429 retry-after=1 times=2", "fail=1", "reasoning=2 finish=tool",
		`message="`, "tool=a {", "then then tokens=1", "hello", "note=1 then",
	} {
		f.Add(script, `{"role":"user","content":"x"}`)
	}
	f.Add("tokens=1", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r"}]}]}`)
	f.Add("tokens=1", `{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`)
	f.Fuzz(func(t *testing.T, script, messages string) {
		text, err := json.Marshal(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, stream := range []string{"true", "false"} {
			body := `{"model":"m","max_tokens":50,"stream":` + stream + `,"stream_options":{"include_usage":true},"messages":[` + messages + `,{"role":"user","content":` + string(text) + `}]}`
			for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
				answer(t, path, body)
			}
		}
	})
}

// answer allows responses that end early: scripts that close the connection, and clients that leave,
// since a script may wait forever.
func answer(t *testing.T, path, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
	}()
	w := httptest.NewRecorder()
	fakemodel.New(nil).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body)))
	if w.Code == http.StatusOK && w.Body.Len() == 0 && ctx.Err() == nil {
		t.Errorf("%s: got no response to %s", path, body)
	}
}

// pieces records the writes before the handler returns or waits.
type pieces struct {
	http.ResponseWriter
	writes, flushes int
	flushed         chan struct{} // one token per flush, for scripts that wait
}

func (p *pieces) Write(b []byte) (int, error) {
	p.writes++
	return p.ResponseWriter.Write(b)
}

func (p *pieces) FlushError() error {
	p.flushes++
	p.flushed <- struct{}{}
	return nil
}

// TestPieces verifies that output without waits leaves in one piece.
func TestPieces(t *testing.T) {
	for _, tt := range []struct {
		name, script    string
		writes, flushes int
	}{
		{"at once", "reasoning=2 tokens=20", 1, 0},
		{"paced", "tokens=3 pace=1ns", 3, 2},
		{"a gate", "tokens=5 hold=open tokens=5", 2, 1},
		{"a gate before the first word", "hold=open tokens=5", 1, 0},
		{"broken", "tokens=2 truncate=3", 1, 1},
		{"failed", "fail=3", 2, 1},
		{"long", "tokens=1000", 6, 5},
	} {
		m := fakemodel.New(nil)
		m.Release("open")
		w := &pieces{ResponseWriter: httptest.NewRecorder(), flushed: make(chan struct{}, 100)}
		body := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"` + tt.script + `"}]}`
		func() {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					panic(p)
				}
			}()
			m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
		}()
		if w.writes != tt.writes || w.flushes != tt.flushes {
			t.Errorf("%s: got %d writes and %d flushes, want %d and %d", tt.name, w.writes, w.flushes, tt.writes, tt.flushes)
		}
	}
}

func TestHangFlushesFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRecorder()
	w := &pieces{ResponseWriter: r, flushed: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		body := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hang=2"}]}`
		fakemodel.New(nil).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	}()
	<-w.flushed
	cancel()
	<-ended
	if w.writes != 1 || !strings.Contains(r.Body.String(), `"w1"`) || !strings.Contains(r.Body.String(), `" w2"`) {
		t.Errorf("got %d writes: %s", w.writes, r.Body)
	}
}
