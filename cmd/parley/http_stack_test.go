package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/providers/sse"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// newBucket returns a bucket over a connection. Under the race detector it is one of this process,
// because the detector sees no other process. Package storage/storagetest covers the differences
// between servers. Stacks over the bucket share it.
func newBucket(t *testing.T) storage.Bucket {
	t.Helper()
	if sample.Of(false, true) {
		return clitest.NewStore(t)
	}
	b, _, err := noderun.NewBucket(t, s3server.Versitygw(t)).Open()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stack is everything between a client and the bucket, in this process: the demo model and two agents,
// "assistant" and "strict", which has a schema for initial data.
type stack struct {
	t      *testing.T
	bucket storage.Bucket
	url    string // URL of the server
	held   chan struct{}
	stop   context.CancelFunc
	ended  chan error
	logs   *waiting.Log
}

// heldReader signals when a reader begins to wait.
type heldReader struct {
	conversation.Reader
	held chan struct{}
}

// Wait implements conversation.Reader.
func (r heldReader) Wait(ctx context.Context, at conversation.Address, after conversation.Offset) error {
	select {
	case r.held <- struct{}{}:
	default:
	}
	return r.Reader.Wait(ctx, at, after)
}

type clockInput struct {
	Zone string `json:"zone,omitempty"`
}

type clockOutput struct {
	Time string `json:"time"`
	Zone string `json:"zone"`
}

type clockFunc func(context.Context, clockInput) (clockOutput, error)

func noon(context.Context, clockInput) (clockOutput, error) {
	return clockOutput{Time: "12:00", Zone: "UTC"}, nil
}

func stackAgents(t *testing.T, tool clockFunc) []*agent.Agent {
	t.Helper()
	schema, err := agent.NewSchema(json.RawMessage(
		`{"type":"object","properties":{"repo":{"type":"string"}},"required":["repo"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	return []*agent.Agent{
		{Name: "assistant", Model: cli.DemoModel, Tools: []agent.Tool{agent.NewTool("time", "Tell the time.", tool, nil)}},
		{Name: "strict", Model: cli.DemoModel, InitialData: schema},
	}
}

// startStack serves a bucket, with an instant model, until the test ends or halt is called.
func startStack(t *testing.T, bucket storage.Bucket, tool clockFunc) *stack {
	t.Helper()
	return startPaced(t, bucket, tool, 0)
}

// startPaced is startStack with a model that takes pace per word.
func startPaced(t *testing.T, bucket storage.Bucket, tool clockFunc, pace time.Duration) *stack {
	t.Helper()
	s := &stack{t: t, logs: &waiting.Log{}, held: make(chan struct{}, 1), ended: make(chan error, 1)}
	reg := providers.NewRegistry(nil)
	reg.RegisterProtocol(demo.API, demo.New(pace))
	if err := reg.RegisterProvider("demo", demo.Registration()); err != nil {
		t.Fatal(err)
	}
	s.bucket = bucket
	log := slog.New(slog.NewTextHandler(s.logs, nil))
	// A test runs several runtimes over one bucket, some of which start before the previous one has
	// ended.
	runtime, err := actors.New(storagetest.Exclusive(s.bucket), &actors.Options{
		Agents: stackAgents(t, tool), Providers: reg, Logger: log, Pace: time.Millisecond, SweepEvery: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := parleyhttp.New(runtime, heldReader{runtime.Reader(), s.held}, []parleyhttp.Mount{
		{Path: "/agents/assistant", Agent: "assistant"}, {Path: "/agents/strict", Agent: "strict"},
	}, &parleyhttp.Options{Logger: log, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: "/x", Agent: "nobody"}}, nil)
	if err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("a mount of an unregistered agent: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.ended <- runtime.Run(ctx) }()
	select {
	case <-runtime.Ready():
	case err := <-s.ended:
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	s.url = server.URL
	t.Cleanup(func() {
		handler.Drain()
		server.Close()
		s.halt()
	})
	return s
}

// halt shuts down the runtime once; the server continues.
func (s *stack) halt() {
	s.t.Helper()
	s.stop()
	select {
	case err, first := <-s.ended:
		if first {
			close(s.ended)
		}
		if err != nil {
			s.t.Errorf("run: %v\n%s", err, s.logs.With())
		}
	case <-time.After(clitest.Timeout):
		s.t.Fatal("the runtime does not end")
	}
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request without a body to a path below /agents.
func (s *stack) do(method, path string) answer {
	s.t.Helper()
	return s.send(method, path, "", "")
}

// post sends a JSON body to a path below /agents.
func (s *stack) post(path, body string) answer {
	s.t.Helper()
	return s.send(http.MethodPost, path, "application/json", body)
}

func (s *stack) send(method, path, media, body string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), clitest.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+"/agents"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// accepted posts a message that must be admitted.
func (s *stack) accepted(path, body string) clitest.Receipt {
	s.t.Helper()
	a := s.post(path, body)
	if a.status != http.StatusAccepted {
		s.t.Fatalf("POST %s: %d %s", path, a.status, a.body)
	}
	return clitest.Into[clitest.Receipt](s.t, a.body)
}

// refused checks a whole error response.
func (s *stack) refused(a answer, status int, code conversation.Code) clitest.Refusal {
	s.t.Helper()
	if a.status != status {
		s.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	e := clitest.Into[struct{ Error clitest.Refusal }](s.t, a.body).Error
	if e.Type != string(code) || e.Message == "" || e.Details == "" || e.Dev != "" {
		s.t.Errorf("error %+v, want %s", e, code)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin",
	} {
		if got := a.header.Get(name); got != want {
			s.t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if a.header.Get("Parley-Error-Ref") != e.Ref || (e.Ref != "") != (status == http.StatusInternalServerError) {
		s.t.Errorf("ref %q, header %q", e.Ref, a.header.Get("Parley-Error-Ref"))
	}
	return e
}

// listing returns every object below a prefix with its size.
func (s *stack) listing(prefix string) map[string]int64 {
	s.t.Helper()
	out := map[string]int64{}
	page, err := s.bucket.List(s.t.Context(), storage.ListQuery{Prefix: prefix})
	if err != nil || page.More {
		s.t.Fatal(err, page.More)
	}
	for _, k := range page.Keys {
		out[k.Key] = k.Size
	}
	return out
}

// stored returns every object except the pending-work journals, to which a slow opening of any
// conversation is written.
func (s *stack) stored() map[string]int64 {
	s.t.Helper()
	all := s.listing("")
	maps.DeleteFunc(all, func(key string, _ int64) bool { return strings.HasPrefix(key, "pending/") })
	return all
}

// objects returns the objects of a conversation.
func (s *stack) objects(agent, id string) map[string]int64 {
	s.t.Helper()
	first := storage.LogKey(conversation.Address{Agent: agent, ID: id}.Key(), 0)
	return s.listing(strings.TrimSuffix(first, first[strings.Index(first, "log/"):]))
}

// settle long-polls from a receipt until its submission is settled and returns the outcome.
func (s *stack) settle(path string, r clitest.Receipt) conversation.Outcome {
	s.t.Helper()
	next := r.Offset.String()
	for {
		a := s.do("GET", path+"?view=updates&live=long-poll&offset="+next)
		if a.status != http.StatusOK {
			s.t.Fatalf("long-poll: %d %s", a.status, a.body)
		}
		for _, c := range clitest.Into[[]conversation.Chunk](s.t, a.body) {
			if c.Type == conversation.ChunkSettled && c.SubmissionID == r.SubmissionID {
				return c.Outcome
			}
		}
		next = a.header.Get("Stream-Next-Offset")
	}
}

func (s *stack) snapshot(path string) conversation.Snapshot {
	s.t.Helper()
	a := s.do("GET", path)
	if a.status != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	return clitest.Into[conversation.Snapshot](s.t, a.body)
}

// transcript is a conversation as a client keeps it: a snapshot, and chunks applied to it.
type transcript struct {
	t *testing.T
	conversation.Snapshot
	last conversation.Position
}

func (d *transcript) message(id conversation.MessageID) *conversation.Message {
	d.t.Helper()
	for i := range d.Messages {
		if d.Messages[i].ID == id {
			return &d.Messages[i]
		}
	}
	d.t.Fatalf("message %s is unknown", id)
	return nil
}

func (d *transcript) apply(c conversation.Chunk) {
	d.t.Helper()
	if c.Position.Compare(d.last) <= 0 {
		d.t.Errorf("chunk %s at %v comes after %v", c.Type, c.Position, d.last)
	}
	d.last = c.Position
	switch c.Type {
	case conversation.ChunkReset:
		d.Snapshot = *c.Snapshot
	case conversation.ChunkAppended:
		d.Messages = append(d.Messages, *c.Message)
	case conversation.ChunkSettled:
		d.Settlements = append(d.Settlements, conversation.Settlement{SubmissionID: c.SubmissionID, Outcome: c.Outcome, Error: c.Error})
	case conversation.ChunkStarted:
		if slices.ContainsFunc(d.Messages, func(m conversation.Message) bool { return m.ID == c.MessageID }) {
			return
		}
		d.Messages = append(d.Messages, conversation.Message{
			ID: c.MessageID, Role: conversation.RoleAssistant, Purpose: conversation.PurposeAssistant, Display: "visible",
			SubmissionID: c.SubmissionID, TurnID: c.TurnID, Parts: []conversation.Part{},
		})
	case conversation.ChunkToolOutput:
		for _, m := range d.Messages {
			for i, p := range m.Parts {
				if p.ToolCallID == c.ToolCallID && p.State == conversation.StateInputAvailable {
					p.State, p.Output, p.DurationMs = conversation.StateOutputAvailable, c.Output, c.DurationMs
					m.Parts[i] = p
					return
				}
			}
		}
		d.t.Errorf("no call %s waits for an output", c.ToolCallID)
	default:
		d.change(d.message(c.MessageID), c)
	}
}

// change applies a chunk to an open response.
func (d *transcript) change(m *conversation.Message, c conversation.Chunk) {
	d.t.Helper()
	var open *conversation.Part
	if n := len(m.Parts); n > 0 && m.Parts[n-1].State == conversation.StateStreaming {
		open = &m.Parts[n-1]
	}
	if open != nil && open.Type != string(c.Kind) {
		open.State, open = conversation.StateDone, nil
	}
	switch c.Type {
	case conversation.ChunkDelta:
		if open == nil {
			m.Parts = append(m.Parts, conversation.Part{Type: string(c.Kind), Text: new(string), State: conversation.StateStreaming})
			open = &m.Parts[len(m.Parts)-1]
		}
		text := *open.Text + c.Delta
		open.Text = &text
	case conversation.ChunkToolInput:
		m.Parts = append(m.Parts, conversation.Part{
			Type: conversation.PartTypeTool, State: conversation.StateInputAvailable,
			ToolName: c.ToolName, ToolCallID: c.ToolCallID, Input: c.Input,
		})
	case conversation.ChunkCompleted:
	default:
		d.t.Errorf("chunk of type %s", c.Type)
	}
}

// until reads an event stream until the offset of a control frame satisfies enough.
func (d *transcript) until(r *sse.Reader, enough func(next conversation.Offset) bool) {
	d.t.Helper()
	for {
		e, err := r.Next()
		if err != nil {
			d.t.Fatal(err)
		}
		switch e.Name {
		case "data":
			for _, c := range clitest.Into[[]conversation.Chunk](d.t, string(e.Data)) {
				d.apply(c)
			}
		case "control":
			d.Offset = clitest.Into[struct{ StreamNextOffset conversation.Offset }](d.t, string(e.Data)).StreamNextOffset
			if enough(d.Offset) {
				return
			}
		default:
			d.t.Errorf("frame %s: %s", e.Name, e.Data)
		}
	}
}
