package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
)

// deafReaders request a path concurrently and read only the head of the response.
func deafReaders(t *testing.T, n int, host, path string) {
	t.Helper()
	failures := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil { // keeps the page out of the kernel's buffer
			t.Fatal(err)
		}
		all.Go(func() {
			_, failures[i] = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host)
			res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
			if err == nil && res.StatusCode != http.StatusOK {
				err = errors.New(res.Status)
			}
			failures[i] = errors.Join(failures[i], err)
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Many clients request one long message, over event streams and as snapshots, and do not read it.
func TestMemoryOfStalledReaders(t *testing.T) {
	lean(t)
	const size, readers, most = 4_000_000, 60, 100 << 20
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"delta":{"content":"Seen."},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer vendor.Close()
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	t.Setenv("OPENAI_API_KEY", "key")
	n := startDev(t, t.TempDir(), "--model", "openai/brief")
	body := `{"kind":"user","body":"` + strings.Repeat("x", size) + `"}`
	resp, err := http.Post(n.Base+"/long", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var r clitest.Receipt
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	at := n.URL(t, "long")
	clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
	paths := []string{at.Path + "?view=updates&live=sse&offset=-1", at.Path}
	for _, path := range paths { // allocates the fixed cost of one reader
		deafReaders(t, 1, at.Host, path)
	}
	before, err := n.peakRSS()
	if errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "linux" {
		t.Log("this system does not tell the peak memory of a process")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		deafReaders(t, readers, at.Host, path)
	}
	after, err := n.peakRSS()
	if err != nil {
		t.Fatal(err)
	}
	if after-before > most {
		t.Errorf("%d readers took %d MiB, want at most %d", 2*readers, (after-before)>>20, most>>20)
	}
	t.Logf("peak RSS in MiB: %d with one reader of each kind, %d with %d", before>>20, after>>20, readers+1)
}
