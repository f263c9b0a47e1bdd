package stats

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// builder builds the tree of a submission from its events.
type builder struct {
	root  *Node
	queue *Node
	// open holds the nodes without an end, ends the others, and begun those with a start event, with
	// its batch.
	open  map[*Node]bool
	begun map[*Node]int64
	ends  map[*Node]ending
	last  conversation.Time // time of the latest event

	operations map[string]*Node
	// runs and compactions hold the latest of each operation, because they have no ids.
	runs, compactions map[*Node]*Node
	turns             map[conversation.TurnID]*Node
	tools             map[toolKey]*Node
	waits             map[waitKey]*Node
	tasks             map[string]*Node
	// loose holds the tasks whose place is still unknown.
	loose     map[*Node]bool
	recovered map[int]bool // by attempt
}

// ending is the end of a node: its time and batch. took is the duration in the event, 0 if absent.
type ending struct {
	at   conversation.Time
	seq  int64
	took int64
}

// toolKey identifies a call, because models may repeat call ids.
type toolKey struct {
	turn conversation.TurnID
	call conversation.CallID
}

// waitKey identifies a wait: a call waits for a name once.
type waitKey struct {
	toolKey
	name string
}

func newBuilder(id conversation.SubmissionID) *builder {
	root := &Node{Kind: KindSubmission, ID: string(id), State: StateQueued}
	return &builder{
		root: root, open: map[*Node]bool{root: true}, begun: map[*Node]int64{}, ends: map[*Node]ending{},
		operations: map[string]*Node{}, runs: map[*Node]*Node{}, compactions: map[*Node]*Node{},
		turns: map[conversation.TurnID]*Node{}, tools: map[toolKey]*Node{}, waits: map[waitKey]*Node{}, tasks: map[string]*Node{},
		loose: map[*Node]bool{}, recovered: map[int]bool{},
	}
}

// begin creates a node, child one with a parent.
func (b *builder) begin(kind Kind, at conversation.Time) *Node {
	n := &Node{Kind: kind, Start: at}
	b.open[n] = true
	return n
}

func (b *builder) child(parent *Node, kind Kind, at conversation.Time) *Node {
	n := b.begin(kind, at)
	parent.Children = append(parent.Children, n)
	return n
}

// starts records that an event holds the start of a node.
func (b *builder) starts(n *Node, e *observability.Event) *Node {
	n.Start, b.begun[n] = e.At, e.Seq
	return n
}

// end ends a node at the time of an event, which may have its duration. Without a start event, nothing
// else is known of the node.
func (b *builder) end(n *Node, e *observability.Event, state State, took int64) {
	if _, ok := b.begun[n]; !ok {
		n.Start = min(n.Start, begun(e, took))
	}
	n.State = state
	b.ends[n] = ending{e.At, e.Seq, took}
	delete(b.open, n)
}

func stateOf(isError bool) State {
	if isError {
		return StateError
	}
	return StateOK
}

// begun returns the start of something that has ended.
func begun(e *observability.Event, took int64) conversation.Time {
	return e.At - conversation.Time(took)
}

func (b *builder) add(e *observability.Event) {
	b.last = max(b.last, e.At)
	if b.root.Name == "" {
		b.root.Name = e.Agent
	}
	switch p := e.Payload.(type) {
	case *observability.SubmissionQueued:
		b.queued(e.At)
	case *observability.SubmissionRunning:
		b.running(e, p)
	case *observability.SubmissionRecovery:
		n := b.child(b.root, KindRecovery, e.At)
		n.Name, n.Attempt, n.Error = p.Operation+", "+p.Outcome, p.Attempt, p.Error
		if p.Fenced {
			n.Name += ", fenced"
		}
		b.end(n, e, StateOK, 0)
	case *observability.SubmissionSettled:
		b.queued(begun(e, p.TotalMs))
		if p.Attempt == 0 && b.open[b.queue] { // It never ran. A suspended submission has no attempt, either.
			b.end(b.queue, e, StateOK, p.TotalMs)
		}
		b.root.Error, b.root.Attempt = p.Error, max(b.root.Attempt, p.Attempt)
		b.end(b.root, e, State(p.Outcome), p.TotalMs)
		if b.root.State == StateAborted {
			b.aborted(e)
		}
	case *observability.OperationStart:
		b.starts(b.operation(e, e.Task), e).Name = p.Kind
	case *observability.Operation:
		n := b.operation(e, e.Task)
		n.Name, n.Error, n.Usage = p.Kind, p.Error, p.Usage
		b.end(n, e, failedAs(p.IsError, p.Error), p.DurationMs)
	case *observability.AgentStart, *observability.AgentEnd:
		b.run(e)
	case *observability.TurnStart, *observability.TurnRequest, *observability.Turn:
		b.turn(e)
	case *observability.ToolStart, *observability.Tool:
		b.tool(e)
	case *observability.WaitStart:
		b.starts(b.wait(e, p.ToolName, waitKey{toolKey{e.Turn, p.ToolCallID}, p.Name}, 0), e).Until = p.Until
	case *observability.Wait:
		n := b.wait(e, p.ToolName, waitKey{toolKey{e.Turn, p.ToolCallID}, p.Name}, p.DurationMs)
		b.end(n, e, StateOK, p.DurationMs)
		if n.Signal = p.Signal; p.Reason != observability.WaitSignal {
			n.State = State(p.Reason)
		}
	case *observability.Post:
		n := b.child(b.root, KindPost, begun(e, p.DurationMs))
		n.Name, n.ID, n.Attempt = p.Target, string(p.PostID), p.Attempts
		b.end(n, e, StateOK, p.DurationMs)
		if p.Outcome != observability.PostDelivered {
			n.State = State(p.Outcome)
		}
	case *observability.TaskStart, *observability.Task:
		b.task(e)
	case *observability.CompactionStart, *observability.Compaction:
		b.compaction(e)
	case *observability.Log:
		b.log(e, p)
	}
}

// aborted sets the state of the nodes that an abort has ended: intent and outcomes are in one batch.
func (b *builder) aborted(e *observability.Event) {
	for n, end := range b.ends {
		cut := n.Kind == KindTool && end.took == 0 || n.Kind == KindOperation || n.Kind == KindRun && n.State == StateOK
		if cut && end.seq == e.Seq {
			n.State = StateAborted
		}
	}
}

// queued records the time of the admission.
func (b *builder) queued(at conversation.Time) {
	if b.queue == nil {
		b.root.Start = at
		b.queue = b.child(b.root, KindQueue, at)
		b.begun[b.root], b.begun[b.queue] = 0, 0
	}
}

func (b *builder) running(e *observability.Event, p *observability.SubmissionRunning) {
	b.queued(begun(e, p.QueuedMs))
	if b.open[b.queue] {
		b.end(b.queue, e, StateOK, p.QueuedMs)
	}
	if p.Recovered {
		b.unknown(e)
	}
	b.root.State, b.root.Attempt = StateRunning, max(b.root.Attempt, p.Attempt)
	b.recovered[p.Attempt] = p.Recovered
}

// operation returns the node of the operation of an event, which is the work of a task if one is
// named.
func (b *builder) operation(e *observability.Event, task string) *Node {
	n := b.operations[e.Operation]
	if n == nil {
		parent := b.root
		if task != "" {
			if parent = b.tasks[task]; parent == nil {
				parent = b.begin(KindTask, e.At)
				parent.ID, b.tasks[task], b.loose[parent] = task, parent, true
			}
		}
		n = b.child(parent, KindOperation, e.At)
		n.ID = e.Operation
		b.operations[e.Operation] = n
	}
	return n
}

// loop returns the parent of the turn or compaction of an event: the run of its operation that has not
// ended, or else the operation. Live events come after all runs: they belong to the latest that had
// begun.
func (b *builder) loop(operation *Node, e *observability.Event) *Node {
	if e.Live() {
		for _, n := range slices.Backward(operation.Children) {
			if n.Kind == KindRun && n.Start <= e.At {
				return n
			}
		}
	}
	if run := b.runs[operation]; run != nil && b.open[run] {
		return run
	}
	return operation
}

// within returns the innermost started node that an event names.
func (b *builder) within(e *observability.Event) *Node {
	n := b.turns[e.Turn]
	if n != nil && (b.open[n] || e.At <= b.ends[n].at) {
		return n
	}
	if n := b.operations[e.Operation]; n != nil {
		return b.loop(n, e)
	}
	return b.root
}

func (b *builder) run(e *observability.Event) {
	operation := b.operation(e, e.Task)
	run := b.runs[operation]
	start, ok := e.Payload.(*observability.AgentStart)
	if ok {
		if run != nil && b.open[run] {
			b.lost(run, e)
			b.ends[run] = ending{seq: e.Seq}
		}
		n := b.starts(b.child(operation, KindRun, e.At), e)
		n.Attempt = start.Attempt
		n.Recovered = e.Task == "" && b.recovered[start.Attempt]
		b.runs[operation] = n
		return
	}
	p := e.Payload.(*observability.AgentEnd)
	took := p.DurationMs
	if run == nil || !b.open[run] {
		run = b.child(operation, KindRun, begun(e, took))
		b.runs[operation] = run
	}
	run.Name = p.Reason
	if p.Reason == observability.EndLost {
		b.lost(run, e)
		return
	}
	b.end(run, e, StateOK, took)
}

// lost ends a run whose process or writer was lost, with everything that recovery has closed.
func (b *builder) lost(run *Node, e *observability.Event) {
	b.end(run, e, StateLost, 0)
	for _, c := range run.Children {
		if end, ok := b.ends[c]; ok && c.Kind == KindTool && c.State == StateError && end.seq == e.Seq && end.took == 0 {
			c.State = StateLost
		}
	}
}

// unknown removes the end of a run that was found lost at its recovery, and of its children: no event
// has the time of the loss.
func (b *builder) unknown(e *observability.Event) {
	for n, end := range b.ends {
		if n.State == StateLost && end.at == e.At {
			b.ends[n] = ending{seq: end.seq}
		}
	}
}

func (b *builder) turn(e *observability.Event) {
	n := b.turns[e.Turn]
	begin := func(purpose string, at conversation.Time) {
		if n != nil {
			return
		}
		operation := b.operation(e, e.Task)
		parent := b.loop(operation, e)
		if c := b.compactions[operation]; purpose == observability.PurposeCompaction && c != nil {
			parent = c
		}
		n = b.child(parent, KindTurn, at)
		n.ID = string(e.Turn)
		if purpose != observability.PurposeAgent {
			n.Purpose = purpose
		}
		b.turns[e.Turn] = n
	}
	asked := func(r *observability.ModelRequest) {
		if r.Model != "" {
			n.Name = r.Provider + "/" + r.Model
		}
	}
	switch p := e.Payload.(type) {
	case *observability.TurnStart:
		begin(p.Purpose, e.At)
		b.starts(n, e).Name = cmp.Or(n.Name, p.Model)
	case *observability.TurnRequest:
		begin(p.Purpose, e.At)
		asked(&p.Request)
	case *observability.Turn:
		begin(p.Purpose, begun(e, p.DurationMs))
		asked(&p.Request)
		n.FirstTokenMs, n.Retries, n.Dropped = p.FirstTokenMs, p.Retries, p.Dropped
		n.Usage, n.Error = p.Response.Usage, p.Response.Error
		b.end(n, e, turnState(p), p.DurationMs)
	}
}

// turnState returns the state of an ended model call. Recovery closes a lost call without its
// duration.
func turnState(t *observability.Turn) State {
	switch reason := t.Response.FinishReason; {
	case reason == string(conversation.OutcomeAborted):
		return StateAborted
	case reason == string(StateHandover):
		return StateHandover
	case reason == conversation.ReasonInterrupted && t.DurationMs == 0:
		return StateLost
	case reason == conversation.ReasonInterrupted:
		return StateError
	}
	return failedAs(t.IsError, t.Response.Error)
}

// failedAs returns the state for an error, if any: an abort is not an error.
func failedAs(isError bool, err *observability.Error) State {
	if err != nil && err.Type == string(conversation.CodeAborted) {
		return StateAborted
	}
	return stateOf(isError)
}

func (b *builder) log(e *observability.Event, p *observability.Log) {
	if p.Message == observability.LogTreeCounted && !e.Live() {
		b.root.Tree = treeOf(p.Attributes)
		return
	}
	n := b.child(b.within(e), KindLog, e.At)
	n.Name = p.Level + ": " + p.Message
	b.end(n, e, stateOf(p.Level == "error"), 0)
	if cause, ok := p.Attributes["cause"].(string); ok && p.Message == observability.LogCallFailed {
		reason, _ := p.Attributes["reason"].(string)
		n.Error = &observability.Error{Type: cmp.Or(reason, string(conversation.CodeModelFailed)), Message: cause}
	}
	// The turn of a call that failed without output is a live event, which may be dropped.
	if turn := b.turns[e.Turn]; turn != nil && b.open[turn] && p.Message == observability.LogCallFailed {
		reason, _ := p.Attributes["reason"].(string)
		turn.Error = &observability.Error{Type: cmp.Or(reason, string(conversation.CodeModelFailed))}
		b.end(turn, e, StateError, 0)
	}
}

func (b *builder) tool(e *observability.Event) {
	var name string
	var call conversation.CallID
	var took int64
	end, ended := e.Payload.(*observability.Tool)
	if ended {
		name, call, took = end.ToolName, end.ToolCallID, end.DurationMs
	} else {
		start := e.Payload.(*observability.ToolStart)
		name, call = start.ToolName, start.ToolCallID
	}
	n := b.call(e, name, call, took)
	if ended {
		b.end(n, e, stateOf(end.IsError), took)
	} else {
		b.starts(n, e)
	}
}

// call returns the node of a tool call.
func (b *builder) call(e *observability.Event, tool string, call conversation.CallID, took int64) *Node {
	key := toolKey{e.Turn, call}
	n := b.tools[key]
	if n == nil {
		n = b.child(b.loop(b.operation(e, e.Task), e), KindTool, begun(e, took))
		n.Name, n.ID = tool, string(call)
		b.tools[key] = n
	}
	return n
}

// wait returns the node of a wait within its tool call.
func (b *builder) wait(e *observability.Event, tool string, key waitKey, took int64) *Node {
	n := b.waits[key]
	if n == nil {
		n = b.child(b.call(e, tool, key.call, took), KindWait, begun(e, took))
		n.Name = key.name
		b.waits[key] = n
	}
	return n
}

// task adds a subagent. Its events have the operation and the turn of the caller; all other ids are
// the subagent's.
func (b *builder) task(e *observability.Event) {
	var agent string
	var call conversation.CallID
	var took int64
	end, ended := e.Payload.(*observability.Task)
	if ended {
		agent, call, took = end.Agent, end.ToolCallID, end.DurationMs
	} else {
		start := e.Payload.(*observability.TaskStart)
		agent, call = start.Agent, start.ToolCallID
	}
	n := b.tasks[e.Task]
	if n == nil {
		n = b.begin(KindTask, begun(e, took))
		n.ID, b.tasks[e.Task], b.loose[n] = e.Task, n, true
	}
	if b.loose[n] {
		parent := b.tools[toolKey{e.Turn, call}]
		if parent == nil {
			parent = b.loop(b.operation(e, ""), e)
		}
		parent.Children = append(parent.Children, n)
		delete(b.loose, n)
	}
	n.Name = agent
	if ended {
		n.Usage = end.Usage
		if b.end(n, e, stateOf(end.IsError), took); end.Outcome == string(conversation.OutcomeAborted) {
			n.State = StateAborted
		}
	} else {
		b.starts(n, e)
	}
}

func (b *builder) compaction(e *observability.Event) {
	operation := b.operation(e, e.Task)
	if start, ok := e.Payload.(*observability.CompactionStart); ok {
		n := b.starts(b.child(b.loop(operation, e), KindCompaction, e.At), e)
		n.Name = start.Reason
		b.compactions[operation] = n
		return
	}
	p := e.Payload.(*observability.Compaction)
	n := b.compactions[operation]
	if n == nil || !b.open[n] {
		n = b.child(b.loop(operation, e), KindCompaction, begun(e, p.DurationMs))
		b.compactions[operation] = n
	}
	n.Error, n.Usage = p.Error, p.Usage
	b.end(n, e, stateOf(p.IsError), p.DurationMs)
}

// finish returns the tree after all events.
func (b *builder) finish() *Node {
	if len(b.operations) > 0 && b.root.State == StateQueued {
		b.root.State = StateRunning
	}
	byID := func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) }
	b.root.Children = append(b.root.Children, slices.SortedFunc(maps.Keys(b.loose), byID)...)
	for _, n := range b.operations {
		b.moveTools(n)
	}
	b.settle(b.root, false)
	b.fit()
	sum(b.root)
	return b.root
}

// settle sets the state of nodes without an end, and orders children.
func (b *builder) settle(n *Node, over bool) {
	if b.open[n] && n != b.root {
		n.State = StateRunning
		if over {
			n.State = StateLost
		}
	}
	over = over || !b.open[n]
	slices.SortStableFunc(n.Children, byStart)
	for _, c := range n.Children {
		b.settle(c, over)
		if n.Start == 0 {
			n.Start = c.Start
		}
	}
}

func byStart(a, b *Node) int { return cmp.Compare(a.Start, b.Start) }

// sum sets the usage of every node but turns to that of the turns below, and returns it including its
// own.
func sum(n *Node) *observability.Usage {
	var total *observability.Usage
	for _, c := range slices.Concat(n.Children, n.After) {
		total = plus(total, sum(c))
	}
	if n.Kind == KindTurn {
		return plus(total, n.Usage)
	}
	// Without turns, keep a sum from an event.
	if total != nil {
		n.Usage = total
	}
	return n.Usage
}

// plus adds without changing its arguments.
func plus(a, b *observability.Usage) *observability.Usage {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &observability.Usage{
		Input: a.Input + b.Input, Output: a.Output + b.Output, CacheRead: a.CacheRead + b.CacheRead,
		CacheWrite: a.CacheWrite + b.CacheWrite, Reasoning: a.Reasoning + b.Reasoning, Total: a.Total + b.Total,
		Cost: observability.Cost{
			Input: a.Cost.Input + b.Cost.Input, Output: a.Cost.Output + b.Cost.Output, CacheRead: a.Cost.CacheRead + b.Cost.CacheRead,
			CacheWrite: a.Cost.CacheWrite + b.Cost.CacheWrite, Total: a.Cost.Total + b.Cost.Total,
		},
	}
}

// treeOf parses the usage of a tree. Stored events have JSON numbers.
func treeOf(attributes map[string]any) *Tree {
	number := func(name string) float64 {
		switch v := attributes[name].(type) {
		case int:
			return float64(v)
		case float64:
			return v
		case json.Number:
			f, _ := v.Float64()
			return f
		}
		return 0
	}
	return &Tree{
		Submissions: int(number("submissions")), MaxSubmissions: int(number("maxSubmissions")),
		Dollars: number("dollars"), MaxDollars: number("maxDollars"),
	}
}
