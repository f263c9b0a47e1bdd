package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

// chunk is the JSON of a chunk of a batch.
func chunk(batch int) string {
	return fmt.Sprintf(`{"type":"message-delta","conversationId":"conv_1","messageId":"msg_1","kind":"text","delta":"%d ","position":{"batch":%d,"index":0}}`, batch, batch)
}

func data(batches ...int) string {
	var list []string
	for _, b := range batches {
		list = append(list, chunk(b))
	}
	return "event: data\ndata:[" + strings.Join(list, ",") + "]\n\n"
}

func control(next int) string {
	return fmt.Sprintf("event: control\ndata:{\"streamNextOffset\":%q,\"upToDate\":true}\n\n", conversation.Offset(next))
}

// fake is a server in a synctest bubble. Connections are scripted one by one.
type fake struct {
	t        *testing.T
	began    time.Time
	after    conversation.Offset
	requests []string // live mode, offset and second of each
	updates  []client.Update
	answer   func(n int, live, offset string) ([]step, error)
	decorate func(n int, live string, resp *http.Response)
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	live, offset := q.Get("live"), q.Get("offset")
	n := len(f.requests)
	f.requests = append(f.requests, fmt.Sprintf("%s %d %ds", live, must(conversation.ParseOffset(offset)), int(time.Since(f.began).Seconds())))
	steps, end := f.answer(n, live, offset)
	resp := reply(r, 200, "")
	resp.Body, resp.ContentLength = &script{ctx: r.Context(), steps: steps, end: end}, -1
	if live == "sse" {
		resp.Header.Set("Content-Type", "text/event-stream")
	} else {
		resp.Header.Set("Stream-Next-Offset", offset)
	}
	if f.decorate != nil {
		f.decorate(n, live, resp)
	}
	return resp, nil
}

// observe follows a fake server for a time, and returns the received text.
func (f *fake) observe(d time.Duration, o *client.Options) (text string, last error) {
	var opts client.Options
	if o != nil {
		opts = *o
	}
	f.began = time.Now()
	opts.HTTPClient = &http.Client{Transport: f}
	c := open(f.t, "http://h/a/x", &opts)
	ctx, cancel := contextFor(f.t, d)
	defer cancel()
	for u, err := range c.Observe(ctx, f.after, nil) {
		if last = err; err == nil {
			f.updates = append(f.updates, u)
		}
	}
	for _, u := range f.updates { // earlier updates must not change
		for _, c := range u.Chunks {
			text += c.Delta
		}
	}
	return text, last
}

func (f *fake) wantRequests(want ...string) {
	f.t.Helper()
	if got := strings.Join(f.requests, ", "); got != strings.Join(want, ", ") {
		f.t.Errorf("got requests %s, want %s", got, strings.Join(want, ", "))
	}
}

// TestSilentStream checks that heartbeats keep a stream alive. After 40 s of silence it is replaced,
// from the last offset.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answer: func(n int, _, _ string) ([]step, error) {
			if n > 0 {
				return []step{{0, data(2, 3) + control(3)}}, nil
			}
			steps := []step{{0, data(1) + control(1)}}
			for range 8 {
				steps = append(steps, step{15 * time.Second, ": heartbeat\n\n"})
			}
			return append(steps, step{0, data(2)}), nil // its control event never arrives
		}}
		text, err := f.observe(170*time.Second, nil)
		if text != "1 2 3 " || !errors.Is(err, contextEnd) {
			t.Errorf("got %q, %v", text, err)
		}
		f.wantRequests("sse 0 0s", "sse 1 160s")
	})
}

// TestSlowCallerIsNotSilence checks that a caller that is slow between two iterations keeps its
// connection.
func TestSlowCallerIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, began: time.Now(), answer: func(int, string, string) ([]step, error) {
			return []step{{0, data(1) + control(1)}, {0, data(2) + control(2)}}, nil
		}}
		c := open(t, "http://h/a/x", &client.Options{HTTPClient: &http.Client{Transport: f}})
		for u, err := range c.Observe(t.Context(), 0, nil) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if u.Next == 2 {
				break
			}
		}
		f.wantRequests("sse 0 0s")
	})
}

// TestFallBackToLongPoll checks that long-polls replace event streams that do not get through, twice
// as long each time.
func TestFallBackToLongPoll(t *testing.T) {
	poll := []step{{30 * time.Second, "[]"}}
	for name, tt := range map[string]struct {
		stream   func() ([]step, error)
		decorate func(n int, live string, resp *http.Response)
		want     string // the first requests
	}{
		"not an event stream": {
			func() ([]step, error) { return []step{{0, "[]"}}, io.EOF },
			func(_ int, _ string, resp *http.Response) { resp.Header.Set("Content-Type", "application/json") },
			"sse 0 0s, long-poll 0 0s, long-poll 0 30s",
		},
		"held back": {
			func() ([]step, error) { return nil, nil }, nil,
			"sse 0 0s, long-poll 0 20s, long-poll 0 50s",
		},
		"cut at once": {
			func() ([]step, error) { return nil, io.ErrUnexpectedEOF }, nil,
			"sse 0 0s, sse 0 0s, sse 0 0s, long-poll 0 0s, long-poll 0 30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{t: t, decorate: tt.decorate, answer: func(_ int, live, _ string) ([]step, error) {
					if live == "sse" {
						return tt.stream()
					}
					return poll, io.EOF
				}}
				if _, err := f.observe(20*time.Minute, nil); !errors.Is(err, contextEnd) {
					t.Error(err)
				}
				all := strings.Join(f.requests, ", ")
				if !strings.HasPrefix(all, tt.want+",") {
					t.Errorf("got requests %.200s, want %s", all, tt.want)
				}
				// 5 min, then 10 min: three groups of event streams.
				groups := 0
				for i, r := range f.requests {
					if strings.HasPrefix(r, "sse") && (i == 0 || !strings.HasPrefix(f.requests[i-1], "sse")) {
						groups++
					}
				}
				if groups != 3 {
					t.Errorf("got %d attempts of event streams: %s", groups, all)
				}
			})
		})
	}
}

// TestLongPollThatIsNotHeld checks that the client backs off.
func TestLongPollThatIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answer: func(int, string, string) ([]step, error) { return []step{{0, "[]"}}, io.EOF }}
		_, _ = f.observe(time.Minute, &client.Options{Live: client.LiveLongPoll, FirstPause: 200 * time.Millisecond, LastPause: 5 * time.Second})
		if n := len(f.requests); n > 50 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}

// TestDuplicatesAreDropped checks that repeated chunks are dropped.
func TestDuplicatesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answer: func(int, string, string) ([]step, error) {
			return []step{
				{0, data(0, 1, 2) + control(2)}, {0, data(1, 2, 3) + control(3)}, {0, control(3)},
				{0, "event: data\ndata:[{\"type\":\"stream-checkpoint\",\"incarnation\":\"inc_1\"}]\n\n" + control(3)},
				{0, "event: surprise\ndata:{}\n\n" + data(3) + data(4) + control(4)},
			}, nil
		}}
		if text, _ := f.observe(time.Second, nil); text != "1 2 3 4 " || len(f.updates) != 3 {
			t.Errorf("got %q in %d updates", text, len(f.updates))
		}
	})
}

// TestOffsetIsTheServers checks that a read never goes back behind the server's offset, and that older
// chunks are dropped.
func TestOffsetIsTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, after: conversation.Start, answer: func(n int, _, _ string) ([]step, error) {
			return []step{
				{0, "event: data\ndata:[{\"type\":\"stream-checkpoint\",\"incarnation\":\"inc_1\"}]\n\n"},
				{0, data(0) + control(0)}, {0, control(9)}, {0, data(7, 10) + control(10)}, {2 * time.Second, ""},
			}[min(n, 1)*4:], io.EOF
		}}
		if text, _ := f.observe(3*time.Second, nil); text != "0 10 " || len(f.updates) != 3 {
			t.Errorf("got %q in %d updates", text, len(f.updates))
		}
		f.wantRequests("sse -1 0s", "sse 10 2s")
	})
}

// TestShortStreamsNowAndThen checks that occasional short streams do not cause a fallback.
func TestShortStreamsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answer: func(n int, _, _ string) ([]step, error) {
			if n%3 == 2 {
				return []step{{2 * time.Second, control(0)}}, io.EOF
			}
			return nil, io.EOF
		}}
		_, _ = f.observe(time.Minute, nil)
		if all := strings.Join(f.requests, ", "); strings.Contains(all, "poll") || len(f.requests) < 30 {
			t.Errorf("got requests %s", all)
		}
	})
}

// TestIllServer checks that invalid responses end an observation after several in a row. An
// unreachable server never ends it.
func TestIllServer(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		ends   bool
	}{
		"internal error":   {500, envelope(conversation.CodeInternal), true},
		"malformed chunks": {200, "event: data\ndata:{}\n\n" + control(9), true},
		"no position back": {200, control(-1), true},
		"no offset":        {200, "event: control\ndata:{}\n\n", true},
		"a stray CR":       {200, "event: da\rta\n\n", true},
		"unavailable":      {503, envelope(conversation.CodeUnavailable), false},
		"bad gateway":      {502, "<html>", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{t: t, answer: func(int, string, string) ([]step, error) { return []step{{1500 * time.Millisecond, tt.body}}, io.EOF }}
				f.decorate = func(_ int, _ string, resp *http.Response) { resp.StatusCode = tt.status }
				retries := 0
				_, err := f.observe(time.Hour, &client.Options{Tries: 5, Retrying: func(error) { retries++ }})
				if ended := !errors.Is(err, contextEnd); ended != tt.ends {
					t.Errorf("got error %v", err)
				}
				if tt.ends && (len(f.requests) != 5 || retries != 4) || !tt.ends && len(f.requests) < 1000 {
					t.Errorf("got %d requests, %d Retrying calls: %v", len(f.requests), retries, err)
				}
			})
		})
	}
}

func TestTooLarge(t *testing.T) {
	for _, live := range []client.Live{client.LiveSSE, client.LiveLongPoll} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{t: t, answer: func(int, string, string) ([]step, error) {
				return []step{{0, "event: data\ndata:[" + strings.Repeat(" ", 3000)}}, io.EOF
			}}
			_, err := f.observe(time.Hour, &client.Options{Live: live, MaxAnswerBytes: 2000})
			if err == nil || !strings.Contains(err.Error(), "larger than 2000 bytes") || len(f.requests) != 1 {
				t.Errorf("%d requests: %v", len(f.requests), err)
			}
		})
	}
}
