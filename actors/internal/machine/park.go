package machine

import (
	"iter"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// parkedCall is a call that has ended for now because it waits for a time, or for a signal
// until then.
type parkedCall struct {
	call  conversation.CallID
	until conversation.Time
	due   bool // it runs again once what it waited for is durable
}

// storedTimer is that of a parked submission.
type storedTimer struct {
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

// due reports whether the time that a submission waits for has come, or something that it
// waits for. A record without a time waits for nothing that is known here.
func (m *Machine) due(sub *conversation.Submission) bool {
	return sub.Due || sub.Parked.Until <= m.now()
}

// now is the time by the clock that waits go by.
func (m *Machine) now() conversation.Time {
	return m.env.Wall + conversation.Time(m.env.Ahead/time.Millisecond)
}

// asleep reports whether all that is owed waits for a time, durably, and its timer is
// stored: then it is found without this machine and without any journal.
func (m *Machine) asleep() bool {
	sub := m.parked()
	return sub != nil && !sub.Due && sub.ParkedAt <= m.durable && m.timer.at == sub.ParkedAt && m.timer.stored
}

// owes reports whether there is unsettled work that no timer finds.
func (m *Machine) owes() bool { return len(m.state.Unsettled()) > 0 && !m.asleep() }

// toolParked ends a call for now that waits for a time. It keeps its place among those
// that may run at once, so that calls which shall follow each other do.
func (m *Machine) toolParked(in ToolParked) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTools || !m.running(w, in.Call) {
		return
	}
	ended := m.state.EndedWaits(in.Call, m.state.Head())
	w.parked = append(w.parked, parkedCall{in.Call, in.Until, len(ended) > w.heard[in.Call]})
}

// running reports whether a call has no outcome, and does not wait for a time.
func (m *Machine) running(w *work, id conversation.CallID) bool {
	return m.owed(w, id) && !slices.ContainsFunc(w.parked, func(p parkedCall) bool { return p.call == id })
}

// parkWork puts the attempt away if all that runs in it waits for a time: calls, and
// repetitions of model calls.
func (m *Machine) parkWork() {
	if m.work == nil || m.draining {
		return
	}
	m.runDue()
	m.callDue()
	if m.work == nil || !m.sleeps(m.work) {
		return
	}
	m.enqueue(true, &conversation.Parked{
		Submission: m.work.submission, Until: m.soonest(), Reason: conversation.ReasonTimer, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
	m.cancelWork()
}

// sleeps reports whether all that runs for the work waits for a time. A task waits if its
// subagent does.
func (m *Machine) sleeps(w *work) bool {
	if w.phase == phaseWaiting {
		return true
	}
	if w.phase != phaseTools || w.running == 0 {
		return false
	}
	waiting := 0
	for _, p := range w.parked {
		if p.due {
			return false
		}
		waiting++
	}
	for _, t := range m.tasks {
		if m.sub(t).Parent != w.submission {
			continue
		}
		if !m.sleeps(t) {
			return false
		}
		waiting++
	}
	return waiting == w.running
}

// soonest is when the first of what waits for a time is due, 0 if there is none.
func (m *Machine) soonest() (at conversation.Time) {
	first := func(until conversation.Time) {
		if at == 0 || until < at {
			at = until
		}
	}
	for w := range m.allWork() {
		if w.phase == phaseWaiting {
			first(w.until)
		}
		for _, p := range w.parked {
			first(p.until)
		}
	}
	return at
}

// allWork is the work under way, and that of its subagents.
func (m *Machine) allWork() iter.Seq[*work] {
	return func(yield func(*work) bool) {
		if m.work == nil || !yield(m.work) {
			return
		}
		for _, t := range m.tasks {
			if !yield(t) {
				return
			}
		}
	}
}

// ripeCall reports whether a parked call is to run again.
func (m *Machine) ripeCall(w *work, p parkedCall) bool {
	return p.until <= m.now() || p.due && len(m.state.EndedWaits(p.call, m.durable)) > w.heard[p.call]
}

// runDue runs the parked calls again that are due while others still run.
func (m *Machine) runDue() {
	for w := range m.allWork() {
		if len(w.parked) == 0 {
			continue
		}
		for _, p := range slices.Clone(w.parked) {
			if m.ripeCall(w, p) && m.unparkCall(w, p.call) {
				m.runAgain(w, p.call)
			}
		}
	}
}

// unpark goes on with a parked submission whose time has come. What it does next must be
// found again, if this process ends, by the journal.
func (m *Machine) unpark() {
	if sub := m.parked(); sub == nil || m.work != nil || m.draining || !m.due(sub) {
		return
	}
	m.ensureListed()
	m.startNext()
}

// keepTimer has the timer of a parked submission stored, once its record is durable, and
// has this machine told of the time too. Whether an earlier one has stored it is not
// known here; storing it again does no harm.
func (m *Machine) keepTimer() {
	if sub := m.parked(); sub != nil && sub.ParkedAt <= m.durable && (!m.timer.asked || m.timer.at != sub.ParkedAt) {
		m.timer = storedTimer{at: sub.ParkedAt, asked: true}
		m.emit(StoreTimer{At: sub.ParkedAt, Until: sub.Parked.Until})
	}
	at := m.soonest()
	if sub := m.parked(); sub != nil {
		at = sub.Parked.Until
	}
	if at == 0 || at == m.dueAt || m.draining {
		return
	}
	m.dueAt = at
	m.emit(SetTimer{Timer: TimerDue, After: time.Duration(max(0, at-m.now())) * time.Millisecond})
}

func (m *Machine) timerStored(in TimerStored) {
	if in.At == m.timer.at {
		m.timer.stored = true
	}
}

// checkTimer answers for a stored timer.
func (m *Machine) checkTimer(in CheckTimer) {
	if m.draining || len(m.waits) >= m.cfg.MaxWaiting {
		m.emit(Reply{in.To, TimerChecked{Unknown: true}})
		return
	}
	m.unpark()
	if len(m.state.Unsettled()) > 0 && m.parked() == nil {
		m.ensureListed()
	}
	m.waits = append(m.waits, wait{to: in.To, offset: m.state.Head(), timer: &in})
}

// ripeTimer answers once the timer is needed no more: what it belongs to is over in the
// durable log, and what is left is found by another timer or by a landed journal. That it
// is over stays true, whoever writes meanwhile, so nobody is fenced for it.
func (m *Machine) ripeTimer(in CheckTimer) (Answer, bool) {
	sub := m.parked()
	switch {
	case in.At > m.durable: // the log is shorter than the timer says: a later sweep asks again
		return TimerChecked{Unknown: true}, true
	case sub != nil && sub.ParkedAt == in.At:
		return TimerChecked{Early: true}, true
	case len(m.state.Unsettled()) == 0:
		return TimerChecked{}, m.state.Head() == m.durable
	case sub != nil:
		return TimerChecked{}, m.asleep()
	default:
		return TimerChecked{}, m.claimed && m.listed
	}
}
