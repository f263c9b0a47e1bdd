package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/sample"
)

const (
	// maxQueueRSS bounds the memory of the program while large messages are queued, settled and read,
	// in bytes.
	maxQueueRSS = 450 << 20
	fatBytes    = 4_000_000
	// mostFat is the capacity of a conversation: one running message, and queued ones of 64 MiB.
	mostFat    = 1 + (64<<20)/fatBytes
	fatReaders = 2
)

// fatTries messages are sent, in a sample fewer than the capacity.
var fatTries = sample.Of(mostFat+3, 2)

// fatBody returns a message that differs from the others.
func fatBody(n int) string { return strings.Repeat(fmt.Sprintf("%03d ", n), fatBytes/4) }

// More and larger messages than a conversation admits are sent while its model hangs. Several readers
// read it before and after the messages are aborted.
func TestMemoryOfFatQueue(t *testing.T) {
	lean(t)
	vendor := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer vendor.Close()
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	t.Setenv("OPENAI_API_KEY", "key")
	t.Setenv("GOMEMLIMIT", fmt.Sprint(maxQueueRSS))
	n := startDev(t, t.TempDir(), "--model", "openai/reader")
	at := n.URL(t, "fat")
	path := at.String()

	var taken []clitest.Receipt
	for i := range fatTries {
		body, err := json.Marshal(map[string]string{"kind": "user", "body": fatBody(i)})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(path, "application/json", strings.NewReader(string(body)))
		if err != nil {
			t.Fatalf("%v\n%s", err, n.Logs)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusAccepted:
			var r clitest.Receipt
			if err := json.Unmarshal(answer, &r); err != nil {
				t.Fatal(err)
			}
			taken = append(taken, r)
		case resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(answer), "bytes of queued messages; its limit is 67108864"):
			t.Fatalf("message %d: status %d: %.300s", i, resp.StatusCode, answer)
		}
	}
	if want := min(fatTries, mostFat); len(taken) != want {
		t.Errorf("%d messages were taken, want %d", len(taken), want)
	}
	waiting, _ := n.peakRSS()
	readFat(t, path, len(taken))
	if resp, err := http.Post(path+"/abort", "application/json", nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("abort: %v, %v", resp, err)
	}
	last := taken[len(taken)-1]
	clitest.NewReader(t, last.Offset).Until(at, last.Offset, clitest.Settled(last.SubmissionID))
	readFat(t, path, len(taken))
	peak, err := n.peakRSS()
	if err == nil && peak > maxQueueRSS {
		t.Errorf("peak of %d MiB, %d while they waited, want at most %d", peak>>20, waiting>>20, maxQueueRSS>>20)
	}
	t.Logf("peak RSS in MiB: %d while they waited, %d at the end, %v", waiting>>20, peak>>20, err)
}

// readFat takes concurrent snapshots and checks that they hold all messages.
func readFat(t *testing.T, at string, messages int) {
	t.Helper()
	var readers sync.WaitGroup
	for range fatReaders {
		readers.Go(func() {
			resp, err := http.Get(at)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.HasSuffix(got, []byte("]}")) {
				t.Errorf("snapshot of %d bytes: %v", len(got), err)
			}
			// Compared in place: searching for a message takes seconds.
			stands := map[int]int{}
			for _, text := range bytes.Split(got, []byte(`"text":"`))[1:] {
				if n, err := strconv.Atoi(string(text[:3])); err == nil && bytes.HasPrefix(text, []byte(fatBody(n)+`"`)) {
					stands[n]++
				}
			}
			for i := range messages {
				if n := stands[i]; n != 1 {
					t.Errorf("got message %d %d times in a snapshot, want once", i, n)
				}
			}
		})
	}
	readers.Wait()
}
