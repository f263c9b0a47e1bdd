package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/fakemodel"
)

// vendor is a model that does what messages tell it, and tells when a call begins
// and when its caller goes away.
type vendor struct {
	*fakemodel.Model
	began, left chan struct{}
}

// ServeHTTP implements http.Handler.
func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.began <- struct{}{}
	v.Model.ServeHTTP(w, r)
	if r.Context().Err() != nil {
		v.left <- struct{}{}
	}
}

// await takes n signals.
func await(ctx context.Context, t *testing.T, c chan struct{}, n int) {
	t.Helper()
	for i := range n {
		select {
		case <-c:
		case <-ctx.Done():
			t.Fatalf("%d of %d came", i, n)
		}
	}
}

// start runs the program over one fake vendor of both formats.
func start(t *testing.T) (*vendor, *client.Conversation) {
	t.Helper()
	v := &vendor{fakemodel.New(nil), make(chan struct{}, 100), make(chan struct{}, 100)}
	server := httptest.NewServer(v)
	t.Setenv("OPENAI_BASE_URL", server.URL+"/v1")
	t.Setenv("ANTHROPIC_BASE_URL", server.URL)
	ctx, cancel := context.WithCancel(context.Background())
	p := &parley.Program{Agents: []*agent.Agent{newTeam("openai/lead", "anthropic/second", "anthropic/critic", newLibrary())}}
	r, w := io.Pipe()
	var logs bytes.Buffer
	ended := make(chan int, 1)
	data := t.TempDir() // made first, it goes last
	go func() {
		ended <- p.Run(ctx, []string{"dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data}, w, &logs)
		w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit %d, %s", code, &logs)
		}
		server.CloseClientConnections()
		server.Close()
	})
	line := make([]byte, 1024)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.JoinID(string(bytes.TrimSpace(line[:n])), "tea"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v, c
}

// task is the script of one call of the tool task.
func task(t *testing.T, name, prompt string) string {
	t.Helper()
	in, err := json.Marshal(map[string]string{"agent": name, "prompt": prompt})
	if err != nil {
		t.Fatal(err)
	}
	return "tool=task " + string(in) + " "
}

func send(ctx context.Context, t *testing.T, c *client.Conversation, body string) client.Receipt {
	t.Helper()
	receipt, err := c.Send(ctx, client.Message{Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// TestTasksRunSideBySide: two subagents work at the same time, and the lead's answer
// has what both of them found. Of their work nobody sees anything.
func TestTasksRunSideBySide(t *testing.T) {
	v, c := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	receipt := send(ctx, t, c,
		task(t, "reader", `reasoning=2 tokens=3 tool=look_up {"topic":"tea"} then hold=both tokens=1 tool=look_up {"topic":"none"} then say="Tea works."`)+
			task(t, "critic", `hold=both say="Says who?"`))
	// The lead, the reader twice and the critic: neither task can end before the gate
	// is open, so both are under way.
	await(ctx, t, v.began, 4)
	v.Release("both")
	reply, err := c.Wait(ctx, receipt)
	if err != nil {
		t.Fatal(err)
	}
	if want := "The tool said: Tea works.; Says who?"; reply.Text != want {
		t.Errorf("said %q, want what both found: %q", reply.Text, want)
	}
	if diff := cmp.Diff([]string{"dynamic-tool task", "dynamic-tool task", "text "}, parts(reply.Message)); diff != "" {
		t.Errorf("the answer shows (-want +got):\n%s", diff)
	}
	who := map[string][]string{}
	for _, r := range v.Requests() {
		if !slices.Contains(who[r.Model], strings.Join(r.Tools, " ")) {
			who[r.Model] = append(who[r.Model], strings.Join(r.Tools, " "))
		}
	}
	if diff := cmp.Diff(map[string][]string{"lead": {"task", "look_up"}, "critic": {""}}, who); diff != "" {
		t.Errorf("models and their tools (-want +got):\n%s", diff)
	}

	// What the reader said on its way, and its own calls, are nowhere.
	snapshot, updates := everything(ctx, t, c)
	for _, hidden := range []string{"w1 w2", "t1 t2", `"toolName":"look_up"`, "no note about", "four hours"} {
		if strings.Contains(snapshot, hidden) || strings.Contains(updates, hidden) {
			t.Errorf("%q is visible:\n%s\n%s", hidden, snapshot, updates)
		}
	}
	if !strings.Contains(snapshot, "Tea works.") || !strings.Contains(updates, "Tea works.") {
		t.Errorf("the result is not visible:\n%s\n%s", snapshot, updates)
	}
}

// TestAbortEndsTheTasks: an abort takes back what the lead has handed out.
func TestAbortEndsTheTasks(t *testing.T) {
	v, c := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	receipt := send(ctx, t, c, task(t, "reader", "hang=1")+task(t, "critic", "hang=2"))
	await(ctx, t, v.began, 3)
	if aborted, err := c.Abort(ctx); err != nil || !aborted {
		t.Fatalf("abort: %v, %v", aborted, err)
	}
	reply, err := c.Wait(ctx, receipt)
	if !errors.Is(err, client.ErrAborted) {
		t.Errorf("settled with %v, want aborted", err)
	}
	if diff := cmp.Diff([]string{"dynamic-tool task", "dynamic-tool task"}, parts(reply.Message)); diff != "" {
		t.Errorf("the answer shows (-want +got):\n%s", diff)
	}
	for _, p := range reply.Message.Parts {
		if p.State != "output-error" {
			t.Errorf("a task is %s, want an error", p.State)
		}
	}
	// Both models were hung up on.
	await(ctx, t, v.left, 2)

	// The conversation goes on.
	next, err := c.Wait(ctx, send(ctx, t, c, `say="Here again."`))
	if err != nil || next.Text != "Here again." {
		t.Errorf("afterwards: %+v, %v", next, err)
	}
}

// TestLeadFallsBack: with the first vendor out of order the second answers, for the
// lead and for who works with the lead's model.
func TestLeadFallsBack(t *testing.T) {
	v, c := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reply, err := c.Wait(ctx, send(ctx, t, c, "status=401 only=lead "+task(t, "reader", `status=401 only=lead say="Tea works."`)))
	if err != nil {
		t.Fatal(err)
	}
	if want := "The tool said: Tea works."; reply.Text != want {
		t.Errorf("said %q, want %q", reply.Text, want)
	}
	var models []string
	for _, r := range v.Requests() {
		models = append(models, r.Model)
	}
	// The lead stays with the model that works, and whoever works with the lead's models
	// does not ask again the one that has just failed.
	if diff := cmp.Diff([]string{"lead", "second", "second", "second"}, models); diff != "" {
		t.Errorf("models asked (-want +got):\n%s", diff)
	}
}

func TestTeamIsValid(t *testing.T) {
	if err := newTeam("openai/a", "openai/b", "openai/c", newLibrary()).Validate(); err != nil {
		t.Error(err)
	}
}

func parts(m *conversation.Message) []string {
	var out []string
	for _, p := range m.Parts {
		out = append(out, p.Type+" "+p.ToolName)
	}
	return out
}

// everything returns what the conversation shows, as a snapshot and as all chunks.
func everything(ctx context.Context, t *testing.T, c *client.Conversation) (snapshot, updates string) {
	t.Helper()
	h, err := c.History(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var chunks []conversation.Chunk
	for u, err := range c.Observe(ctx, conversation.Start, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if chunks = append(chunks, u.Chunks...); u.UpToDate {
			break
		}
	}
	all, err := json.Marshal(chunks)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), string(all)
}
