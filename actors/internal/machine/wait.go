package machine

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// signal decides a signal for a wait. It settles in the batch of its admission and is never queued.
func (m *Machine) signal(in Admit, name, hash string) {
	if err := checkSignal(name, in.Admission.Delivery); err != nil {
		m.refuse(in, err)
		return
	}
	w := m.state.Awaiting(name)
	switch {
	case w != nil && (in.Fit == nil || !bytes.Equal(in.Fit.Schema, w.Schema)): // It was not validated against this schema.
		m.emit(Reply{in.To, Moved{Untouched: true}})
	case w != nil && in.Fit.Unfit != nil:
		m.confirm(in.To, Refused{in.Fit.Unfit})
	case in.Precheck:
		m.reply(in.To, Clear{}, false)
	case w != nil:
		m.endBySignal(in, hash, w)
	default:
		m.keepSignal(in, name, hash)
	}
}

func checkSignal(name string, d conversation.Delivery) *conversation.Error {
	switch {
	case name == "" || len(name) > conversation.MaxSignalName:
		return conversation.Errorf(conversation.CodeInvalidRequest,
			"A signal of type %q needs the attribute \"name\", 1 to %d bytes.", conversation.SignalWait, conversation.MaxSignalName)
	case len(d.Body) > conversation.MaxSignalBytes:
		return conversation.Errorf(conversation.CodeInvalidRequest,
			"The body of a signal of type %q has %d bytes; the limit is %d.", conversation.SignalWait, len(d.Body), conversation.MaxSignalBytes)
	}
	return nil
}

// endBySignal ends a wait and resumes its submission in the same batch. A suspended submission was
// acknowledged long ago, and no timer resumes it in time. So a journal must list the writer before the
// batch is sent.
func (m *Machine) endBySignal(in Admit, hash string, w *conversation.Wait) {
	if len(m.suspended()) > 0 && !m.listed && listsFirst() {
		m.ensureListed()
		m.signals = append(m.signals, in)
		return
	}
	admitted := m.record(in, hash, m.settleAtOnce(in), func(r *conversation.SubmissionAdmitted) conversation.Record {
		return &conversation.WaitEnded{
			Must: true, Call: w.Call, Child: m.state.CallChild(w.Call), Name: w.Name, Reason: conversation.EndedBySignal,
			Signal: r.Submission, Value: in.Fit.Value, At: m.env.Wall,
		}
	})
	m.showWait(w)
	receipt := m.receiptOf(admitted)
	if continuesWithSignal() {
		m.continueCall(w.Call)
	}
	m.reply(in.To, receipt, m.needsJournal())
}

func (m *Machine) decideSignals() {
	waiting := m.signals
	m.signals = nil
	for _, in := range waiting {
		m.pending.grouped = false
		m.admit(in)
	}
}

// rejectSignals rejects the signals that wait for the journal.
func (m *Machine) rejectSignals() {
	for _, in := range m.signals {
		m.emit(Reply{in.To, Moved{Untouched: true}})
	}
	m.signals = nil
}

func (m *Machine) settleAtOnce(in Admit) func(*conversation.SubmissionAdmitted) conversation.Record {
	return func(r *conversation.SubmissionAdmitted) conversation.Record {
		return &conversation.SubmissionSettled{
			Submission: r.Submission, Outcome: conversation.OutcomeCompleted, AdmissionMs: m.waitedSince(in.came), At: m.env.Wall,
		}
	}
}

// keepSignal keeps a signal for the first wait of its name, unless it comes too late for one.
func (m *Machine) keepSignal(in Admit, name, hash string) {
	if err := m.lateError(name); err != nil && refusesLate() {
		m.confirm(in.To, Refused{err})
		return
	}
	if m.state.KeptSignals(m.env.Wall) >= conversation.MaxKeptSignals {
		m.confirm(in.To, Refused{conversation.Errorf(conversation.CodeTooManySignals, textSignalsFull, conversation.MaxKeptSignals)})
		return
	}
	admitted := m.record(in, hash, m.settleAtOnce(in), func(r *conversation.SubmissionAdmitted) conversation.Record {
		return &conversation.SignalKept{Must: true, Submission: r.Submission, Name: name, Body: r.Delivery.Body, At: m.env.Wall}
	})
	m.reply(in.To, m.receiptOf(admitted), false)
}

// lateError returns an error if no wait can need a signal of the name any more, or nil.
func (m *Machine) lateError(name string) *conversation.Error {
	by, text := conversation.SubmissionID(""), textSignalLate
	if run := m.state.Run(); run != nil && run.Outcome != "" { // no wait can follow
		by, text = run.Submission, textRunOver
	} else if kept := m.state.Kept(name, m.env.Wall); kept != nil {
		by = kept.Submission
	} else if d, ok := m.state.Decided(name, m.env.Wall); ok {
		by = d.Signal
	} else {
		return nil
	}
	err := conversation.Errorf(conversation.CodeAlreadyDecided, text, name)
	err.Meta = map[string]any{"name": name}
	if by != "" {
		err.Meta["submissionId"] = by
	}
	return err
}

// continueCall marks a call whose wait has ended, so that it continues once that is durable.
func (m *Machine) continueCall(call conversation.CallID) {
	for w := range m.allWork() {
		for i := range w.suspended {
			if w.suspended[i].call == call {
				w.suspended[i].due = true
			}
		}
	}
	m.resumeSuspended()
}

func (m *Machine) waitFor(in WaitFor) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTools || !m.running(w, in.Call) {
		m.emit(Reply{in.To, Moved{}})
		return
	}
	wait := m.state.WaitOf(in.Call, in.Name)
	switch {
	case wait == nil:
		m.startWait(w, in)
		return
	case wait.Ended == "" && wait.Until <= m.now():
		m.endWait(w, in, conversation.EndedByTimeout)
	}
	m.answerWait(w, in)
}

func (m *Machine) startWait(w *work, in WaitFor) {
	kept := m.state.Kept(in.Name, m.env.Wall)
	if !takesKept() {
		kept = nil
	}
	switch {
	case m.state.CallBytes(w.submission)+len(in.Schema)+conversation.MaxSignalBytes > m.limits().MaxCallBytes:
		m.emit(Reply{in.To, StepTooMuch{}})
		return
	case kept != nil && (in.Fit == nil || in.Kept != kept.Submission):
		m.reply(in.To, WaitValidate{Kept: kept.Submission, Body: kept.Body}, false)
		return
	}
	started := &conversation.WaitStarted{
		Must: true, Call: in.Call, Child: w.child, Name: in.Name, Schema: in.Schema, Until: in.Until, At: m.env.Wall,
	}
	if kept != nil && in.Fit.Unfit != nil {
		started.Dropped = kept.Submission
	}
	m.enqueue(true, started)
	m.showWait(m.state.WaitOf(in.Call, in.Name))
	if kept != nil && in.Fit.Unfit == nil {
		m.endWait(w, in, conversation.EndedBySignal)
	}
	m.answerWait(w, in)
}

func (m *Machine) endWait(w *work, in WaitFor, by conversation.WaitEnd) {
	ended := &conversation.WaitEnded{Must: true, Call: in.Call, Child: w.child, Name: in.Name, Reason: by, At: m.env.Wall}
	if by == conversation.EndedBySignal {
		ended.Signal, ended.Value = in.Kept, in.Fit.Value
	}
	m.enqueue(true, ended)
	m.showWait(m.state.WaitOf(in.Call, in.Name))
}

// waitData is the JSON of a wait for clients, as data of the response.
type waitData struct {
	Name  string               `json:"name"`
	State conversation.WaitEnd `json:"state"`
	Until conversation.Time    `json:"until"`
}

// States of a shown wait that are not in the log: open, and ended by the outcome of its call.
const (
	waitOpen       conversation.WaitEnd = "waiting"
	waitEndedState conversation.WaitEnd = "ended"
)

// showWait records the state of a wait for clients. A call has one data part, which shows an open wait
// if there is one.
func (m *Machine) showWait(w *conversation.Wait) {
	shown := m.shown(w, cmp.Or(w.Ended, waitOpen))
	if open := m.state.OpenWaits(w.Call); w.Ended != "" && len(open) > 0 {
		shown = append(shown, m.shown(open[len(open)-1], waitOpen)...)
	}
	m.enqueue(true, shown...)
}

// shown returns the record of a wait's state for clients, none for a subagent's wait.
func (m *Machine) shown(w *conversation.Wait, state conversation.WaitEnd) []conversation.Record {
	message, ok := m.state.ResponseOf(w.Call)
	if !ok {
		return nil
	}
	data, _ := conversation.EncodeJSON(waitData{w.Name, state, w.Until}) // always encodes
	return []conversation.Record{&conversation.DataWritten{Message: message, Name: "wait-" + string(w.Call), Data: data}}
}

// withEndedWaits inserts the ended state of a call's open waits before its outcome.
func (m *Machine) withEndedWaits(records []conversation.Record) []conversation.Record {
	for i, r := range records {
		settled, ok := r.(*conversation.ToolSettled)
		if !ok {
			continue
		}
		var ended []conversation.Record
		for _, w := range m.state.OpenWaits(settled.Call) {
			ended = append(ended, m.shown(w, waitEndedState)...)
		}
		if len(ended) > 0 && showsEndedWaits() {
			return slices.Concat(records[:i], ended, records[i:]) // a group has one outcome
		}
	}
	return records
}

// answerWait answers a call with the state of its wait, once that is durable.
func (m *Machine) answerWait(w *work, in WaitFor) {
	wait := m.state.WaitOf(in.Call, in.Name)
	if wait.Ended == "" {
		m.reply(in.To, WaitOpen{Until: wait.Until}, false)
		return
	}
	m.noteKnownEnds(w, in.Call, len(m.state.EndedWaits(in.Call, m.state.Head())))
	m.reply(in.To, WaitOver{Value: wait.Value, TimedOut: wait.Ended == conversation.EndedByTimeout}, false)
}

// noteKnownEnds notes how many ended waits a run of a call has received.
func (m *Machine) noteKnownEnds(w *work, call conversation.CallID, n int) {
	if n > 0 {
		if w.knownEnds == nil {
			w.knownEnds = map[conversation.CallID]int{}
		}
		w.knownEnds[call] = n
	}
}

// removeSuspended removes a suspended call and reports whether it was suspended.
func (m *Machine) removeSuspended(w *work, call conversation.CallID) bool {
	for i, p := range w.suspended {
		if p.call == call {
			w.suspended = append(w.suspended[:i:i], w.suspended[i+1:]...)
			return true
		}
	}
	return false
}

func (m *Machine) rerun(w *work, call conversation.CallID) {
	for _, c := range m.sub(w).OpenCalls() {
		if c.Call == call {
			m.runTool(w, c, true)
		}
	}
}
