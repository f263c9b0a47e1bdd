package machine

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// suspendedCall is a call that waits for a time, or for a signal until then.
type suspendedCall struct {
	call  conversation.CallID
	until conversation.Time
	due   bool // its wait has ended; it runs again once that is durable
}

// next returns the submission under way, else the first that may start or continue. It returns nil if
// all wait.
func (m *Machine) next() *conversation.Submission { return m.firstRunnable(m.due) }

// firstRunnable returns the next submission to run like next; ripe reports whether a suspended one may
// resume.
func (m *Machine) firstRunnable(ripe func(*conversation.Submission) bool) *conversation.Submission {
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
			held = held || m.blocksQueue(sub)
		}
	}
	return nil
}

// blocksQueue reports whether a suspended submission delays later ones: its agent answers in order, or it
// waits for a vendor that would delay them too.
func (m *Machine) blocksQueue(sub *conversation.Submission) bool {
	return sub.Retry != nil || m.limits().AnswerInOrder || !overtakesSuspended()
}

func (m *Machine) suspended() []*conversation.Submission {
	var out []*conversation.Submission
	for _, sub := range m.state.Unsettled() {
		if sub.Suspended != nil {
			out = append(out, sub)
		}
	}
	return out
}

// due reports whether the time of a suspended submission has come or one of its waits has ended.
func (m *Machine) due(sub *conversation.Submission) bool {
	return sub.Due || sub.Suspended.Until <= m.now()
}

func (m *Machine) now() conversation.Time {
	return m.env.Wall + conversation.Time(m.env.Ahead/time.Millisecond)
}

// hasDueWork reports whether work is pending that no timer resumes in time.
func (m *Machine) hasDueWork() bool {
	return m.replyIsPending() || m.postIsPending() || m.firstRunnable(func(sub *conversation.Submission) bool { return sub.Due }) != nil
}

// wantedTimers returns the timers of the suspended submissions and of the deferred posts.
func (m *Machine) wantedTimers() (alarms []StoreTimer) {
	for _, sub := range m.suspended() {
		alarms = append(alarms, StoreTimer{At: sub.SuspendedAt, Until: sub.Suspended.Until})
	}
	if a, ok := m.postTimer(); ok && timesPosts() {
		alarms = append(alarms, a)
	}
	return alarms
}

// timersStored reports whether all timers are durable and stored.
func (m *Machine) timersStored() bool {
	return !slices.ContainsFunc(m.wantedTimers(), func(a StoreTimer) bool {
		return a.At > m.durable || !m.timers[a] && suspendsWhenStored()
	})
}

func (m *Machine) nothingPending() bool {
	return len(m.state.Unsettled()) == 0 && !m.replyIsPending() && (len(m.state.Posts()) == 0 || !staysForPost())
}

// allSuspended reports whether all pending work waits for stored timers. It is then resumed without
// this machine and without a journal.
func (m *Machine) allSuspended() bool {
	return !m.nothingPending() && !m.hasDueWork() && m.timersStored()
}

// needsJournal reports whether work is pending that no timer resumes.
func (m *Machine) needsJournal() bool { return !m.nothingPending() && !m.allSuspended() }

// toolSuspended suspends a call that waits for a time. It keeps its place in ToolConcurrency, so that
// sequential calls stay sequential.
func (m *Machine) toolSuspended(in ToolSuspended) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTools || !m.running(w, in.Call) {
		return
	}
	ended := m.state.EndedWaits(in.Call, m.state.Head())
	w.suspended = append(w.suspended, suspendedCall{in.Call, in.Until, len(ended) > w.knownEnds[in.Call]})
}

func (m *Machine) running(w *work, id conversation.CallID) bool {
	return m.isOpen(w, id) && !slices.ContainsFunc(w.suspended, func(p suspendedCall) bool { return p.call == id })
}

// suspendWork suspends the attempt if all of its tool calls and model calls wait for a time.
func (m *Machine) suspendWork() {
	if m.work == nil || m.draining {
		return
	}
	m.runDue()
	m.callDue()
	if m.work == nil || !m.onlyWaits(m.work) {
		return
	}
	if _, at, _ := m.state.PostsDue(); at == m.nextOffset() && !m.pending.empty() {
		return // A batch holds one timer. The attempt is suspended after this batch is sent.
	}
	m.enqueue(true, &conversation.Suspended{
		Submission: m.work.submission, Until: m.earliest(), Reason: conversation.ReasonTimer, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
	m.cancelWork(conversation.ReasonInterrupted)
	m.resumeSuspended()
}

// onlyWaits reports whether all that runs for the work waits for a time. A task waits if its subagent
// does.
func (m *Machine) onlyWaits(w *work) bool {
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
		if !m.onlyWaits(t) {
			return false
		}
		waiting++
	}
	return waiting == w.running
}

// earliest returns the first time that anything waits for, 0 if nothing does.
func (m *Machine) earliest() (at conversation.Time) {
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

func (m *Machine) callReady(w *work, p suspendedCall) bool {
	return p.until <= m.now() || p.due && len(m.state.EndedWaits(p.call, m.durable)) > w.knownEnds[p.call]
}

func (m *Machine) runDue() {
	for w := range m.allWork() {
		if len(w.suspended) == 0 {
			continue
		}
		for _, p := range slices.Clone(w.suspended) {
			if m.callReady(w, p) && m.removeSuspended(w, p.call) {
				m.rerun(w, p.call)
			}
		}
	}
}

// resumeSuspended resumes a suspended submission that is due, or starts a later one. The writer is listed
// first, so that the journal finds the work after a crash.
func (m *Machine) resumeSuspended() {
	if m.work != nil || m.draining || m.next() == nil {
		return
	}
	m.ensureListed()
	m.startNext()
}

// setTimers stores the timers whose records are durable and sets TimerDue for the first. Timers that
// an earlier machine stored are stored again, which is harmless.
func (m *Machine) setTimers() {
	alarms := m.wantedTimers()
	maps.DeleteFunc(m.timers, func(a StoreTimer, _ bool) bool { return !slices.Contains(alarms, a) })
	at := m.earliest()
	for _, a := range alarms {
		if _, asked := m.timers[a]; a.At <= m.durable && !asked {
			m.timers[a] = false
			m.emit(a)
		}
		// A submission that is due continues after the work under way.
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

func (m *Machine) checkTimer(in CheckTimer) {
	if m.draining || len(m.waits) >= m.cfg.MaxWaiting {
		m.emit(Reply{in.To, TimerChecked{Unknown: true}})
		return
	}
	m.resumeSuspended()
	if m.hasDueWork() {
		m.takeOver()
	}
	m.waits = append(m.waits, wait{to: in.To, offset: m.state.Head(), timer: &in})
}

// timerAnswer answers once the timer is obsolete: its submission is over in the durable log, and the
// remaining work is found by another timer or by a landed journal. Being over is final even if another
// writer appends, so no writer is fenced.
func (m *Machine) timerAnswer(w *wait) (Answer, bool) {
	if at := w.timer.At; at > m.durable { // the log ends before the timer's batch: a later scan asks again
		return TimerChecked{Unknown: true}, true
	} else if slices.ContainsFunc(m.wantedTimers(), func(a StoreTimer) bool { return a.At == at }) {
		return TimerChecked{Early: true}, true
	}
	if !w.over { // Its last record may be in flight.
		w.over, w.offset = true, m.state.Head()
	}
	switch {
	case w.offset > m.durable:
		return nil, false
	case m.nothingPending():
		return TimerChecked{}, m.state.Head() == m.durable
	case !m.hasDueWork():
		return TimerChecked{}, m.allSuspended() && m.state.Head() == m.durable
	default:
		return TimerChecked{}, m.claimed && m.listed
	}
}
