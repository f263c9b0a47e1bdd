package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

var behindClient = flag.Bool("s3", false, "let nodes reach their bucket through the S3 client")

// patience is the timeout of every wait in these tests. It matters only for failures. A node may do
// delayed work in its next sweep, or in the next minute.
const patience = 3 * time.Minute

// spec names the scripted model of these tests.
const spec = "test/model"

// world is a bucket in memory, accessed directly.
type world struct {
	tb       testing.TB
	store    *local.Store
	bucket   storage.Bucket // direct access to the store
	nodes    storage.Bucket // as the nodes access it
	logs     *storage.Logs
	patience time.Duration // timeout of waits for the bucket

	mu     sync.Mutex
	seen   map[storage.Position][]conversation.Record // decoded batches, by position
	change chan struct{}                              // closed at the end of the next request of a node
	absent int                                        // nodes that do not listen yet; see together
	listen chan struct{}                              // closed when all do
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	return newWorldOver(tb, local.NewMemory())
}

func newWorldOver(tb testing.TB, store *local.Store) *world {
	tb.Helper()
	w := &world{tb: tb, store: store, patience: patience, change: make(chan struct{}), seen: map[storage.Position][]conversation.Record{}}
	tb.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			tb.Error(err)
		}
	})
	w.bucket = w.store
	w.nodes = storagetest.Through(w.reached(), func(ctx context.Context, c *storagetest.Call) error {
		defer w.notify()
		if err := w.join(ctx, c); err != nil {
			return c.Unanswered(err)
		}
		return c.Do(ctx)
	})
	w.logs = storage.NewLogs(w.bucket, nil)
	return w
}

// reached returns the bucket as the nodes access it.
func (w *world) reached() storage.Bucket {
	if !*behindClient {
		return w.store
	}
	client, err := s3.New(&s3.Options{Endpoint: s3front.Endpoint, Bucket: s3front.Bucket, PathStyle: true, Transport: s3front.New(w.store)})
	if err != nil {
		w.tb.Fatal(err)
	}
	return storagetest.Exclusive(client)
}

// notify signals until at the end of a node's request.
func (w *world) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.change)
	w.change = make(chan struct{})
}

// until waits for a condition on the bucket, which only requests change.
func (w *world) until(desc string, ok func() bool) {
	w.tb.Helper()
	deadline := time.After(w.patience)
	for {
		w.mu.Lock()
		change := w.change
		w.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-change:
		case <-deadline:
			w.tb.Fatalf("timed out waiting for %s", desc)
		}
	}
}

// batches returns the decoded log of a conversation.
func (w *world) batches(at conversation.Address) [][]conversation.Record {
	w.tb.Helper()
	var out [][]conversation.Record
	w.read(at, storage.Start(), func(records []conversation.Record) { out = append(out, records) })
	return out
}

// read calls show for each batch of a log after a position, and returns the new position.
func (w *world) read(at conversation.Address, after storage.Position, show func([]conversation.Record)) storage.Position {
	w.tb.Helper()
	for b, err := range w.logs.Batches(context.Background(), at.Key(), after) {
		if err != nil {
			w.tb.Fatal(err)
		}
		after = storage.Position{Seq: b.Seq, Hash: b.Hash}
		show(w.decoded(after, b.Lines))
	}
	return after
}

// decoded returns the records of the batch at a position. It decodes each batch once.
func (w *world) decoded(at storage.Position, lines []byte) []conversation.Record {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if records, ok := w.seen[at]; ok {
		return records
	}
	records, err := conversation.DecodeRecords(lines)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.seen[at] = records
	return records
}

func (w *world) records(at conversation.Address) []conversation.Record {
	w.tb.Helper()
	return slices.Concat(w.batches(at)...)
}

func (w *world) lines(at conversation.Address) string {
	w.tb.Helper()
	var out bytes.Buffer
	for b, err := range w.logs.Batches(context.Background(), at.Key(), storage.Start()) {
		if err != nil {
			w.tb.Fatal(err)
		}
		out.Write(b.Lines)
	}
	return out.String()
}

func only[T conversation.Record](records []conversation.Record) []T {
	var out []T
	for _, r := range records {
		if r, ok := r.(T); ok {
			out = append(out, r)
		}
	}
	return out
}

// untilSettled waits until a log contains n settlements and returns them. It reads after each request
// of a node, and no batch twice.
func (w *world) untilSettled(at conversation.Address, n int) []*conversation.SubmissionSettled {
	w.tb.Helper()
	after := storage.Start()
	var settled []*conversation.SubmissionSettled
	w.until(fmt.Sprintf("settlement %d of %s", n, at.ID), func() bool {
		after = w.read(at, after, func(records []conversation.Record) {
			settled = append(settled, only[*conversation.SubmissionSettled](records)...)
		})
		return len(settled) >= n
	})
	return settled
}

func (w *world) listing() map[string]int64 {
	w.tb.Helper()
	out := map[string]int64{}
	q := storage.ListQuery{}
	for {
		page, err := w.bucket.List(context.Background(), q)
		if err != nil {
			w.tb.Fatal(err)
		}
		for _, k := range page.Keys {
			out[k.Key], q.After = k.Size, k.Key
		}
		if !page.More {
			return out
		}
	}
}

func (w *world) journals() []storage.Journal {
	w.tb.Helper()
	refs, err := storage.Journals(context.Background(), w.bucket)
	if err != nil {
		w.tb.Fatal(err)
	}
	var out []storage.Journal
	for _, ref := range refs {
		j, err := storage.ReadJournal(context.Background(), w.bucket, ref.Member, ref.N)
		if errors.Is(err, storage.ErrNotFound) { // replaced during the listing: retry
			return w.journals()
		}
		if err != nil {
			w.tb.Fatal(err)
		}
		out = append(out, j)
	}
	return out
}

// untilIdle waits until only one empty journal is left and the index lists every conversation; index
// entries are written concurrently.
func (w *world) untilIdle() {
	w.tb.Helper()
	w.until("an empty journal, and an index of all", func() bool {
		n, missing := 0, map[string]bool{}
		all := w.listing()
		for key := range all {
			if parts := strings.Split(key, "/"); parts[0] == "pending" {
				n++
			} else if len(parts) > 2 && parts[2] == "log" {
				missing[parts[1]] = true
			}
		}
		for key := range all {
			if strings.HasPrefix(key, "index/") {
				delete(missing, path.Base(key))
			}
		}
		j := w.journals()
		return n == 1 && len(j) == 1 && len(j[0].Entries) == 0 && len(missing) == 0
	})
}

// node is a running runtime.
type node struct {
	w      *world
	rt     *actors.Runtime
	counts *storagetest.Counter
	fault  *atomic.Int32 // a storagetest.Kind, applied to every request
	log    *waiting.Log
	logger *slog.Logger // writes to log
	stop   func() error // as SIGTERM does; idempotent
}

// setup configures a node.
type setup struct {
	opts  actors.Options
	model providers.Protocol
	hold  func(storagetest.Op) // see storagetest.Plan
	// shared makes the bucket reachable by other processes, like a cluster's.
	shared bool
	page   int // see [actors.LocalFleet]
}

// newNode returns a node without a runtime and sets the logger and the model of its options. Windows
// are in tokens.
func (w *world) newNode(opts *actors.Options, model providers.Protocol, windows map[string]int) *node {
	w.tb.Helper()
	n := &node{w: w, counts: storagetest.NewCounter(), fault: new(atomic.Int32), log: &waiting.Log{}}
	n.logger = slog.New(outage.NewHandler(slog.NewTextHandler(n.log, nil)))
	opts.Logger = n.logger
	w.tb.Cleanup(func() {
		if w.tb.Failed() {
			w.tb.Logf("log of a node:\n%s", n.log)
		}
	})
	if model == nil {
		return n
	}
	models := map[string]providers.ModelOverride{}
	for id, window := range windows {
		models[id] = providers.ModelOverride{ContextWindow: &window}
	}
	opts.Providers = providers.NewRegistry(nil)
	opts.Providers.RegisterProtocol("test", model)
	input := []string{providers.InputText, providers.InputImage}
	if err := opts.Providers.RegisterProvider("test", providers.Registration{API: "test", BaseURL: "test:", Input: input, Models: models}); err != nil {
		w.tb.Fatal(err)
	}
	return n
}

// link returns the node's access to the bucket. Decide may be nil.
func (n *node) link(decide func(storagetest.Op) storagetest.Kind, hold func(storagetest.Op)) storage.Bucket {
	return storagetest.Faulty(n.counts.Bucket(n.w.nodes), storagetest.Plan{
		Decide: func(op storagetest.Op) storagetest.Kind {
			if kind := storagetest.Kind(n.fault.Load()); kind != 0 || decide == nil {
				return kind
			}
			return decide(op)
		},
		Hold: hold,
	})
}

// run runs the node until it is stopped or the test ends.
func (n *node) run() (done <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- n.rt.Run(ctx)
	}()
	n.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	n.w.tb.Cleanup(func() { _ = n.stop() }) // tests that check the result call stop themselves
	return ended
}

// serves waits until the node is ready.
func (n *node) serves(done <-chan error) {
	n.w.tb.Helper()
	select {
	case <-n.rt.Ready():
	case err := <-done:
		n.w.tb.Fatalf("run ended: %v", err)
	case <-time.After(n.w.patience):
		n.w.tb.Fatal("timed out waiting for a node")
	}
}

// build returns a node that does not run yet.
func (w *world) build(s setup) *node {
	w.tb.Helper()
	n := w.newNode(&s.opts, s.model, nil)
	bucket := n.link(nil, s.hold)
	if s.shared || s.opts.Cluster != nil {
		bucket = storagetest.Shared(bucket)
	}
	var err error
	if n.rt, err = actors.New(bucket, &s.opts); err != nil {
		w.tb.Fatal(err)
	}
	n.rt.SetPageBytes(s.page)
	return n
}

// start starts a node and waits until it is ready. The test stops it.
func (w *world) start(s setup) *node {
	w.tb.Helper()
	n := w.build(s)
	n.serves(n.run())
	return n
}

// cut permanently cuts the node off the bucket, like a crash.
func (n *node) cut() { n.fault.Store(int32(storagetest.Timeout)) }

func (n *node) admit(at conversation.Address, key, body string) conversation.Receipt {
	n.w.tb.Helper()
	return n.accept(message(at, key, body))
}

func (n *node) accept(a conversation.Admission) conversation.Receipt {
	n.w.tb.Helper()
	r, err := n.rt.Admit(context.Background(), a)
	if err != nil {
		n.w.tb.Fatal(err)
	}
	return r
}

// updates reads from an offset to the head, page by page.
func (n *node) updates(at conversation.Address, after conversation.Offset) ([]conversation.Chunk, conversation.Offset) {
	n.w.tb.Helper()
	var out []conversation.Chunk
	for {
		page, err := n.rt.Reader().Updates(context.Background(), at, after, 2)
		if err != nil {
			n.w.tb.Fatal(err)
		}
		var chunks []conversation.Chunk
		if err := json.Unmarshal(page.JSON, &chunks); err != nil {
			n.w.tb.Fatal(err)
		}
		out = append(out, chunks...)
		after = page.Next
		if page.UpToDate {
			return out, after
		}
	}
}

func message(at conversation.Address, key, body string) conversation.Admission {
	return conversation.Admission{Address: at, Key: key, Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body}}
}

func chat(id string) conversation.Address { return conversation.Address{Agent: "chat", ID: id} }

func chatAgent(tools ...agent.Tool) *agent.Agent {
	return &agent.Agent{Name: "chat", Model: spec, Instructions: "Be brief.", Tools: tools}
}

func agents(a ...*agent.Agent) actors.Options {
	return actors.Options{Agents: a, RetryPause: time.Millisecond}
}

// codeIs fails the test unless err has the code.
func codeIs(tb testing.TB, err error, want conversation.Code) *conversation.Error {
	tb.Helper()
	var e *conversation.Error
	if !errors.As(err, &e) || e.Code != want {
		tb.Fatalf("got error %v, want code %s", err, want)
	}
	return e
}

func await[T any](tb testing.TB, ch <-chan T, desc string) T {
	tb.Helper()
	return waiting.For(tb, ch, desc)
}

// eventually polls a state without a channel.
func eventually(tb testing.TB, desc string, ok func() bool) {
	tb.Helper()
	waiting.Until(tb, desc, ok)
}

// script is a model made of a function.
type script func(ctx context.Context, req providers.Request, a *providers.Assembler) error

func (s script) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		a.Bound(o.Limits)
		return s(ctx, req, a)
	})
}

// emits is a model that emits tokens at once and stops.
func emits(tokens int) script {
	return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
		for range tokens {
			a.Text("token ")
		}
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	}
}

// stage is a model that passes each call to the test.
type stage chan *modelCall

// modelCall is a running call. Its methods return when the model has performed them.
type modelCall struct {
	tb      testing.TB
	req     providers.Request
	moves   chan move
	emitted bool // the model has emitted output
}

type move struct {
	act func(*providers.Assembler)
	end bool
	err error
}

func (s stage) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return script(s.runScript).Stream(ctx, m, req, o)
}

func (s stage) runScript(ctx context.Context, req providers.Request, a *providers.Assembler) error {
	c := &modelCall{req: req, moves: make(chan move)}
	select {
	case s <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case m := <-c.moves:
			if m.act != nil {
				m.act(a)
			}
			if m.end {
				return m.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s stage) next(tb testing.TB) *modelCall {
	tb.Helper()
	c := await(tb, s, "a model call")
	c.tb = tb
	return c
}

func (c *modelCall) do(m move) {
	c.tb.Helper()
	c.emitted = true
	select {
	case c.moves <- m:
	case <-time.After(patience):
		c.tb.Fatal("timed out waiting for the model")
	}
}

func (c *modelCall) text(s string) {
	c.tb.Helper()
	c.do(move{act: func(a *providers.Assembler) { a.Text(s) }})
}

func (c *modelCall) call(id, name, arguments string) {
	c.tb.Helper()
	c.do(move{act: func(a *providers.Assembler) { a.CallArguments(a.StartCall(id, name), arguments) }})
}

// finish ends the call. It emits a word if there was no output, because an empty reply would be
// retried.
func (c *modelCall) finish() {
	c.tb.Helper()
	if !c.emitted {
		c.text("done")
	}
	c.do(ended())
}

func ended() move {
	return move{end: true, act: func(a *providers.Assembler) { a.Finish(providers.Done{StopReason: providers.StopStop}) }}
}

// finished is a complete short reply.
func finished() move {
	return move{end: true, act: func(a *providers.Assembler) {
		a.Text("done")
		a.Finish(providers.Done{StopReason: providers.StopStop})
	}}
}

func (c *modelCall) fail(err error) {
	c.tb.Helper()
	c.do(move{end: true, err: err})
}

// seen returns the texts of the messages of a request, "role: text".
func (c *modelCall) seen() []string { return shown(c.req) }

func shown(req providers.Request) []string {
	var out []string
	for _, m := range req.Messages {
		out = append(out, string(m.Role)+": "+textOf(m.Parts))
	}
	return out
}

func textOf(parts []providers.Part) string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, p.Text)
		case providers.Reasoning:
			out = append(out, "("+p.Text+")")
		case providers.Image:
			out = append(out, "["+p.MimeType+"]")
		case providers.ToolCall:
			out = append(out, p.Name+string(p.Arguments))
		case providers.ToolResult:
			mark := "="
			if p.IsError {
				mark = "!"
			}
			out = append(out, p.CallID+mark+textOf(p.Content))
		}
	}
	return strings.Join(out, "|")
}

func TestReadsActivateNothing(t *testing.T) {
	w := newWorld(t)
	first := w.start(setup{opts: agents(chatAgent()), model: emits(3)})
	first.admit(chat("old"), "k", "hello")
	w.untilSettled(chat("old"), 1)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}

	n := w.start(setup{opts: agents(chatAgent()), model: emits(3)})
	before := w.listing()
	n.counts.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := n.rt.Reader()
	head, err := r.Head(ctx, chat("old"))
	if err != nil || head < 1 {
		t.Fatalf("got head %v, %v", head, err)
	}
	if _, err := r.Snapshot(ctx, chat("old")); err != nil {
		t.Error(err)
	}
	if chunks, next := n.updates(chat("old"), conversation.Start); len(chunks) == 0 || next != head {
		t.Errorf("got updates to %v with %d chunks, want %v", next, len(chunks), head)
	}
	if err := r.Wait(ctx, chat("old"), conversation.Start); err != nil {
		t.Error(err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- r.Wait(ctx, chat("old"), head) }()

	_, err = r.Head(ctx, chat("none"))
	codeIs(t, err, conversation.CodeStreamNotFound)
	_, err = r.Snapshot(ctx, chat("none"))
	codeIs(t, err, conversation.CodeStreamNotFound)
	_, err = r.Updates(ctx, chat("none"), conversation.Start, 10)
	codeIs(t, err, conversation.CodeStreamNotFound)
	codeIs(t, r.Wait(ctx, chat("none"), conversation.Start), conversation.CodeStreamNotFound)
	cancel()
	if err := await(t, waiting, "the end of a wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: got %v", err)
	}

	if got := n.rt.Activations(); got != 0 {
		t.Errorf("got %d activations after reads, want 0", got)
	}
	for req, count := range n.counts.Counts() {
		if req.Method != http.MethodGet && req.Method != "LIST" {
			t.Errorf("got %d requests %v of reads", count, req)
		}
	}
	if diff := cmp.Diff(before, w.listing()); diff != "" {
		t.Errorf("reads changed the bucket (-before +after):\n%s", diff)
	}
}

func TestPassivatedConversationIsReopened(t *testing.T) {
	w := newWorld(t)
	opts := agents(chatAgent())
	opts.EvictAfter = time.Millisecond
	n := w.start(setup{opts: opts, model: emits(3)})
	for i := 1; i <= 3; i++ {
		n.admit(chat("c"), fmt.Sprint(i), "hello")
		w.untilSettled(chat("c"), i)
		eventually(t, "passivation", func() bool { return n.rt.Activations() == 0 })
	}
	attempts := only[*conversation.AttemptStarted](w.records(chat("c")))
	writers := map[string]bool{}
	for _, a := range attempts {
		writers[a.Writer] = true
	}
	if len(attempts) != 3 || len(writers) != 3 {
		t.Errorf("got %d attempts of %d writers, want 3 of 3", len(attempts), len(writers))
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
}

// covers: protocol/198
func TestFormatIsCheckedBeforeAnything(t *testing.T) {
	for name, objects := range map[string]map[string]string{
		"version 5": {"format.json": `{"schemaVersion":5,"minWriter":5}`},
		"version 7": {"format.json": `{"schemaVersion":7,"minWriter":7}`},
		"version 9": {"format.json": `{"schemaVersion":9,"minWriter":9}`},
		"garbage":   {"format.json": `garbage`},
		"unstamped": {"somebody/else": `data`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for key, body := range objects {
				if err := w.bucket.Put(t.Context(), key, storage.Bytes([]byte(body))); err != nil {
					t.Fatal(err)
				}
			}
			// The pending work that a started node would take over.
			pending := storage.Journal{Member: "dead", Entries: []storage.JournalEntry{{Conv: chat("c").Key(), Nonce: "n", Seq: -1}}}
			if err := storage.NewJournalWriter(w.bucket).Write(t.Context(), pending); err != nil {
				t.Fatal(err)
			}
			var ran atomic.Bool
			a := &agent.Agent{Name: "chat", Model: spec, InstructionsFunc: func(context.Context, *agent.Turn) (string, error) {
				ran.Store(true)
				return "", nil
			}}
			before := w.listing()
			n := w.build(setup{opts: agents(a), model: emits(1)})
			err := n.rt.Run(t.Context())
			var format *storage.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("run: got %v, want a *storage.FormatError", err)
			}
			select {
			case <-n.rt.Ready():
				t.Error("got a ready node")
			default:
			}
			_, err = n.rt.Admit(t.Context(), message(chat("c"), "k", "hello"))
			codeIs(t, err, conversation.CodeUnavailable)
			if ran.Load() {
				t.Error("agent code ran")
			}
			for req, count := range n.counts.Counts() {
				if req.Method != http.MethodGet && req.Method != "LIST" {
					t.Errorf("got %d requests %v", count, req)
				}
			}
			if diff := cmp.Diff(before, w.listing()); diff != "" {
				t.Errorf("bucket (-before +after):\n%s", diff)
			}
		})
	}
}
