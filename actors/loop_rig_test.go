package actors_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// longest bounds the waits of tests in a bubble, in virtual time.
const longest = 6 * time.Hour

// loop is a bucket and the nodes over it, in a bubble.
type loop struct {
	*world
	fleet *actors.LocalFleet
}

// inLoop runs a test in a bubble.
func inLoop(t *testing.T, test func(t *testing.T, l *loop)) {
	t.Helper()
	fleet := actors.NewLocalFleet(t)
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // The actor system's dead-letter counter ends by itself.
		test(t, newLoop(t, fleet))
	})
}

func newLoop(t *testing.T, fleet *actors.LocalFleet) *loop {
	w := newWorld(t)
	w.patience = longest
	return &loop{w, fleet}
}

// part configures a node of a loop.
type part struct {
	opts    actors.Options
	vendor  *vendor
	windows map[string]int        // of the models, in tokens
	limits  providers.InputLimits // of all models, which then have no windows
	price   float64               // of all models, in dollars per million tokens of input; likewise
	page    int                   // see [actors.LocalFleet]
	decide  func(storagetest.Op) storagetest.Kind
	hold    func(storagetest.Op) // see storagetest.Plan
	over    func(storage.Bucket) storage.Bucket
}

// actorNode is a node that can crash.
type actorNode struct {
	*node
	stopActors func()
}

// run starts a node and waits until it serves. The test stops it.
func (l *loop) run(p part) *actorNode {
	l.tb.Helper()
	n, done := l.begin(p, nil)
	n.serves(done)
	return n
}

// begin starts a node over a bucket, nil for the one of its part.
func (l *loop) begin(p part, bucket storage.Bucket) (*actorNode, <-chan error) {
	l.tb.Helper()
	n := &actorNode{node: l.newNode(&p.opts, p.vendor, p.windows)}
	if p.limits != (providers.InputLimits{}) || p.price > 0 {
		limited := &providers.Provider{ID: "test", BaseURL: "test:"}
		for id := range p.vendor.models {
			limited.Models = append(limited.Models, providers.CatalogModel{ID: id, API: "test", Input: sighted.Input, InputLimits: p.limits, Cost: providers.Cost{Rates: providers.Rates{Input: p.price}}})
		}
		if err := p.opts.Providers.SetProvider(limited); err != nil {
			l.tb.Fatal(err)
		}
	}
	if bucket == nil {
		bucket = n.link(p.decide, p.hold)
	}
	if p.over != nil {
		bucket = p.over(bucket)
	}
	var err error
	if n.rt, n.stopActors, err = l.fleet.Node(l.tb, bucket, &p.opts, p.page); err != nil {
		l.tb.Fatal(err)
	}
	return n, n.node.run()
}

// crash crashes a node: none of its requests lands any more, and none of its goroutines continues.
func (n *actorNode) crash() {
	n.cut()
	n.stopActors()
	_ = n.stop() // its errors about the missing bucket do not matter
}

// settles waits until a conversation has n settlements and all goroutines are idle.
func (l *loop) settles(at conversation.Address, n int) []*conversation.SubmissionSettled {
	l.tb.Helper()
	l.untilSettled(at, n)
	synctest.Wait()
	got := only[*conversation.SubmissionSettled](l.records(at))
	if len(got) != n {
		l.tb.Errorf("got %d settlements of %s, want %d", len(got), at.ID, n)
	}
	seen := map[conversation.SubmissionID]bool{}
	for _, s := range got {
		if seen[s.Submission] {
			l.tb.Errorf("duplicate settlement of %s", s.Submission)
		}
		seen[s.Submission] = true
	}
	return got
}

// completes is settles, and checks that the last submission completed.
func (l *loop) completes(at conversation.Address, n int) {
	l.tb.Helper()
	if got := l.settles(at, n); got[n-1].Outcome != conversation.OutcomeCompleted {
		l.tb.Errorf("got settlement %+v with error %+v", got[n-1], got[n-1].Error)
	}
}

// batchWith returns the batch with the only matching record of a type, and fails the test if there is
// none.
func batchWith[T conversation.Record](l *loop, at conversation.Address, fits func(T) bool) []conversation.Record {
	l.tb.Helper()
	for _, b := range l.batches(at) {
		if slices.ContainsFunc(only[T](b), fits) {
			return b
		}
	}
	l.tb.Fatalf("no matching record in\n%s", l.lines(at))
	return nil
}

// vendor is a vendor whose models are scripts, by id. It keeps the requests.
type vendor struct {
	models map[string]script

	mu    sync.Mutex
	asked []modelRequest
}

// modelRequest is one request to a model.
type modelRequest struct {
	model string
	req   providers.Request
	o     providers.Options
	at    time.Time
}

// onlyModel is a vendor of the one model named by [spec].
func onlyModel(s script) *vendor { return &vendor{models: map[string]script{"model": s}} }

func (c *vendor) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	c.mu.Lock()
	c.asked = append(c.asked, modelRequest{m.ID, req, o, time.Now()})
	c.mu.Unlock()
	s := c.models[m.ID]
	if s == nil {
		s = fails(&providers.Error{Kind: providers.KindInvalidRequest, Status: 404})
	}
	return s.Stream(ctx, m, req, o)
}

// requests returns the requests to a model so far, "" for all models.
func (c *vendor) requests(model string) []modelRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []modelRequest
	for _, a := range c.asked {
		if model == "" || a.model == model {
			out = append(out, a)
		}
	}
	return out
}

// last returns the messages of the newest request to a model.
func (c *vendor) last(tb testing.TB, model string) []string {
	tb.Helper()
	list := c.requests(model)
	if len(list) == 0 {
		tb.Fatalf("got no call of model %s", model)
	}
	return list[len(list)-1].seen()
}

// seen returns the texts of all messages of a request, history first.
func (a modelRequest) seen() []string {
	req := a.req
	var all []providers.Message
	for _, b := range req.History {
		all = append(all, providers.TransformBlock(providers.Model{Input: []string{providers.InputText, providers.InputImage}}, b)...)
	}
	req.Messages = append(all, req.Messages...)
	return shown(req)
}

// inTurn answers each call with the next script, and repeats the last.
func inTurn(scripts ...script) script {
	var n atomic.Int32
	return func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		i := min(int(n.Add(1)), len(scripts))
		return scripts[i-1](ctx, req, a)
	}
}

// replies answers with a text.
func replies(text string) script {
	return repliesAt(text, providers.Usage{Input: 10, Output: 2, Total: 12})
}

func repliesAt(text string, u providers.Usage) script {
	return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
		a.Text(text)
		a.Finish(providers.Done{StopReason: providers.StopStop, Usage: u})
		return nil
	}
}

// toolCalls answers with calls, each a name and its input; their ids are p1, p2 and so on.
func toolCalls(calls ...string) script {
	return toolCallsAt(providers.Usage{Input: 10, Output: 5, Total: 15}, calls...)
}

func toolCallsAt(u providers.Usage, calls ...string) script {
	return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
		for i, c := range calls {
			name, input, _ := strings.Cut(c, " ")
			if input == "" {
				input = "{}"
			}
			a.CallArguments(a.StartCall(fmt.Sprintf("p%d", i+1), name), input)
		}
		a.Finish(providers.Done{StopReason: providers.StopToolUse, Usage: u})
		return nil
	}
}

// task is a call that delegates a task to a subagent.
func task(name, prompt string) string {
	return fmt.Sprintf(`task {"agent":%q,"prompt":%q}`, name, prompt)
}

// fails answers with an error.
func fails(err error) script {
	return func(context.Context, providers.Request, *providers.Assembler) error { return err }
}

// hangs emits a text, closes begun unless it is nil, and then blocks.
func hangs(text string, begun chan<- struct{}) script {
	return func(ctx context.Context, _ providers.Request, a *providers.Assembler) error {
		if text != "" {
			a.Text(text)
		}
		if begun != nil {
			close(begun)
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// held waits for release before it continues with next.
func held(begun chan<- struct{}, release <-chan struct{}, next script) script {
	return func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		close(begun)
		select {
		case <-release:
			return next(ctx, req, a)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// returning is a tool that returns a text at once.
func returning(name, text string) agent.Tool {
	return agent.NewTool(name, "Returns a text.", func(context.Context, struct{}) (string, error) { return text, nil }, nil)
}

func wants(tb testing.TB, desc, text string, parts ...string) {
	tb.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			tb.Errorf("%s lacks %q: %s", desc, p, text)
		}
	}
}

func lacks(tb testing.TB, desc, text string, parts ...string) {
	tb.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			tb.Errorf("%s holds %q: %s", desc, p, text)
		}
	}
}

// public returns all that clients can read of a conversation: its snapshot, and every chunk from the
// start.
func (n *actorNode) public(at conversation.Address) string {
	n.w.tb.Helper()
	page, err := n.rt.Reader().Snapshot(context.Background(), at)
	if err != nil {
		n.w.tb.Fatal(err)
	}
	var out strings.Builder
	out.Write(page.JSON)
	for after, more := conversation.Start, true; more; {
		page, err := n.rt.Reader().Updates(context.Background(), at, after, 2)
		if err != nil {
			n.w.tb.Fatal(err)
		}
		out.Write(page.JSON)
		after, more = page.Next, !page.UpToDate
	}
	return out.String()
}
