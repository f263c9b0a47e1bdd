package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/sample"
)

const (
	// maxPeakRSS bounds the memory of the program while images are admitted and sent to models, in
	// bytes.
	maxPeakRSS = 300 << 20

	// A picture is a sequence of blocks, of which only the first is unique. It has the signature of an
	// image; its invalid rest is never decoded.
	pictureBlock  = 3 << 10
	pictureBlocks = 3414
	pictureText   = pictureBlocks * pictureBlock / 3 * 4 // characters of base64
)

// pictures is their number.
var pictures = sample.Of(50, 5)

// picture yields the base64 text of one picture. It buffers one block only, so that this process needs
// little memory itself.
type picture struct {
	first, other []byte
	at           int
}

func newPicture(n int) *picture {
	block := bytes.Repeat([]byte("parley"), pictureBlock/6)
	encode := func() []byte { return base64.StdEncoding.AppendEncode(nil, block) }
	p := &picture{other: encode()}
	copy(block, fakemodel.PictureHead+fmt.Sprintf("picture %d", n))
	p.first = encode()
	return p
}

// Read implements io.Reader.
func (p *picture) Read(b []byte) (int, error) {
	if p.at == pictureText {
		return 0, io.EOF
	}
	block := p.other
	if p.at < len(p.first) {
		block = p.first
	}
	n := copy(b, block[p.at%len(block):])
	p.at += n
	return n, nil
}

// gallery is a model that reads no picture until all calls have arrived, so that all calls are in
// progress at once.
type gallery struct {
	awaited int
	mu      sync.Mutex
	offered map[int]bool
	shown   map[int]bool
	flaws   []error
	all     chan struct{}
}

// ServeHTTP answers a model call.
func (g *gallery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.inspect(r); err != nil {
		g.mu.Lock()
		g.flaws = append(g.flaws, err)
		g.mu.Unlock()
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, `data: {"choices":[{"delta":{"content":"Seen."},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

// inspect reads and compares the one picture of a request.
func (g *gallery) inspect(r *http.Request) error {
	body := bufio.NewReaderSize(r.Body, 32<<10)
	before := ""
	for !strings.HasSuffix(before, ";base64,") {
		more, err := body.ReadString(',')
		if err != nil {
			return fmt.Errorf("find the picture: %w", err)
		}
		before += more
	}
	found := regexp.MustCompile(`This is picture (\d+)`).FindStringSubmatch(before)
	if found == nil {
		return fmt.Errorf("no picture is announced in %q", before)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		return err
	}
	g.mu.Lock()
	if !g.offered[n] {
		if g.offered[n] = true; len(g.offered) == g.awaited {
			close(g.all)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.all:
	case <-r.Context().Done():
		return nil // the call was cancelled and will be retried
	}
	want, got, expected := newPicture(n), make([]byte, 4<<10), make([]byte, 4<<10)
	for range pictureText / len(got) {
		_, err := io.ReadFull(body, got)
		if _, same := io.ReadFull(want, expected); err != nil || same != nil || !bytes.Equal(got, expected) {
			return fmt.Errorf("picture %d arrives changed: %w", n, errors.Join(err, same))
		}
	}
	if rest, err := io.ReadAll(body); err != nil || !bytes.HasPrefix(rest, []byte(`"`)) {
		return fmt.Errorf("picture %d is followed by %.40q, %w", n, rest, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown[n] = true
	return nil
}

// postPicture sends a picture to its own conversation.
func (n *process) postPicture(i int) (clitest.Receipt, error) {
	head := fmt.Sprintf(`{"kind":"user","body":"This is picture %d","attachments":[{"type":"image","mimeType":"image/png","data":"`, i)
	const tail = `"}]}`
	body := io.MultiReader(strings.NewReader(head), newPicture(i), strings.NewReader(tail))
	req, err := http.NewRequestWithContext(n.T.Context(), http.MethodPost, fmt.Sprintf("%s/picture-%d", n.Base, i), body)
	if err != nil {
		return clitest.Receipt{}, err
	}
	req.ContentLength = int64(len(head) + pictureText + len(tail))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return clitest.Receipt{}, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		return clitest.Receipt{}, fmt.Errorf("status %d, %w: %s", resp.StatusCode, err, answer)
	}
	var r clitest.Receipt
	return r, json.Unmarshal(answer, &r)
}

// peakRSS returns the peak memory of the process, in bytes.
func (n *process) peakRSS() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(status)
	if found == nil {
		return 0, fmt.Errorf("no VmHWM in %s", status)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kib << 10, err
}

// peakWithin checks and returns the peak memory of the process, in bytes.
func (n *process) peakWithin(most int64) int64 {
	n.T.Helper()
	peak, err := n.peakRSS()
	switch {
	case errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "linux":
		n.T.Log("this system does not tell the peak memory of a process: everything but that was checked")
	case err != nil:
		n.T.Fatal(err)
	case peak > most:
		n.T.Errorf("peak of %d MiB, want at most %d", peak>>20, most>>20)
	}
	return peak
}

// TestMemoryOfManyPictures admits pictures of 10 MB concurrently; each is then sent to a model, again
// concurrently.
func TestMemoryOfManyPictures(t *testing.T) {
	lean(t)
	model := &gallery{awaited: pictures, offered: map[int]bool{}, shown: map[int]bool{}, all: make(chan struct{})}
	vendor := httptest.NewServer(model)
	defer vendor.Close()
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	t.Setenv("OPENAI_API_KEY", "key")
	n := startDev(t, t.TempDir(), "--model", "openai/gallery")
	idle, _ := n.peakRSS()

	receipts, failures := make([]clitest.Receipt, pictures), make([]error, pictures)
	var posts sync.WaitGroup
	for i := range pictures {
		posts.Go(func() { receipts[i], failures[i] = n.postPicture(i) })
	}
	posts.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatalf("admissions: %v\n%s", err, n.Logs)
	}
	admitted, _ := n.peakRSS()
	for i, r := range receipts {
		at := n.URL(t, fmt.Sprintf("picture-%d", i))
		clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
		if got := clitest.Settlements(clitest.History(t, at), r.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
			t.Errorf("settlements of picture %d are %v", i, got)
		}
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if len(model.shown) != pictures || len(model.flaws) > 0 {
		t.Errorf("the model saw %d pictures of %d: %v", len(model.shown), pictures, errors.Join(model.flaws...))
	}
	peak := n.peakWithin(maxPeakRSS)
	t.Logf("peak RSS in MiB: %d idle, %d when all were admitted, %d at the end", idle>>20, admitted>>20, peak>>20)
}
