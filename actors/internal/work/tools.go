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

// toolGrace is how much longer than its limit a tool may take that does not heed its
// context. Then the call is over, whatever its function does.
const toolGrace = 5 * time.Second

// toolCall is one call outside the actor.
type toolCall struct {
	node      *Node
	options   *Options // of the runner
	author    *author
	effect    machine.RunTool
	ctx       context.Context // of the work
	feed      *feed
	call      agent.Call
	writes    *stateWrites // nil if there is no state, and until the tool runs
	suspended parking
	live      *events.Live
	left      *conversation.Left // where the delivery in call stands if it is not whole
	sender    *sender
	outputs   *outputs    // of a call that reads in one, else nil
	room      *outputRoom // for what the tool returns; nil until the tool runs
}

// runTool starts a tool call; [machine.ToolDone], [machine.TaskCalled] or
// [machine.ToolSuspended] brings its outcome.
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
			return // the work was cancelled; nobody listens
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

// handOver releases the room of an output once the machine, which counts it too, has it, or the work is over.
func (c *toolCall) handOver() {
	if c.room == nil || c.room.small() {
		c.room.release()
		return
	}
	context.AfterFunc(c.ctx, c.room.release)
	c.options.Run(c.room.release)
}

// perform returns what the machine is told of the call. The error is for the log.
func (c *toolCall) perform() (machine.Input, error) {
	done := machine.ToolDone{Gen: c.effect.Gen, Call: c.effect.Call}
	refuse := func(text string, err error) (machine.Input, error) {
		done.NotRun, done.Failed, done.ErrorText = true, true, text
		if c.effect.Resumed && c.outputs == nil {
			err = c.lose(cmp.Or(err, error(refusal(text))))
			done.ErrorText = err.Error()
		}
		return done, err
	}
	if err := c.node.o.History.Complete(c.ctx, c.options.Key, c.left, &c.call.Delivery); err != nil {
		return refuse(sayNoTools, err)
	}
	setup, err := c.author.current(c.ctx)
	if err != nil {
		return refuse(sayNoTools, fmt.Errorf("%w: %w", errInstructions, err))
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
		return refuse(fmt.Sprintf(sayUnknownTool, c.effect.Name), nil)
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
		err = c.keep(out, &done)
		done.Terminate = out.Terminate
	}
	if err != nil {
		done.Failed, done.ErrorText = true, conversation.CutText(err.Error(), conversation.MaxPayloadBytes)
	}
	return done, err
}

// Reasons why a durable call is not resumed.
var (
	errToolGone   = errors.New("the tool is gone")
	errNotDurable = errors.New("the tool is not durable any more")
)

// lostCall reports that a durable call which may have run before is not resumed. The error is for the model.
type lostCall struct {
	cause   error
	steps   []string // that are recorded
	signals []string // names of waits that a signal has ended
}

// lose returns the error of a call that is not resumed for a reason.
func (c *toolCall) lose(cause error) *lostCall {
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
	text := sayNotResumed
	if len(e.signals) > 0 {
		text += fmt.Sprintf(sayLostSignals, e.signals)
	}
	return conversation.CutText(text, conversation.MaxPayloadBytes)
}

// Unwrap returns the cause.
func (e *lostCall) Unwrap() error { return e.cause }

// log warns of the call.
func (e *lostCall) log(log *slog.Logger) {
	log.Warn("durable call not resumed", "err", logged(e.cause), "steps", e.steps, "signals", e.signals, "remedy", remedyNotResumed)
}

// remedyNotResumed is how an author prevents the loss of further calls.
const remedyNotResumed = "keep the tool until its calls have ended, or map its old name in Agent.Renamed; check what the recorded steps have done"

// use runs the tool, and gives up one that goes on beyond its limit.
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
	patience, giveUp := context.WithCancelCause(c.ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(limit, func() { giveUp(late) })
	defer timer.Stop()
	ctx = agenthost.WithRoom(ctx, func(size int64) (func(), error) {
		timer.Stop() // the function is not late if its output waits
		defer timer.Reset(limit)
		return c.room.encode(c.ctx, size)
	})
	if tool.Durable() {
		c.suspended.stop, c.suspended.giveUp = stop, giveUp
		ctx = agenthost.WithSteps(ctx, newSteps(c))
	}
	out, err := detached(patience, c.node, func() (*agent.Outcome, error) { return tool.Run(ctx, c.effect.Input) })
	if errors.Is(err, late) || errors.Is(err, errStillRuns) {
		c.suspended.forget() // run again beside itself it could do anything
	}
	return out, err
}

// refusal is an error in words for the model.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// shownOutput is the output of a call that has images: clients fetch them by their
// ids, as attachments.
type shownOutput struct {
	Output json.RawMessage `json:"output"`
	Images []shownImage    `json:"images"`
}

type shownImage struct {
	ID       conversation.AttachmentID `json:"id"`
	MimeType string                    `json:"mimeType"`
	Size     int64                     `json:"size"`
	Filename string                    `json:"filename,omitempty"`
}

// keep stores the images of an outcome, and its output if that is too long for a record, and
// sets what is recorded of it.
func (c *toolCall) keep(out *agent.Outcome, done *machine.ToolDone) (err error) {
	if c.effect.Room > 0 && len(out.Output) > c.node.outputs.whole(c.effect.Room) {
		raw := out.Output
		out.Output = nil // while it is stored nobody needs it
		done.Output, done.Stored, err = c.store(raw)
	} else if err := conversation.CheckPayload(out.Output); err != nil {
		say := sayOutputRefused
		if _, run := conversation.WorkflowOf(c.call.Address.Agent); run {
			say = sayResultRefused
		}
		return refusal(fmt.Sprintf(say, err))
	} else {
		done.Output = out.Output
	}
	if err != nil || len(out.Images) == 0 {
		return err
	}
	shown := shownOutput{Output: done.Output}
	if len(shown.Output) == 0 {
		shown.Output = json.RawMessage("null")
	}
	for i, m := range out.Images {
		body := storage.Bytes(m.Data)
		if err := c.put(body, sayImageLost); err != nil {
			return err
		}
		at := conversation.Attachment{
			ID: c.imageID(i), SHA256: storage.Digest(body.SHA256).String(), MimeType: m.MimeType, Size: body.Size, Filename: m.Filename,
		}
		done.Images = append(done.Images, at)
		shown.Images = append(shown.Images, shownImage{at.ID, at.MimeType, at.Size, at.Filename})
	}
	done.Output, err = conversation.EncodeJSON(shown)
	return err
}

func (c *toolCall) put(body storage.Body, say string) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.node.o.StoreTimeout+time.Duration(body.Size>>20)*time.Second)
	defer cancel()
	if err := storage.PutBlob(ctx, c.node.o.Bucket, c.options.Key, body); err != nil {
		c.node.o.Logger.Warn("what a tool returned is not stored", "conversation", string(c.options.Key), "call", string(c.effect.Call), "err", err)
		return refusal(say)
	}
	return nil
}

// imageID names an image of the call. A call that runs again names it alike.
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

// Recorded implements [agenthost.StepRecorder]. What this run records is not asked for
// again.
func (s *steps) Recorded(name string) (json.RawMessage, bool) {
	raw, ok := s.recorded[name]
	return raw, ok
}

// Park implements [agenthost.Suspender].
func (s *steps) Suspend(until time.Time) bool { return s.call.suspended.suspend(until) }

// Now implements [agenthost.Clock].
func (s *steps) Now() time.Time { return s.call.options.Now() }

// errStepLost says that a step may not be durable: the conversation is handed on.
var errStepLost = errors.New("the run is over")

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

// Ask implements [agenthost.Asker]. A conversation that cannot be reached is asked again later.
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

// askPatience is for how long a call tries again that cannot ask now, before it is put away.
const askPatience = 20 * time.Second

// RunResult implements [agenthost.RunReader].
func (s *steps) RunResult(ctx context.Context, id conversation.RunID) (json.RawMessage, error) {
	return s.call.node.o.RunResult(ctx, id)
}

// waitLater is the pause before a call asks a conversation again that it could not reach.
const waitLater = time.Minute

func waitOver(value json.RawMessage, timedOut bool) (json.RawMessage, error) {
	if timedOut {
		return nil, agent.ErrWaitTimeout
	}
	return value, nil
}

// FitSignal holds the body of a signal against the schema of a wait. The error is that of ctx.
func FitSignal(ctx context.Context, schema json.RawMessage, body string) (*machine.Fit, error) {
	value, err := agenthost.FitSignal(ctx, schema, body)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	fit := &machine.Fit{Schema: schema, Value: value}
	if err != nil {
		fit.Unfit = conversation.Errorf(conversation.CodeInvalidRequest, "The signal does not fit what is waited for: %v.", err)
	}
	return fit, nil
}

// ask asks the machine, and returns nothing if the run is over before it answers.
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

// timeOf is a time of this process by the clock of the conversation.
func (c *toolCall) timeOf(t time.Time) conversation.Time {
	return conversation.TimeOf(c.options.Now().Add(time.Until(t)).Round(time.Millisecond))
}
