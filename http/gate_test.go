package http_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// large is a body that is spooled to a file in these tests, and calls Precheck.
var large = withAttachments("", pngJSON)

// queue is a harness whose runtime holds large bodies until next is called.
type queue struct {
	*harness
	asked  chan struct{} // a large body has passed the gate
	decide chan error
	logs   lines
	done   chan answered
}

type lines struct {
	mu  sync.Mutex
	all []string
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) written() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// answered is a finished request; res is nil if its connection was aborted.
type answered struct {
	id  string
	res *http.Response
}

// newQueue returns a queue whose gate admits room bytes.
func newQueue(t *testing.T, room int) *queue {
	q := &queue{asked: make(chan struct{}, 16), decide: make(chan error), done: make(chan answered)}
	q.harness = newHarness(t, func(o *parleyhttp.Options) {
		o.MemoryBytes, o.InFlightBytes = 64, int64(room)
		o.Logger = slog.New(slog.NewTextHandler(&q.logs, nil))
	})
	q.rt.fail = func(method string) error {
		if method != "Precheck" {
			return nil
		}
		q.asked <- struct{}{}
		return <-q.decide
	}
	return q
}

// start posts a body to the conversation id and returns once the request waits.
func (q *queue) start(ctx context.Context, id string, body io.Reader) {
	r := newPost("/"+id, body).WithContext(ctx)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				q.done <- answered{id: id}
			}
		}()
		q.done <- answered{id, q.serve(r)}
	}()
	synctest.Wait()
}

// next releases one large body and returns the finished request.
func (q *queue) next(verdict error) answered {
	q.decide <- verdict
	return <-q.done
}

// behind counts the large bodies that have passed the gate.
func (q *queue) behind() int {
	synctest.Wait()
	return len(q.asked)
}

func TestGateBoundsLargeBodies(t *testing.T) {
	for _, tt := range []struct {
		name string
		room int
		want int
	}{
		{"narrower than a body", 1, 1},
		{"nearly two", 2*len(large) - 1, 1},
		{"three", 3 * len(large), 3},
		{"all", 6 * len(large), 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, tt.room)
				const requests = 6
				for i := range requests {
					q.start(t.Context(), fmt.Sprint(i), strings.NewReader(large))
				}
				for i := range requests {
					if got, want := q.behind(), min(tt.want+i, requests); got != want {
						t.Errorf("got %d large bodies past the gate after %d requests, want %d", got, i, want)
					}
					wantStatus(t, q.next(nil).res, 202)
				}
				if got := q.leftovers(); got != nil {
					t.Errorf("got leftovers %v", got)
				}
			})
		})
	}
}

func TestGateKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, len(large))
		want := []string{"a", "b", "c", "d", "e"}
		for _, id := range want {
			q.start(t.Context(), id, strings.NewReader(large))
		}
		var got []string
		for range want {
			a := q.next(nil)
			wantStatus(t, a.res, 202)
			got = append(got, a.id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got order %v, want %v", got, want)
		}
	})
}

// TestGateIsForLargeBodies checks that small bodies and reads pass a full gate.
func TestGateIsForLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, len(large))
		q.start(t.Context(), "a", strings.NewReader(large))
		q.start(t.Context(), "b", strings.NewReader(large))
		wantStatus(t, q.post("/c1", hello), 202)
		wantStatus(t, q.do(http.MethodGet, "/c1"), 200)
		for range 2 {
			wantStatus(t, q.next(nil).res, 202)
		}
	})
}

// TestGateIsBehindTheUpload checks that a slow upload does not block others.
func TestGateIsBehindTheUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, len(large))
		body, slow := io.Pipe()
		q.start(t.Context(), "slow", body)
		if _, err := io.WriteString(slow, large[:100]); err != nil {
			t.Fatal(err)
		}
		q.start(t.Context(), "quick", strings.NewReader(large))
		if a := q.next(nil); a.id != "quick" || a.res.StatusCode != 202 {
			t.Errorf("%s: finished with %v", a.id, a.res)
		}
		if _, err := io.WriteString(slow, large[100:]); err != nil {
			t.Fatal(err)
		}
		slow.Close()
		wantStatus(t, q.next(nil).res, 202)
	})
}

// TestGateIsLeft checks the release after each end of a request.
func TestGateIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, len(large))
		over := func(body string, status int) {
			t.Helper()
			q.start(t.Context(), "c", strings.NewReader(body))
			a := <-q.done
			wantStatus(t, a.res, status)
		}
		over(large[:len(large)-1], 400)
		over(strings.Replace(large, `"user"`, `"nobody"`, 1), 400)
		q.start(t.Context(), "c", strings.NewReader(large))
		wantStatus(t, q.next(conversation.Unavailable(time.Second, nil)).res, 503)

		fail := q.rt.fail
		q.rt.fail = func(string) error { panic("the runtime is broken") }
		over(large, 500)
		q.rt.fail = fail
		q.start(t.Context(), "c", strings.NewReader(large))
		wantStatus(t, q.next(nil).res, 202)
	})
}

// TestGateTimeout covers a client that leaves or times out in the queue: it has staged nothing, and
// the next one moves up.
func TestGateTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, len(large))
		q.start(t.Context(), "first", strings.NewReader(large))
		leaving, leave := context.WithCancel(t.Context())
		q.start(leaving, "leaving", strings.NewReader(large))
		hurried, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q.start(hurried, "hurried", strings.NewReader(large))
		q.start(t.Context(), "last", strings.NewReader(large))

		leave()
		if a := <-q.done; a.id != "leaving" || a.res != nil {
			t.Errorf("%s: finished with %v, want leaving aborted", a.id, a.res)
		}
		if got := q.logs.written(); got != nil {
			t.Errorf("got log %q for a client that left", got)
		}
		a := <-q.done
		if a.id != "hurried" {
			t.Fatalf("got %s finished, want hurried", a.id)
		}
		wantError(t, a.res, 503, conversation.CodeUnavailable)
		if after := a.res.Header.Get("Retry-After"); after != "5" {
			t.Errorf("got Retry-After %q", after)
		}
		if got, n := q.rt.wrote(), q.behind(); got != nil || n != 1 {
			t.Errorf("got writes %v, %d bodies past the gate", got, n)
		}
		for _, id := range []string{"first", "last"} {
			if a := q.next(nil); a.id != id || a.res.StatusCode != 202 {
				t.Errorf("%s: finished with %v, want %s", a.id, a.res, id)
			}
		}
		if got := q.leftovers(); got != nil {
			t.Errorf("got leftovers %v", got)
		}
	})
}

// TestClientLeavesTheGate uses a real connection, whose end the server has to detect while the request
// waits.
func TestClientLeavesTheGate(t *testing.T) {
	q := newQueue(t, len(large))
	arrived, over := make(chan struct{}, 2), make(chan bool, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			over <- v == http.ErrAbortHandler
			if v != nil {
				panic(v)
			}
		}()
		r.Body = &announced{r.Body, arrived}
		q.h.ServeHTTP(w, r)
	}))
	defer server.Close()
	post := func(ctx context.Context, id string) <-chan error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/agents/assistant/"+id, strings.NewReader(large))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer := make(chan error, 1)
		go func() {
			res, err := server.Client().Do(r)
			if err == nil {
				err = res.Body.Close()
			}
			answer <- err
		}()
		return answer
	}
	first := post(t.Context(), "first")
	<-arrived
	<-q.asked
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	leaving := post(ctx, "leaving")
	<-arrived
	leave()
	if err := <-leaving; err == nil {
		t.Error("second request got a response")
	}
	if aborted := <-over; !aborted {
		t.Error("connection was not aborted")
	}
	close(q.decide)
	if err := <-first; err != nil {
		t.Error(err)
	}
	<-over
	if got, want := q.rt.wrote(), []string{"Stage", "Admit"}; !slices.Equal(got, want) {
		t.Errorf("got writes %v, want %v", got, want)
	}
}

// announced is a body that signals when it was read to its end.
type announced struct {
	io.ReadCloser
	end chan<- struct{}
}

// Read implements io.Reader.
func (a *announced) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF {
		a.end <- struct{}{}
	}
	return n, err
}
