package http_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

var c1 = conversation.Address{Agent: "assistant", ID: "c1"}

const hello = `{"kind":"user","body":"hello"}`

// harness is a handler over a fake runtime with ids that count.
type harness struct {
	t    testing.TB
	rt   *fakeRuntime
	h    *parleyhttp.Handler
	temp string
}

func newHarness(t testing.TB, change func(*parleyhttp.Options)) *harness {
	t.Helper()
	rt, temp := newRuntime(), t.TempDir()
	keys, refs := 0, 0
	opts := &parleyhttp.Options{
		TempDir: temp,
		Logger:  slog.New(slog.DiscardHandler),
		NewKey:  func() string { keys++; return fmt.Sprintf("key-%d", keys) },
		NewRef:  func() string { refs++; return fmt.Sprintf("err_%d", refs) },
	}
	if change != nil {
		change(opts)
	}
	mounts := []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}, {Path: "/support", Agent: "assistant"}}
	h, err := parleyhttp.New(rt, rt, mounts, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &harness{t: t, rt: rt, h: h, temp: temp}
}

// serve handles a request in memory.
func (h *harness) serve(r *http.Request) *http.Response {
	rec := httptest.NewRecorder()
	h.h.ServeHTTP(rec, r)
	return rec.Result()
}

// do sends a request without a body to a path below the first mount.
func (h *harness) do(method, path string) *http.Response {
	return h.serve(httptest.NewRequest(method, "/agents/assistant"+path, nil))
}

// post sends a JSON body to a path below the first mount.
func (h *harness) post(path, body string) *http.Response {
	return h.serve(newPost(path, strings.NewReader(body)))
}

func newPost(path string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/agents/assistant"+path, body)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// create creates the conversation c1.
func (h *harness) create() {
	h.t.Helper()
	wantStatus(h.t, h.post("/c1", hello), http.StatusAccepted)
}

// leftovers returns the content of the temporary folder and, where the system lists them, open handles
// of its files.
func (h *harness) leftovers() []string {
	h.t.Helper()
	out, err := filepath.Glob(filepath.Join(h.temp, "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	handles, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, fd := range handles {
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, h.temp) {
			out = append(out, name)
		}
	}
	return out
}

func wantStatus(t testing.TB, res *http.Response, want int) {
	t.Helper()
	if res.StatusCode != want {
		t.Fatalf("got status %d, want %d: %s", res.StatusCode, want, readAll(t, res))
	}
}

func readAll(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func decode[T any](t testing.TB, res *http.Response) T {
	t.Helper()
	var v T
	b := readAll(t, res)
	if err := json.Unmarshal([]byte(b), &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

// receipt is the body of a 202.
type receipt struct {
	StreamURL    string `json:"streamUrl"`
	Offset       string `json:"offset"`
	SubmissionID string `json:"submissionId"`
	UID          string `json:"uid"`
	Deduplicated *bool  `json:"deduplicated"`
}

// apiError is the content of an error envelope.
type apiError struct {
	Type    string         `json:"type"`
	Message string         `json:"message"`
	Details string         `json:"details"`
	Dev     string         `json:"dev"`
	Meta    map[string]any `json:"meta"`
	Ref     string         `json:"ref"`
}

// wantError checks a whole error response and returns its content.
func wantError(t testing.TB, res *http.Response, status int, code conversation.Code) apiError {
	t.Helper()
	wantStatus(t, res, status)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "cross-origin",
	} {
		if got := res.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	e := decode[struct{ Error apiError }](t, res).Error
	if e.Type != string(code) || e.Message == "" || e.Details == "" {
		t.Errorf("got error %+v, want type %s with message and details", e, code)
	}
	return e
}

// turn answers "hi" to the first unsettled submission, one record per batch.
func (h *harness) turn(at conversation.Address) {
	h.t.Helper()
	h.rt.mu.Lock()
	sub := h.rt.convs[at].state.Unsettled()[0].ID
	h.rt.mu.Unlock()
	msg := conversation.MessageID("msg_re_" + sub)
	h.rt.record(h.t, at,
		[]conversation.Record{&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: "w"}},
		[]conversation.Record{&conversation.ResponseStarted{Message: msg, Submission: sub, Turn: "turn_1"}},
		[]conversation.Record{&conversation.Delta{Message: msg, Kind: conversation.PartText, Text: "hi <b>"}},
		[]conversation.Record{
			&conversation.StepCompleted{Message: msg, Turn: "turn_1", StopReason: "stop"},
			&conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted},
		})
}

// claims appends n batches without records.
func (h *harness) claims(at conversation.Address, n int) {
	h.t.Helper()
	h.rt.record(h.t, at, make([][]conversation.Record, n)...)
}
