package http_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// instant is a runtime without cost: it admits without storing, and has the same page at every offset.
type instant struct {
	*fakeRuntime
	page []byte
	last conversation.Offset
	end  context.CancelFunc // of the only reader, after the last batch
}

func (i *instant) Admit(context.Context, conversation.Admission) (conversation.Receipt, error) {
	return conversation.Receipt{
		SubmissionID: "sub_01K0ZQ3J8V5N6M7P8Q9R0S1T2V", UID: "inst_01K0ZQ3J8V5N6M7P8Q9R0S1T2W", Offset: 42,
	}, nil
}

func (i *instant) Updates(_ context.Context, _ conversation.Address, after conversation.Offset, _ int) (conversation.Page, error) {
	return conversation.Page{JSON: i.page, Next: after + 1, UpToDate: true}, nil
}

func (i *instant) Wait(ctx context.Context, _ conversation.Address, after conversation.Offset) error {
	if after < i.last {
		return nil
	}
	i.end()
	<-ctx.Done()
	return ctx.Err()
}

// sink is a client that reads everything at once.
type sink struct {
	header http.Header
	status int
	writes int
}

func (s *sink) Header() http.Header                { return s.header }
func (s *sink) WriteHeader(status int)             { s.status = status }
func (s *sink) Write(b []byte) (int, error)        { s.writes++; return len(b), nil }
func (s *sink) Flush()                             {}
func (s *sink) SetReadDeadline(_ time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(_ time.Time) error { return nil }

func newInstant(b *testing.B, rt *instant) *parleyhttp.Handler {
	b.Helper()
	rt.fakeRuntime = newRuntime()
	h, err := parleyhttp.New(rt, rt, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// BenchmarkPost admits a small message. The request is reused, so only this package and the router are
// measured.
func BenchmarkPost(b *testing.B) {
	for _, size := range []int{20, 1000, 4000} {
		for name, word := range map[string]string{"plain": "word ", "escaped": `é\n\u00e9. `} {
			b.Run(fmt.Sprintf("%s_%d", name, size), func(b *testing.B) {
				h := newInstant(b, &instant{})
				body := []byte(`{"kind":"user","body":"` + strings.Repeat(word, size/len(word)) + `"}`)
				src := bytes.NewReader(body)
				r := newPost("/c1", io.NopCloser(src))
				r.ContentLength = int64(len(body))
				w := &sink{header: http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					src.Reset(body)
					if h.ServeHTTP(w, r); w.status != http.StatusAccepted {
						b.Fatal(w.status)
					}
				}
			})
		}
	}
}

// BenchmarkFrame sends batches to an event stream, one frame per operation.
func BenchmarkFrame(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := newInstant(b, &instant{
		page: []byte("[" + strings.Repeat("x", 600) + "]"), last: conversation.Offset(b.N), end: cancel,
	})
	r := httptest.NewRequest("GET", "/agents/assistant/c1?view=updates&live=sse&offset=-1", nil).WithContext(ctx)
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	b.ResetTimer()
	h.ServeHTTP(w, r)
	if w.writes < b.N {
		b.Errorf("%d frames in %d writes", b.N, w.writes)
	}
}
