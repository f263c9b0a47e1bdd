package actors_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/storage/storagetest"
)

// TestOutageIsLoggedOnce: six clients post and read while the bucket is unavailable for 30 s. The log
// has one line at the begin, and one with the duration and the count at the end.
func TestOutageIsLoggedOnce(t *testing.T) {
	for name, kind := range map[string]storagetest.Kind{"error": storagetest.ErrorBefore, "lost answer": storagetest.ErrorAfter, "timeout": storagetest.Timeout} {
		for _, shared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, shared %t", name, shared), func(t *testing.T) {
				inLoop(t, func(t *testing.T, l *loop) {
					p := part{opts: agents(chatAgent()), vendor: onlyModel(emits(3))}
					if l.fleet.Members = shared; shared {
						p.over = storagetest.Shared
					}
					n := l.run(p)
					end := clientsOf(t, n, 6)
					time.Sleep(10 * time.Second)
					n.log.Take()
					n.fault.Store(int32(kind))
					time.Sleep(30 * time.Second)
					n.fault.Store(0)
					time.Sleep(time.Minute)
					end()
					lines := n.log.Take()
					if got := strings.Count(lines, "\n"); got != 2 {
						t.Fatalf("got %d lines, want 2:\n%s", got, lines)
					}
					for i, want := range []string{`level=WARN msg="bucket outage began" operation=`, `level=INFO msg="bucket outage ended" duration=`} {
						if got := strings.Split(lines, "\n")[i]; !strings.Contains(got, want) || i == 1 && strings.Contains(got, "suppressed=0") {
							t.Errorf("line %d: got %s, want %s", i+1, got, want)
						}
					}
				})
			})
		}
	}
}

// clientsOf runs clients that post and read, each in its own conversation, until the returned function
// is called. Their handler logs to the log of the node.
func clientsOf(t *testing.T, n *actorNode, count int) (end func()) {
	h, err := parleyhttp.New(n.rt, n.rt.Reader(), []parleyhttp.Mount{{Path: "/chat", Agent: "chat"}}, &parleyhttp.Options{Logger: n.logger})
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	var wg sync.WaitGroup
	for c := range count {
		wg.Go(func() {
			for i := 0; !ended.Load(); i++ {
				body := strings.NewReader(fmt.Sprintf(`{"kind":"user","body":"hi","idempotencyKey":"%d-%d"}`, c, i))
				post := httptest.NewRequest(http.MethodPost, fmt.Sprintf("/chat/c%d", c), body)
				post.Header.Set("Content-Type", "application/json")
				read := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/chat/c%d?offset=-1", c), nil)
				for _, r := range []*http.Request{post, read} {
					h.ServeHTTP(httptest.NewRecorder(), r)
					time.Sleep(time.Second)
				}
			}
		})
	}
	return func() {
		ended.Store(true)
		wg.Wait()
	}
}
