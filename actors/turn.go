package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/actors/internal/summary"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// maxFeedBytes bounds the model output that waits for the activation. Each event counts
// eventBytes beside what it says: that is about what it takes.
const (
	maxFeedBytes = 1 << 20
	eventBytes   = 512
)

// feed carries a model call's events to the activation. Events that wait are
// delivered together, adjacent text as one; a full feed holds the stream back.
type feed struct {
	gen  int
	tell func(any)

	mu     sync.Mutex
	model  string // who speaks
	events []machine.ModelEvent
	text   []byte // more of the last event's text
	bytes  int
	posted bool
	taken  chan struct{} // closed by the next take; nil if nobody asked
}

// push adds an event; it returns the context's error if that ends first.
func (f *feed) push(ctx context.Context, e machine.ModelEvent) error {
	_, err := f.add(ctx, e, false)
	return err
}

// deliver is push, and waits until the activation has taken the event.
func (f *feed) deliver(ctx context.Context, e machine.ModelEvent) error {
	taken, err := f.add(ctx, e, true)
	if err != nil {
		return err
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add adds an event and returns, if it is asked for, what is closed once it was taken.
func (f *feed) add(ctx context.Context, e machine.ModelEvent, asked bool) (taken <-chan struct{}, err error) {
	f.mu.Lock()
	for f.bytes >= maxFeedBytes {
		room := f.nextTake()
		f.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		f.mu.Lock()
	}
	f.bytes += len(e.Text) + len(e.Input) + len(e.Signature)
	if n := len(f.events); n > 0 && f.events[n-1].Kind == e.Kind && (e.Kind == machine.ModelText || e.Kind == machine.ModelReasoning) {
		f.text = append(f.text, e.Text...)
	} else {
		f.endText()
		f.events = append(f.events, e)
		f.bytes += eventBytes
	}
	post := !f.posted
	f.posted = true
	if asked {
		taken = f.nextTake()
	}
	f.mu.Unlock()
	if post {
		f.tell(modelReady{f.gen})
	}
	return taken, nil
}

// endText completes the last event. The caller holds mu.
func (f *feed) endText() {
	if len(f.text) > 0 {
		f.events[len(f.events)-1].Text += string(f.text)
		f.text = f.text[:0]
	}
}

// nextTake returns what the next take closes. The caller holds mu.
func (f *feed) nextTake() <-chan struct{} {
	if f.taken == nil {
		f.taken = make(chan struct{})
	}
	return f.taken
}

// from names the model whose events follow.
func (f *feed) from(model string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model = model
}

// take returns what waits, and who said it.
func (f *feed) take() (model string, out []machine.ModelEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endText()
	out = f.events
	f.events, f.bytes, f.posted = nil, 0, false
	if f.taken != nil {
		close(f.taken)
		f.taken = nil
	}
	return f.model, out
}

// callModel starts a model call. What it needs of the state is copied before it
// returns.
func (a *activation) callModel(e machine.CallModel) {
	state := a.machine.State()
	sub := state.Submission(e.Submission)
	w := a.begin(e.Gen, e.Submission)
	call := &modelCall{
		rt: a.rt, key: a.key, author: w.author, turn: a.turnOf(sub, e.Step), fresh: sub.Message == "" && sub.Child == "",
		fallback: e.Fallback, exchanges: prompt.Exchanges(state, sub.ID), session: string(state.Created().ConversationID),
		compacted: state.Compacted(sub.ID), history: a.archive, limits: a.replyLimits(),
		sender: a.senderOf(rootOf(state, sub.ID)), told: a.tellerOf(e.Submission, e.Turn),
	}
	if sub.Child == "" {
		call.closed = a.archive.Cut()
	} else {
		call.session = string(sub.Child)
	}
	a.rt.spawn(func() { call.run(w.ctx, w.feed) })
}

// replyLimits bound one reply of a model.
func (a *activation) replyLimits() providers.Limits {
	l := a.rt.agents[a.machine.State().Created().Agent].Limits.WithDefaults()
	return providers.Limits{ReplyBytes: l.ResponseBytes, ArgumentBytes: l.ArgumentBytes, Calls: l.CallsPerReply}
}

// turnOf is the facts an author's functions get of a turn.
func (a *activation) turnOf(sub *conversation.Submission, step int) *agent.Turn {
	state := a.machine.State()
	created, root := state.Created(), rootOf(state, sub.ID)
	return &agent.Turn{
		Address: created.Address(), UID: created.UID,
		Submission: root.ID, Attempt: root.Attempts, Step: step, Delivery: sub.Delivery, InitialData: created.InitialData,
	}
}

// callCost is how many bytes a byte of text takes that a model is shown: it is copied once
// more into the vendor's encoding, and that into the request.
const callCost = 2

// modelCall is one model call outside the actor.
type modelCall struct {
	rt        *Runtime
	key       conversation.Key
	author    *author
	turn      *agent.Turn
	fresh     bool // the response has not begun
	fallback  int  // models that were given up
	model     string
	more      bool                    // there is another model to ask
	compacted *conversation.Compacted // what the view begins with, or nil
	history   *history.Archive
	closed    []*history.Page // what comes before exchanges
	exchanges []conversation.Exchange
	session   string
	thinking  providers.ThinkingLevel
	limits    providers.Limits
	sender    *sender
	told      *teller
}

// run makes the call. Whatever happens, the last event it pushes ends the call.
func (c *modelCall) run(ctx context.Context, f *feed) {
	end, err := c.stream(ctx, f)
	if err != nil {
		if ctx.Err() != nil {
			return // the run was cancelled; nobody listens
		}
		c.rt.log.Error("model call failed", "conversation", string(c.key), "agent", c.author.name, "id", c.turn.Address.ID,
			"submission", string(c.turn.Submission), "model", c.model, "err", logged(err), "cause", cause(err, c.rt.showsContent(c.turn.Address.Agent)))
		c.told.log(slog.LevelWarn, observability.LogCallFailed, map[string]any{"model": c.model, "reason": reasonOf(err)})
		end = c.failed(err)
	}
	// An error means that the run was cancelled.
	_ = f.push(ctx, end)
}

// errOverflow is a reply that shows that its request did not fit.
var errOverflow = errors.New("the model dropped what did not fit into its window")

// failed is the event for a call that failed.
func (c *modelCall) failed(err error) machine.ModelEvent {
	out := machine.ModelEvent{Kind: machine.ModelFailed, Err: settlementError(err)}
	var vendor *providers.Error
	var over *providers.LimitError
	switch {
	case errors.As(err, &over):
		// It would be too much once more, and another model has no more room.
		out.TooManyCalls = over.What == providers.LimitedCalls
		return out
	case errors.Is(err, storage.ErrUnavailable):
		// The bucket is away: nothing could be asked, so nothing is held against the model.
		out.Unasked, out.Retry = !errors.Is(err, errInstructions), true
	case errors.Is(err, errSilence), errors.Is(err, errTooLong):
		out.Retry = true
	case errors.Is(err, errOverflow), errors.Is(err, history.ErrTooLong):
		out.Overflow = true
	case errors.As(err, &vendor):
		out.Retry, out.RetryAfter = vendor.Retryable(), vendor.RetryAfter
		out.Overflow = vendor.Kind == providers.KindContextOverflow
	}
	// Another model helps with what a model did, not with what the agent did.
	out.Fallback = c.more && !errors.Is(err, errInstructions)
	if out.Overflow {
		out.Err.Message = sayTooLong
	}
	return out
}

// stream pushes all events but the last, which it returns.
func (c *modelCall) stream(ctx context.Context, f *feed) (end machine.ModelEvent, err error) {
	own, err := c.rt.history.Whole(ctx, c.key, c.exchanges[len(c.exchanges)-1:], c.rt.viewBytes)
	if err != nil {
		return end, err
	}
	c.turn.Delivery = own[0].Delivery
	setup, err := c.author.prepare(ctx, c.turn)
	if err != nil {
		return end, fmt.Errorf("%w: %w", errInstructions, err)
	}
	c.model, c.more = c.author.choose(setup, c.fallback)
	f.from(c.model)
	if err := c.startResponse(ctx, f); err != nil {
		return end, err
	}
	blocks, now, err := c.view(ctx)
	if err != nil {
		return end, err
	}
	shown := providers.TextBytes(now)
	for _, b := range blocks {
		shown += b.TextBytes()
	}
	c.rt.accounts.calls.Add(callCost * int64(shown))
	defer c.rt.accounts.calls.Add(-callCost * int64(shown))
	defer history.Limit(blocks)
	c.thinking = providers.ThinkingLevel(setup.ThinkingLevel)
	req := providers.Request{System: setup.Instructions, History: blocks, Messages: now}
	for _, t := range setup.Tools {
		req.Tools = append(req.Tools, providers.Tool{Name: t.Name(), Description: t.Description(), InputSchema: t.InputSchema()})
	}
	if len(setup.Subagents) > 0 && c.author.depth < conversation.MaxDepth {
		req.Tools = append(req.Tools, taskTool(setup))
	}
	return c.listen(ctx, f, setup, req)
}

// listen pushes what the model says. It gives up a call that is silent or endless.
func (c *modelCall) listen(ctx context.Context, f *feed, setup *agent.Setup, req providers.Request) (end machine.ModelEvent, err error) {
	call, watch := c.rt.watch(ctx)
	defer watch.end()
	opts := providers.Options{ThinkingLevel: c.thinking, SessionID: c.session, Limits: c.limits}
	c.request(req)
	progress := c.told.progress()
	for e, err := range c.rt.opts.Providers.Stream(call, c.model, req, opts) {
		if err != nil {
			return end, watch.cause(ctx, err)
		}
		// Waiting for room in a full feed is not the model's silence.
		watch.pause()
		if done, ok := e.(providers.Done); ok {
			if end, err = c.done(done); err != nil {
				return end, err
			}
			continue
		}
		progress.show(e)
		if out, ok := modelEvent(e, setup); ok {
			if err := f.push(ctx, out); err != nil {
				return end, err
			}
		}
		watch.heard()
	}
	if end.Kind != machine.ModelDone {
		return end, errors.New("stream ended without its end")
	}
	return end, nil
}

// done is the event for the end of a call.
func (c *modelCall) done(d providers.Done) (machine.ModelEvent, error) {
	end := machine.ModelEvent{Kind: machine.ModelDone, StopReason: string(d.StopReason), Usage: conversation.Usage(d.Usage)}
	model, err := c.rt.opts.Providers.Resolve(c.model)
	if err != nil {
		return end, err
	}
	if providers.Overflowed(model, d) {
		return end, errOverflow
	}
	end.Full = full(c.author.compaction(), model, d.Usage)
	end.Facts = factsOf(model, c.thinking, d)
	return end, nil
}

// view returns what the model is shown.
func (c *modelCall) view(ctx context.Context) (blocks []*providers.Block, now []providers.Message, err error) {
	open, older := prompt.Since(c.exchanges, c.compacted)
	if older && len(c.closed) > 0 {
		if blocks, err = c.history.Blocks(ctx, c.closed, c.compacted, c.exchanges[0].Submission, c.rt.viewBytes); err != nil {
			return nil, nil, err
		}
	}
	room := c.rt.viewBytes
	for _, b := range blocks {
		room -= b.TextBytes()
	}
	if open, err = c.rt.history.Whole(ctx, c.key, open, room); err != nil {
		return nil, nil, err
	}
	size := 0
	for i := range open {
		size += summary.Bytes(open[i])
	}
	if size > maxViewBytes {
		return nil, nil, history.ErrTooLong
	}
	if now, err = prompt.Messages(c.rt.bucket, c.key, open); err != nil || c.compacted == nil {
		return blocks, now, err
	}
	begin := []providers.Message{prompt.Summary(c.compacted)}
	if len(blocks) == 0 {
		return nil, append(begin, now...), nil
	}
	return append([]*providers.Block{providers.NewBlock(begin)}, blocks...), now, nil
}

// watch bounds the silence and the length of a model call.
type watch struct {
	rt      *Runtime
	call    context.Context
	giveUp  context.CancelCauseFunc
	silence *time.Timer
	whole   *time.Timer
}

// watch returns the context of a model call, which ends when the model is silent or
// goes on for too long.
func (r *Runtime) watch(ctx context.Context) (context.Context, *watch) {
	w := &watch{rt: r}
	w.call, w.giveUp = context.WithCancelCause(ctx)
	w.silence = time.AfterFunc(r.opts.FirstEvent, func() { w.giveUp(errSilence) })
	w.whole = time.AfterFunc(r.opts.WholeCall, func() { w.giveUp(errTooLong) })
	return w.call, w
}

// pause stops counting silence until heard.
func (w *watch) pause() { w.silence.Stop() }

// heard says that the model has spoken.
func (w *watch) heard() { w.silence.Reset(w.rt.opts.BetweenEvents) }

// cause returns why the call was given up, or err.
func (w *watch) cause(ctx context.Context, err error) error {
	if ctx.Err() == nil && w.call.Err() != nil {
		return context.Cause(w.call)
	}
	return err
}

func (w *watch) end() {
	w.silence.Stop()
	w.whole.Stop()
	w.giveUp(nil)
}

// modelEvent translates a provider's event; those that only show progress are
// left out.
func modelEvent(e providers.Event, setup *agent.Setup) (machine.ModelEvent, bool) {
	switch e := e.(type) {
	case providers.TextDelta:
		return machine.ModelEvent{Kind: machine.ModelText, Text: e.Text}, true
	case providers.ReasoningDelta:
		return machine.ModelEvent{Kind: machine.ModelReasoning, Text: e.Text}, true
	case providers.ReasoningEnd:
		return machine.ModelEvent{Kind: machine.ModelSignature, Part: conversation.PartReasoning, Text: e.Signature}, e.Signature != ""
	case providers.TextEnd:
		return machine.ModelEvent{Kind: machine.ModelSignature, Part: conversation.PartText, Text: e.Signature}, true
	case providers.ToolCallEnd:
		// Clients require a name; no tool has this one, so the model is told.
		name := cmp.Or(e.Name, "unnamed")
		input := e.Arguments
		if err := conversation.CheckPayload(input); err != nil {
			// No tool takes a string, so the model is told.
			input, _ = json.Marshal(fmt.Sprintf("(left out: what was sent %v)", err))
		}
		tool, ok := setup.Tool(name)
		return machine.ModelEvent{
			Kind: machine.ModelCall, ProviderCall: e.ID, Signature: e.Signature, Name: name, Input: input, Durable: ok && tool.Durable(),
		}, true
	}
	return machine.ModelEvent{}, false
}

// errSilence is the cause of a call that was given up because nothing came.
var errSilence = errors.New("model was silent for too long")

// errTooLong is the cause of a call that went on for longer than any may.
var errTooLong = errors.New("model call took too long")

// maxLogged bounds each of the words of a vendor or an author in a line of the log, in
// bytes.
const maxLogged = 2 << 10

// logged is an error for a line of the log.
func logged(err error) slog.Value { return slog.StringValue(shortened(err.Error())) }

func shortened(s string) string { return conversation.CutText(s, maxLogged) }

// showsContent reports whether what people and models say in conversations of an agent
// may be shown to operators.
func (r *Runtime) showsContent(name string) bool {
	a := r.agents[name]
	return a != nil && a.Events.Content
}

// cause is what an error keeps for logs only: the value and stack of a panic, or a
// vendor's own words, which may repeat the request and so are content. Without either it
// is an empty group, which handlers leave out.
func cause(err error, content bool) slog.Value {
	var vendor *providers.Error
	var crash *agent.PanicError
	switch {
	case errors.As(err, &vendor) && content && len(vendor.Body) > 0:
		return slog.StringValue(shortened(string(vendor.Body)))
	case errors.As(err, &crash):
		return slog.StringValue(fmt.Sprintf("panic: %s\n%s", shortened(fmt.Sprint(crash.Value)), crash.Stack))
	}
	return slog.GroupValue()
}

// errInstructions marks what went wrong before the model was asked.
var errInstructions = errors.New("evaluate instructions")

// reasonOf is the kind of failure of a model call, for logs.
func reasonOf(err error) any {
	told := settlementError(err)
	if reason, ok := told.Meta["reason"]; ok {
		return reason
	}
	return string(told.Type)
}

// settlementError says in our words why a model call failed: a vendor's text
// never reaches a client.
func settlementError(err error) *conversation.SettlementError {
	if errors.Is(err, errInstructions) {
		return &conversation.SettlementError{Type: conversation.CodeInternal, Message: sayNoInstructions}
	}
	var over *providers.LimitError
	if errors.As(err, &over) {
		return &conversation.SettlementError{
			Type: conversation.CodeOutputTooLong, Message: fmt.Sprintf(sayOutputTooLong, over.What, over.Limit),
			Meta: map[string]any{"limit": over.Limit, "bytes": over.Got},
		}
	}
	reason := "internal"
	var pe *providers.Error
	if errors.As(err, &pe) {
		reason = string(pe.Kind)
	}
	return &conversation.SettlementError{
		Type: conversation.CodeModelFailed, Message: sayModelFailed, Meta: map[string]any{"reason": reason},
	}
}
