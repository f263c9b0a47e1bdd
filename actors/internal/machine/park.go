package machine

import (
	"iter"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// parkedCall is a call whose run has ended because it waits for a time.
type parkedCall struct {
	call  conversation.CallID
	until conversation.Time
}

// alarm is the stored timer of a parked submission.
type alarm struct {
	at     conversation.Offset // of the record it belongs to
	asked  bool                // to be stored
	stored bool
}

// parked returns the submission that waits for a time, so that nothing behind it in the
// queue begins, or nil.
func (m *Machine) parked() *conversation.Submission {
	queue := m.state.Unsettled()
	if len(queue) == 0 || queue[0].Parked == nil {
		return nil
	}
	return queue[0]
}

// due reports whether the time that a submission waits for has come. A record without
// one waits for nothing that is known here.
func (m *Machine) due(sub *conversation.Submission) bool {
	return sub.Parked.Until <= m.now()
}

// now is the time by the clock that waits go by.
func (m *Machine) now() conversation.Time {
	return m.env.Wall + conversation.Time(m.env.Ahead/time.Millisecond)
}

// asleep reports whether all that is owed waits for a time, durably, and its timer is
// stored: then it is found without this machine and without any journal.
func (m *Machine) asleep() bool {
	sub := m.parked()
	return sub != nil && sub.ParkedAt <= m.durable && m.alarm.at == sub.ParkedAt && m.alarm.stored
}

// owes reports whether there is unsettled work that no timer finds.
func (m *Machine) owes() bool { return len(m.state.Unsettled()) > 0 && !m.asleep() }

// toolParked ends the run of a call that waits for a time. It keeps its place among those
// that may run at once, so that calls which shall follow each other do.
func (m *Machine) toolParked(in ToolParked) {
	r := m.runOf(in.Gen)
	if r == nil || r.phase != phaseTools || !m.running(r, in.Call) {
		return
	}
	r.parked = append(r.parked, parkedCall{in.Call, in.Until})
}

// running reports whether a call of a run has no outcome, and does not wait for a time.
func (m *Machine) running(r *run, id conversation.CallID) bool {
	return m.owed(r, id) && !slices.ContainsFunc(r.parked, func(p parkedCall) bool { return p.call == id })
}

// parkRun puts the attempt away if all that runs in it waits for a time: calls, and
// repetitions of model calls.
func (m *Machine) parkRun() {
	if m.run == nil || m.draining {
		return
	}
	m.runDue()
	m.callDue()
	if m.run == nil || !m.sleeps(m.run) {
		return
	}
	m.enqueue(true, &conversation.Parked{
		Submission: m.run.submission, Until: m.soonest(), Reason: conversation.ReasonTimer, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
	m.cancelRuns()
}

// sleeps reports whether all that runs for a run waits for a time. A task waits if its
// subagent does.
func (m *Machine) sleeps(r *run) bool {
	if r.phase == phaseWaiting {
		return true
	}
	if r.phase != phaseTools || r.running == 0 {
		return false
	}
	waiting := len(r.parked)
	for _, t := range m.tasks {
		if m.sub(t).Parent != r.submission {
			continue
		}
		if !m.sleeps(t) {
			return false
		}
		waiting++
	}
	return waiting == r.running
}

// soonest is when the first of what waits for a time is due, 0 if there is none.
func (m *Machine) soonest() (at conversation.Time) {
	first := func(until conversation.Time) {
		if at == 0 || until < at {
			at = until
		}
	}
	for r := range m.runs() {
		if r.phase == phaseWaiting {
			first(r.until)
		}
		for _, p := range r.parked {
			first(p.until)
		}
	}
	return at
}

// runs are the run and those of its subagents.
func (m *Machine) runs() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		if m.run == nil || !yield(m.run) {
			return
		}
		for _, t := range m.tasks {
			if !yield(t) {
				return
			}
		}
	}
}

// runDue runs the parked calls again that are due while others still run.
func (m *Machine) runDue() {
	for r := range m.runs() {
		if len(r.parked) == 0 {
			continue
		}
		var due []conversation.CallID
		r.parked = slices.DeleteFunc(r.parked, func(p parkedCall) bool {
			if p.until > m.now() {
				return false
			}
			due = append(due, p.call)
			return true
		})
		for _, c := range m.sub(r).OpenCalls() {
			if slices.Contains(due, c.Call) {
				m.runTool(r, c)
			}
		}
	}
}

// wake goes on with a parked submission whose time has come. What it does next must be
// found again, if this process ends, by the journal.
func (m *Machine) wake() {
	if sub := m.parked(); sub == nil || m.run != nil || m.draining || !m.due(sub) {
		return
	}
	m.ensureListed()
	m.startNext()
}

// keepTimer has the timer of a parked submission stored, once its record is durable, and
// has this machine told of the time too. Whether an earlier one has stored it is not
// known here; storing it again does no harm.
func (m *Machine) keepTimer() {
	if sub := m.parked(); sub != nil && sub.ParkedAt <= m.durable && (!m.alarm.asked || m.alarm.at != sub.ParkedAt) {
		m.alarm = alarm{at: sub.ParkedAt, asked: true}
		m.emit(StoreTimer{At: sub.ParkedAt, Until: sub.Parked.Until})
	}
	at := m.soonest()
	if sub := m.parked(); sub != nil {
		at = sub.Parked.Until
	}
	if at == 0 || at == m.wakeAt || m.draining {
		return
	}
	m.wakeAt = at
	m.emit(SetTimer{Timer: TimerWake, After: time.Duration(max(0, at-m.now())) * time.Millisecond})
}

func (m *Machine) timerStored(in TimerStored) {
	if in.At == m.alarm.at {
		m.alarm.stored = true
	}
}

// onWake answers for a stored timer.
func (m *Machine) onWake(in Wake) {
	if m.draining || len(m.waits) >= m.cfg.MaxWaiting {
		m.emit(Reply{in.To, Woken{Unknown: true}})
		return
	}
	m.wake()
	if len(m.state.Unsettled()) > 0 && m.parked() == nil {
		m.ensureListed()
	}
	m.waits = append(m.waits, wait{to: in.To, offset: m.state.Head(), wake: &in})
}

// ripeWake answers once the timer is needed no more: what it belongs to is over in the
// durable log, and what is left is found by another timer or by a landed journal. That it
// is over stays true, whoever writes meanwhile, so nobody is fenced for it.
func (m *Machine) ripeWake(in Wake) (Answer, bool) {
	sub := m.parked()
	switch {
	case in.At > m.durable: // the log is shorter than the timer says: a later sweep asks again
		return Woken{Unknown: true}, true
	case sub != nil && sub.ParkedAt == in.At:
		return Woken{Early: true}, true
	case len(m.state.Unsettled()) == 0:
		return Woken{}, m.state.Head() == m.durable
	case sub != nil:
		return Woken{}, m.asleep()
	default:
		return Woken{}, m.claimed && m.listed
	}
}
