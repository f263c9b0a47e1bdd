package observability

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Source identifies the conversation of a batch: the common fields of its events, which only the first
// batch contains.
type Source struct {
	Key          conversation.Key
	Agent        string
	ID           string
	Conversation conversation.ConversationID
}

// SourceOf returns the source of an incarnation of a conversation.
func SourceOf(c *conversation.ConversationCreated) Source {
	return Source{Key: c.Address().Key(), Agent: c.Agent, ID: c.ID, Conversation: c.ConversationID}
}

// After returns the source for the batches after b, which may begin an incarnation.
func (s Source) After(b conversation.Batch) Source {
	for _, r := range b.Records {
		if c, ok := r.(*conversation.ConversationCreated); ok {
			s = SourceOf(c)
		}
	}
	return s
}

// DefaultContentBytes is the default limit of a piece of content.
const DefaultContentBytes = 8 << 10

// ProjectOptions select the detail of events.
type ProjectOptions struct {
	// Content includes text of people, models and tools.
	Content bool
	// MaxContentBytes is the limit of each piece of content. Zero is DefaultContentBytes.
	MaxContentBytes int
}

// Project returns the durable events of a batch, in order. It is a pure function: the same batch
// always gives the same events. Records of older versions give events with fewer fields. opts may be
// nil.
func Project(src Source, b conversation.Batch, opts *ProjectOptions) []Event {
	p := projection{src: src, seq: int64(b.Offset)}
	if opts != nil {
		p.opts = *opts
	}
	if n := usualEvents(b.Records); n > 0 { // Most batches are text and give no events.
		p.out = make([]Event, 0, n)
	}
	p.lostAt = lostAt(b.Records)
	for _, r := range b.Records {
		if a, ok := r.(*conversation.AttemptStarted); ok {
			p.released = a.After == conversation.AfterPause
		}
	}
	for _, r := range b.Records {
		p.record(r)
	}
	return p.out
}

// lostAt returns the time at which the attempt was lost that this batch recovers, 0 if there is none
// or it is unknown.
func lostAt(records []conversation.Record) conversation.Time {
	for _, r := range records {
		switch r := r.(type) {
		case *conversation.AttemptStarted:
			if r.LostAt != 0 {
				return r.LostAt
			}
		case *conversation.SubmissionSettled:
			if r.LostAt != 0 {
				return r.LostAt
			}
		}
	}
	return 0
}

// usualEvents estimates the number of events of records.
func usualEvents(records []conversation.Record) (n int) {
	for _, r := range records {
		switch r.(type) {
		case *conversation.AttemptStarted: // And operation_start, for a first attempt.
			n += 3
		case *conversation.SubmissionSettled:
			n += 4
		case *conversation.ChildStarted, *conversation.ChildSettled:
			n += 2
		case *conversation.SubmissionAdmitted, *conversation.AttemptReleased, *conversation.Suspended, *conversation.ResponseStarted,
			*conversation.StepCompleted, *conversation.StepDropped, *conversation.ToolCalled, *conversation.ToolSettled,
			*conversation.WaitStarted, *conversation.WaitEnded, *conversation.PostDeferred, *conversation.PostDone, *conversation.Compacted:
			n++
		}
	}
	return n
}

// projection builds the events of one batch.
type projection struct {
	src      Source
	opts     ProjectOptions
	seq      int64
	out      []Event
	calls    []*conversation.ToolCalled
	aborting bool              // everything that ends from here on was aborted
	released bool              // the attempt before was released: recovery closes work that a drain cut off
	lostAt   conversation.Time // when the attempt was lost that recovery closes, until the next attempt
	prefix   string
}

// scope is the part of a conversation that an event belongs to.
type scope struct {
	submission conversation.SubmissionID
	child      conversation.ConversationID // conversation of a subagent
	parent     conversation.ConversationID // of a subagent's subagent: its caller
	operation  string
	turn       conversation.TurnID
}

func (p *projection) record(r conversation.Record) {
	switch r := r.(type) {
	case *conversation.ConversationCreated:
		p.src = SourceOf(r)
	case *conversation.SubmissionAdmitted:
		p.admitted(r)
	case *conversation.AttemptStarted:
		p.attempt(r)
	case *conversation.AttemptReleased:
		p.pause(r.Submission, EndReleased, r.ElapsedMs, r.At)
	case *conversation.Suspended:
		p.pause(r.Submission, EndSuspended, r.ElapsedMs, r.At)
	case *conversation.AbortRequested:
		p.aborting = true
	case *conversation.TreeCounted:
		p.add(whole(r.Submission), r.At, treeCounted(r))
	case *conversation.ResponseStarted:
		p.add(p.within(r.Origin, r.Child, r.Submission, r.Turn), r.At-conversation.Time(r.WaitMs),
			&TurnStart{Purpose: PurposeAgent, Model: r.Model})
	case *conversation.StepCompleted:
		p.completed(r)
	case *conversation.StepDropped:
		p.dropped(r)
	case *conversation.ToolCalled:
		p.calls = append(p.calls, r)
	case *conversation.ToolSettled:
		p.toolSettled(r)
	case *conversation.WaitStarted:
		p.add(p.work(r.Origin, r.Child, r.Turn), r.At, &WaitStart{Name: stored(r.Name), ToolName: r.Tool, ToolCallID: r.Call, Until: r.Until})
	case *conversation.WaitEnded:
		p.add(p.work(r.Origin, r.Child, r.Turn), r.At, &Wait{
			Name: stored(r.Name), ToolName: r.Tool, ToolCallID: r.Call, Reason: string(r.Reason), Signal: r.Signal, DurationMs: r.WaitedMs,
		})
	case *conversation.PostDeferred:
		p.add(whole(r.Submission), r.At, &Post{PostID: r.Post, Target: redactedTarget(r.Target), Outcome: PostDeferred, Attempts: r.Attempts, DurationMs: r.DurationMs})
	case *conversation.PostDone:
		p.add(whole(r.Submission), r.At, &Post{PostID: r.Post, Target: redactedTarget(r.Target), Outcome: string(r.End), Attempts: r.Attempts, DurationMs: r.DurationMs})
	case *conversation.ChildStarted:
		p.taskStarted(r)
	case *conversation.ChildSettled:
		p.taskSettled(r)
	case *conversation.Compacted:
		p.compacted(r)
	case *conversation.SubmissionSettled:
		p.settled(r)
	}
}

// treeCounted returns the log event of a member of a dispatch tree.
func treeCounted(r *conversation.TreeCounted) *Log {
	attributes := map[string]any{"agent": r.Member.Agent, "id": r.Member.ID, "key": r.Key, "submissions": r.Submissions, "dollars": r.Dollars}
	if r.MaxSubmissions > 0 {
		attributes["maxSubmissions"] = r.MaxSubmissions
	}
	if r.MaxDollars > 0 {
		attributes["maxDollars"] = r.MaxDollars
	}
	return &Log{Level: "info", Message: LogTreeCounted, Attributes: attributes}
}

// add appends an event.
func (p *projection) add(in scope, at conversation.Time, payload Payload) {
	index := int64(len(p.out))
	if index == 0 {
		p.prefix = string(p.src.Key) + "/" + strconv.FormatInt(p.seq, 10) + "/"
	}
	env := Envelope{
		Version: Version, ID: p.prefix + strconv.FormatInt(index, 10), Index: index, Seq: p.seq, At: at, Type: payload.EventType(),
		Agent: p.src.Agent, Instance: p.src.ID, Submission: in.submission,
	}
	in.fill(&env, p.src.Conversation)
	p.out = append(p.out, Event{Envelope: env, Payload: payload})
}

// fill sets the ids of an event within its conversation. Events about a submission itself have none.
func (in scope) fill(env *Envelope, root conversation.ConversationID) {
	if in.operation == "" && in.child == "" && in.turn == "" {
		return
	}
	env.Harness, env.Operation, env.Turn = HarnessDefault, in.operation, in.turn
	env.Conversation, env.Session = root, SessionDefault
	if in.child != "" {
		env.Conversation, env.Task = in.child, taskID(in.child)
		env.Session, env.ParentSession = sessionOf(in.child), sessionOf(in.parent)
	}
}

// sessionOf returns the session of a subagent, or of the conversation itself.
func sessionOf(child conversation.ConversationID) string {
	if child == "" {
		return SessionDefault
	}
	return "task:" + taskID(child)
}

// taskID derives a task id from the ids in the log.
func taskID(child conversation.ConversationID) string {
	return "task_" + strings.TrimPrefix(string(child), "conv_")
}

func operationID(id conversation.SubmissionID) string {
	return "op_" + strings.TrimPrefix(string(id), "sub_")
}

// whole returns the scope of a submission itself.
func whole(id conversation.SubmissionID) scope { return scope{submission: id} }

// root returns the scope of a submission's own operation.
func root(id conversation.SubmissionID) scope {
	return scope{submission: id, operation: operationID(id)}
}

// work returns the scope of a record that names its origin.
func (p *projection) work(o conversation.Origin, child conversation.ConversationID, turn conversation.TurnID) scope {
	in := scope{submission: o.Root, child: child, parent: o.Parent, turn: turn}
	switch {
	case child != "":
		in.operation = taskOperation(child)
	case o.Root != "": // not recorded by older versions
		in.operation = operationID(o.Root)
	}
	return in
}

// taskOperation returns the operation of a subagent.
func taskOperation(child conversation.ConversationID) string {
	return "op_" + strings.TrimPrefix(string(child), "conv_")
}

// within is work for a record that names a submission, which is a subagent's own if it has one.
func (p *projection) within(o conversation.Origin, child conversation.ConversationID, id conversation.SubmissionID, turn conversation.TurnID) scope {
	if child == "" {
		o.Root = id
	}
	return p.work(o, child, turn)
}

func kindOf(dispatched bool) string {
	if dispatched {
		return KindDispatch
	}
	return KindDirect
}

func (p *projection) admitted(r *conversation.SubmissionAdmitted) {
	p.add(whole(r.Submission), r.At, &SubmissionQueued{
		Kind: kindOf(r.Dispatched), MessageKind: string(r.Delivery.Kind), Attachments: len(r.Delivery.Attachments),
		Traceparent: r.Trace.Parent, Tracestate: r.Trace.State, Body: p.text(r.Delivery.Body),
	})
}

// attempt emits the start of an attempt, and the end of a previous one whose writer could not.
func (p *projection) attempt(r *conversation.AttemptStarted) {
	own := root(r.Submission)
	if r.After == conversation.AfterLoss {
		p.add(own, cmp.Or(r.LostAt, r.At), &AgentEnd{Reason: EndLost})
	}
	p.add(whole(r.Submission), r.At, &SubmissionRunning{
		Kind: kindOf(r.Dispatched), Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, QueuedMs: r.QueuedMs,
		Resumed: r.After != conversation.AfterNothing, Recovered: r.After == conversation.AfterLoss, Traceparent: r.Trace.Parent, Tracestate: r.Trace.State,
	})
	if r.After == conversation.AfterNothing {
		p.add(own, r.At, &OperationStart{Kind: OperationPrompt})
	}
	p.add(own, r.At, &AgentStart{Attempt: r.Attempt})
	p.lostAt = 0 // Later records belong to this attempt.
}

func (p *projection) pause(id conversation.SubmissionID, reason string, elapsed int64, at conversation.Time) {
	p.add(root(id), at, &AgentEnd{Reason: reason, DurationMs: elapsed})
}

func (p *projection) completed(r *conversation.StepCompleted) {
	request := RequestOf(r.Model, r.Facts)
	finish := p.finish(r.StopReason)
	usage := usageOf(r.Usage, r.Facts.Price)
	t := &Turn{
		Purpose: PurposeAgent, DurationMs: r.DurationMs, FirstTokenMs: r.WaitMs, Retries: r.Retries, Request: request,
		Response: ModelResponse{ID: r.Facts.ResponseID, Model: r.Facts.ResponseModel, Usage: usage, FinishReason: finish},
	}
	switch {
	case t.CutOff():
		t.Response.Usage = nil
	case finish == finishError:
		t.IsError, t.Response.Usage, t.Response.Error = true, nil, &Error{Type: string(conversation.CodeModelFailed)}
	}
	at := r.At
	if r.StopReason == conversation.ReasonInterrupted && r.DurationMs == 0 { // recovery closes it
		at = cmp.Or(p.lostAt, at)
	}
	p.add(p.work(r.Origin, r.Child, r.Turn), at, t)
	for _, c := range r.Calls {
		p.add(p.work(r.Origin, r.Child, r.Turn), r.At, &ToolStart{ToolName: c.Name, ToolCallID: c.Call, Args: p.args(c.Call)})
	}
}

// args returns the arguments of a call, if they are in the same batch.
func (p *projection) args(id conversation.CallID) *Content {
	for _, c := range p.calls {
		if c.Call == id {
			return p.json(c.Input)
		}
	}
	return nil
}

// Finish reasons of events in addition to those of models.
const (
	finishToolUse = "toolUse"
	finishError   = "error"
	finishAborted = "aborted"
)

// CutOff reports whether the turn ended before its model did. The finish reason names the cause:
// aborted by a caller, handover by a drain of its node, interrupted by the loss of its process or
// writer, or by the end of the submission's time. Such a turn is not an error, and its duration is not
// the model's.
func (t *Turn) CutOff() bool {
	switch t.Response.FinishReason {
	case finishAborted, conversation.ReasonHandover, conversation.ReasonInterrupted:
		return true
	}
	return false
}

// finish maps the stop reason of a turn.
func (p *projection) finish(stop string) string {
	switch stop {
	case "tool_use":
		return finishToolUse
	case conversation.ReasonInterrupted:
		switch {
		case p.aborting:
			return finishAborted
		case p.released:
			return conversation.ReasonHandover
		}
	}
	return stop
}

// dropped emits a model call whose output was withdrawn.
func (p *projection) dropped(r *conversation.StepDropped) {
	t := FailedTurn(r.Model, r.Facts, r.Reason, r.DurationMs, r.Retries)
	t.Dropped = true
	p.add(p.work(r.Origin, r.Child, r.Turn), r.At, t)
}

// failedSilently emits a model call that ended without output.
func (p *projection) failedSilently(in scope, c *conversation.FailedCall, at conversation.Time, err *Error) {
	if c == nil {
		return
	}
	in.turn = c.Turn
	p.add(in, at-conversation.Time(c.DurationMs), &TurnStart{Purpose: PurposeAgent, Model: c.Model})
	t := FailedTurn(c.Model, c.Facts, "", c.DurationMs, c.Retries)
	t.Response.Error = err
	p.add(in, at, t)
}

// FailedTurn returns the turn of a failed model call. reason may be empty. durationMs is its duration,
// retries the number of failed calls that it repeats.
func FailedTurn(model string, facts conversation.CallFacts, reason string, durationMs int64, retries int) *Turn {
	t := &Turn{
		Purpose: PurposeAgent, DurationMs: durationMs, Retries: retries,
		Request: RequestOf(model, facts), Response: ModelResponse{FinishReason: reason},
	}
	if !t.CutOff() {
		t.IsError, t.Response.FinishReason, t.Response.Error = true, finishError, failureOf(reason)
	}
	return t
}

func failureOf(reason string) *Error {
	if reason == "" {
		return nil
	}
	return &Error{Type: reason}
}

func (p *projection) toolSettled(r *conversation.ToolSettled) {
	t := &Tool{ToolName: r.Name, ToolCallID: r.Call, IsError: r.Failed, Result: p.json(r.Output)}
	if r.Failed {
		t.Result = p.text(r.ErrorText)
	}
	if r.DurationMs != nil {
		t.DurationMs = *r.DurationMs
	}
	at := r.At
	if r.Failed && r.DurationMs == nil { // it was running when the attempt was lost
		at = cmp.Or(p.lostAt, at)
	}
	in := p.work(r.Origin, r.Child, r.Turn)
	for _, w := range r.Waits {
		p.add(in, at, &Wait{Name: stored(w.Name), ToolName: r.Name, ToolCallID: r.Call, Reason: WaitAbandoned, DurationMs: w.WaitedMs})
	}
	p.add(in, at, t)
}

// task returns the scope of the start or end of a subagent: its caller and purpose.
func (p *projection) task(o conversation.Origin, child conversation.ConversationID, turn conversation.TurnID) scope {
	in := scope{submission: o.Root, child: child, parent: o.Parent, turn: turn}
	switch {
	case o.Parent != "":
		in.operation = taskOperation(o.Parent)
	case o.Root != "": // not recorded by older versions
		in.operation = operationID(o.Root)
	}
	return in
}

func (p *projection) taskStarted(r *conversation.ChildStarted) {
	p.add(p.task(r.Origin, r.Child, r.Turn), r.At, &TaskStart{Agent: r.Agent, ToolCallID: r.Call, Prompt: p.text(r.Prompt)})
	own := p.work(r.Origin, r.Child, "")
	p.add(own, r.At, &OperationStart{Kind: OperationPrompt})
	p.add(own, r.At, &AgentStart{})
}

func (p *projection) taskSettled(r *conversation.ChildSettled) {
	own, usage := p.work(r.Origin, r.Child, ""), usageOf(r.Usage, nil)
	var err *Error
	failed := r.Outcome != conversation.OutcomeCompleted
	if failed {
		err = &Error{Type: "task_" + string(r.Outcome)}
	}
	at := r.At
	if r.Outcome == conversation.OutcomeAborted { // by recovery, if an attempt was lost
		at = cmp.Or(p.lostAt, at)
	}
	p.failedSilently(own, r.Unheard, at, err)
	p.add(own, at, &AgentEnd{Reason: EndSettled, DurationMs: r.DurationMs})
	p.add(own, at, &Operation{Kind: OperationPrompt, DurationMs: r.DurationMs, IsError: failed, Error: err, Usage: usage})
	p.add(p.task(r.Origin, r.Child, r.Turn), at, &Task{
		Agent: r.Agent, ToolCallID: r.Call, Outcome: string(r.Outcome), IsError: failed, DurationMs: r.DurationMs, Usage: usage,
	})
}

// compacted emits a compaction with its start, because nothing is recorded before its end. A requested
// compaction is an operation of its own.
func (p *projection) compacted(r *conversation.Compacted) {
	in := p.work(r.Origin, r.Child, "")
	began := r.At - conversation.Time(r.DurationMs)
	if r.Detached {
		in.operation = "op_" + strings.TrimPrefix(string(r.Turn), "turn_")
		p.add(in, began, &OperationStart{Kind: OperationCompact})
	}
	usage := usageOf(r.Usage, r.Facts.Price)
	p.add(in, began, &CompactionStart{Reason: string(r.Reason), EstimatedTokens: r.Tokens})
	call := in
	call.turn = r.Turn
	p.add(call, r.At, &Turn{
		Purpose: PurposeCompaction, DurationMs: r.DurationMs, Request: RequestOf(r.Model, r.Facts),
		Response: ModelResponse{ID: r.Facts.ResponseID, Model: r.Facts.ResponseModel, Usage: usage, FinishReason: "stop"},
	})
	p.add(in, r.At, &Compaction{Reason: string(r.Reason), MessagesBefore: r.Before + r.After, MessagesAfter: r.After, DurationMs: r.DurationMs, Usage: usage})
	if r.Detached {
		p.add(in, r.At, &Operation{Kind: OperationCompact, DurationMs: r.DurationMs})
	}
}

func (p *projection) settled(r *conversation.SubmissionSettled) {
	own := root(r.Submission)
	var err *Error
	if r.Error != nil {
		err = &Error{Type: string(r.Error.Type), Message: stored(r.Error.Message), Meta: r.Error.Meta}
	}
	if r.Error != nil && (r.Error.Type == conversation.CodeRetryExhausted || r.Error.Type == conversation.CodeTimeout) {
		p.terminated(r, err)
	}
	p.failedSilently(own, r.Unheard, r.At, err)
	switch {
	case r.Lost:
		p.add(own, cmp.Or(r.LostAt, r.At), &AgentEnd{Reason: EndLost})
	case r.Open:
		p.add(own, r.At, &AgentEnd{Reason: EndSettled, DurationMs: r.AttemptMs})
	}
	if r.Began {
		p.add(own, r.At, &Operation{
			Kind: OperationPrompt, DurationMs: r.ElapsedMs, IsError: r.Outcome != conversation.OutcomeCompleted, Error: err,
		})
		p.add(own, r.At, &Idle{})
	}
	p.add(whole(r.Submission), r.At, &SubmissionSettled{
		Kind: kindOf(r.Dispatched), Outcome: string(r.Outcome), Attempt: r.Attempts, WorkMs: r.ElapsedMs, TotalMs: r.TotalMs,
		AdmissionMs: r.AdmissionMs, Error: err,
	})
}

// terminated emits the end of a submission that failed permanently.
func (p *projection) terminated(r *conversation.SubmissionSettled, err *Error) {
	operation := RecoveryDeadline
	if r.Error.Type == conversation.CodeRetryExhausted {
		operation = RecoveryStart
	}
	p.add(whole(r.Submission), r.At, &SubmissionRecovery{Operation: operation, Outcome: OutcomeTerminated, Attempt: r.Attempts, Error: err})
}

// redactedTarget returns a target without possible secrets: the path of a URL and the rest.
func redactedTarget(target string) string {
	scheme, rest, isURL := strings.Cut(target, "://")
	if !isURL {
		return stored(target)
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	host, _, _ = strings.Cut(host, "#")
	return stored(scheme + "://" + host)
}
