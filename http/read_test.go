package http_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// wantHeaders compares the headers of the protocol; absent ones are "".
func wantHeaders(t *testing.T, res *http.Response, want map[string]string) {
	t.Helper()
	for _, name := range []string{
		"Content-Type", "Cache-Control", "Stream-Next-Offset", "Stream-Up-To-Date", "X-Content-Type-Options",
		"Cross-Origin-Resource-Policy", "ETag", "Last-Modified", "Location", "Retry-After",
		"Access-Control-Allow-Origin", "WWW-Authenticate",
	} {
		if got := res.Header.Get(name); got != want[name] {
			t.Errorf("%s is %q, want %q", name, got, want[name])
		}
	}
}

func jsonHeaders(next string, upToDate bool) map[string]string {
	h := map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "Stream-Next-Offset": next,
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin",
	}
	if upToDate {
		h["Stream-Up-To-Date"] = "true"
	}
	return h
}

// covers: protocol/57, protocol/59, protocol/96, protocol/101, protocol/154
func TestSnapshot(t *testing.T) {
	for _, query := range []string{"", "?view=history", "?view=history&view=bogus", "?x=y&wait=1"} {
		t.Run("answers"+query, func(t *testing.T) {
			h := newHarness(t, nil)
			h.create()
			h.turn(c1)
			res := h.do("GET", "/c1"+query)
			wantStatus(t, res, http.StatusOK)
			wantHeaders(t, res, jsonHeaders(offset(4), true))
			got := decode[conversation.Snapshot](t, res)
			if got.V != 1 || got.Offset != 4 || len(got.Messages) != 2 || len(got.Settlements) != 1 {
				t.Errorf("got snapshot %+v", got)
			}
		})
	}
	t.Run("missing_is_404", func(t *testing.T) {
		wantError(t, newHarness(t, nil).do("GET", "/c1"), 404, conversation.CodeStreamNotFound)
	})
}

func offset(n int) string { return conversation.Offset(n).String() }

// TestQuery has every rejected query. None of them reaches the reader.
// covers: protocol/97, protocol/98, protocol/99, protocol/100, protocol/102, protocol/104
func TestQuery(t *testing.T) {
	good := offset(0)
	for _, query := range []string{
		"view=", "view=bogus", "view=Updates", "view=bogus&view=history",
		"view=history&offset=-1", "view=history&tail", "view=history&live=sse", "offset=-1", "tail=1", "live=", "%6Fffset=-1",
		"view=updates", "view=updates&offset=", "view=updates&offset=-1&offset=-1", "view=updates&offset=now",
		"view=updates&offset=-2", "view=updates&offset=0", "view=updates&offset=7_3", "view=updates&offset=%zz",
		"view=updates&offset=" + good[1:], "view=updates&offset=0" + good, "view=updates&offset=1" + good[1:],
		"view=updates&offset=+" + good[1:], "view=updates&offset=" + good + "%20",
		"view=updates&offset=-1&tail=1", "view=updates&offset=-1&tail",
		"view=updates&offset=-1&live=", "view=updates&offset=-1&live=SSE", "view=updates&offset=-1&live=true",
		"view=updates&offset=-1&live=x&live=sse",
	} {
		t.Run(query, func(t *testing.T) {
			h := newHarness(t, nil)
			wantError(t, h.do("GET", "/c1?"+query), 400, conversation.CodeInvalidRequest)
			if h.rt.calls != nil {
				t.Errorf("got runtime calls %v", h.rt.calls)
			}
		})
	}
}

// covers: protocol/108, protocol/10 from_the_start_begins_with_a_reset, protocol/12 internal_batches_advance_the_offset
// covers: protocol/106 nothing_new_is_an_empty_array, protocol/109 nothing_new_is_an_empty_array
// covers: protocol/111 a_page_is_100_batches, protocol/114 from_the_start_begins_with_a_reset
func TestUpdates(t *testing.T) {
	t.Run("from_the_start_begins_with_a_reset", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		res := h.do("GET", "/c1?view=updates&offset=-1&cursor=x")
		wantStatus(t, res, http.StatusOK)
		wantHeaders(t, res, jsonHeaders(offset(0), true))
		got := decode[[]conversation.Chunk](t, res)
		if len(got) != 1 || got[0].Type != conversation.ChunkReset || len(got[0].Snapshot.Messages) != 1 {
			t.Errorf("got chunks %+v", got)
		}
	})
	t.Run("nothing_new_is_an_empty_array", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.rt.calls = nil
		res := h.do("GET", "/c1?view=updates&view=history&offset="+offset(0))
		wantHeaders(t, res, jsonHeaders(offset(0), true))
		if got := readAll(t, res); got != "[]" {
			t.Error(got)
		}
		// It did not wait.
		if d := cmp.Diff([]string{"Updates"}, h.rt.calls); d != "" {
			t.Error(d)
		}
	})
	t.Run("internal_batches_advance_the_offset", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.claims(c1, 2)
		res := h.do("GET", "/c1?view=updates&offset="+offset(0))
		wantHeaders(t, res, jsonHeaders(offset(2), true))
		if got := readAll(t, res); got != "[]" {
			t.Error(got)
		}
	})
	t.Run("a_page_is_100_batches", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.claims(c1, 100)
		wantHeaders(t, h.do("GET", "/c1?view=updates&offset="+offset(0)), jsonHeaders(offset(100), true))
		h.claims(c1, 1)
		wantHeaders(t, h.do("GET", "/c1?view=updates&offset="+offset(0)), jsonHeaders(offset(100), false))
		wantHeaders(t, h.do("GET", "/c1?view=updates&offset="+offset(100)), jsonHeaders(offset(101), true))
	})
}

// covers: protocol/10, protocol/13, protocol/127, protocol/11 resuming_at_every_offset_loses_and_repeats_nothing
func TestUpdatesResume(t *testing.T) {
	t.Run("resuming_at_every_offset_loses_and_repeats_nothing", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.turn(c1)
		var got []string
		for n := -1; n < 4; n++ {
			for _, c := range decode[[]conversation.Chunk](t, h.do("GET", "/c1?view=updates&offset="+offset(n))) {
				if int(c.Position.Batch) == n+1 {
					got = append(got, fmt.Sprint(c.Type, c.Position))
				}
			}
		}
		var want []string
		for _, c := range decode[[]conversation.Chunk](t, h.do("GET", "/c1?view=updates&offset=-1")) {
			want = append(want, fmt.Sprint(c.Type, c.Position))
		}
		if d := cmp.Diff(want, got); d != "" || len(want) != 5 {
			t.Errorf("%d chunks: %s", len(want), d)
		}
	})
	t.Run("the_page_goes_out_as_it_is", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.turn(c1)
		page, err := h.rt.Updates(t.Context(), c1, -1, 100)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, h.do("GET", "/c1?view=updates&offset=-1")); got != string(page.JSON) || !strings.Contains(got, "<b>") {
			t.Errorf("got %s", got)
		}
	})
}

// covers: protocol/16 beyond_the_head_is_500
func TestUpdatesRefused(t *testing.T) {
	t.Run("beyond_the_head_is_500", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
			e := wantError(t, h.do("GET", "/c1?view=updates&offset="+offset(1)+live), 500, conversation.CodeStreamStoreFailure)
			if e.Ref == "" {
				t.Error("no ref")
			}
		}
	})
	t.Run("missing_is_404", func(t *testing.T) {
		for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
			res := newHarness(t, nil).do("GET", "/c1?view=updates&offset=-1"+live)
			wantError(t, res, 404, conversation.CodeStreamNotFound)
		}
	})
}

// covers: protocol/59 has_the_head_and_no_body, protocol/128 has_the_head_and_no_body
// covers: protocol/129 missing_is_404_without_body
func TestHead(t *testing.T) {
	t.Run("has_the_head_and_no_body", func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		h.claims(c1, 3)
		for _, query := range []string{"", "?view=bogus&offset=zz&tail&live=x&wait"} {
			res := h.do("HEAD", "/c1"+query)
			wantStatus(t, res, http.StatusOK)
			wantHeaders(t, res, jsonHeaders(offset(3), true))
			if got := readAll(t, res); got != "" {
				t.Errorf("got body %q", got)
			}
		}
	})
	t.Run("missing_is_404_without_body", func(t *testing.T) {
		res := newHarness(t, nil).do("HEAD", "/c1")
		wantStatus(t, res, http.StatusNotFound)
		want := jsonHeaders("", false)
		wantHeaders(t, res, want)
		if got := readAll(t, res); got != "" {
			t.Errorf("got body %q", got)
		}
	})
}

// covers: protocol/60
func TestSnapshotResumes(t *testing.T) {
	h := newHarness(t, nil)
	h.create()
	var snap struct{ Offset string }
	if err := json.Unmarshal([]byte(readAll(t, h.do("GET", "/c1"))), &snap); err != nil {
		t.Fatal(err)
	}
	h.turn(c1)
	got := decode[[]conversation.Chunk](t, h.do("GET", "/c1?view=updates&offset="+snap.Offset))
	if len(got) != 4 || got[0].Type != conversation.ChunkStarted || got[3].Type != conversation.ChunkSettled {
		t.Errorf("got chunks %+v", got)
	}
}

// get sends a request to a server for a path below the first mount.
func (h *harness) get(t *testing.T, path string) *http.Response {
	t.Helper()
	srv := httptest.NewServer(h.h)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	res, err := srv.Client().Get(srv.URL + "/agents/assistant" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// TestLongPage checks that a page written in pieces equals the whole, and that a client detects a
// truncated one.
func TestLongPage(t *testing.T) {
	pieces := []string{`{"v":1,`, `"messages":[`, strings.Repeat(" ", 100_000), `]}`}
	long := func(fail error) conversation.Page {
		return conversation.Page{Next: 0, UpToDate: true, Long: func(_ context.Context, w io.Writer) error {
			for _, p := range pieces {
				if _, err := io.WriteString(w, p); err != nil {
					return err
				}
			}
			return fail
		}}
	}
	want := strings.Join(pieces, "")
	for _, c := range []struct{ name, query, body string }{
		{"snapshot", "", want},
		{"updates", "?view=updates&offset=-1", want},
		{"long_poll", "?view=updates&offset=-1&live=long-poll", want},
		{"sse", "?view=updates&offset=-1&live=sse", "event: data\ndata:" + want + "\n\nevent: control\n" +
			`data:{"streamNextOffset":"` + offset(0) + `","upToDate":true}` + "\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.create()
			h.rt.long = func() conversation.Page { return long(nil) }
			res := h.get(t, "/c1"+c.query)
			if res.ContentLength >= 0 {
				t.Errorf("got Content-Length %d", res.ContentLength)
			}
			got := make([]byte, len(c.body))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != c.body {
				t.Errorf("read %d bytes, %v: %.200q, want %.200q", len(got), err, got, c.body)
			}
		})
		t.Run(c.name+"_refused", func(t *testing.T) {
			h := newHarness(t, nil)
			h.create()
			h.rt.long = func() conversation.Page {
				return conversation.Page{UpToDate: true, Long: func(context.Context, io.Writer) error {
					return conversation.Unavailable(3*time.Second, io.ErrNoProgress)
				}}
			}
			res := h.get(t, "/c1"+c.query)
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != 503 || res.Header.Get("Retry-After") != "3" || !bytes.Contains(body, []byte(`"runtime_unavailable"`)) {
				t.Errorf("%d, %v: %s, %v", res.StatusCode, res.Header, body, err)
			}
			if res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Stream-Next-Offset") != "" {
				t.Errorf("error has the headers of a page: %v", res.Header)
			}
		})
		t.Run(c.name+"_breaks_off", func(t *testing.T) {
			h := newHarness(t, nil)
			h.create()
			h.rt.long = func() conversation.Page { return long(conversation.Unavailable(time.Second, io.ErrNoProgress)) }
			res := h.get(t, "/c1"+c.query)
			got, err := io.ReadAll(res.Body)
			if bytes.Contains(got, []byte("control")) || err == nil && c.name != "sse" {
				t.Errorf("got error %v after %d bytes of a truncated page", err, len(got))
			}
		})
	}
}

// TestStreamWaitsForRoom checks that a running event stream waits for room for a long page instead of
// ending.
func TestStreamWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		refusals := 0
		set := func(long func() conversation.Page) {
			h.rt.mu.Lock()
			defer h.rt.mu.Unlock()
			h.rt.long = long
		}
		set(func() conversation.Page {
			return conversation.Page{Next: 1, UpToDate: true, Long: func(_ context.Context, w io.Writer) error {
				if refusals++; refusals <= 20 {
					return conversation.Unavailable(2*time.Second, io.ErrNoProgress)
				}
				set(nil)
				_, err := io.WriteString(w, `["long"]`)
				return err
			}}
		})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/agents/assistant/c1?view=updates&live=sse&offset="+offset(0), nil))
		}()
		time.Sleep(time.Second)
		h.claims(c1, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		leave()
		<-done
		got := w.Body.String()
		if n := strings.Count(got, `data:["long"]`); w.Code != 200 || n != 1 || refusals != 21 || strings.Count(got, "heartbeat") < 2 {
			t.Errorf("got status %d, the page %d times, after %d rejected reads: %s", w.Code, n, refusals, got)
		}
	})
}
