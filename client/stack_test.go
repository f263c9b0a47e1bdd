package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage/local"
)

// patience bounds every wait. It affects only failing tests.
const patience = time.Minute

// model is a scripted model. The first words of a message are its command.
type model struct {
	release chan struct{} // resumes "hold", even before it waits
}

func (m *model) Stream(ctx context.Context, mdl providers.Model, req providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, mdl, func(a *providers.Assembler) error {
		command, begun := latest(req.Messages)
		verb, rest, _ := strings.Cut(command, " ")
		done := providers.Done{StopReason: providers.StopStop}
		switch {
		case verb == "fail":
			a.Text("Oh. ")
			return &providers.Error{Kind: providers.KindInvalidRequest, Provider: "test"}
		case verb == "hold" && !begun:
			a.Text("one ")
			select {
			case <-m.release:
			case <-ctx.Done():
				return ctx.Err()
			}
			a.Text("two")
		case verb == "hold":
			a.Text("three")
		case verb == "note" && !begun:
			a.Reasoning("I have to note that.", "")
			a.Text("Noting.")
			a.CallArguments(a.StartCall("call_1", "note"), `{"text":`+string(must(json.Marshal(rest)))+`}`)
			done.StopReason = providers.StopToolUse
		case verb == "note":
			a.Text("Noted.")
		default:
			for word := range strings.FieldsSeq("You said: " + command) {
				a.Text(word + " ")
			}
		}
		a.Finish(done)
		return nil
	})
}

// latest returns the last command of a user, and whether its response has begun.
func latest(messages []providers.Message) (command string, begun bool) {
	for _, m := range slices.Backward(messages) {
		begun = begun || m.Role == providers.RoleAssistant
		if m.Role != providers.RoleUser {
			continue
		}
		for _, p := range m.Parts {
			if t, ok := p.(providers.Text); ok && !strings.HasPrefix(t.Text, "<advisory") {
				return t.Text, begun
			}
		}
	}
	return "", begun
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// server is a whole server over a bucket that survives restarts.
type server struct {
	t     *testing.T
	store *local.Store
	model *model
	url   string // URL of the mount
	web   *httptest.Server

	mu      sync.Mutex
	handler http.Handler // nil while the server is down
	arrived func(*http.Request)
	stop    func()
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, store: local.NewMemory(), model: &model{release: make(chan struct{}, 1)}}
	s.web = httptest.NewServer(http.HandlerFunc(s.serve))
	s.url = s.web.URL + "/agents/chat"
	s.start()
	t.Cleanup(func() {
		s.halt()
		s.web.Close()
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve breaks connections while the server is down.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h, arrived := s.handler, s.arrived
	s.mu.Unlock()
	if arrived != nil {
		arrived(r)
	}
	if h == nil {
		panic(http.ErrAbortHandler)
	}
	h.ServeHTTP(w, r)
}

// watch calls f with every request that arrives.
func (s *server) watch(f func(*http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = f
}

func (s *server) agent() *agent.Agent {
	notes := agent.NewDataWriter[string]("note", nil)
	note := func(ctx context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return "ok", notes.Write(ctx, in.Text)
	}
	return &agent.Agent{
		Name: "chat", Model: "test/model", Data: []agent.Data{notes},
		Tools: []agent.Tool{agent.NewTool("note", "Keep a note.", note, nil)},
		Hooks: agent.Hooks{ResponseStarted: func(context.Context, *agent.Turn) (map[string]any, error) {
			return map[string]any{"by": "test"}, nil
		}},
	}
}

// start starts a new runtime over the bucket.
func (s *server) start() {
	s.t.Helper()
	reg := providers.NewRegistry(nil)
	reg.RegisterProtocol("test", s.model)
	if err := reg.RegisterProvider("test", providers.Registration{API: "test", BaseURL: "test:"}); err != nil {
		s.t.Fatal(err)
	}
	logs := &waiting.Log{}
	log := slog.New(slog.NewTextHandler(logs, nil))
	runtime, err := actors.New(s.store, &actors.Options{
		Agents: []*agent.Agent{s.agent(), report().Definition()}, Providers: reg, Logger: log, Pace: time.Millisecond, SweepEvery: time.Hour,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	handler, err := parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: "/agents/chat", Agent: "chat"}},
		&parleyhttp.Options{Logger: log, TempDir: s.t.TempDir(), LongPoll: 200 * time.Millisecond, Runs: &parleyhttp.Runs{Path: "/", Workflows: []string{"report"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(ctx) }()
	select {
	case <-runtime.Ready():
	case err := <-ended:
		s.t.Fatal(err)
	case <-time.After(patience):
		s.t.Fatal("timed out waiting for the runtime")
	}
	s.mu.Lock()
	s.handler = handler
	s.mu.Unlock()
	s.stop = func() {
		s.mu.Lock()
		s.handler = nil
		s.mu.Unlock()
		handler.Drain()
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("run: %v", err)
		}
		if s.t.Failed() {
			s.t.Logf("log of the server:\n%s", logs)
		}
	}
}

// halt stops the runtime and breaks every connection.
func (s *server) halt() {
	s.stop()
	s.stop = func() {}
	s.web.CloseClientConnections()
}

// open returns a client of a conversation with short pauses.
func (s *server) open(id string, o *client.Options) *client.Conversation {
	s.t.Helper()
	return open(s.t, client.JoinID(s.url, id), o)
}

// flushNow sets short pauses.
func flushNow(o *client.Options) *client.Options {
	var opts client.Options
	if o != nil {
		opts = *o
	}
	if opts.FirstPause == 0 {
		opts.FirstPause, opts.LastPause = time.Millisecond, 20*time.Millisecond
	}
	return &opts
}

func open(t testing.TB, url string, o *client.Options) *client.Conversation {
	t.Helper()
	c, err := client.New(url, flushNow(o))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func withPatience(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// send sends a message and fails unless it is admitted.
func send(t testing.TB, c *client.Conversation, m client.Message) client.Receipt {
	t.Helper()
	r, err := c.Send(withPatience(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask sends a message and waits for its reply.
func ask(t testing.TB, c *client.Conversation, m client.Message) *client.Reply {
	t.Helper()
	reply, err := c.Wait(withPatience(t), send(t, c, m))
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// until observes a conversation until enough returns true, and returns all chunks.
func until(t testing.TB, c *client.Conversation, after conversation.Offset, enough func(client.Update) bool) (chunks []conversation.Chunk, next conversation.Offset) {
	t.Helper()
	for u, err := range c.Observe(withPatience(t), after, nil) {
		if err != nil {
			t.Fatal(err)
		}
		chunks, next = append(chunks, u.Chunks...), u.Next
		if enough(u) {
			break
		}
	}
	return chunks, next
}

func upToDate(u client.Update) bool { return u.UpToDate }

// hasText returns a function that reports whether an update has the text.
func hasText(text string) func(client.Update) bool {
	return func(u client.Update) bool {
		return slices.ContainsFunc(u.Chunks, func(c conversation.Chunk) bool { return strings.Contains(c.Delta, text) })
	}
}

// differ compares the JSON forms of two values.
func differ(want, got any) string {
	w, g := must(conversation.EncodeJSON(want)), must(conversation.EncodeJSON(got))
	if bytes.Equal(w, g) {
		return ""
	}
	var a, b any
	_ = must(a, json.Unmarshal(w, &a))
	_ = must(b, json.Unmarshal(g, &b))
	return cmp.Diff(a, b) + "\n" + string(g)
}

// roundTripper is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func over(f roundTripper) *http.Client { return &http.Client{Transport: f} }
