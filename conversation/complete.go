package conversation

// Complete fills the fields of a record, about to be folded, that repeat facts of earlier records. No
// decision and no fold reads them. They make events a pure function of one batch.
func (s *State) Complete(r Record) {
	switch r := r.(type) {
	case *AttemptStarted:
		if sub := s.bySub[r.Submission]; sub != nil {
			r.After, r.Trace, r.Dispatched = sub.after(), sub.Trace, sub.Dispatched
			if r.After == AfterNothing {
				r.QueuedMs = sinceMs(sub.AdmittedAt, r.At)
			}
		}
	case *ResponseStarted:
		if r.Child != "" {
			r.Origin = s.origin(s.bySub[r.Submission])
		}
	case *ToolCalled:
		if m := s.byID[r.Message]; m != nil && m.sub != nil {
			r.Origin = s.origin(m.sub)
			r.Turn = m.sub.OpenTurn()
		}
	case *ToolSettled:
		if p := s.calls[r.Call]; p != nil {
			r.Origin, r.Name, r.Turn, r.Waits = s.origin(p.sub), p.name, p.turn.id, s.openWaits(r.Call, r.At)
		}
	case *WaitStarted:
		if p := s.calls[r.Call]; p != nil {
			r.Origin, r.Tool, r.Turn = s.origin(p.sub), p.name, p.turn.id
		}
	case *WaitEnded:
		if p, w := s.calls[r.Call], s.WaitOf(r.Call, r.Name); p != nil && w != nil {
			r.Origin, r.Tool, r.Turn, r.WaitedMs = s.origin(p.sub), p.name, p.turn.id, sinceMs(w.Since, r.At)
		}
	case *PostDeferred:
		if p := s.Post(r.Post); p != nil {
			r.Submission, r.Target = p.Submission, p.Target
		}
	case *PostDone:
		if p := s.Post(r.Post); p != nil {
			r.Submission, r.Target = p.Submission, p.Target
		}
	case *StepCompleted:
		r.Origin, r.Model = s.turnFacts(r.Message)
		if r.StopReason != ReasonInterrupted {
			r.Calls = s.callNames(r.Message)
		}
	case *StepDropped:
		r.Origin, r.Model = s.turnFacts(r.Message)
	case *ChildStarted:
		if p := s.calls[r.Call]; p != nil {
			r.Origin, r.Turn = s.asked(p.sub), p.turn.id
		}
	case *ChildSettled:
		s.completeChild(r)
	case *SubmissionSettled:
		if sub := s.bySub[r.Submission]; sub != nil {
			r.Attempts, r.Began, r.Open, r.Dispatched = sub.Attempts, sub.Began, sub.Running, sub.Dispatched
			r.TotalMs = sinceMs(sub.AdmittedAt, r.At)
		}
	}
}

func (s *State) completeChild(r *ChildSettled) {
	for _, c := range s.children {
		if c.Child != r.Child {
			continue
		}
		r.Origin, r.Agent, r.Call, r.Submission = s.origin(c), c.Agent, c.Call, c.ID
		r.DurationMs = sinceMs(c.AdmittedAt, r.At)
		if p := s.calls[c.Call]; p != nil {
			r.Turn = p.turn.id
		}
	}
}

// openWaits returns the waits of a call that have not ended.
func (s *State) openWaits(call CallID, at Time) (out []OpenWait) {
	for _, w := range s.waits {
		if w.Call == call && w.Ended == "" {
			out = append(out, OpenWait{Name: w.Name, WaitedMs: sinceMs(w.Since, at)})
		}
	}
	return out
}

// after returns how the previous attempt ended.
func (s *Submission) after() Started {
	switch {
	case s.Running:
		return AfterLoss
	case s.Began:
		return AfterPause
	}
	return AfterNothing
}

// Origin returns the submission on whose behalf a submission is worked on. The latter may belong to a
// subagent.
func (s *State) Origin(id SubmissionID) Origin { return s.origin(s.bySub[id]) }

func (s *State) origin(sub *Submission) Origin {
	if sub == nil || sub.Child == "" {
		return s.asked(sub)
	}
	return s.asked(s.bySub[sub.Parent])
}

// asked returns the origin of tasks that a submission delegates to a subagent.
func (s *State) asked(sub *Submission) Origin {
	if sub == nil {
		return Origin{}
	}
	return Origin{Root: s.root(sub).ID, Parent: sub.Child}
}

// turnFacts returns the origin and the model of a response's open turn.
func (s *State) turnFacts(id MessageID) (Origin, string) {
	m := s.byID[id]
	if m == nil || m.sub == nil {
		return Origin{}, ""
	}
	model := ""
	if t := m.sub.lastTurn(); t != nil {
		model = t.model
	}
	return s.origin(m.sub), model
}

// callNames returns the calls of a response's open turn.
func (s *State) callNames(id MessageID) (out []CallName) {
	m := s.byID[id]
	if m == nil || m.sub == nil {
		return nil
	}
	for _, c := range m.sub.OpenCalls() {
		out = append(out, CallName{c.Call, c.Name})
	}
	return out
}

func sinceMs(from, to Time) int64 { return max(int64(to-from), 0) }
