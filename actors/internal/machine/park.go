package machine

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// suspendedCall is a call that has ended for now because it waits for a time, or for a signal
// until then.
type suspendedCall struct {
	call  conversation.CallID
	until conversation.Time
	due   bool // it runs again once what it waited for is durable
}

// next returns the submission to be worked on, nil if there is none or all of them wait: the
// one that is under way, or else the first that may begin or go on.
func (m *Machine) next() *conversation.Submission { return m.first(m.due) }

// first is next by a rule for which of the parked may go on.
func (m *Machine) first(ripe func(*conversation.Submission) bool) *conversation.Submission {
	if sub := m.state.UnderWay(); sub != nil {
		return sub
	}
	held := false
	for _, sub := range m.state.Unsettled() {
		switch {
		case held && !sub.Ahead:
		case sub.Suspended == nil || ripe(sub):
			return sub
		default:
			held = held || m.holds(sub)
		}
	}
	return nil
}

// holds reports whether later submissions wait for a parked one: if its agent answers in
// order, and if the vendor that it waits for would delay them too.
func (m *Machine) holds(sub *conversation.Submission) bool {
	return sub.Retry != nil || m.limits().AnswerInOrder || !passesSuspended()
}

// parked returns the submissions that wait for a time, in the order of their admission.
func (m *Machine) suspended() []*conversation.Submission {
	var out []*conversation.Submission
	for _, sub := range m.state.Unsettled() {
		if sub.Suspended != nil {
			out = append(out, sub)
		}
	}
	return out
}

// due reports whether the time that a submission waits for has come, or something that it
// waits for. A record without a time waits for nothing that is known here.
func (m *Machine) due(sub *conversation.Submission) bool {
	return sub.Due || sub.Suspended.Until <= m.now()
}

// now is the time by the clock that waits go by.
func (m *Machine) now() conversation.Time {
	return m.env.Wall + conversation.Time(m.env.Ahead/time.Millisecond)
}

// ready reports whether something is owed that no timer finds in time.
func (m *Machine) ready() bool {
	return m.replyIsPending() || m.postIsPending() || m.first(func(sub *conversation.Submission) bool { return sub.Due }) != nil
}

// alarms are the timers of all that waits for a time: of each parked submission, and of the posts.
func (m *Machine) alarms() (alarms []StoreTimer) {
	for _, sub := range m.suspended() {
		alarms = append(alarms, StoreTimer{At: sub.SuspendedAt, Until: sub.Suspended.Until})
	}
	if a, ok := m.postAlarm(); ok && timesPosts() {
		alarms = append(alarms, a)
	}
	return alarms
}

// timed reports whether the timers of all that waits for a time are stored, durably.
func (m *Machine) timed() bool {
	return !slices.ContainsFunc(m.alarms(), func(a StoreTimer) bool {
		return a.At > m.durable || !m.timers[a] && sleepsWhenStored()
	})
}

// over reports whether nothing is owed.
func (m *Machine) over() bool {
	return len(m.state.Unsettled()) == 0 && !m.replyIsPending() && (len(m.state.Posts()) == 0 || !staysForPost())
}

// asleep reports whether all that is owed waits for a time, durably, and its timers are
// stored: then it is found without this machine and without any journal.
func (m *Machine) allSuspended() bool { return !m.over() && !m.ready() && m.timed() }

// owes reports whether something is owed that no timer finds.
func (m *Machine) owes() bool { return !m.over() && !m.allSuspended() }

// toolSuspended ends a call for now that waits for a time. It keeps its place among those
// that may run at once, so that calls which shall follow each other do.
func (m *Machine) toolSuspended(in ToolSuspended) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTools || !m.running(w, in.Call) {
		return
	}
	ended := m.state.EndedWaits(in.Call, m.state.Head())
	w.suspended = append(w.suspended, suspendedCall{in.Call, in.Until, len(ended) > w.heard[in.Call]})
}

// running reports whether a call has no outcome, and does not wait for a time.
func (m *Machine) running(w *work, id conversation.CallID) bool {
	return m.owed(w, id) && !slices.ContainsFunc(w.suspended, func(p suspendedCall) bool { return p.call == id })
}

// suspendWork puts the attempt away if all that runs in it waits for a time: calls, and
// repetitions of model calls.
func (m *Machine) suspendWork() {
	if m.work == nil || m.draining {
		return
	}
	m.runDue()
	m.callDue()
	if m.work == nil || !m.sleeps(m.work) {
		return
	}
	if _, at, _ := m.state.PostsDue(); at == m.nextOffset() && !m.pending.empty() {
		return // A batch names one timer. It goes on when this one is sent.
	}
	m.enqueue(true, &conversation.Suspended{
		Submission: m.work.submission, Until: m.soonest(), Reason: conversation.ReasonTimer, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
	m.cancelWork(conversation.ReasonInterrupted)
	m.unpark()
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
	for _, p := range w.suspended {
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
		for _, p := range w.suspended {
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
func (m *Machine) ripeCall(w *work, p suspendedCall) bool {
	return p.until <= m.now() || p.due && len(m.state.EndedWaits(p.call, m.durable)) > w.heard[p.call]
}

// runDue runs the parked calls again that are due while others still run.
func (m *Machine) runDue() {
	for w := range m.allWork() {
		if len(w.suspended) == 0 {
			continue
		}
		for _, p := range slices.Clone(w.suspended) {
			if m.ripeCall(w, p) && m.unparkCall(w, p.call) {
				m.runAgain(w, p.call)
			}
		}
	}
}

// unpark goes on with a parked submission whose time has come, or begins with what came
// after it. What is done next must be found again, if this process ends, by the journal.
func (m *Machine) unpark() {
	if m.work != nil || m.draining || m.next() == nil {
		return
	}
	m.ensureListed()
	m.startNext()
}

// keepTimer has the timers of what waits for a time stored, once its records are durable, and
// has this machine told of the time too. Whether an earlier one has stored them is not
// known here; storing them again does no harm.
func (m *Machine) keepTimer() {
	alarms := m.alarms()
	maps.DeleteFunc(m.timers, func(a StoreTimer, _ bool) bool { return !slices.Contains(alarms, a) })
	at := m.soonest()
	for _, a := range alarms {
		if _, asked := m.timers[a]; a.At <= m.durable && !asked {
			m.timers[a] = false
			m.emit(a)
		}
		// One whose time has come goes on when what is worked on has ended.
		if (at == 0 || a.Until < at) && (m.work == nil || a.Until > m.now()) {
			at = a.Until
		}
	}
	if at == 0 || at == m.dueAt || m.draining {
		return
	}
	m.dueAt = at
	m.emit(SetTimer{Timer: TimerDue, After: time.Duration(max(0, at-m.now())) * time.Millisecond})
}

func (m *Machine) timerStored(in TimerStored) {
	if _, asked := m.timers[in.Timer]; asked {
		m.timers[in.Timer] = true
	}
}

// checkTimer answers for a stored timer.
func (m *Machine) checkTimer(in CheckTimer) {
	if m.draining || len(m.waits) >= m.cfg.MaxWaiting {
		m.emit(Reply{in.To, TimerChecked{Unknown: true}})
		return
	}
	m.unpark()
	if m.ready() {
		m.takeOver()
	}
	m.waits = append(m.waits, wait{to: in.To, offset: m.state.Head(), timer: &in})
}

// ripeTimer answers once the timer is needed no more: what it belongs to is over in the
// durable log, and what is left is found by another timer or by a landed journal. That it
// is over stays true, whoever writes meanwhile, so nobody is fenced for it.
func (m *Machine) ripeTimer(w *wait) (Answer, bool) {
	if at := w.timer.At; at > m.durable { // the log is shorter than the timer says: a later sweep asks again
		return TimerChecked{Unknown: true}, true
	} else if slices.ContainsFunc(m.alarms(), func(a StoreTimer) bool { return a.At == at }) {
		return TimerChecked{Early: true}, true
	}
	if !w.over { // What says so may be on its way.
		w.over, w.offset = true, m.state.Head()
	}
	switch {
	case w.offset > m.durable:
		return nil, false
	case m.over():
		return TimerChecked{}, m.state.Head() == m.durable
	case !m.ready():
		return TimerChecked{}, m.allSuspended() && m.state.Head() == m.durable
	default:
		return TimerChecked{}, m.claimed && m.listed
	}
}
