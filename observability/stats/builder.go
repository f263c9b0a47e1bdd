package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// builder makes the tree of a submission of its events.
type builder struct {
	root  *Node
	queue *Node
	// open holds the nodes whose end was not seen.
	open map[*Node]bool

	operations map[string]*Node
	// runs and compactions hold the latest one of an operation: they have no ids.
	runs, compactions map[*Node]*Node
	turns             map[conversation.TurnID]*Node
	tools             map[toolKey]*Node
	waits             map[waitKey]*Node
	tasks             map[string]*Node
	// loose holds the tasks that nothing has told the place of yet.
	loose     map[*Node]bool
	recovered map[int]bool // by attempt
}

// toolKey names a call: ids of calls are those of models, which may repeat them.
type toolKey struct {
	turn conversation.TurnID
	call conversation.CallID
}

// waitKey names a wait: a call waits for a name once.
type waitKey struct {
	toolKey
	name string
}

func newBuilder(id conversation.SubmissionID) *builder {
	root := &Node{Kind: KindSubmission, ID: string(id), State: StateQueued}
	return &builder{
		root: root, open: map[*Node]bool{root: true},
		operations: map[string]*Node{}, runs: map[*Node]*Node{}, compactions: map[*Node]*Node{},
		turns: map[conversation.TurnID]*Node{}, tools: map[toolKey]*Node{}, waits: map[waitKey]*Node{}, tasks: map[string]*Node{},
		loose: map[*Node]bool{}, recovered: map[int]bool{},
	}
}

// begin makes a node, child one with a parent.
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

// end ends a node. took is how long it was, or 0.
func (b *builder) end(n *Node, state State, took int64) {
	n.State, n.DurationMs = state, took
	delete(b.open, n)
}

// ended ends a node that an event says the duration of. Without the event of its start,
// that is all there is to tell when it was.
func (b *builder) ended(n *Node, e *observability.Event, isError bool, took int64) {
	n.Start = min(n.Start, begun(e, took))
	b.end(n, stateOf(isError), took)
}

func stateOf(isError bool) State {
	if isError {
		return StateError
	}
	return StateOK
}

// begun is when something that has ended began.
func begun(e *observability.Event, took int64) conversation.Time {
	return e.At - conversation.Time(took)
}

func (b *builder) add(e *observability.Event) {
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
		b.end(n, StateOK, 0)
	case *observability.SubmissionSettled:
		b.queued(begun(e, p.TotalMs))
		if p.Attempt == 0 { // it never ran
			b.end(b.queue, StateOK, p.TotalMs)
		}
		b.root.Error, b.root.Attempt = p.Error, max(b.root.Attempt, p.Attempt)
		b.end(b.root, State(p.Outcome), p.TotalMs)
	case *observability.OperationStart:
		b.operation(e, e.Task).Name = p.Kind
	case *observability.Operation:
		n := b.operation(e, e.Task)
		n.Name, n.Error, n.Usage = p.Kind, p.Error, p.Usage
		b.ended(n, e, p.IsError, p.DurationMs)
	case *observability.AgentStart, *observability.AgentEnd:
		b.run(e)
	case *observability.TurnStart, *observability.TurnRequest, *observability.Turn:
		b.turn(e)
	case *observability.ToolStart, *observability.Tool:
		b.tool(e)
	case *observability.WaitStart:
		b.wait(e, p.ToolName, waitKey{toolKey{e.Turn, p.ToolCallID}, p.Name}, 0).Until = p.Until
	case *observability.Wait:
		n := b.wait(e, p.ToolName, waitKey{toolKey{e.Turn, p.ToolCallID}, p.Name}, p.DurationMs)
		b.ended(n, e, false, p.DurationMs)
		if n.Signal = p.Signal; p.Reason != observability.WaitSignal {
			n.State = State(p.Reason)
		}
	case *observability.Post:
		n := b.child(b.root, KindPost, begun(e, p.DurationMs))
		n.Name, n.ID, n.Attempt = p.Target, string(p.PostID), p.Attempts
		b.ended(n, e, false, p.DurationMs)
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

// queued is told when the submission was admitted.
func (b *builder) queued(at conversation.Time) {
	if b.queue == nil {
		b.root.Start = at
		b.queue = b.child(b.root, KindQueue, at)
	}
}

func (b *builder) running(e *observability.Event, p *observability.SubmissionRunning) {
	b.queued(begun(e, p.QueuedMs))
	if b.open[b.queue] {
		b.end(b.queue, StateOK, p.QueuedMs)
	}
	b.root.State, b.root.Attempt = StateRunning, max(b.root.Attempt, p.Attempt)
	b.recovered[p.Attempt] = p.Recovered
}

// operation returns the node of the operation of an event, which is the work of a task
// if one is named.
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

// loop returns what the turn or compaction of an event is in: the run of its operation
// that has not ended, or else the operation. Live events come when all runs have been
// told: they are in the latest that had begun.
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

// within returns the smallest node that has begun of those that an event names.
func (b *builder) within(e *observability.Event) *Node {
	if n := b.turns[e.Turn]; n != nil {
		return n
	}
	if n := b.operations[e.Operation]; n != nil {
		return n
	}
	return b.root
}

func (b *builder) run(e *observability.Event) {
	operation := b.operation(e, e.Task)
	run := b.runs[operation]
	start, ok := e.Payload.(*observability.AgentStart)
	if ok {
		if run != nil && b.open[run] {
			b.end(run, StateLost, 0)
		}
		n := b.child(operation, KindRun, e.At)
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
		// It was noticed now, and happened some time before.
		b.end(run, StateLost, 0)
		return
	}
	if took == 0 {
		took = max(int64(e.At-run.Start), 0)
	}
	b.end(run, StateOK, took)
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
		n.Name = cmp.Or(n.Name, p.Model)
	case *observability.TurnRequest:
		begin(p.Purpose, e.At)
		asked(&p.Request)
	case *observability.Turn:
		begin(p.Purpose, begun(e, p.DurationMs))
		asked(&p.Request)
		n.FirstTokenMs, n.Retries, n.Dropped = p.FirstTokenMs, p.Retries, p.Dropped
		n.Usage, n.Error = p.Response.Usage, p.Response.Error
		b.ended(n, e, p.IsError || p.CutOff(), p.DurationMs)
	}
}

func (b *builder) log(e *observability.Event, p *observability.Log) {
	n := b.child(b.within(e), KindLog, e.At)
	n.Name = p.Level + ": " + p.Message
	b.end(n, stateOf(p.Level == "error"), 0)
	// The turn of a call that failed without output is a live event, which may be dropped.
	if turn := b.turns[e.Turn]; turn != nil && b.open[turn] && p.Message == observability.LogCallFailed {
		reason, _ := p.Attributes["reason"].(string)
		turn.Error = &observability.Error{Type: cmp.Or(reason, string(conversation.CodeModelFailed))}
		b.end(turn, StateError, max(int64(e.At-turn.Start), 0))
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
		b.ended(n, e, end.IsError, took)
	}
}

// call returns the node of the call of a tool.
func (b *builder) call(e *observability.Event, tool string, call conversation.CallID, took int64) *Node {
	key := toolKey{e.Turn, call}
	n := b.tools[key]
	if n == nil {
		parent := b.turns[e.Turn]
		if parent == nil {
			parent = b.loop(b.operation(e, e.Task), e)
		}
		n = b.child(parent, KindTool, begun(e, took))
		n.Name, n.ID = tool, string(call)
		b.tools[key] = n
	}
	return n
}

// wait returns the node of a wait, within the call of its tool.
func (b *builder) wait(e *observability.Event, tool string, key waitKey, took int64) *Node {
	n := b.waits[key]
	if n == nil {
		n = b.child(b.call(e, tool, key.call, took), KindWait, begun(e, took))
		n.Name = key.name
		b.waits[key] = n
	}
	return n
}

// task adds a subagent. Its events have the operation and the turn of who asked, and
// are otherwise of the subagent.
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
			parent = b.within(e)
		}
		parent.Children = append(parent.Children, n)
		delete(b.loose, n)
	}
	n.Name = agent
	if ended {
		n.Usage = end.Usage
		b.ended(n, e, end.IsError, took)
	}
}

func (b *builder) compaction(e *observability.Event) {
	operation := b.operation(e, e.Task)
	if start, ok := e.Payload.(*observability.CompactionStart); ok {
		n := b.child(b.loop(operation, e), KindCompaction, e.At)
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
	b.ended(n, e, p.IsError, p.DurationMs)
}

// finish returns the tree once all events are in it.
func (b *builder) finish() *Node {
	if len(b.operations) > 0 && b.root.State == StateQueued {
		b.root.State = StateRunning
	}
	byID := func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) }
	b.root.Children = append(b.root.Children, slices.SortedFunc(maps.Keys(b.loose), byID)...)
	b.settle(b.root, false)
	sum(b.root)
	return b.root
}

// settle says what became of nodes whose end was not seen, and orders children.
func (b *builder) settle(n *Node, over bool) {
	if b.open[n] && n != b.root {
		n.State = StateRunning
		if over {
			n.State = StateLost
		}
	}
	// The tools of a turn run after it, and go on after a pause.
	parked := n.Kind == KindRun && n.Name == observability.EndParked
	over = over || !b.open[n] && n.Kind != KindTurn && !parked
	slices.SortStableFunc(n.Children, func(a, b *Node) int { return cmp.Compare(a.Start, b.Start) })
	for _, c := range n.Children {
		b.settle(c, over)
		if n.Start == 0 {
			n.Start = c.Start
		}
	}
}

// sum gives every node but turns the usage of the turns below, and returns it together
// with its own.
func sum(n *Node) *observability.Usage {
	var total *observability.Usage
	for _, c := range n.Children {
		total = plus(total, sum(c))
	}
	if n.Kind == KindTurn {
		return plus(total, n.Usage)
	}
	// Without the turns, the node may have been told a sum.
	if total != nil {
		n.Usage = total
	}
	return n.Usage
}

// plus adds without changing what it is given.
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
