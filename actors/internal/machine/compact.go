package machine

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// retryCompacting is the retry hint for a caller while another compaction of the view runs.
const retryCompacting = 2 * time.Second

// compaction is a summary that is being made. Each view, of the conversation or of a subagent, has at
// most one at a time.
type compaction struct {
	gen    int
	child  conversation.ConversationID // the subagent whose view it is; "" is the conversation's
	reason conversation.CompactionReason
	work   *work // waits for it, or provides its context; nil if there is none
	kept   bool  // continues without that work
	asked  bool
	to     ReplyID             // the caller, if asked
	began  time.Duration       // Env.Mono when it was requested
	tokens int64               // tokens of the newest model call, 0 if unknown
	origin conversation.Origin // origin of the work; empty if a caller requested it
}

// compactSoon compacts the view while the work continues.
func (m *Machine) compactSoon(w *work) {
	m.summarize(&compaction{child: w.child, reason: conversation.CompactionThreshold, work: w, kept: w.child == ""}, "")
}

// compactWork compacts the view before the model call is repeated.
func (m *Machine) compactWork(w *work, failed *conversation.SettlementError) {
	w.phase, w.failed = phaseCompacting, failed
	w.omitted.reset()
	if j := m.job(w.child); j != nil {
		j.work, j.origin = w, m.state.Origin(w.submission)
		return
	}
	m.summarize(&compaction{child: w.child, reason: conversation.CompactionOverflow, work: w}, "")
}

func (m *Machine) compactNow(in Compact) {
	if m.rejected(in.To) {
		return
	}
	if !m.state.Exists() {
		m.reply(in.To, Compacted{}, false)
		return
	}
	if m.job("") != nil {
		m.emit(Reply{in.To, Refused{conversation.Unavailable(retryCompacting, nil)}})
		return
	}
	m.summarize(&compaction{reason: conversation.CompactionManual, kept: true, asked: true, to: in.To}, in.Instructions)
}

func (m *Machine) job(child conversation.ConversationID) *compaction {
	i := slices.IndexFunc(m.jobs, func(j *compaction) bool { return j.child == child })
	if i < 0 {
		return nil
	}
	return m.jobs[i]
}

// summarize requests a summary unless one of that view is being made.
func (m *Machine) summarize(j *compaction, instructions string) {
	if m.job(j.child) != nil {
		return
	}
	m.gen++
	j.gen, j.began = m.gen, m.env.Mono
	m.jobs = append(m.jobs, j)
	e := Summarize{Gen: j.gen, Reason: j.reason, Instructions: instructions}
	if j.work != nil {
		e.Submission, j.origin = j.work.submission, m.state.Origin(j.work.submission)
		if last, ok := m.sub(j.work).LastTurn(); ok {
			j.tokens = last.Usage.Total
		}
	}
	m.emit(e)
}

func (m *Machine) summarized(in Summarized) {
	i := slices.IndexFunc(m.jobs, func(j *compaction) bool { return j.gen == in.Gen })
	if i < 0 {
		return
	}
	j := m.jobs[i]
	m.jobs = slices.Delete(m.jobs, i, i+1)
	done := in.Err == nil && !in.Nothing
	if done {
		m.ensureListed() // The events of this batch are pending even if no other work is.
		m.enqueue(true, &conversation.Compacted{
			Child: j.child, Summary: in.Summary, FirstKept: in.FirstKept, FirstTurn: in.FirstTurn, Before: in.Before,
			Reason: j.reason, Model: in.Model, Usage: in.Usage, Facts: in.Facts, Tokens: j.tokens, After: in.After,
			Origin: j.origin, Detached: j.work == nil, Turn: conversation.TurnID(m.ids.next("turn_")),
			DurationMs: int64((m.env.Mono - j.began) / time.Millisecond), At: m.env.Wall,
		})
	}
	if j.asked {
		if in.Err != nil {
			m.emit(Reply{j.to, Refused{in.Err}})
		} else {
			m.reply(j.to, Compacted{Any: done}, done)
		}
	}
	w := j.work
	if w == nil || w.phase != phaseCompacting {
		return
	}
	w.compacted = true
	if done {
		m.startCall(w)
		return
	}
	m.fail(w, w.failed)
}
