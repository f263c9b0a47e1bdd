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

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// maxFeedBytes bounds the model output that waits for the activation.
const maxFeedBytes = 1 << 20

// feed carries a model call's events to the activation. Events that wait are
// delivered together, adjacent text as one; a full feed holds the stream back.
type feed struct {
	gen   int
	model string
	tell  func(any)

	mu     sync.Mutex
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
	f.bytes += len(e.Text) + len(e.Input)
	if n := len(f.events); n > 0 && f.events[n-1].Kind == e.Kind && (e.Kind == machine.ModelText || e.Kind == machine.ModelReasoning) {
		f.text = append(f.text, e.Text...)
	} else {
		f.endText()
		f.events = append(f.events, e)
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

// take returns what waits.
func (f *feed) take() []machine.ModelEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endText()
	out := f.events
	f.events, f.bytes, f.posted = nil, 0, false
	if f.taken != nil {
		close(f.taken)
		f.taken = nil
	}
	return out
}

// drainFeed gives the machine what the model call gen has produced, unless it has
// no room: then the next landed append asks again.
func (a *activation) drainFeed(gen int) {
	if a.feed == nil || a.feed.gen != gen {
		return
	}
	if a.machine.Full() {
		a.starved = true
		return
	}
	a.step(machine.Model{Gen: gen, Name: a.feed.model, Events: a.feed.take()})
}

// callModel starts a model call. What it needs of the state is copied before it
// returns.
func (a *activation) callModel(e machine.CallModel) {
	state := a.machine.State()
	created := state.Created()
	ag := a.rt.agents[created.Agent]
	sub := state.Submission(e.Submission)
	call := &modelCall{
		rt: a.rt, key: a.key, agent: ag, turn: a.turnOf(sub, e.Attempt, e.Step), fresh: sub.Message == "",
		exchanges: exchangesOf(state, sub.ID), session: string(created.ConversationID),
		history: a.history, closed: a.history.cut(),
	}
	ctx, f := a.beginRun(e.Gen)
	a.rt.spawn(func() { call.run(ctx, f) })
}

// turnOf is the facts an author's functions get of a turn.
func (a *activation) turnOf(sub *conversation.Submission, attempt, step int) *agent.Turn {
	created := a.machine.State().Created()
	return &agent.Turn{
		Address: conversation.Address{Agent: created.Agent, ID: created.ID}, UID: created.UID,
		Submission: sub.ID, Attempt: attempt, Step: step, Delivery: sub.Delivery, InitialData: created.InitialData,
	}
}

// beginRun makes the context and the feed of what runs under gen, and ends what ran
// before.
func (a *activation) beginRun(gen int) (context.Context, *feed) {
	a.endRun()
	a.runCtx, a.cancelRun = context.WithCancel(a.ctx)
	a.feed = &feed{gen: gen, model: a.rt.agents[a.machine.State().Created().Agent].Model, tell: a.tell}
	return a.runCtx, a.feed
}

// endRun cancels the model call and the tools under way, if any.
func (a *activation) endRun() {
	if a.cancelRun != nil {
		a.cancelRun()
		a.cancelRun, a.feed, a.starved = nil, nil, false
	}
}

// modelCall is one model call outside the actor.
type modelCall struct {
	rt        *Runtime
	key       conversation.Key
	agent     *agent.Agent
	turn      *agent.Turn
	fresh     bool // the response has not begun
	history   *history
	closed    []*closedPage // what comes before exchanges
	exchanges []exchange
	session   string
}

// run makes the call. Whatever happens, the last event it pushes ends the call.
func (c *modelCall) run(ctx context.Context, f *feed) {
	end, err := c.stream(ctx, f)
	if err != nil {
		if ctx.Err() != nil {
			return // the run was cancelled; nobody listens
		}
		c.rt.log.Error("model call failed", "conversation", string(c.key), "agent", c.turn.Address.Agent, "id", c.turn.Address.ID,
			"submission", string(c.turn.Submission), "model", c.agent.Model, "err", err, "cause", cause(err))
		end = failedCall(err)
	}
	// An error means that the run was cancelled.
	_ = f.push(ctx, end)
}

// errSilence is the cause of a call that was given up because nothing came.
var errSilence = errors.New("model was silent for too long")

// errTooLong is the cause of a call that went on for longer than any may.
var errTooLong = errors.New("model call took too long")

// failedCall is the event for a call that failed.
func failedCall(err error) machine.ModelEvent {
	out := machine.ModelEvent{Kind: machine.ModelFailed, Err: settlementError(err)}
	var vendor *providers.Error
	switch {
	case errors.Is(err, errSilence), errors.Is(err, errTooLong), errors.Is(err, storage.ErrUnavailable):
		out.Retry = true
	case errors.As(err, &vendor):
		out.Retry, out.RetryAfter = vendor.Retryable(), vendor.RetryAfter
	}
	return out
}

// stream pushes all events but the last, which it returns. It gives up a call that
// is silent or endless.
func (c *modelCall) stream(ctx context.Context, f *feed) (end machine.ModelEvent, err error) {
	system, err := c.agent.InstructionsFor(ctx, c.turn)
	if err != nil {
		return end, fmt.Errorf("%w: %w", errInstructions, err)
	}
	if err := c.startResponse(ctx, f); err != nil {
		return end, err
	}
	history, err := c.history.blocks(ctx, c.closed, c.exchanges[0].submission)
	if err != nil {
		return end, err
	}
	defer limit(history)
	now, err := c.rt.messages(c.key, c.exchanges)
	if err != nil {
		return end, err
	}
	req := providers.Request{System: system, History: history, Messages: now}
	for _, t := range c.agent.Tools {
		req.Tools = append(req.Tools, providers.Tool{Name: t.Name(), Description: t.Description(), InputSchema: t.InputSchema()})
	}
	o := &c.rt.opts
	call, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	silence := time.AfterFunc(o.FirstEvent, func() { giveUp(errSilence) })
	defer silence.Stop()
	whole := time.AfterFunc(o.WholeCall, func() { giveUp(errTooLong) })
	defer whole.Stop()
	opts := providers.Options{ThinkingLevel: providers.ThinkingLevel(c.agent.ThinkingLevel), SessionID: c.session}
	for e, err := range o.Providers.Stream(call, c.agent.Model, req, opts) {
		if err != nil {
			if ctx.Err() == nil && call.Err() != nil {
				err = context.Cause(call)
			}
			return end, err
		}
		// Waiting for room in a full feed is not the model's silence.
		silence.Stop()
		if done, ok := e.(providers.Done); ok {
			end = machine.ModelEvent{Kind: machine.ModelDone, StopReason: string(done.StopReason), Usage: conversation.Usage(done.Usage)}
			continue
		}
		if out, ok := modelEvent(e); ok {
			if err := f.push(ctx, out); err != nil {
				return end, err
			}
		}
		silence.Reset(o.BetweenEvents)
	}
	if end.Kind != machine.ModelDone {
		return end, errors.New("stream ended without its end")
	}
	return end, nil
}

// modelEvent translates a provider's event; those that only show progress are
// left out.
func modelEvent(e providers.Event) (machine.ModelEvent, bool) {
	switch e := e.(type) {
	case providers.TextDelta:
		return machine.ModelEvent{Kind: machine.ModelText, Text: e.Text}, true
	case providers.ReasoningDelta:
		return machine.ModelEvent{Kind: machine.ModelReasoning, Text: e.Text}, true
	case providers.ReasoningEnd:
		return machine.ModelEvent{Kind: machine.ModelSignature, Text: e.Signature}, e.Signature != ""
	case providers.ToolCallEnd:
		// Clients require a name; no tool has this one, so the model is told.
		name := cmp.Or(e.Name, "unnamed")
		input := e.Arguments
		if err := conversation.CheckPayload(input); err != nil {
			// No tool takes a string, so the model is told.
			input, _ = json.Marshal(fmt.Sprintf("(left out: what was sent %v)", err))
		}
		return machine.ModelEvent{Kind: machine.ModelCall, ProviderCall: e.ID, Name: name, Input: input}, true
	}
	return machine.ModelEvent{}, false
}

// maxLoggedBody bounds a vendor's words in a log line, in bytes.
const maxLoggedBody = 2 << 10

// cause is what an error keeps for logs only: a vendor's own words, or the value
// and stack of a panic. Without either it is an empty group, which handlers leave out.
func cause(err error) slog.Value {
	var vendor *providers.Error
	var crash *agent.PanicError
	switch {
	case errors.As(err, &vendor) && len(vendor.Body) > 0:
		return slog.StringValue(string(vendor.Body[:min(len(vendor.Body), maxLoggedBody)]))
	case errors.As(err, &crash):
		return slog.StringValue(fmt.Sprintf("panic: %v\n%s", crash.Value, crash.Stack))
	}
	return slog.GroupValue()
}

// errInstructions marks what went wrong before the model was asked.
var errInstructions = errors.New("evaluate instructions")

// settlementError says in our words why a model call failed: a vendor's text
// never reaches a client.
func settlementError(err error) *conversation.SettlementError {
	if errors.Is(err, errInstructions) {
		return &conversation.SettlementError{Type: conversation.CodeInternal, Message: sayNoInstructions}
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

// runTool starts a tool call; [machine.ToolDone] brings its outcome.
func (a *activation) runTool(e machine.RunTool) {
	created := a.machine.State().Created()
	ctx := agent.WithCall(a.runCtx, agent.Call{
		Address: conversation.Address{Agent: created.Agent, ID: created.ID}, UID: created.UID,
		Submission: e.Submission, Attempt: a.machine.State().Submission(e.Submission).Attempts, Turn: e.Turn, ID: e.Call,
	})
	ag := a.rt.agents[created.Agent]
	ctx = agent.WithData(ctx, a.feed.writer(a.runCtx, ag))
	tool, ok := ag.Tool(e.Name)
	log := a.log
	a.rt.spawn(func() {
		done := machine.ToolDone{Gen: e.Gen, Call: e.Call}
		if !ok {
			done.NotRun, done.Failed, done.ErrorText = true, true, fmt.Sprintf(sayUnknownTool, e.Name)
			a.tell(done)
			return
		}
		began := time.Now()
		out, err := tool.Call(ctx, e.Input)
		done.Duration = time.Since(began)
		if err != nil {
			if ctx.Err() != nil {
				return // the run was cancelled; nobody listens
			}
			log.Warn("tool failed", "tool", e.Name, "call", string(e.Call), "err", err, "cause", cause(err))
			done.Failed, done.ErrorText = true, err.Error()
		}
		if err == nil {
			if err := conversation.CheckPayload(out); err != nil {
				log.Warn("tool output refused", "tool", e.Name, "call", string(e.Call), "err", err)
				done.Failed, done.ErrorText, out = true, fmt.Sprintf(sayOutputRefused, err), nil
			}
		}
		done.Output = out
		a.tell(done)
	})
}
