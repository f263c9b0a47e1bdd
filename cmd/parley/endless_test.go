package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
)

// endlessBytes is the length of the text of an endless response. The program runs without the race
// detector here, see lean.
var endlessBytes = int64(sample.Of(96<<20, 8<<20))

const (
	endlessBatch = 4 << 20 // bytes of text per batch
	endlessDelta = 16 << 10
	// maxRecovery bounds the memory beyond that for an empty folder, in bytes. It is a multiple of the
	// limit for one response, and independent of the length of the text. The Go heap is limited to
	// three quarters of it, so that the result does not depend on the time of garbage collections.
	maxRecovery = 320 << 20
)

// endless stores the log of a settled response with so many bytes of text, as after a crash of the
// node. It returns the number of stored bytes.
func endless(t *testing.T, b storage.Bucket, at conversation.Address, text int64) (stored int64) {
	t.Helper()
	logs := storage.NewLogs(b, nil)
	w := logs.Writer(at.Key(), "lost", storage.Start(), 1)
	encode := func(records ...conversation.Record) []byte {
		lines, err := conversation.EncodeRecords(nil, records)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	write := func(lines []byte) {
		if _, err := w.Append(t.Context(), lines, 0); err != nil {
			t.Fatal(err)
		}
	}
	write(encode(&conversation.ConversationCreated{Agent: at.Agent, ID: at.ID, UID: "inst_1", ConversationID: "conv_1"},
		&conversation.SubmissionAdmitted{Submission: "sub_1", Message: "msg_1", Key: "k", PayloadHash: "h",
			Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "Go on for ever."}},
		&conversation.AttemptStarted{Submission: "sub_1", Attempt: 1, Writer: "lost"},
		&conversation.ResponseStarted{Message: "msg_2", Submission: "sub_1", Turn: "turn_1"}))
	delta := &conversation.Delta{Message: "msg_2", Kind: conversation.PartText, Text: strings.Repeat("and on, ", endlessDelta/8)}
	var batch []conversation.Record
	for range endlessBatch / endlessDelta {
		batch = append(batch, delta)
	}
	lines := encode(batch...)
	for range text / endlessBatch {
		write(lines)
	}
	write(encode(&conversation.StepCompleted{Message: "msg_2", Turn: "turn_1", StopReason: "stop"},
		&conversation.SubmissionSettled{Submission: "sub_1", Outcome: conversation.OutcomeCompleted}))
	err := storage.NewJournalWriter(b).Write(t.Context(), storage.Journal{Member: "gone", Entries: []storage.JournalEntry{
		{Conv: at.Key(), Nonce: "lost", Seq: 0},
	}})
	if err != nil {
		t.Fatal(err)
	}
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: storage.FolderOf(at.Key())})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range page.Keys {
		stored += k.Size
	}
	return stored
}

// TestMemoryOfAnEndlessReply opens, verifies and reads a log whose text compresses to almost nothing.
func TestMemoryOfAnEndlessReply(t *testing.T) {
	lean(t)
	t.Setenv("GOMEMLIMIT", fmt.Sprint(maxRecovery*3/4))
	data, at := t.TempDir(), conversation.Address{Agent: "assistant", ID: "endless"}
	empty := startDev(t, t.TempDir())
	idle, err := empty.peakRSS()
	if err != nil {
		t.Fatal(err)
	}
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		if err := storage.EnsureFormat(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes are stored for %d of text", endless(t, b, at, endlessBytes), endlessBytes)
	})
	t.Run("verify", func(t *testing.T) {
		cmd := program.Command("log", "verify", "--data", data)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		// The peak in the rusage of a child includes that of its parent, so the process is asked while
		// it serves.
		peak, err := int64(0), error(nil)
		for asked := true; asked; {
			select {
			case err = <-ended:
				asked = false
			case <-time.After(5 * time.Millisecond):
				if now, bad := (&process{&clitest.Node{Cmd: cmd}}).peakRSS(); bad == nil {
					peak = now
				}
			}
		}
		if !bytes.Contains(out.Bytes(), []byte("0 damaged")) {
			t.Errorf("%v\n%s", err, &out)
		}
		checkPeak(t, "verify", 0, peak)
	})
	n := startDev(t, data)
	if got := n.abort(t, at.ID); got != http.StatusOK {
		t.Fatalf("abort: status %d\n%s", got, n.Logs)
	}
	t.Logf("snapshot of %d bytes", n.readThrough(t, at.ID))
	if all := n.readPages(t, at.ID); all < endlessBytes {
		t.Errorf("got %d bytes of updates, want %d", all, endlessBytes)
	}
	peak, err := n.peakRSS()
	if err != nil {
		t.Fatalf("%v\n%s", err, n.Logs)
	}
	checkPeak(t, "dev", idle, peak)
}

func checkPeak(t *testing.T, desc string, idle, peak int64) {
	t.Helper()
	t.Logf("peak RSS of %s in MiB: %d, %d without those logs", desc, peak>>20, idle>>20)
	if limit := max(idle, 64<<20) + maxRecovery; peak > limit {
		t.Errorf("peak RSS of %s is %d MiB, want at most %d", desc, peak>>20, limit>>20)
	}
}

// abort opens a log that has nothing to abort. It retries until the node responds.
func (n *process) abort(t *testing.T, id string) (status int) {
	t.Helper()
	for range 10 {
		resp, err := http.Post(n.Base+"/"+id+"/abort", "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status = resp.StatusCode; status != http.StatusServiceUnavailable {
			break
		}
	}
	return status
}

// updates reads one page of updates.
func (n *process) updates(t *testing.T, id, after string) ([]byte, http.Header) {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("%s/%s?view=updates&offset=%s", n.Base, id, after))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("read updates of %s after %s: status %d, %v", id, after, resp.StatusCode, err)
	}
	return page, resp.Header
}

// readThrough reads a response and returns its length.
func (n *process) readThrough(t *testing.T, id string) int64 {
	t.Helper()
	resp, err := http.Get(n.Base + "/" + id)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	size, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("read %s: status %d, %v", id, resp.StatusCode, err)
	}
	return size
}

// readPages reads all updates and returns their length.
func (n *process) readPages(t *testing.T, id string) (all int64) {
	t.Helper()
	for offset := "-1"; ; {
		page, next := n.updates(t, id, offset)
		all += int64(len(page))
		if offset = next.Get("Stream-Next-Offset"); next.Get("Stream-Up-To-Date") == "true" {
			return all
		}
	}
}
