package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/actors/internal/summary"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

func (r *Runner) callModel(e machine.CallModel, v *view) {
	w := r.begin(e.Gen, v)
	limits := r.node.o.Agents[v.created.Agent].Limits.WithDefaults()
	call := &modelCall{
		node: r.node, key: r.o.Key, author: w.author, turn: v.turn(e.Number), fresh: v.message == "" && v.child == "",
		avoid: e.Avoid, exchanges: v.exchanges, session: string(v.created.ConversationID),
		shown: withoutMore(v.shown, e.Without), archive: r.o.Archive,
		limits: providers.Limits{ReplyBytes: limits.ResponseBytes, ArgumentBytes: limits.ArgumentBytes, Calls: limits.CallsPerReply},
		sender: r.senderOf(v), live: r.live(v, e.Turn),
	}
	if v.child == "" {
		call.closed = r.o.Archive.Cut()
	} else {
		call.session = string(v.child)
	}
	w.call = call
	r.spawn(func() { call.run(w.ctx, w.feed) })
}

// unrecorded emits the turn of a model call without a record, if its request was sent.
func (r *Runner) unrecorded(e machine.CallUnrecorded) {
	w := r.works[e.Gen]
	if w == nil || w.call == nil {
		return
	}
	request := w.call.requested.Load()
	if request == nil {
		return
	}
	t := observability.FailedTurn(request.model, request.facts, e.Reason, e.DurationMs, e.Retries)
	t.Dropped = e.Repeated
	w.call.live.Emit(t)
}

// callCost is the memory factor of text in a request: it is copied into the vendor's encoding, and
// that into the request.
const callCost = 2

type modelCall struct {
	node      *Node
	key       conversation.Key
	author    *author
	turn      *agent.Turn
	fresh     bool     // the response has not started
	avoid     []string // models that have failed
	model     string
	more      bool // another model is left
	shown     prompt.View
	images    []conversation.AttachmentID // images in the request, oldest first
	newest    int                         // number of images in the newest message that has any
	archive   *history.Archive
	closed    []*history.Page // history before exchanges
	exchanges []conversation.Exchange
	asked     int // approximate size of the request text
	session   string
	thinking  providers.ThinkingLevel
	limits    providers.Limits
	sender    *sender
	live      *events.Live
	requested atomic.Pointer[request] // set once turn_request is emitted
}

// request is a model call as reported by turn_request.
type request struct {
	model string
	facts conversation.CallFacts
}

// run makes the call. The last event that it pushes always ends the call.
func (c *modelCall) run(ctx context.Context, f *feed) {
	end, err := c.stream(ctx, f)
	if err != nil {
		if ctx.Err() != nil {
			return // the work was cancelled
		}
		end = c.failed(err)
		level := slog.LevelError
		if end.Retry || end.Fallback || end.Overflow || len(end.Images) > 0 {
			level = slog.LevelWarn // another attempt follows
		}
		c.node.o.Logger.Log(ctx, level, "model call failed", "conversation", string(c.key), "agent", c.author.name, "id", c.turn.Address.ID,
			"submission", string(c.turn.Submission), "model", c.model, "err", logged(err), "cause", c.node.cause(err, c.turn.Address.Agent))
		c.node.health.failed(c.model, err)
		attributes := map[string]any{"model": c.model, "reason": reasonOf(err)}
		if cause := Cause(err, true); cause.Kind() == slog.KindString && c.live.Prompts.Content {
			attributes["cause"] = cause.String()
		}
		c.live.Log(slog.LevelWarn, observability.LogCallFailed, attributes)
	}
	// push fails only if the work was cancelled.
	_ = f.push(ctx, end)
}

// errOverflow reports a reply whose request did not fit into the model's window.
var errOverflow = errors.New("model truncated the request to its window")

func (c *modelCall) failed(err error) machine.ModelEvent {
	out := machine.ModelEvent{Kind: machine.ModelFailed, Err: settlementError(err)}
	var vendor *providers.Error
	var over *providers.LimitError
	switch {
	case errors.As(err, &over):
		// A repetition, or another model, would exceed the same limit.
		out.TooManyCalls = over.Quantity == providers.LimitedCalls
		return out
	case errors.Is(err, storage.ErrUnavailable):
		// The bucket is unavailable: no model was called, so the failure is not counted against one.
		out.Unasked, out.Retry = !errors.Is(err, errInstructions), true
	case errors.Is(err, errOverflow), errors.Is(err, history.ErrTooLong):
		out.Overflow = true
	case errors.As(err, &vendor):
		out.Retry, out.RetryAfter = vendor.Retryable(), vendor.RetryAfter
		out.Images, out.First = c.refused(vendor)
		out.Overflow = vendor.Kind == providers.KindContextOverflow && len(out.Images) == 0
	}
	// Another model helps with a model's failure, not with the agent's.
	out.Fallback = c.more && !errors.Is(err, errInstructions)
	switch {
	case out.Overflow && c.alone():
		out.Err.Message = textMessageTooLong
	case out.Overflow:
		out.Err.Message = textTooLong
	}
	return out
}

// alone reports whether one delivery makes up most of the request and no summary could shorten it.
func (c *modelCall) alone() bool {
	open, older := prompt.Since(c.exchanges, c.shown.After)
	return len(open) == 1 && len(open[0].Turns) == 0 && !(older && len(c.closed) > 0) && 2*summary.Bytes(conversation.Exchange{Delivery: c.turn.Delivery}) > c.asked
}

// stream pushes all events except the last, which it returns.
func (c *modelCall) stream(ctx context.Context, f *feed) (end machine.ModelEvent, err error) {
	own, err := c.node.o.History.Whole(ctx, c.key, c.exchanges[len(c.exchanges)-1:], c.node.ViewBytes)
	if err != nil {
		return end, err
	}
	c.turn.Delivery = own[0].Delivery
	setup, err := c.author.prepare(ctx, c.turn)
	if err != nil {
		return end, fmt.Errorf("%w: %w", errInstructions, err)
	}
	var passed *machine.Replaced
	c.model, passed, c.more = c.node.health.choose(setup, c.avoid)
	f.from(c.model, passed, c.facts())
	if err := c.startResponse(ctx, f); err != nil {
		return end, err
	}
	if err := c.node.affordable(c.turn.Address.Agent, c.model); err != nil {
		return end, err
	}
	c.shown.Output = c.node.outputBytes(c.model)
	blocks, now, err := c.view(ctx)
	if err != nil {
		return end, err
	}
	blocks, now = c.fit(blocks, now)
	shown := providers.TextBytes(now)
	for _, b := range blocks {
		shown += b.TextBytes()
	}
	c.node.o.Calls.Add(callCost * int64(shown))
	defer c.node.o.Calls.Add(-callCost * int64(shown))
	defer history.Limit(blocks)
	c.thinking = providers.ThinkingLevel(setup.ThinkingLevel)
	req := providers.Request{System: setup.Instructions, History: blocks, Messages: now}
	c.asked = shown + len(req.System)
	for _, t := range setup.Tools {
		c.asked += len(t.Description()) + len(t.InputSchema())
		req.Tools = append(req.Tools, providers.Tool{Name: t.Name(), Description: t.Description(), InputSchema: t.InputSchema()})
	}
	if len(setup.Subagents) > 0 && c.author.depth < conversation.MaxDepth {
		req.Tools = append(req.Tools, taskTool(setup))
	}
	if c.shortened(blocks, now) {
		req.Tools = append(req.Tools, outputTool())
	}
	return c.listen(ctx, f, setup, req)
}

// listen pushes the model's events. It cancels a call that is silent or takes too long.
func (c *modelCall) listen(ctx context.Context, f *feed, setup *agent.Setup, req providers.Request) (end machine.ModelEvent, err error) {
	call, watch := c.node.watch(ctx, c.model)
	defer watch.end()
	g := &setup.Generation
	opts := providers.Options{
		ThinkingLevel: cmp.Or(c.thinking, providers.ThinkingOff), SessionID: c.session, Limits: c.limits,
		Temperature: g.Temperature, MaxTokens: g.MaxOutputTokens, Stop: g.StopSequences, ToolChoice: providers.ToolChoice(g.ToolChoice),
		Odd: func(o providers.Oddity) { c.node.odd(c.model, o) },
	}
	c.request(req)
	progress := newProgress(c.live)
	answered := c.hasText()
	for e, err := range c.node.o.Providers.Stream(call, c.model, req, opts) {
		if err != nil {
			return end, watch.cause(ctx, err)
		}
		// Waiting for a full feed does not count as silence of the model.
		watch.pause()
		if done, ok := e.(providers.Done); ok {
			if end, err = c.done(done); err != nil {
				return end, err
			}
			if done.StopReason == providers.StopStop && !answered {
				c.node.odd(c.model, providers.Oddity{Kind: "empty answer"})
			}
			if _, asked := setup.Tool(agent.FinishTool); asked {
				end.Reminder = agenthost.Reminder
			}
			continue
		}
		switch e := e.(type) {
		case providers.TextDelta:
			answered = answered || strings.TrimSpace(e.Text) != ""
		case providers.ToolCallEnd:
			answered = true
		}
		progress.show(e)
		if out, ok := modelEvent(e, setup); ok {
			if err := f.push(ctx, out); err != nil {
				return end, err
			}
		}
		watch.reset()
	}
	if end.Kind != machine.ModelDone {
		return end, errors.New("model stream ended without a final event")
	}
	return end, nil
}

// hasText reports whether earlier model calls of the response produced text, so that an empty reply is
// normal.
func (c *modelCall) hasText() bool {
	return slices.ContainsFunc(c.exchanges[len(c.exchanges)-1].Turns, conversation.Turn.HasText)
}

// affordable refuses a model without a price if the agent requires priced models.
func (n *Node) affordable(name, spec string) error {
	a := n.o.Agents[name]
	if a == nil || !a.Limits.PricedOnly {
		return nil
	}
	model, err := n.o.Providers.Resolve(spec)
	if err != nil || model.Cost.Known() {
		return nil // The call itself returns the error.
	}
	return &providers.Error{Kind: providers.KindUnresolved, Provider: model.Provider, Err: &providers.ModelError{Spec: spec, Err: providers.ErrNoPrice}}
}

// facts returns the facts of the call that are known before its end.
func (c *modelCall) facts() conversation.CallFacts {
	model, err := c.node.o.Providers.Resolve(c.model)
	if err != nil {
		return conversation.CallFacts{} // the call returns the error
	}
	return factsOf(model, c.thinking, providers.Done{})
}

func (c *modelCall) done(d providers.Done) (machine.ModelEvent, error) {
	end := machine.ModelEvent{Kind: machine.ModelDone, StopReason: string(d.StopReason), Usage: conversation.Usage(d.Usage)}
	model, err := c.node.o.Providers.Resolve(c.model)
	if err != nil {
		return end, err
	}
	if providers.Overflowed(model, d) {
		return end, errOverflow
	}
	c.node.health.answered(c.model)
	end.Full = full(c.author.compaction(), model, d.Usage)
	end.Facts = factsOf(model, c.thinking, d)
	return end, nil
}

// view renders the context of the model call.
func (c *modelCall) view(ctx context.Context) (blocks []*providers.Block, now []providers.Message, err error) {
	open, older := prompt.Since(c.exchanges, c.shown.After)
	if older && len(c.closed) > 0 {
		if blocks, err = c.archive.Blocks(ctx, c.closed, c.shown, c.exchanges[0].Submission, c.node.ViewBytes); err != nil {
			return nil, nil, err
		}
	}
	room := c.node.ViewBytes
	for _, b := range blocks {
		room -= b.TextBytes()
	}
	if open, err = c.node.o.History.Whole(ctx, c.key, open, room); err != nil {
		return nil, nil, err
	}
	if now, err = c.node.o.Prompt.Messages(ctx, c.key, open, c.shown); err != nil {
		return nil, nil, err
	}
	if providers.TextBytes(now) > c.node.ViewBytes {
		return nil, nil, history.ErrTooLong
	}
	if c.shown.After == nil {
		return blocks, now, nil
	}
	begin := []providers.Message{prompt.Summary(c.shown.After)}
	if len(blocks) == 0 {
		return nil, append(begin, now...), nil
	}
	return append([]*providers.Block{providers.NewBlock(begin)}, blocks...), now, nil
}

// watch limits the silence and the duration of a model call.
type watch struct {
	node    *Node
	model   string
	call    context.Context
	cancel  context.CancelCauseFunc
	silence *time.Timer
	whole   *time.Timer
}

// watch returns the context of a model call, which ends if the model is silent or takes too long.
func (n *Node) watch(ctx context.Context, model string) (context.Context, *watch) {
	w := &watch{node: n, model: model}
	w.call, w.cancel = context.WithCancelCause(ctx)
	w.silence = time.AfterFunc(n.o.FirstEvent, func() { w.cancel(errSilence) })
	w.whole = time.AfterFunc(n.o.WholeCall, func() { w.cancel(errTooLong) })
	return w.call, w
}

// pause stops the silence timer until reset.
func (w *watch) pause() { w.silence.Stop() }

func (w *watch) reset() { w.silence.Reset(w.node.o.BetweenEvents) }

// cause returns the reason of a cancelled call, or err.
func (w *watch) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil || w.call.Err() == nil {
		return err
	}
	cause := context.Cause(w.call)
	var given *providers.Error
	if !errors.As(cause, &given) {
		return cause
	}
	named := *given
	named.Provider, _, _ = strings.Cut(w.model, "/")
	return &named
}

func (w *watch) end() {
	w.silence.Stop()
	w.whole.Stop()
	w.cancel(nil)
}

// modelEvent translates a provider's event. Events that only show progress are omitted.
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
		// Clients require a name. No tool has this one, so the model gets an error.
		name := cmp.Or(e.Name, "unnamed")
		input := e.Arguments
		if err := conversation.CheckPayload(input); err != nil {
			// No tool takes a string, so the model gets an error.
			input, _ = json.Marshal(fmt.Sprintf("(arguments omitted: the input %v)", err))
		}
		tool, ok := setup.Tool(name)
		return machine.ModelEvent{
			Kind: machine.ModelCall, ProviderCall: e.ID, Signature: e.Signature, Name: name, Input: input,
			Durable: ok && tool.Durable() || name == conversation.ReadOutputTool, // it only reads
		}, true
	}
	return machine.ModelEvent{}, false
}

// errSilence is the cause of a call that was cancelled for silence.
var errSilence error = &providers.Error{Kind: providers.KindSilent, Err: errors.New("model was silent for too long")}

// errTooLong is the cause of a call that exceeded its time limit.
var errTooLong error = &providers.Error{Kind: providers.KindTimeout, Err: errors.New("model call took too long")}

// maxLogged bounds a vendor's or author's text in a log line, in bytes.
const maxLogged = 2 << 10

func logged(err error) slog.Value { return slog.StringValue(shortened(err.Error())) }

func shortened(s string) string { return conversation.CutText(s, maxLogged) }

// showsContent reports whether operators may see the message content of an agent's conversations.
func (n *Node) showsContent(name string) bool {
	a := n.o.Agents[name]
	return a != nil && a.Events.Content
}

// textHidden replaces a vendor's text in the log.
const textHidden = "hidden as content; set events: {content: true} of the agent, in Go Events.Content, to log it"

// cause returns the cause of a failed call of an agent as far as the log may show it.
func (n *Node) cause(err error, name string) slog.Value {
	shown := n.o.VendorMessages || n.showsContent(name)
	v := Cause(err, shown)
	if !shown && v.Kind() == slog.KindGroup && Cause(err, true).Kind() == slog.KindString {
		return slog.StringValue(textHidden)
	}
	return v
}

// Cause returns details of an error for logs only: the value and stack of a panic, or the vendor's
// response, which may repeat the request and so is content. Without either it returns an empty group,
// which handlers omit.
func Cause(err error, content bool) slog.Value {
	var vendor *providers.Error
	var crash *agent.PanicError
	switch {
	case errors.As(err, &vendor) && content && len(vendor.Body) > 0:
		return slog.StringValue(shortened(string(vendor.Body)))
	case errors.As(err, &crash):
		return slog.StringValue(fmt.Sprintf("panic: %s\n%s", shortened(crash.Value), crash.Stack))
	}
	return slog.GroupValue()
}

// errInstructions marks failures before the model was called.
var errInstructions = errors.New("evaluate instructions")

// reasonOf returns the kind of a model call failure for logs.
func reasonOf(err error) any {
	shown := settlementError(err)
	if reason, ok := shown.Meta["reason"]; ok {
		return reason
	}
	return string(shown.Type)
}

// settlementError returns the client-safe error of a failed model call. A vendor's text never reaches
// a client.
func settlementError(err error) *conversation.SettlementError {
	if errors.Is(err, errInstructions) {
		return &conversation.SettlementError{Type: conversation.CodeInternal, Message: textNoInstructions}
	}
	var over *providers.LimitError
	if errors.As(err, &over) {
		return &conversation.SettlementError{
			Type: conversation.CodeOutputTooLong, Message: fmt.Sprintf(textOutputTooLong, over.Quantity, over.Limit),
			Meta: map[string]any{"limit": over.Limit, "bytes": over.Got},
		}
	}
	reason, message := "internal", textModelFailed
	var pe *providers.Error
	if errors.As(err, &pe) {
		reason, message = string(pe.Kind), pe.Explain()
	}
	return &conversation.SettlementError{
		Type: conversation.CodeModelFailed, Message: message, Meta: map[string]any{"reason": reason},
	}
}
