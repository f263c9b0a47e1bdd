package conversation

import "slices"

// TaskTool is the name of the tool by which a model delegates a task to a subagent.
const TaskTool = "task"

// FinishTool is the name of the tool by which a model returns its agent's structured output.
const FinishTool = "finish"

// ReadOutputTool is the name of the tool by which a model reads further parts of a truncated output.
const ReadOutputTool = "read_output"

// MaxContinued bounds how often an author may continue a response after the model wanted to stop.
const MaxContinued = 32

// MaxDepth bounds the nesting of subagents. A task of the agent itself has depth 1.
const MaxDepth = 4

// childOf returns the subagent conversation of a record, "" if the record belongs to the conversation
// itself.
func childOf(r Record) ConversationID {
	switch r := r.(type) {
	case *ResponseStarted:
		return r.Child
	case *Delta:
		return r.Child
	case *PartDone:
		return r.Child
	case *PartSigned:
		return r.Child
	case *RetryScheduled:
		return r.Child
	case *ToolCalled:
		return r.Child
	case *ToolSettled:
		return r.Child
	case *OutputStored:
		return r.Child
	case *WaitStarted:
		return r.Child
	case *WaitEnded:
		return r.Child
	case *StepCompleted:
		return r.Child
	case *StepDropped:
		return r.Child
	case *Advisory:
		return r.Child
	case *Compacted:
		return r.Child
	}
	return ""
}

// Children returns the subagent conversations of an unsettled submission, finished or not, oldest
// first. Nested subagents are included.
func (s *State) Children(id SubmissionID) []*Submission {
	var out []*Submission
	for _, c := range s.children {
		if root := s.root(c); root.ID == id {
			out = append(out, c)
		}
	}
	return out
}

// ChildOf returns the subagent conversation started by a call, or nil.
func (s *State) ChildOf(call CallID) *Submission {
	i := slices.IndexFunc(s.children, func(c *Submission) bool { return c.Call == call })
	if i < 0 {
		return nil
	}
	return s.children[i]
}

// Depth returns the number of subagents between a submission and the conversation itself. It is 0 for
// a submission of the conversation.
func (s *State) Depth(id SubmissionID) int {
	n := 0
	for sub := s.bySub[id]; sub != nil && sub.Child != ""; sub = s.bySub[sub.Parent] {
		n++
	}
	return n
}

// Recorded returns the steps finished by a call of a durable tool, in order. The slice is shared and
// read-only.
func (s *State) Recorded(call CallID) []StepRecorded { return s.recorded[call] }

// Compacted returns the newest compaction of the model's view for id, in this incarnation or in the
// subagent, or nil. The result is read-only. If the compaction keeps only exchanges after id, because
// others have overtaken it, the view continues with id.
func (s *State) Compacted(id SubmissionID) *Compacted {
	sub := s.bySub[id]
	if sub != nil && sub.Child != "" {
		return sub.compacted
	}
	if c := s.compacted; c != nil && sub != nil && slices.Index(s.submissions, s.bySub[c.FirstKept]) > slices.Index(s.submissions, sub) {
		own := *c
		own.FirstKept, own.FirstTurn = id, ""
		return &own
	}
	return s.compacted
}

// root returns the client's submission that a subagent works for. Any other submission is its own
// root.
func (s *State) root(sub *Submission) *Submission {
	for sub.Child != "" {
		sub = s.bySub[sub.Parent]
	}
	return sub
}

// belongs checks that a record of a submission's work names its subagent, or none. Projection relies
// on that name to hide the records of subagents from clients.
func (s *State) belongs(r Record, sub *Submission) error {
	if child := childOf(r); child != sub.Child {
		return s.bad(r, "submission %s belongs to %q, not to %q", sub.ID, sub.Child, child)
	}
	return nil
}

func (s *State) foldHook(r *HookDone) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	switch r.Hook {
	case HookDeliveryStarted:
		sub.DeliveryStarted = true
	case HookContinued:
		sub.Continued++
	}
	return nil
}

func (s *State) foldChildStarted(r *ChildStarted) error {
	call := s.calls[r.Call]
	switch {
	case call == nil || call.settled:
		return s.bad(r, "call %s is not open", r.Call)
	case s.bySub[r.Submission] != nil:
		return s.bad(r, "submission %s exists", r.Submission)
	case s.ChildOf(r.Call) != nil:
		return s.bad(r, "call %s has its subagent", r.Call)
	case s.Depth(call.sub.ID) >= MaxDepth:
		return s.bad(r, "subagents are nested too deep")
	}
	sub := &Submission{
		ID: r.Submission, Delivery: Delivery{Kind: KindUser, Body: r.Prompt}, Offset: s.head,
		AdmittedAt: r.At, Running: true, Attempts: 1, Child: r.Child, Agent: r.Agent, Call: r.Call, Parent: call.sub.ID,
	}
	s.children = append(s.children, sub)
	s.bySub[sub.ID] = sub
	return nil
}

func (s *State) foldChildSettled(r *ChildSettled) error {
	i := slices.IndexFunc(s.children, func(c *Submission) bool { return c.Child == r.Child })
	if i < 0 || s.children[i].Settled {
		return s.bad(r, "subagent %s is not running", r.Child)
	}
	sub := s.children[i]
	if t := sub.lastTurn(); t != nil && !t.completed {
		return s.bad(r, "subagent %s has an open turn", r.Child)
	}
	for _, c := range s.children {
		if c.Parent == sub.ID && !c.Settled {
			return s.bad(r, "subagent %s works for it", c.Child)
		}
	}
	sub.Settled, sub.Running, sub.Outcome = true, false, r.Outcome
	return nil
}

func (s *State) foldCompacted(r *Compacted) error {
	if r.Child == "" {
		s.compacted = r
		return nil
	}
	i := slices.IndexFunc(s.children, func(c *Submission) bool { return c.Child == r.Child })
	if i < 0 || s.children[i].Settled {
		return s.bad(r, "subagent %s is not running", r.Child)
	}
	s.children[i].compacted = r
	return nil
}

// dropChildren removes the subagents of a settling submission. Their outcomes are recorded with its
// calls.
func (s *State) dropChildren(sub *Submission) {
	gone := func(c *Submission) bool { return s.root(c) == sub }
	var ids []*Submission
	for _, c := range s.children {
		if gone(c) {
			ids = append(ids, c)
		}
	}
	s.children = slices.DeleteFunc(s.children, gone)
	for _, c := range ids {
		if m := s.byID[c.Message]; m != nil {
			for _, p := range m.parts {
				delete(s.calls, p.call)
				delete(s.recorded, p.call)
			}
			delete(s.byID, c.Message)
		}
		delete(s.bySub, c.ID)
	}
}
