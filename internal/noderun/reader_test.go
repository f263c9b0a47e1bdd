package noderun_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

// liveness bounds a wait for a required event. Only failing tests reach it.
const liveness = time.Minute

func serve(t *testing.T, status int, offset, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Stream-Next-Offset", offset)
		if status == http.StatusServiceUnavailable && offset != "" {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func offset(n int) string { return conversation.Offset(n).String() }

func TestDo(t *testing.T) {
	c := noderun.NewClient(liveness)
	defer c.Close()
	for status, want := range map[int]struct{ broken, missing bool }{
		200: {}, 202: {}, 404: {true, true}, 409: {true, false}, 500: {true, false},
	} {
		answer, header, err := c.Do(t.Context(), http.MethodPost, serve(t, status, offset(1), "text"), nil)
		if noderun.Broken(err) != want.broken || noderun.Missing(err) != want.missing || (err != nil) != want.broken {
			t.Errorf("status %d: %v", status, err)
		}
		if err == nil && (string(answer) != "text" || header.Get("Stream-Next-Offset") != offset(1)) {
			t.Errorf("status %d: answer %s, %v", status, answer, header)
		}
	}
	if _, _, err := c.Do(t.Context(), http.MethodGet, serve(t, 503, offset(1), ""), nil); !errors.Is(err, noderun.ErrBusy) || noderun.Broken(err) {
		t.Errorf("503 with Retry-After: %v", err)
	}
	if _, _, err := c.Do(t.Context(), http.MethodGet, serve(t, 503, "", ""), nil); !noderun.Broken(err) {
		t.Errorf("503 without Retry-After: %v", err)
	}
	if _, _, err := c.Do(t.Context(), http.MethodGet, "http://127.0.0.1:0", nil); err == nil || noderun.Broken(err) {
		t.Errorf("no listener: %v", err)
	}
}

func TestHeadersAgree(t *testing.T) {
	header := http.Header{"Stream-Next-Offset": {offset(5)}}
	for at, broken := range map[int]bool{5: false, 9: true} {
		body := fmt.Appendf(nil, `{"v":1,"offset":%q,"submissionId":"sub_1","uid":"inst_1","messages":[]}`, offset(at))
		if r, err := noderun.ReadReceipt(body, header); noderun.Broken(err) != broken || r.Offset != conversation.Offset(at) {
			t.Errorf("receipt at %d: %+v, %v", at, r, err)
		}
		if s, err := noderun.ReadSnapshot(body, header); noderun.Broken(err) != broken || (s != nil) == broken {
			t.Errorf("snapshot at %d: %+v, %v", at, s, err)
		}
	}
}

func chunk(batch, index int, text string) string {
	return fmt.Sprintf(`{"type":"message-delta","messageId":"m","kind":"text","delta":%q,"position":{"batch":%d,"index":%d}}`, text, batch, index)
}

func data(chunks ...string) string {
	return "event: data\ndata:[" + strings.Join(chunks, ",") + "]\n\n"
}

func control(n int) string {
	return "event: control\ndata:{\"streamNextOffset\":\"" + offset(n) + "\"}\n\n"
}

func TestReader(t *testing.T) {
	one, two, three := chunk(5, 0, "a"), chunk(5, 1, "b"), chunk(9, 0, "c")
	for name, c := range map[string]struct {
		frames []string
		seen   int
		want   string
	}{
		"in order":                        {[]string{data(one, two), control(5), ": heartbeat\n\n", data(three), control(9)}, 3, ""},
		"some chunks again":               {[]string{data(one), data(one, two), data(two, three), control(9)}, 3, ""},
		"half a frame does not count":     {[]string{data(one), "event: data\ndata:[" + two + "]\n"}, 1, ""},
		"a chunk was missing":             {[]string{data(one, three), data(two)}, 2, "was missing before"},
		"a chunk differs":                 {[]string{data(one), data(chunk(5, 0, "x"))}, 1, "repeated with another value"},
		"twice in a frame":                {[]string{data(one, one)}, 0, "comes after"},
		"in another order":                {[]string{data(two, one)}, 0, "comes after"},
		"a chunk before the offset":       {[]string{data(chunk(2, 0, "a"))}, 0, "comes after"},
		"an offset goes back":             {[]string{control(9), control(5)}, 0, "comes after"},
		"a chunk beyond its offset":       {[]string{data(three), control(5)}, 1, "comes after"},
		"no offset":                       {[]string{"event: control\ndata:{}\n\n"}, 0, "offset"},
		"no chunks":                       {[]string{"event: data\ndata:{}\n\n"}, 0, "chunks"},
		"an unknown event":                {[]string{"event: bye\ndata:{}\n\n"}, 0, "event"},
		"a chunk that its caller rejects": {[]string{data(one, chunk(5, 1, "bad"), three)}, 2, "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := ""
			r := noderun.NewReader(noderun.NewClient(liveness), 2, func(c noderun.Chunk) error {
				if fresh += c.Delta; c.Delta == "bad" {
					return noderun.Breach("it is bad")
				}
				return nil
			})
			err := r.Stream(t.Context(), serve(t, 200, "", strings.Join(c.frames, "")))
			if err == nil || noderun.Broken(err) != (c.want != "") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want a violation with %q", err, c.want)
			}
			s := r.Sight("reader")
			if len(s.Chunks) != c.seen || s.From != 2 || s.To != r.At() {
				t.Errorf("got %d chunks from %s to %s, want %d", len(s.Chunks), s.From, s.To, c.seen)
			}
			if c.seen == 3 && (fresh != "abc" || s.To != 9 || s.Marks[len(s.Marks)-1].Offset != 9) {
				t.Errorf("got %q, to %s with the marks %v", fresh, s.To, s.Marks)
			}
		})
	}
}

func TestPoll(t *testing.T) {
	var asked []string
	answers := []string{"[" + chunk(3, 0, "a") + "]", "[]", "[" + chunk(5, 0, "b") + "]"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked = append(asked, q.FormValue("live")+" "+q.FormValue("offset"))
		if n := len(asked); n <= len(answers) {
			w.Header().Set("Stream-Next-Offset", offset(2+n))
			fmt.Fprint(w, answers[n-1])
			return
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	defer s.Close()
	r := noderun.NewReader(noderun.NewClient(liveness), 2, nil)
	if err := r.Poll(t.Context(), s.URL); !noderun.Broken(err) {
		t.Errorf("Poll: %v", err)
	}
	if err := r.Stream(t.Context(), serve(t, 200, "", data(chunk(6, 0, "c"))+data(chunk(6, 0, "c"))+control(6))); noderun.Broken(err) {
		t.Error(err)
	}
	want := fmt.Sprint([]string{"long-poll " + offset(2), "long-poll " + offset(3), "long-poll " + offset(4), "long-poll " + offset(5)})
	if s := r.Sight(""); fmt.Sprint(asked) != want || len(s.Chunks) != 3 || s.Resumed != 1 || s.Repeated != 1 || len(s.Marks) != 4 {
		t.Errorf("requests %v, want %v; got %+v", asked, want, s)
	}
}
