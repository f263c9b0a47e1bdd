package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
)

// systemTimeout bounds what a test waits for; it only matters when it fails.
const systemTimeout = time.Minute

var program string

func TestMain(m *testing.M) {
	var err error
	if program, err = proc.Build(context.Background(), "cmd/parley", sample.Raced()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// lean has a test use the program without the race detector, whose memory is not that of
// the program. Parallel tests must not: they share what is run.
func lean(t *testing.T) {
	t.Helper()
	file, err := proc.Build(t.Context(), "cmd/parley", false)
	if err != nil {
		t.Fatal(err)
	}
	all := program
	program = file
	t.Cleanup(func() { program = all })
}

// node is a running "parley dev" or "parley serve".
type node struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string           // URL of the agent
	logs *strings.Builder // to be read when the process has ended
	done chan error
}

// startDev starts the program on a data folder and waits until it serves.
func startDev(t *testing.T, data string, args ...string) *node {
	t.Helper()
	return startProgram(t, append([]string{"dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
}

// startProgram starts a command that prints a URL first, and waits for that.
func startProgram(t *testing.T, args ...string) *node {
	t.Helper()
	return startIn(t, nil, &strings.Builder{}, args...)
}

// startLogged is startProgram with another place for the logs.
func startLogged(t *testing.T, logs io.Writer, args ...string) *node {
	t.Helper()
	return startIn(t, nil, logs, args...)
}

// startIn is startLogged with more in its environment.
func startIn(t *testing.T, env []string, logs io.Writer, args ...string) *node {
	t.Helper()
	n := &node{t: t, done: make(chan error, 1)}
	n.logs, _ = logs.(*strings.Builder)
	n.cmd = exec.Command(program, args...)
	n.cmd.Env = append(os.Environ(), env...)
	stdout, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	n.cmd.Stderr = logs
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { n.done <- n.cmd.Wait() }()
	t.Cleanup(n.kill)
	if err != nil {
		n.kill()
		t.Fatalf("read the URL: %v\n%s", err, logs)
	}
	n.base = strings.TrimSpace(line)
	return n
}

// kill ends the process as a power cut would, and waits for it.
func (n *node) kill() { n.end(syscall.SIGKILL) }

func (n *node) end(sig os.Signal) error {
	if n.done == nil {
		return nil
	}
	_ = n.cmd.Process.Signal(sig)
	select {
	case err := <-n.done:
		n.done = nil
		return err
	case <-time.After(systemTimeout):
		_ = n.cmd.Process.Kill()
		n.t.Fatalf("the process did not end after %v", sig)
		return nil
	}
}

func (n *node) url(t *testing.T, id string) *url.URL {
	u, err := url.Parse(n.base + "/" + id)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// history fetches and decodes a snapshot.
func history(t *testing.T, at *url.URL) conversation.Snapshot {
	t.Helper()
	resp, err := http.Get(at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %v, %v, %s", at, err, resp.StatusCode, body)
	}
	var s conversation.Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// reader is a client that resumes from its last offset and checks that nothing
// comes twice or out of order.
type reader struct {
	t        *testing.T
	position conversation.Position
	text     strings.Builder
	chunks   []conversation.Chunk
}

func newReader(t *testing.T, after conversation.Offset) *reader {
	return &reader{t: t, position: conversation.Position{Batch: after, Index: 1 << 30}}
}

// until follows a conversation, over one connection, until done says so.
func (r *reader) until(at *url.URL, after conversation.Offset, done func(conversation.Chunk) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), systemTimeout)
	defer cancel()
	connections := 0
	c, err := client.New(at.String(), &client.Options{Header: func(context.Context) (http.Header, error) {
		if connections++; connections > 1 {
			return nil, errors.New("the connection broke")
		}
		return nil, nil
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	for update, err := range c.Observe(ctx, after, nil) {
		if err != nil {
			r.t.Fatalf("follow %s: %v", at, err)
		}
		for _, chunk := range update.Chunks {
			r.take(chunk)
			if done(chunk) {
				return
			}
		}
	}
}

func (r *reader) take(c conversation.Chunk) {
	r.t.Helper()
	if c.Position.Compare(r.position) <= 0 {
		r.t.Errorf("chunk %s at %v comes after %v", c.Type, c.Position, r.position)
	}
	if step := c.Position.Batch - r.position.Batch; step == 0 && c.Position.Index != r.position.Index+1 {
		r.t.Errorf("chunk index %d follows %d in batch %d", c.Position.Index, r.position.Index, int64(c.Position.Batch))
	}
	r.position = c.Position
	if c.Type == conversation.ChunkStarted {
		r.text.WriteByte(' ') // another step is another part
	}
	r.text.WriteString(c.Delta)
	r.chunks = append(r.chunks, c)
}

// receipt is the body of a 202.
type receipt = client.Receipt

func admitted(t *testing.T, at *url.URL, key, text string) receipt {
	t.Helper()
	c, err := client.New(at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	rcpt, err := c.Send(t.Context(), client.Message{Body: text, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return rcpt
}

func settled(id conversation.SubmissionID) func(conversation.Chunk) bool {
	return func(c conversation.Chunk) bool {
		_, ok := settlementOf(c, id)
		return ok
	}
}

func settlements(s conversation.Snapshot, id conversation.SubmissionID) (outcomes []conversation.Outcome) {
	for _, e := range s.Settlements {
		if e.SubmissionID == id {
			outcomes = append(outcomes, e.Outcome)
		}
	}
	return outcomes
}

// offset is where a client resumes: a data frame is the chunks of whole batches.
func (r *reader) offset() conversation.Offset { return r.position.Batch }

func TestKillInMidReply(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	n := startDev(t, data)
	at := n.url(t, "reply")
	rcpt := admitted(t, at, "k1", "long 60")
	client := newReader(t, rcpt.Offset)
	client.until(at, rcpt.Offset, func(c conversation.Chunk) bool { return strings.Contains(client.text.String(), " 12") })
	n.kill()
	before := client.text.String()

	n = startDev(t, data)
	at = n.url(t, "reply")
	client.until(at, client.offset(), settled(rcpt.SubmissionID))
	snap := history(t, at)
	if got := settlements(snap, rcpt.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
		t.Errorf("settlements are %v", got)
	}
	var want strings.Builder
	for i := 1; i <= 60; i++ {
		fmt.Fprintf(&want, "%d ", i)
	}
	// The demo counts on from what stands in the log, so nothing is missing and
	// nothing comes twice.
	if got := strings.Join(strings.Fields(client.text.String()), " "); got != strings.TrimSpace(want.String()) {
		t.Errorf("text over the restart is %q, before it %q", got, before)
	}
	if again := admitted(t, at, "k1", "long 60"); again.SubmissionID != rcpt.SubmissionID || !again.Deduplicated {
		t.Errorf("the same key gave %+v after the restart, first %+v", again, rcpt)
	}
}

func TestKillInMidTool(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	id, rcpt, client := killedInMidTool(t, data)
	n := startDev(t, data)
	at := n.url(t, id)
	client.until(at, client.offset(), settled(rcpt.SubmissionID))
	var inputs, outputs, unknown int
	for _, c := range client.chunks {
		switch c.Type {
		case conversation.ChunkToolInput:
			inputs++
		case conversation.ChunkToolOutput:
			outputs++
		case conversation.ChunkToolOutputError:
			unknown++
			if !strings.Contains(*c.ErrorText, "unknown") {
				t.Errorf("the interrupted call says %q", *c.ErrorText)
			}
		}
	}
	if inputs != 1 || outputs != 0 || unknown != 1 {
		t.Errorf("%d tool inputs, %d outputs, %d errors; the interrupted call must not run again", inputs, outputs, unknown)
	}
	if got := settlements(history(t, at), rcpt.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
		t.Errorf("settlements are %v", got)
	}
}

// killedInMidTool kills a node that runs a tool. That takes a second: if it is over first, all
// begins anew.
func killedInMidTool(t *testing.T, data string) (id string, rcpt receipt, client *reader) {
	t.Helper()
	for i := 0; ; i++ {
		id = fmt.Sprint("tool", i)
		n := startDev(t, data)
		at := n.url(t, id)
		rcpt = admitted(t, at, "k1", "time")
		client = newReader(t, rcpt.Offset)
		client.until(at, rcpt.Offset, func(c conversation.Chunk) bool { return c.Type == conversation.ChunkCompleted })
		n.kill()
		if !toolSettled(t, data, id) {
			return id, rcpt, client
		}
	}
}

// toolSettled reports whether the log of a conversation has the outcome of a tool.
func toolSettled(t *testing.T, data, id string) (found bool) {
	t.Helper()
	onFolder(t, data, func(b storage.Bucket) {
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
	at := n.url(t, "queue")
	first := admitted(t, at, "k1", "long 80")
	second := admitted(t, at, "k2", "two words")
	if err := n.end(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.logs)
	}
	n = startDev(t, data)
	at = n.url(t, "queue")
	client := newReader(t, second.Offset)
	client.until(at, second.Offset, settled(second.SubmissionID))
	var order []conversation.SubmissionID
	for _, s := range history(t, at).Settlements {
		order = append(order, s.SubmissionID)
	}
	if want := []conversation.SubmissionID{first.SubmissionID, second.SubmissionID}; !cmp.Equal(order, want) {
		t.Errorf("settled in order %v, want %v", order, want)
	}
}
