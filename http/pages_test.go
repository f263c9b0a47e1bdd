package http_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/memory"
)

// pageReader is a reader with one page per conversation, shared by all readers.
type pageReader struct {
	*fakeRuntime
	pages map[string][]byte // by the id
}

func (s *pageReader) Snapshot(_ context.Context, at conversation.Address) (conversation.Page, error) {
	return conversation.Page{JSON: s.pages[at.ID], Next: 1, UpToDate: true}, nil
}

func (s *pageReader) Updates(ctx context.Context, at conversation.Address, after conversation.Offset, _ int) (conversation.Page, error) {
	if after > 0 {
		return conversation.Page{JSON: []byte("[]"), Next: after, UpToDate: true}, nil
	}
	return s.Snapshot(ctx, at)
}

func (s *pageReader) Wait(ctx context.Context, _ conversation.Address, _ conversation.Offset) error {
	<-ctx.Done()
	return ctx.Err()
}

// newPageEdge returns an edge with pages of the given size.
func newPageEdge(t *testing.T, size int, budget *memory.Budget, readerBytes int64) *edge {
	s := &pageReader{fakeRuntime: newRuntime(), pages: map[string][]byte{}}
	for _, id := range []string{"c1", "c2", "c3"} {
		s.pages[id] = []byte(`["` + strings.Repeat("x", size-4) + `"]`)
	}
	h, err := parleyhttp.New(s, s, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}},
		&parleyhttp.Options{Memory: budget, ReaderBytes: readerBytes})
	if err != nil {
		t.Fatal(err)
	}
	return serveEdge(t, &harness{t: t, rt: s.fakeRuntime, h: h})
}

// status reads the beginning of a response.
func status(t *testing.T, conn net.Conn) int {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// TestReadersShareAPage checks that a page is in memory and in the budget once, for any number of
// stalled readers on any route.
func TestReadersShareAPage(t *testing.T) {
	const size, readers = 4 << 20, 60
	for name, path := range map[string]string{
		"snapshot": "/c1", "updates": "/c1?view=updates&offset=-1", "sse": "/c1?view=updates&offset=-1&live=sse",
		"long_poll": "/c1?view=updates&offset=-1&live=long-poll",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := memory.New(size / 2 * 3) // A large page counts by three quarters.
				e := newPageEdge(t, size, budget, 0)
				before := heap()
				for range readers {
					conn := e.send("GET", path, "\r\n")
					defer conn.Close()
					if got := status(t, conn); got != http.StatusOK {
						t.Fatalf("got status %d", got)
					}
				}
				synctest.Wait()
				if grown := heap() - before; grown > size {
					t.Errorf("%d stalled readers took %d KiB", readers, grown>>10)
				}
				if got := budget.Usage()[1]; got.Account != "readers" || got.Used != size {
					t.Errorf("got usage %+v", got)
				}
				for range readers {
					<-e.closed
				}
				if got := budget.Usage()[1].Used; got != 0 {
					t.Errorf("got %d bytes in use after the last reader", got)
				}
			})
		})
	}
}

// heap returns the live bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSlowReadersMakeRoom: without room for another page, stalled readers are dropped first, then
// reads are rejected.
func TestSlowReadersMakeRoom(t *testing.T) {
	const size = 600 << 10
	for name, path := range map[string]string{"snapshot": "", "sse": "?view=updates&offset=-1&live=sse"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newPageEdge(t, size, nil, 1<<20)
				slow := e.send("GET", "/c1"+path, "\r\n")
				defer slow.Close()
				if got := status(t, slow); got != http.StatusOK {
					t.Fatalf("got status %d", got)
				}
				time.Sleep(2 * time.Second) // the client may still continue
				other := e.send("GET", "/c2"+path, "\r\n")
				if got := status(t, other); got != http.StatusServiceUnavailable {
					t.Errorf("without room: got status %d", got)
				}
				_ = other.Close()
				<-e.closed
				time.Sleep(time.Second)
				steady := e.send("GET", "/c2"+path, "\r\n")
				defer steady.Close()
				if got := status(t, steady); got != http.StatusOK {
					t.Errorf("next to a slow reader: got status %d", got)
				}
				began := time.Now()
				if took := (<-e.closed).Sub(began); took > 0 {
					t.Errorf("slow reader was dropped %v later", took)
				}
				for range 6 {
					time.Sleep(time.Second)
					if _, err := io.CopyN(io.Discard, steady, pieceBytes); err != nil {
						t.Fatal(err)
					}
					third := e.send("GET", "/c3"+path, "\r\n")
					if got := status(t, third); got != http.StatusServiceUnavailable {
						t.Errorf("next to an active reader: got status %d", got)
					}
					_ = third.Close()
					<-e.closed
				}
			})
		})
	}
}

// pieceBytes is the amount that a reader has to accept at once.
const pieceBytes = 64 << 10

// fullReader is a pageReader without room for waiting readers.
type fullReader struct{ *pageReader }

func (fullReader) Room(conversation.Address) error {
	return conversation.Unavailable(time.Second, memory.ErrFull)
}

// TestNoRoomToWait checks that without room an event stream is rejected before it begins, and other
// reads work.
func TestNoRoomToWait(t *testing.T) {
	s := fullReader{&pageReader{fakeRuntime: newRuntime(), pages: map[string][]byte{"c1": []byte(`["x"]`)}}}
	handler, err := parleyhttp.New(s, s, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, rt: s.fakeRuntime, h: handler}
	res := h.do("GET", "/c1?view=updates&offset=-1&live=sse")
	if res.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	wantError(t, res, 503, conversation.CodeUnavailable)
	for _, path := range []string{"/c1", "/c1?view=updates&offset=-1", "/c1?view=updates&offset=-1&live=long-poll"} {
		wantStatus(t, h.do("GET", path), http.StatusOK)
	}
}
