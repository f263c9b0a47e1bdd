package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/storage"
)

// covers: protocol/4
func TestKillInMidReply(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	n := startDev(t, data)
	at := n.URL(t, "reply")
	rcpt := clitest.Admitted(t, at, "k1", "long 60")
	client := clitest.NewReader(t, rcpt.Offset)
	client.Until(at, rcpt.Offset, func(c conversation.Chunk) bool { return strings.Contains(client.Text.String(), " 12") })
	n.Kill()
	before := client.Text.String()

	n = startDev(t, data)
	at = n.URL(t, "reply")
	client.Until(at, client.Offset(), clitest.Settled(rcpt.SubmissionID))
	snap := clitest.History(t, at)
	if got := clitest.Settlements(snap, rcpt.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
		t.Errorf("settlements are %v", got)
	}
	var want strings.Builder
	for i := 1; i <= 60; i++ {
		fmt.Fprintf(&want, "%d ", i)
	}
	// The demo continues counting at the end of the log, so nothing is missing or repeated.
	if got := strings.Join(strings.Fields(client.Text.String()), " "); got != strings.TrimSpace(want.String()) {
		t.Errorf("text over the restart is %q, before it %q", got, before)
	}
	if again := clitest.Admitted(t, at, "k1", "long 60"); again.SubmissionID != rcpt.SubmissionID || !again.Deduplicated {
		t.Errorf("the same key gave %+v after the restart, first %+v", again, rcpt)
	}
}

func TestKillInMidTool(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	id, rcpt, client := killedInMidTool(t, data)
	n := startDev(t, data)
	at := n.URL(t, id)
	client.Until(at, client.Offset(), clitest.Settled(rcpt.SubmissionID))
	var inputs, outputs, unknown int
	for _, c := range client.Chunks {
		switch c.Type {
		case conversation.ChunkToolInput:
			inputs++
		case conversation.ChunkToolOutput:
			outputs++
		case conversation.ChunkToolOutputError:
			unknown++
			if !strings.Contains(*c.ErrorText, "unknown") {
				t.Errorf("got error %q of the interrupted call", *c.ErrorText)
			}
		}
	}
	if inputs != 1 || outputs != 0 || unknown != 1 {
		t.Errorf("%d tool inputs, %d outputs, %d errors; the interrupted call must not run again", inputs, outputs, unknown)
	}
	if got := clitest.Settlements(clitest.History(t, at), rcpt.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
		t.Errorf("settlements are %v", got)
	}
}

// killedInMidTool kills a node that runs a tool for a second. It starts over if the tool finishes
// first.
func killedInMidTool(t *testing.T, data string) (id string, rcpt clitest.Receipt, client *clitest.Reader) {
	t.Helper()
	for i := 0; ; i++ {
		id = fmt.Sprint("tool", i)
		n := startDev(t, data)
		at := n.URL(t, id)
		rcpt = clitest.Admitted(t, at, "k1", "time")
		client = clitest.NewReader(t, rcpt.Offset)
		client.Until(at, rcpt.Offset, func(c conversation.Chunk) bool { return c.Type == conversation.ChunkCompleted })
		n.Kill()
		if !toolSettled(t, data, id) {
			return id, rcpt, client
		}
	}
}

// toolSettled reports whether the log of a conversation has the outcome of a tool.
func toolSettled(t *testing.T, data, id string) (found bool) {
	t.Helper()
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		key := conversation.Address{Agent: "assistant", ID: id}.Key()
		for batch, err := range storage.NewLogs(b, nil).Batches(t.Context(), key, storage.Start()) {
			if err != nil {
				t.Fatal(err)
			}
			records, err := conversation.DecodeRecords(batch.Lines)
			if err != nil {
				t.Fatal(err)
			}
			found = found || slices.ContainsFunc(records, func(r conversation.Record) bool {
				_, ok := r.(*conversation.ToolSettled)
				return ok
			})
		}
	})
	return found
}

func TestRestartKeepsQueue(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	n := startDev(t, data)
	at := n.URL(t, "queue")
	first := clitest.Admitted(t, at, "k1", "long 80")
	second := clitest.Admitted(t, at, "k2", "two words")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	n = startDev(t, data)
	at = n.URL(t, "queue")
	client := clitest.NewReader(t, second.Offset)
	client.Until(at, second.Offset, clitest.Settled(second.SubmissionID))
	var order []conversation.SubmissionID
	for _, s := range clitest.History(t, at).Settlements {
		order = append(order, s.SubmissionID)
	}
	if want := []conversation.SubmissionID{first.SubmissionID, second.SubmissionID}; !cmp.Equal(order, want) {
		t.Errorf("settled in order %v, want %v", order, want)
	}
}
