package work

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// toolGrace is the time beyond its limit for a tool that ignores its context. The call then ends even
// if the function runs.
const toolGrace = 5 * time.Second

type toolCall struct {
	node      *Node
	options   *Options // options of the runner
	author    *author
	effect    machine.RunTool
	ctx       context.Context // context of the work
	feed      *feed
	call      agent.Call
	writes    *stateWrites // nil without state, and until the tool runs
	suspended suspension
	live      *events.Live
	left      *conversation.Left // location of the delivery in call if that is incomplete
	sender    *sender
	outputs   *outputs    // for the tool that reads outputs, else nil
	room      *outputRoom // for the output; nil until the tool runs
}

// runTool starts a tool call; [machine.ToolDone], [machine.TaskCalled] or [machine.ToolSuspended]
// delivers its outcome.
func (r *Runner) runTool(e machine.RunTool, v *view) {
	w, root := r.begin(e.Gen, v), v.root
	c := &toolCall{
		node: r.node, options: &r.o, author: w.author, effect: e, ctx: w.ctx, feed: w.feed, live: r.live(v, e.Turn),
		sender: r.senderOf(v), left: root.left,
		call: agent.Call{
			Address: v.created.Address(), UID: v.created.UID, Submission: root.id, Attempt: root.attempts, Turn: e.Turn, ID: e.Call,
			Delivery: root.delivery, InitialData: v.created.InitialData,
		},
	}
	if e.Name == conversation.ReadOutputTool {
		c.outputs = r.outputsOf(v)
	}
	log := r.o.Logger.With("submission", string(c.call.Submission), "tool", e.Name, "call", string(e.Call))
	r.spawn(func() {
		out, err := c.perform()
		defer func() { c.writes.release() }()
		if c.ctx.Err() != nil {
			c.room.release()
			return // the work was cancelled
		}
		var lost *lostCall
		switch {
		case errors.As(err, &lost):
			lost.log(log)
		case err != nil:
			log.Warn("tool failed", "err", logged(err), "cause", Cause(err, false))
		}
		c.options.Emit(out)
		c.handOver()
	})
}

// handOver releases the memory of an output once the machine accounts for it or the work is over.
func (c *toolCall) handOver() {
	if c.room == nil || c.room.small() {
		c.room.release()
		return
	}
	context.AfterFunc(c.ctx, c.room.release)
	c.options.Run(c.room.release)
}

// perform runs the call and returns its outcome for the machine. The error is for the log.
func (c *toolCall) perform() (machine.Input, error) {
	done := machine.ToolDone{Gen: c.effect.Gen, Call: c.effect.Call}
	refuse := func(text string, err error) (machine.Input, error) {
		done.NotRun, done.Failed, done.ErrorText = true, true, text
		if c.effect.Resumed && c.outputs == nil {
			err = c.notResumed(cmp.Or(err, error(refusal(text))))
			done.ErrorText = err.Error()
		}
		return done, err
	}
	if err := c.node.o.History.Complete(c.ctx, c.options.Key, c.left, &c.call.Delivery); err != nil {
		return refuse(textNoTools, err)
	}
	setup, err := c.author.current(c.ctx)
	if err != nil {
		return refuse(textNoTools, fmt.Errorf("%w: %w", errInstructions, err))
	}
	if c.effect.Name == conversation.TaskTool && len(setup.Subagents) > 0 {
		task, problem := readTask(setup, c.effect)
		if problem != "" {
			return refuse(problem, nil)
		}
		return task, nil
	}
	if c.outputs != nil {
		out, problem, err := c.outputs.read(c.ctx, c.effect.Input, c.node.outputBytes(setup.Model))
		if problem != "" {
			return refuse(problem, err)
		}
		done.Output = out
		return done, err
	}
	tool, ok := setup.Tool(c.effect.Name)
	switch {
	case !ok && c.effect.Resumed:
		return refuse("", errToolGone)
	case !ok:
		return refuse(fmt.Sprintf(textUnknownTool, c.effect.Name), nil)
	case c.effect.Resumed && !tool.Durable():
		return refuse("", errNotDurable)
	}
	if c.room, err = c.node.outputs.reserve(c.ctx, toolName{c.call.Address.Agent, tool.Name()}, tool.Timeout()); err != nil {
		return nil, err // the work was cancelled
	}
	began := time.Now()
	out, err := c.use(tool)
	if until, suspended := c.suspended.end(); suspended {
		return machine.ToolSuspended{Gen: c.effect.Gen, Call: c.effect.Call, Until: c.timeOf(until)}, nil
	}
	var unfit *agent.InputError
	if c.effect.Resumed && errors.As(err, &unfit) && unfit.Tool == tool.Name() {
		return refuse("", err)
	}
	done.Duration, done.State = time.Since(began), c.writes.take()
	if err == nil {
		err = c.recordOutcome(out, &done)
		done.Terminate = out.Terminate
	}
	if err != nil {
		done.Failed, done.ErrorText = true, conversation.CutText(err.Error(), conversation.MaxPayloadBytes)
	}
	return done, err
}

// Reasons why a durable call is not resumed.
var (
	errToolGone   = errors.New("tool not found")
	errNotDurable = errors.New("tool is no longer durable")
)

// lostCall reports that a durable call which may have run before cannot resume. Its text is for the
// model.
type lostCall struct {
	cause   error
	steps   []string // recorded steps
	signals []string // names of waits ended by a signal
}

func (c *toolCall) notResumed(cause error) *lostCall {
	lost := &lostCall{cause: cause}
	for _, s := range c.effect.Recorded {
		lost.steps = append(lost.steps, s.Name)
	}
	for _, w := range c.effect.Ended {
		if w.Ended == conversation.EndedBySignal {
			lost.signals = append(lost.signals, w.Name)
		}
	}
	return lost
}

// Error implements error.
func (e *lostCall) Error() string {
	text := textNotResumed
	if len(e.signals) > 0 {
		text += fmt.Sprintf(textLostSignals, e.signals)
	}
	return conversation.CutText(text, conversation.MaxPayloadBytes)
}

func (e *lostCall) Unwrap() error { return e.cause }

func (e *lostCall) log(log *slog.Logger) {
	log.Warn("durable call not resumed", "err", logged(e.cause), "steps", e.steps, "signals", e.signals, "remedy", remedyNotResumed)
}

// remedyNotResumed is the advice for the author in the log.
const remedyNotResumed = "keep the tool until its calls have ended, or map its old name in Agent.Renamed; check what the recorded steps have done"

// use runs the tool and stops waiting for one that exceeds its limit.
func (c *toolCall) use(tool agent.Tool) (*agent.Outcome, error) {
	ctx := agenthost.WithDispatcher(agenthost.WithCall(c.ctx, c.call), c.sender)
	ctx = agenthost.WithData(ctx, c.feed.writer(c.ctx, c.author))
	ctx = agenthost.WithPoster(ctx, c)
	if c.effect.Resumed {
		ctx = agenthost.WithResumed(ctx)
	}
	ctx = c.live.Author(ctx, map[string]any{"tool": c.effect.Name, "toolCallId": string(c.effect.Call)})
	s := c.author.within(ctx, c.author.agent)
	ctx, c.writes = s.ctx, s.writes
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	late, limit := &agent.TimeoutError{Tool: tool.Name(), Limit: tool.Timeout()}, tool.Timeout()+toolGrace
	patience, abandon := context.WithCancelCause(c.ctx)
	defer abandon(nil)
	timer := time.AfterFunc(limit, func() { abandon(late) })
	defer timer.Stop()
	ctx = agenthost.WithRoom(ctx, func(size int64) (func(), error) {
		timer.Stop() // waiting for memory does not count against the time limit
		defer timer.Reset(limit)
		return c.room.encode(c.ctx, size)
	})
	if tool.Durable() {
		c.suspended.stop, c.suspended.abandon = stop, abandon
		ctx = agenthost.WithSteps(ctx, newSteps(c))
	}
	out, err := detached(patience, c.node, func() (*agent.Outcome, error) { return tool.Run(ctx, c.effect.Input) })
	if errors.Is(err, late) || errors.Is(err, errStillRuns) {
		c.suspended.clear() // the function still runs, so the call must not run again
	}
	return out, err
}

// refusal is an error whose text is for the model.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// outputJSON is the output of a call with images. Clients fetch the images by their ids, as
// attachments.
type outputJSON struct {
	Output json.RawMessage `json:"output"`
	Images []imageJSON     `json:"images"`
}

type imageJSON struct {
	ID       conversation.AttachmentID `json:"id"`
	MimeType string                    `json:"mimeType"`
	Size     int64                     `json:"size"`
	Filename string                    `json:"filename,omitempty"`
}

// recordOutcome stores the images of an outcome, and an output that exceeds a record, and sets the recorded
// fields of done.
func (c *toolCall) recordOutcome(out *agent.Outcome, done *machine.ToolDone) (err error) {
	if c.effect.Room > 0 && len(out.Output) > c.node.outputs.whole(c.effect.Room) {
		raw := out.Output
		out.Output = nil // free the reference while it is stored
		done.Output, done.Stored, err = c.store(raw)
	} else if err := conversation.CheckPayload(out.Output); err != nil {
		text := textOutputRefused
		if _, run := conversation.WorkflowOf(c.call.Address.Agent); run {
			text = textResultRefused
		}
		return refusal(fmt.Sprintf(text, err))
	} else {
		done.Output = out.Output
	}
	if err != nil || len(out.Images) == 0 {
		return err
	}
	shown := outputJSON{Output: done.Output}
	if len(shown.Output) == 0 {
		shown.Output = json.RawMessage("null")
	}
	for i, m := range out.Images {
		body := storage.Bytes(m.Data)
		if err := c.put(body, textImageLost); err != nil {
			return err
		}
		at := conversation.Attachment{
			ID: c.imageID(i), SHA256: storage.Digest(body.SHA256).String(), MimeType: m.MimeType, Size: body.Size, Filename: m.Filename,
		}
		done.Images = append(done.Images, at)
		shown.Images = append(shown.Images, imageJSON{at.ID, at.MimeType, at.Size, at.Filename})
	}
	done.Output, err = conversation.EncodeJSON(shown)
	return err
}

func (c *toolCall) put(body storage.Body, text string) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.node.o.StoreTimeout+time.Duration(body.Size>>20)*time.Second)
	defer cancel()
	if err := storage.PutBlob(ctx, c.node.o.Bucket, c.options.Key, body); err != nil {
		c.node.o.Logger.Warn("store tool output failed", "conversation", string(c.options.Key), "call", string(c.effect.Call), "err", err)
		return refusal(text)
	}
	return nil
}

// imageID returns the id of an image of the call. It is the same if the call runs again.
func (c *toolCall) imageID(n int) conversation.AttachmentID {
	sum := sha256.Sum256(fmt.Append(nil, c.effect.Call, n))
	called, err := ulid.Parse(strings.TrimPrefix(string(c.effect.Call), "call_"))
	if err != nil {
		called = ulid.Make()
	}
	id := ulid.MustNew(called.Time(), bytes.NewReader(sum[:]))
	return conversation.AttachmentID("att_" + id.String())
}

// steps records the steps of one run of a durable tool's call. It implements
// [agenthost.StepRecorder].
type steps struct {
	call     *toolCall
	recorded map[string]json.RawMessage
}

var (
	_ agenthost.StepRecorder = (*steps)(nil)
	_ agenthost.Suspender    = (*steps)(nil)
	_ agenthost.Waiter       = (*steps)(nil)
	_ agenthost.Asker        = (*steps)(nil)
	_ agenthost.Clock        = (*steps)(nil)
	_ agenthost.RunReader    = (*steps)(nil)
)

func newSteps(c *toolCall) *steps {
	s := &steps{call: c, recorded: map[string]json.RawMessage{}}
	for _, r := range c.effect.Recorded {
		s.recorded[r.Name] = r.Output
	}
	return s
}

// Recorded implements [agenthost.StepRecorder]. It covers only steps of earlier runs.
func (s *steps) Recorded(name string) (json.RawMessage, bool) {
	raw, ok := s.recorded[name]
	return raw, ok
}

// Suspend implements [agenthost.Suspender].
func (s *steps) Suspend(until time.Time) bool { return s.call.suspended.suspend(until) }

// Now implements [agenthost.Clock].
func (s *steps) Now() time.Time { return s.call.options.Now() }

// errStepLost reports that a step may not be durable because the activation is ending.
var errStepLost = errors.New("run has ended")

// Record implements [agenthost.StepRecorder].
func (s *steps) Record(_ context.Context, name string, output json.RawMessage) error {
	c := s.call
	switch c.ask(machine.StepDone{Gen: c.effect.Gen, Call: c.effect.Call, Name: name, Output: output}).(type) {
	case machine.StepKept:
		return nil
	case machine.StepTooMuch:
		return agent.ErrStepsFull
	}
	return errStepLost
}

// Wait implements [agenthost.Waiter].
func (s *steps) Wait(ctx context.Context, w agenthost.Waiting) (json.RawMessage, error) {
	c := s.call
	for _, ended := range c.effect.Ended {
		if ended.Name == w.Name {
			return waitOver(ended.Value, ended.Ended == conversation.EndedByTimeout)
		}
	}
	in := machine.WaitFor{Gen: c.effect.Gen, Call: c.effect.Call, Name: w.Name, Schema: w.Schema, Until: c.timeOf(w.Until)}
	for {
		switch a := c.ask(in).(type) {
		case machine.WaitOver:
			return waitOver(a.Value, a.TimedOut)
		case machine.WaitOpen:
			if w.Begin {
				return nil, nil
			}
			c.suspended.leave(time.Now().Add(time.UnixMilli(int64(a.Until)).Sub(c.options.Now())))
			return nil, agent.ErrSuspended
		case machine.WaitValidate:
			fit, err := FitSignal(ctx, w.Schema, a.Body)
			if err != nil {
				return nil, err
			}
			in.Kept, in.Fit = a.Kept, fit
		case machine.StepTooMuch:
			return nil, agent.ErrStepsFull
		default:
			return nil, errStepLost
		}
	}
}

// Ask implements [agenthost.Asker]. It retries an unavailable conversation, and suspends the call
// after askPatience.
func (s *steps) Ask(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	patience, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	for {
		receipt, err := s.call.sender.Admit(ctx, a)
		var refusal *conversation.Error
		if !errors.As(err, &refusal) || refusal.RetryAfter == 0 {
			return receipt, err
		}
		select {
		case <-time.After(refusal.RetryAfter):
			continue
		case <-patience.Done():
		}
		if ctx.Err() == nil {
			s.call.suspended.leave(time.Now().Add(waitLater))
			err = agent.ErrSuspended
		}
		return receipt, err
	}
}

// askPatience is how long a call retries before it is suspended.
const askPatience = 20 * time.Second

// RunResult implements [agenthost.RunReader].
func (s *steps) RunResult(ctx context.Context, id conversation.RunID) (json.RawMessage, error) {
	return s.call.node.o.RunResult(ctx, id)
}

// waitLater is how long the call is then suspended.
const waitLater = time.Minute

func waitOver(value json.RawMessage, timedOut bool) (json.RawMessage, error) {
	if timedOut {
		return nil, agent.ErrWaitTimeout
	}
	return value, nil
}

// FitSignal validates the body of a signal against the schema of a wait. The error is that of ctx.
func FitSignal(ctx context.Context, schema json.RawMessage, body string) (*machine.Fit, error) {
	value, err := agenthost.FitSignal(ctx, schema, body)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	fit := &machine.Fit{Schema: schema, Value: value}
	if err != nil {
		fit.Unfit = conversation.Errorf(conversation.CodeInvalidRequest, "The signal does not match the schema of the wait: %v.", err)
	}
	return fit, nil
}

// ask sends a question to the machine. It returns nil if the run ends before the answer.
func (c *toolCall) ask(q machine.Question) machine.Answer {
	done := make(chan machine.Answer, 1)
	c.options.Ask(q, func(a machine.Answer) { done <- a })
	select {
	case a := <-done:
		return a
	case <-c.ctx.Done():
		return nil
	}
}

// timeOf converts a time of this process to the conversation's clock.
func (c *toolCall) timeOf(t time.Time) conversation.Time {
	return conversation.TimeOf(c.options.Now().Add(time.Until(t)).Round(time.Millisecond))
}
