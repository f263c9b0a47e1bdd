package http_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

const (
	someAborted = `{"aborted":true}`
	noneAborted = `{"aborted":false}`
)

// wantAbort checks a whole abort response.
func wantAbort(t testing.TB, res *http.Response, body string) {
	t.Helper()
	wantStatus(t, res, http.StatusOK)
	want := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {map[string]string{someAborted: "16", noneAborted: "17"}[body]},
		"X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"cross-origin"},
	}
	if d := cmp.Diff(want, res.Header); d != "" {
		t.Error(d)
	}
	if got := readAll(t, res); got != body {
		t.Errorf("got body %s, want %s", got, body)
	}
}

// covers: protocol/63 covers_all_that_is_unsettled, protocol/93 covers_all_that_is_unsettled, protocol/131 twice
// covers: protocol/132 covers_all_that_is_unsettled, protocol/133 of_an_idle_conversation
// covers: protocol/133 of_an_unknown_conversation
func TestAbort(t *testing.T) {
	t.Run("covers_all_that_is_unsettled", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.turn(c1)
		var queued []conversation.SubmissionID
		for range 2 {
			queued = append(queued, conversation.SubmissionID(decode[receipt](t, h.post("/c1", hello)).SubmissionID))
		}
		wantAbort(t, h.do("POST", "/c1/abort"), someAborted)
		var aborted []conversation.SubmissionID
		snap := decode[conversation.Snapshot](t, h.do("GET", "/c1"))
		for _, s := range snap.Settlements {
			if s.Outcome == conversation.OutcomeAborted {
				aborted = append(aborted, s.SubmissionID)
			}
		}
		if d := cmp.Diff(queued, aborted); d != "" || len(snap.Settlements) != 3 {
			t.Errorf("%s%+v", d, snap.Settlements)
		}
	})
	t.Run("of_an_idle_conversation", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.turn(c1)
		wantAbort(t, h.do("POST", "/c1/abort"), noneAborted)
	})
	t.Run("twice", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		wantAbort(t, h.do("POST", "/c1/abort"), someAborted)
		wantAbort(t, h.do("POST", "/c1/abort"), noneAborted)
	})
	t.Run("of_an_unknown_conversation", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		wantAbort(t, h.do("POST", "/other/abort"), noneAborted)
		wantStatus(t, h.do("HEAD", "/other"), http.StatusNotFound)
	})
	t.Run("of_an_encoded_id", func(t *testing.T) {
		h := newHarness(t, nil)
		wantStatus(t, h.post("/a%2Fabort", hello), http.StatusAccepted)
		wantAbort(t, h.do("POST", "/a%2fabort/abort"), someAborted)
	})
	t.Run("is_an_id_as_well", func(t *testing.T) {
		h := newHarness(t, nil)
		wantStatus(t, h.post("/abort", hello), http.StatusAccepted)
		wantAbort(t, h.do("POST", "/abort/abort"), someAborted)
	})
}

// TestAbortIgnoresTheRequest sends various queries, media types and bodies.
// covers: protocol/130
func TestAbortIgnoresTheRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		query, media string
		body         io.Reader
	}{
		"query":         {"?wait=1&view=bogus&offset=zz", "", nil},
		"media_type":    {"", "text/plain;;", strings.NewReader("x")},
		"no_media_type": {"", "", strings.NewReader("{")},
		"not_JSON":      {"", "application/json", strings.NewReader("{")},
		"not_readable":  {"", "application/json", iotest.ErrReader(errors.New("read"))},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.create()
			r := httptest.NewRequest("POST", "/agents/assistant/c1/abort"+tt.query, tt.body)
			if tt.media != "" {
				r.Header.Set("Content-Type", tt.media)
			}
			wantAbort(t, h.serve(r), someAborted)
		})
	}
}

// TestAbortReadsLittleOfABody sends endless bodies, with and without a length. The server responds and
// closes the connection.
// covers: protocol/130
func TestAbortReadsLittleOfABody(t *testing.T) {
	h := newHarness(t, nil)
	srv := httptest.NewServer(h.h)
	defer srv.Close()
	for name, framing := range map[string]string{
		"length": "Content-Length: 1000000000\r\n\r\n", "chunked": "Transfer-Encoding: chunked\r\n\r\n40000000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, h.post("/c1", hello), http.StatusAccepted)
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			sent := make(chan int, 1)
			go func() {
				n, piece := 0, []byte(strings.Repeat("x", 1<<10))
				_, err := io.WriteString(conn, "POST /agents/assistant/c1/abort HTTP/1.1\r\nHost: h\r\n"+framing)
				for err == nil && n < 512 {
					_, err = conn.Write(piece)
					n++
				}
				sent <- n
			}()
			head := make([]byte, len("HTTP/1.1 200 OK\r\n"))
			if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200 OK\r\n" {
				t.Errorf("got %q, %v", head, err)
			}
			<-sent
		})
	}
}

// TestAbortKeepsTheConnection sends a body small enough to be discarded.
func TestAbortKeepsTheConnection(t *testing.T) {
	srv := httptest.NewServer(newHarness(t, nil).h)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range 3 {
		if _, err := io.WriteString(conn, "POST /agents/assistant/c1/abort HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nignore me"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, res); got != noneAborted || res.Close {
			t.Errorf("got body %s, connection closed %t", got, res.Close)
		}
	}
}

// covers: protocol/135
func TestAbortRefused(t *testing.T) {
	for _, id := range []string{"", "%20", "%FF", strings.Repeat("a", 513)} {
		h := newHarness(t, nil)
		wantError(t, h.do("POST", "/"+id+"/abort"), 400, conversation.CodeInvalidRequest)
		if h.rt.calls != nil {
			t.Errorf("id %q: got runtime calls %v, want none", id, h.rt.calls)
		}
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
		h := newHarness(t, nil)
		h.create()
		res := h.do(method, "/%20/abort") // the method is checked first
		wantStatus(t, res, http.StatusMethodNotAllowed)
		if got := res.Header.Values("Allow"); len(got) != 1 || got[0] != "POST" {
			t.Errorf("%s: got Allow %q", method, got)
		}
		wantStatus(t, h.do(method, "/c1/abort"), http.StatusMethodNotAllowed)
		if got := h.rt.wrote(); len(got) != 1 {
			t.Errorf("%s: calls %v", method, got)
		}
	}
}

func TestAbortTree(t *testing.T) {
	h := newHarness(t, nil)
	h.create()
	ask := func(extent string) *http.Response {
		r := httptest.NewRequest("POST", "/agents/assistant/c1/abort", nil)
		r.Header.Set(parleyhttp.HeaderAbort, extent)
		return h.serve(r)
	}
	wantError(t, ask("all"), http.StatusBadRequest, conversation.CodeInvalidRequest)
	for _, want := range []string{
		`{"aborted":true,"conversations":2,"partOf":[{"root":{"agent":"desk","id":"1"},"submission":"sub_9"}]}`,
		`{"aborted":false,"conversations":2,"partOf":[{"root":{"agent":"desk","id":"1"},"submission":"sub_9"}]}`,
	} {
		res := ask(parleyhttp.AbortTree)
		if got := readAll(t, res); res.StatusCode != http.StatusOK || got != want {
			t.Errorf("POST abort of a tree: got %d %s, want 200 %s", res.StatusCode, got, want)
		}
	}
}
