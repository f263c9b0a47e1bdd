package http_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// marking records which reads of updates are marked as tailing.
type marking struct {
	*fakeRuntime
	mu    sync.Mutex
	reads []string
}

func (m *marking) note(ctx context.Context, method string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if conversation.IsTailing(ctx) {
		method += " tailing"
	}
	m.reads = append(m.reads, method)
}

func (m *marking) Head(ctx context.Context, at conversation.Address) (conversation.Offset, error) {
	m.note(ctx, "Head")
	return m.fakeRuntime.Head(ctx, at)
}

func (m *marking) Snapshot(ctx context.Context, at conversation.Address) (conversation.Page, error) {
	m.note(ctx, "Snapshot")
	return m.fakeRuntime.Snapshot(ctx, at)
}

func (m *marking) Updates(ctx context.Context, at conversation.Address, after conversation.Offset, limit int) (conversation.Page, error) {
	m.note(ctx, "Updates")
	return m.fakeRuntime.Updates(ctx, at, after, limit)
}

func (m *marking) Wait(ctx context.Context, at conversation.Address, after conversation.Offset) error {
	m.note(ctx, "Wait")
	return m.fakeRuntime.Wait(ctx, at, after)
}

// TestOnlyLaterReadsTail checks that the first read of every response is not marked.
func TestOnlyLaterReadsTail(t *testing.T) {
	for _, tt := range []struct {
		name, method, query string
		claims              int // batches in addition to the first
		want                []string
	}{
		{"head", "HEAD", "", 0, []string{"Head"}},
		{"snapshot", "GET", "", 0, []string{"Snapshot"}},
		{"updates", "GET", "?view=updates&offset=-1", 0, []string{"Updates"}},
		{"long-poll at once", "GET", "?view=updates&live=long-poll&offset=-1", 0, []string{"Updates"}},
		{
			"long-poll held", "GET", "?view=updates&live=long-poll&offset=" + offset(0), 0,
			[]string{"Updates", "Wait tailing", "Updates tailing"},
		},
		{
			"stream", "GET", "?view=updates&live=sse&offset=" + offset(0), 0,
			[]string{"Updates", "Wait tailing", "Updates tailing", "Wait tailing"},
		},
		{
			"stream of several pages", "GET", "?view=updates&live=sse&offset=" + offset(0), 150,
			[]string{"Updates", "Updates tailing", "Wait tailing", "Updates tailing", "Wait tailing"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, nil)
				h.create()
				h.claims(c1, tt.claims)
				m := &marking{fakeRuntime: h.rt}
				var err error
				h.h, err = parleyhttp.New(h.rt, m, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				r, cancel := withCancel(httptest.NewRequest(tt.method, "/agents/assistant/c1"+tt.query, nil))
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					h.h.ServeHTTP(&frames{header: map[string][]string{}, start: time.Now()}, r)
				}()
				synctest.Wait()
				h.claims(c1, 1)
				synctest.Wait()
				cancel()
				<-ended
				if d := cmp.Diff(tt.want, m.reads); d != "" {
					t.Errorf("reads (-want +got):\n%s", d)
				}
			})
		})
	}
}
