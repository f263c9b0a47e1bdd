package observability

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Source says whose batches are projected: what every event of a conversation has, and
// no batch but the first says.
type Source struct {
	Key          conversation.Key
	Agent        string
	ID           string
	Conversation conversation.ConversationID
}

// SourceOf returns the source of a life of a conversation.
func SourceOf(c *conversation.ConversationCreated) Source {
	return Source{Key: c.Address().Key(), Agent: c.Agent, ID: c.ID, Conversation: c.ConversationID}
}

// After returns the source of what follows a batch, which may begin a life.
func (s Source) After(b conversation.Batch) Source {
	for _, r := range b.Records {
		if c, ok := r.(*conversation.ConversationCreated); ok {
			s = SourceOf(c)
		}
	}
	return s
}

// DefaultContentBytes bounds a piece of content, where content is switched on.
const DefaultContentBytes = 8 << 10

// ProjectOptions say how much of a batch is shown.
type ProjectOptions struct {
	// Content shows what people, models and tools have said.
	Content bool
	// MaxContentBytes bounds each piece of it. Zero is DefaultContentBytes.
	MaxContentBytes int
}

// Project returns the durable events of a batch, in order. It is a pure function: the
// same batch gives the same events, whoever asks and how often. Records of versions
// that said less give events that say less. Opts may be nil.
func Project(src Source, b conversation.Batch, opts *ProjectOptions) []Event {
	p := projection{src: src, seq: int64(b.Offset)}
	if opts != nil {
		p.opts = *opts
	}
	if n := usualEvents(b.Records); n > 0 { // Most batches are text and give none.
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

// lostAt returns when the attempt was lost that the batch of records finds lost, 0 if there is none or if no record of
// the batch knows.
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

// usualEvents is how many events records give as a rule.
func usualEvents(records []conversation.Record) (n int) {
	for _, r := range records {
		switch r.(type) {
		case *conversation.AttemptStarted: // And operation_start, of a first one.
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

// projection is the events of one batch in the making.
type projection struct {
	src      Source
	opts     ProjectOptions
	seq      int64
	out      []Event
	calls    []*conversation.ToolCalled
	aborting bool              // what ends from here on was aborted
	released bool              // the attempt before was released: what recovery closes, a drain has cut off
	lostAt   conversation.Time // when the attempt was lost that recovery closes, up to the next attempt
	prefix   string
}

// scope is to which part of a conversation an event belongs.
type scope struct {
	submission conversation.SubmissionID
	child      conversation.ConversationID // of a subagent
	parent     conversation.ConversationID // of a subagent's subagent: who asked
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
		p.add(whole(r.Submission), r.At, &Post{PostID: r.Post, Target: shownTarget(r.Target), Outcome: PostDeferred, Attempts: r.Attempts, DurationMs: r.DurationMs})
	case *conversation.PostDone:
		p.add(whole(r.Submission), r.At, &Post{PostID: r.Post, Target: shownTarget(r.Target), Outcome: string(r.End), Attempts: r.Attempts, DurationMs: r.DurationMs})
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

// treeCounted returns the log of a member of a tree of dispatches.
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

// fill names the place of an event within its conversation. Events about a submission
// as a whole have none.
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

// sessionOf names the session of a subagent, or of the conversation itself.
func sessionOf(child conversation.ConversationID) string {
	if child == "" {
		return SessionDefault
	}
	return "task:" + taskID(child)
}

// taskID and operationID are names made of the ids that the log has.
func taskID(child conversation.ConversationID) string {
	return "task_" + strings.TrimPrefix(string(child), "conv_")
}

func operationID(id conversation.SubmissionID) string {
	return "op_" + strings.TrimPrefix(string(id), "sub_")
}

// whole is the scope of what concerns a submission as such.
func whole(id conversation.SubmissionID) scope { return scope{submission: id} }

// root is the scope of a submission's own operation.
func root(id conversation.SubmissionID) scope {
	return scope{submission: id, operation: operationID(id)}
}

// work is the scope of a record that names its origin.
func (p *projection) work(o conversation.Origin, child conversation.ConversationID, turn conversation.TurnID) scope {
	in := scope{submission: o.Root, child: child, parent: o.Parent, turn: turn}
	switch {
	case child != "":
		in.operation = taskOperation(child)
	case o.Root != "": // older versions did not say
		in.operation = operationID(o.Root)
	}
	return in
}

// taskOperation names the operation of a subagent.
func taskOperation(child conversation.ConversationID) string {
	return "op_" + strings.TrimPrefix(string(child), "conv_")
}

// within is work of a record that names a submission, which is a subagent's own if it
// has one.
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

// attempt tells of an attempt, and of the end of one whose writer could not.
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
	p.lostAt = 0 // What follows is of this attempt.
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

// args are the arguments of a call, if it stands in the same batch.
func (p *projection) args(id conversation.CallID) *Content {
	for _, c := range p.calls {
		if c.Call == id {
			return p.json(c.Input)
		}
	}
	return nil
}

// The finish reasons that events have beside those of models.
const (
	finishToolUse = "toolUse"
	finishError   = "error"
	finishAborted = "aborted"
)

// CutOff reports whether the turn ended before its model did, for a reason that is not the
// model's. Its finish reason names it: aborted by a caller, handover by a drain of its node,
// interrupted by the loss of its process or writer, or by the end of the submission's time.
// Such a turn is no error, and its duration is not the model's.
func (t *Turn) CutOff() bool {
	switch t.Response.FinishReason {
	case finishAborted, conversation.ReasonHandover, conversation.ReasonInterrupted:
		return true
	}
	return false
}

// finish translates the stop reason of a turn.
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

// dropped tells of a model call whose words were withdrawn.
func (p *projection) dropped(r *conversation.StepDropped) {
	t := FailedTurn(r.Model, r.Facts, r.Reason, r.DurationMs, r.Retries)
	t.Dropped = true
	p.add(p.work(r.Origin, r.Child, r.Turn), r.At, t)
}

// unheard tells of a model call that ended without a word.
func (p *projection) unheard(in scope, c *conversation.FailedCall, at conversation.Time, err *Error) {
	if c == nil {
		return
	}
	in.turn = c.Turn
	p.add(in, at-conversation.Time(c.DurationMs), &TurnStart{Purpose: PurposeAgent, Model: c.Model})
	t := FailedTurn(c.Model, c.Facts, "", c.DurationMs, c.Retries)
	t.Response.Error = err
	p.add(in, at, t)
}

// FailedTurn returns the turn of a model call that has failed for a reason, which may be
// empty. durationMs is its length, retries the number of failed calls that it repeats.
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
	if r.Failed && r.DurationMs == nil { // it ran when the attempt was lost
		at = cmp.Or(p.lostAt, at)
	}
	in := p.work(r.Origin, r.Child, r.Turn)
	for _, w := range r.Waits {
		p.add(in, at, &Wait{Name: stored(w.Name), ToolName: r.Name, ToolCallID: r.Call, Reason: WaitAbandoned, DurationMs: w.WaitedMs})
	}
	p.add(in, at, t)
}

// task is the scope of the event that a subagent begins or ends: who asked, and for what.
func (p *projection) task(o conversation.Origin, child conversation.ConversationID, turn conversation.TurnID) scope {
	in := scope{submission: o.Root, child: child, parent: o.Parent, turn: turn}
	switch {
	case o.Parent != "":
		in.operation = taskOperation(o.Parent)
	case o.Root != "": // older versions did not say
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
	p.unheard(own, r.Unheard, at, err)
	p.add(own, at, &AgentEnd{Reason: EndSettled, DurationMs: r.DurationMs})
	p.add(own, at, &Operation{Kind: OperationPrompt, DurationMs: r.DurationMs, IsError: failed, Error: err, Usage: usage})
	p.add(p.task(r.Origin, r.Child, r.Turn), at, &Task{
		Agent: r.Agent, ToolCallID: r.Call, Outcome: string(r.Outcome), IsError: failed, DurationMs: r.DurationMs, Usage: usage,
	})
}

// compacted tells of a compaction from its start: nothing is recorded of it before its
// end. One that somebody asked for is an operation of its own.
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
	p.unheard(own, r.Unheard, r.At, err)
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

// terminated tells that a submission is given up.
func (p *projection) terminated(r *conversation.SubmissionSettled, err *Error) {
	operation := RecoveryDeadline
	if r.Error.Type == conversation.CodeRetryExhausted {
		operation = RecoveryStart
	}
	p.add(whole(r.Submission), r.At, &SubmissionRecovery{Operation: operation, Outcome: OutcomeTerminated, Attempt: r.Attempts, Error: err})
}

// shownTarget is a target without what may be a secret: the path of a URL, and what follows.
func shownTarget(target string) string {
	scheme, rest, isURL := strings.Cut(target, "://")
	if !isURL {
		return stored(target)
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	host, _, _ = strings.Cut(host, "#")
	return stored(scheme + "://" + host)
}
