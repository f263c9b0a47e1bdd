package killrun_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

// facts is the state of a log, built record by record.
type facts struct {
	a       *auditor
	subs    map[conversation.SubmissionID]*submission
	order   []conversation.SubmissionID // order of admission
	settled []conversation.SubmissionID // in order
	byKey   map[string][]conversation.SubmissionID
	calls   map[conversation.CallID]*toolCall
	aborts  int
	byMsg   map[conversation.MessageID]*submission
}

// submission is the state of one submission in a log.
type submission struct {
	admitted *conversation.SubmissionAdmitted
	offset   conversation.Offset
	starts   int // attempts, released ones included
	released int
	settled  []*conversation.SubmissionSettled
	covered  bool // by an abort
	dropped  bool // a step was withdrawn

	message  conversation.MessageID
	open     bool // a step is open
	hasText  bool // the open step has text or reasoning
	steps    int
	toolEnds bool           // the last step ended with calls
	cut      schedule.Event // closed by recovery since the last attempt began
}

// toolCall is the state of one tool call in a log.
type toolCall struct {
	sub     *submission
	name    string
	data    []int
	settled []*conversation.ToolSettled
}

func newFacts(a *auditor) *facts {
	return &facts{
		a: a, subs: map[conversation.SubmissionID]*submission{}, byKey: map[string][]conversation.SubmissionID{},
		calls: map[conversation.CallID]*toolCall{}, byMsg: map[conversation.MessageID]*submission{},
	}
}

func (f *facts) batch(b conversation.Batch) {
	if len(b.Records) == 0 {
		f.a.rep.counts["claims"]++
	}
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			f.subs[r.Submission] = &submission{admitted: r, offset: b.Offset}
			f.order = append(f.order, r.Submission)
			f.byKey[r.Key] = append(f.byKey[r.Key], r.Submission)
		case *conversation.AttemptStarted:
			f.attempt(f.subs[r.Submission])
		case *conversation.AttemptReleased:
			f.subs[r.Submission].released++
			f.subs[r.Submission].cut = "released at a drain"
		case *conversation.AbortRequested:
			f.aborts++
			for _, id := range r.Submissions {
				f.subs[id].covered = true
			}
		case *conversation.SubmissionSettled:
			f.subs[r.Submission].settled = append(f.subs[r.Submission].settled, r)
			f.settled = append(f.settled, r.Submission)
		default:
			f.response(r)
		}
	}
}

// attempt counts the point at which the previous attempt was interrupted.
func (f *facts) attempt(s *submission) {
	s.starts++
	if s.starts > 1 {
		switch {
		case s.cut != "":
		case s.steps == 0:
			s.cut = "before its first step"
		case s.toolEnds:
			s.cut = "between steps"
		default:
			s.cut = "after its last step"
		}
		f.a.rep.interrupted[s.cut]++
	}
	s.cut = ""
}

func (f *facts) response(r conversation.Record) {
	switch r := r.(type) {
	case *conversation.ResponseStarted:
		s := f.subs[r.Submission]
		f.byMsg[r.Message] = s
		s.message, s.open, s.hasText, s.toolEnds = r.Message, true, false, false
	case *conversation.Delta:
		f.byMsg[r.Message].hasText = true
	case *conversation.ToolCalled:
		s := f.byMsg[r.Message]
		s.toolEnds = true
		f.calls[r.Call] = &toolCall{sub: s, name: r.Name}
	case *conversation.StepCompleted:
		s := f.byMsg[r.Message]
		s.open = false
		s.steps++
		if r.StopReason == conversation.ReasonInterrupted && s.cut == "" {
			s.cut = "before the first word of a step"
			if s.hasText {
				s.cut = "in mid-text"
			}
		}
	case *conversation.StepDropped:
		f.byMsg[r.Message].dropped = true
	case *conversation.ToolSettled:
		c := f.calls[r.Call]
		c.settled = append(c.settled, r)
		if r.Failed && strings.Contains(r.ErrorText, "process ended while it ran") {
			c.sub.cut = "in a tool"
			f.a.rep.counts["tools with unknown outcome"]++
		}
	case *conversation.DataWritten:
		var d datum
		if err := json.Unmarshal(r.Data, &d); err != nil {
			f.a.flaw("data %s: %v", r.Data, err)
		} else if d.Call != "" {
			f.data(d)
		}
	}
}

func (f *facts) data(d datum) {
	c := f.calls[conversation.CallID(d.Call)]
	switch {
	case c == nil:
		f.a.flaw("data %+v comes before its call", d)
	case len(c.settled) > 0:
		f.a.flaw("data %+v comes after the outcome of its call", d)
	default:
		c.data = append(c.data, d.N)
	}
}

// checkSettlements checks that every submission settled once, with an allowed outcome, in order.
func (a *auditor) checkSettlements() {
	if !slices.Equal(a.facts.order, a.facts.settled) {
		a.flaw("admitted %v, settled %v", a.facts.order, a.facts.settled)
	}
	for id, s := range a.facts.subs {
		if len(s.settled) != 1 {
			a.flaw("%s has %d settlements", id, len(s.settled))
			continue
		}
		end := s.settled[0]
		a.rep.counts["settled "+schedule.Event(end.Outcome)]++
		counted := s.starts - s.released
		spent := end.Error != nil && end.Error.Type == conversation.CodeRetryExhausted && counted >= agent.DefaultMaxAttempts
		switch {
		case s.covered != (end.Outcome == conversation.OutcomeAborted):
			a.flaw("%s settled as %s, covered by an abort: %t", id, end.Outcome, s.covered)
		case end.Outcome == conversation.OutcomeFailed && !spent:
			a.flaw("%s failed after %d attempts: %+v", id, counted, end.Error)
		}
	}
	if got, of := a.facts.aborts, a.drive.aborts; got < of.True || got > of.Asked {
		a.flaw("log has %d aborts; %d requested, %d granted", got, of.Asked, of.True)
	}
}

// checkCalls compares the calls in the log with the ledger of the tools.
func (a *auditor) checkCalls() {
	for id, c := range a.facts.calls {
		if len(c.settled) != 1 {
			a.flaw("call %s of %s has %d outcomes", id, c.name, len(c.settled))
			continue
		}
		ran, end := a.ledger[string(id)], c.settled[0]
		if ran.began > 0 && (ran.submission != string(c.sub.admitted.Submission) || ran.attempt > c.sub.starts) {
			a.flaw("call %s ran for %s in attempt %d, but the log has %s and %d attempts", id, ran.submission, ran.attempt, c.sub.admitted.Submission, c.sub.starts)
		}
		for i, n := range c.data {
			if i != n {
				a.flaw("call %s wrote data in order %v", id, c.data)
				break
			}
		}
		if end.Failed {
			if c.name == "wrong" && end.ErrorText == errWrong.Error() && ran.began != 1 {
				a.flaw("call %s failed by itself and began %d times", id, ran.began)
			}
			continue
		}
		var out toolOutput
		if err := json.Unmarshal(end.Output, &out); err != nil || ran.began != 1 || ran.ended != 1 || out.Call != string(id) || out.Result != ran.result {
			a.flaw("call %s has the output %s, but its tool began %d times and returned %q, %v", id, end.Output, ran.began, ran.result, err)
		}
		if c.name == "note" && len(c.data) != notesPerCall {
			a.flaw("call %s has an output and the data %v", id, c.data)
		}
	}
	a.rep.counts["tool calls in logs"] += len(a.facts.calls)
}

// checkResponses checks the responses that completed against their scripts.
func (a *auditor) checkResponses() {
	posts := map[string]*post{}
	for _, p := range a.drive.posts {
		posts[p.Key] = p
	}
	for _, m := range a.State.Snapshot().Messages {
		s := a.facts.byMsg[m.ID]
		if s == nil || m.Role != conversation.RoleAssistant || s.settled[0].Outcome != conversation.OutcomeCompleted {
			continue
		}
		var meta struct {
			Attempt  int
			Finished bool
		}
		if err := json.Unmarshal(m.Metadata, &meta); err != nil || meta.Attempt < 1 || meta.Attempt > s.starts {
			a.flaw("response %s has the metadata %s after %d attempts, %v", m.ID, m.Metadata, s.starts, err)
		}
		p := posts[s.admitted.Key]
		if p == nil || p.Op.Signal || s.starts > 1 || s.dropped {
			continue // A signal has no script, and an interrupted response continues with another text.
		}
		if !meta.Finished {
			a.flaw("response %s completed at once and has the metadata %s", m.ID, m.Metadata)
		}
		a.checkWhole(m, p.Op)
	}
}

// checkWhole compares a response without interruption with its script.
func (a *auditor) checkWhole(m conversation.Message, o op) {
	var texts []string
	tools, data := map[string]int{}, 0
	for _, p := range m.Parts {
		switch {
		case p.Type == conversation.PartTypeText:
			texts = append(texts, *p.Text)
		case p.Type == conversation.PartTypeTool:
			tools[p.ToolName]++
		case strings.HasPrefix(p.Type, conversation.DataPrefix):
			data++
		}
	}
	want := o.tools()
	if !slices.Equal(texts, o.texts()) || !maps.Equal(tools, want) || data != 1 {
		a.flaw("response %s without interruption: got texts %q, tools %v and %d data parts, want those of %s", m.ID, texts, tools, data, o.script())
	}
	a.rep.counts["whole responses"]++
}
